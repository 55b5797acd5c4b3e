"""The zones that nsd serves, and the questions that have an answer of each kind there."""

ZONE = "zone.test"
REVERSE = "44.9.in-addr.arpa"

HEADER = """$TTL 600
@ 3600 IN SOA ns1.{zone}. hostmaster.{zone}. 2026010101 7200 900 86400 120
@ IN NS ns1.zone.test.
@ IN NS ns2.zone.test.
"""


def zone_text():
    """The zone file of ZONE."""
    lines = [HEADER.format(zone=ZONE),
             "@ MX 10 mx1\n@ MX 20 MX2", '@ TXT "v=spf1 -all"', '@ CAA 0 issue "ca.test"',
             "ns1 A 192.0.2.53\nns2 AAAA 2001:db8::53",
             "www4 A 127.0.0.1\nwww6 AAAA ::1\nwww46 A 127.0.0.1\nwww46 AAAA ::1"]
    for i in range(60):
        lines.append(f"a{i} A 192.0.2.{i}\na{i} A 198.51.100.{i}")
    for i in range(30):
        lines.append(f"aaaa{i} AAAA 2001:db8::{i:x}")
    for i in range(20):
        lines.append(f'txt{i} TXT "text {i}" "{"x" * (i * 11)}" "back\\\\slash \\"q\\" \\200"')
    for i in range(10):
        lines += [f"mx{i} MX {i} a{i}\nmx{i} MX {i + 10} Mixed-Case.{ZONE}.",
                  f"_sip{i}._tcp SRV {i} 5 {5060 + i} a{i}",
                  f'caa{i} CAA {128 * (i % 2)} iodef "mailto:a{i}@{ZONE}"',
                  f"https{i} HTTPS {i + 1} . alpn=h2,h3 port=8443 ipv4hint=192.0.2.{i} "
                  f"ipv6hint=2001:db8::{i:x}",
                  f'naptr{i} NAPTR {i} 10 "u" "E2U+sip" "!^.*$!sip:{i}@{ZONE}!" .',
                  f"unknown{i} TYPE65280 \\# 4 c00c01{i:02x}",
                  f"alias{i} CNAME alias{i + 1}" if i < 9 else "alias9 CNAME a9",
                  f"sub{i} NS ns.sub{i}\nns.sub{i} A 192.0.2.{i}"]
    lines += ["alias-gone CNAME gone",
              "*.wild A 192.0.2.77\n*.wild TXT \"wild\"", "deep.*.wild A 192.0.2.78",
              "tree DNAME a.branch", "leaf.a.branch A 192.0.2.88", "tree TXT \"a tree\"",
              "https-alias HTTPS 0 a1", "_8443._https.https1 HTTPS 1 https1 port=8443",
              "svcb SVCB 1 a1 key667=\"hello\"",
              "ptr PTR a1", "hinfo HINFO \"CPU\" \"OS\"", "rp RP admin.people a1",
              "afsdb AFSDB 1 a1",
              "loc LOC 52 22 23.000 N 4 53 32.000 E -2.00m 0.00m 10000m 10m",
              "sshfp SSHFP 2 1 123456789abcdef67890123456789abcdef67890",
              "tlsa TLSA 3 1 1 " + "ab" * 32,
              "ds DS 60485 5 1 2BB183AF5F22588179A53B0A98631FAD1A292118",
              "uri URI 10 1 \"https://zone.test/\"",
              "odd\\.dot A 192.0.2.90\nodd\\032space A 192.0.2.91\nodd\\000nul A 192.0.2.92",
              "odd\\255high A 192.0.2.93\n_under.score A 192.0.2.94", "UPPER.Case A 192.0.2.95",
              ".".join(["l" * 60] * 3) + " A 192.0.2.96"]
    lines += [f'big TXT "{i:04d}{"b" * 250}"' for i in range(222)]
    return "\n".join(lines) + "\n"


def reverse_text():
    return HEADER.format(zone=REVERSE) + "".join(
        f"{i}.2 PTR a{i}.{ZONE}.\n" for i in range(10))


def questions():
    """At least 200 (name, type) pairs, every name another one but for the mixed types."""
    names = []
    names += [(f"a{i}.{ZONE}", "A") for i in range(60)]
    names += [(f"aaaa{i}.{ZONE}", "AAAA") for i in range(30)]
    names += [(f"txt{i}.{ZONE}", "TXT") for i in range(20)]
    for i in range(10):
        names += [(f"mx{i}.{ZONE}", "MX"), (f"_sip{i}._tcp.{ZONE}", "SRV"),
                  (f"caa{i}.{ZONE}", "CAA"), (f"https{i}.{ZONE}", "TYPE65"),
                  (f"naptr{i}.{ZONE}", "NAPTR"), (f"unknown{i}.{ZONE}", "TYPE65280"),
                  (f"alias{i}.{ZONE}", "A"), (f"{i}.2.{REVERSE}", "PTR"),
                  (f"w{i}.wild.{ZONE}", "A"), (f"none{i}.{ZONE}", "A"),
                  (f"a{i}.{ZONE}", "SRV")]
    names += [(ZONE, t) for t in ("SOA", "NS", "MX", "TXT", "CAA", "A")]
    names += [(f"{n}.{ZONE}", t) for n, t in (
        ("big", "TXT"), ("tree", "DNAME"), ("leaf.tree", "A"), ("tree", "TXT"),
        ("alias0", "CNAME"), ("alias0", "AAAA"), ("alias-gone", "A"),
        ("w.wild", "TXT"), ("w.wild", "MX"), ("x.deep.*.wild", "A"), ("https-alias", "TYPE65"),
        ("_8443._https.https1", "TYPE65"), ("svcb", "TYPE64"), ("ptr", "PTR"),
        ("hinfo", "HINFO"), ("rp", "RP"), ("afsdb", "AFSDB"), ("loc", "LOC"),
        ("sshfp", "SSHFP"), ("tlsa", "TLSA"), ("ds", "DS"), ("uri", "TYPE256"),
        ("odd\\.dot", "A"), ("odd\\032space", "A"), ("odd\\000nul", "A"),
        ("odd\\255high", "A"), ("_under.score", "A"), ("upper.CASE", "A"),
        (".".join(["l" * 60] * 3), "A"), ("sub", "A"), ("a.branch", "TXT"))]
    return names

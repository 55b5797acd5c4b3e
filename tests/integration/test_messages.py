"""Header, question, names and record types on every front end, and replies of an upstream
that do not fit.

Tests named after a row stand for a fault that some DNS product shipped once."""

import itertools
import struct

import pytest

import clients
import wire
from checks import all_answered, answered, fits
from scripted import BEHAVIOURS
from servers import HOST, UPSTREAM_NAME, free_port, upstreams
from clients import FRONTS, HTTP, STREAMS
from wire import (A, AD, AXFR, CH, CNAME, FORMERR, HINFO, HTTPS, IXFR, NOTIMP, NS, QR, RD,
                  REFUSED, SERVFAIL, SRV, TC, TXT, UNKNOWN, opt, query, rr)


@pytest.fixture(scope="module")
def hasty(daemons, upstream):
    """A pithd that gives up on an upstream soon."""
    return daemons(upstream, upstream="{ timeout: 200ms, tries: 2, deadline: 1s }",
                   ecs="{ mode: forward }")


@pytest.fixture(scope="module")
def over_tls(daemons, upstream, certificates):
    """A pithd that asks over TLS."""
    where = upstreams(upstream.tls_address, "tls", tls_name=UPSTREAM_NAME, ca=certificates.ca)
    return daemons(upstreams=where, upstream="{ timeout: 1s, tries: 3, deadline: 4s }")


@pytest.fixture(scope="module")
def over_tcp(daemons, upstream):
    return daemons(upstream, "tcp", upstream="{ timeout: 1s, tries: 3, deadline: 4s }")


def raw_question(qname, qtype=A, flags=RD, counts=(1, 0, 0, 0)):
    """A query whose name is given as octets, right or wrong."""
    return struct.pack(">6H", 0x1234, flags, *counts) + qname + struct.pack(">HH", qtype, 1)


def refused_as(pithd, via, message, rcode):
    """Asks what cannot be echoed in full; checks ID, QR, RCODE."""
    answer = pithd.ask(via, message)
    assert (answer.id, answer.rcode) == (struct.unpack(">H", message[:2])[0], rcode)
    assert answer.has(QR) and not answer.answer
    if via in HTTP:
        assert answer.http.max_age is None
    return answer


# ---- the header

@pytest.mark.parametrize("octets", [0, 1, 11])
def test_short_header_has_no_answer(pithd, up, via, octets):
    no_dns_answer(pithd, via, query("example.com")[:octets])


def test_response_bit_has_no_answer(pithd, up, via, unique):
    name = unique()
    no_dns_answer(pithd, via, query(name, flags=QR | RD))
    assert not up.asked(name)


def no_dns_answer(pithd, via, message):
    """HTTP 400, silence on UDP (a good question behind it is answered), end of a stream."""
    good = query("after.example.com")
    with clients.Client(pithd, via) as client:
        if via in HTTP:
            with pytest.raises(clients.HttpStatus) as caught:
                client.ask(message)
            assert caught.value.status == 400
            fits(client.ask(good), good, via)
        elif via == "udp":
            client.start(message)
            fits(client.ask(good), good, via)
        else:
            client.start(message)
            assert client.connection.at_end()


def test_row_40_two_questions(pithd, up, via, unique):
    first, second = unique(), unique()
    message = raw_question(wire.name(first), counts=(2, 0, 0, 0))
    refused_as(pithd, via, message + wire.name(second) + struct.pack(">HH", A, 1), FORMERR)
    assert not up.asked(first) and not up.asked(second)


def test_no_question(pithd, via):
    answer = refused_as(pithd, via, struct.pack(">6H", 0x1234, RD, 0, 0, 0, 0), FORMERR)
    assert not answer.questions


@pytest.mark.parametrize("counts", [(1, 1, 0, 0), (1, 0, 1, 0), (1, 0, 0, 1), (1, 0, 0, 65535)])
def test_counts_without_records(pithd, via, unique, counts):
    refused_as(pithd, via, raw_question(wire.name(unique()), counts=counts), FORMERR)


@pytest.mark.parametrize("opcode", [1, wire.STATUS, 3, wire.NOTIFY, wire.UPDATE, 6, 15])
def test_row_41_opcode(pithd, up, via, unique, opcode):
    name = unique()
    answered(pithd, via, query(name, opcode=opcode), NOTIMP)
    assert not up.asked(name)


@pytest.mark.parametrize("qclass", [CH, wire.HS, wire.NONE, wire.ANYCLASS, 0, 2, 65535])
def test_other_class(pithd, up, via, unique, qclass):
    name = unique()
    answered(pithd, via, query(name, TXT, qclass=qclass), REFUSED)
    answered(pithd, via, query("version.bind", TXT, qclass=qclass), REFUSED)
    assert not up.asked(name) and not up.asked("version.bind")


def test_row_43_trailing_octets(pithd, up, via, unique):
    name = unique()
    for extra in (b"\xde\xad\xbe\xef", b"\0"):
        refused_as(pithd, via, query(name) + extra, FORMERR)
        refused_as(pithd, via, query(name, opt=opt()) + extra, FORMERR)
    assert not up.asked(name)


def test_row_14_id_as_asked(pithd, via, unique):
    """The ID of who asked, from upstream and from the cache; 0 stays 0."""
    name = unique()
    for id in (0, 0xbeef, 0x1234, 0, 0xffff):
        answered(pithd, via, query(name, id=id), addresses=["192.0.2.1"])


def test_header_bits(pithd, via, unique):
    """Whatever bits a question has: RA, no Z, no AA, no TC; RD as asked."""
    name = unique()
    for flags in (RD, RD | wire.Z, RD | wire.RA, RD | wire.AA, RD | AD, RD | wire.CD):
        answered(pithd, via, query(name, flags=flags), addresses=["192.0.2.1"])


# ---- names

def test_case_as_asked(pithd, up, via, unique):
    """The question comes back octet for octet, and one ask serves every spelling."""
    name = unique("MiXeD")
    for spelling in (name, name.upper(), name.lower(), name.swapcase()):
        answer = answered(pithd, via, query(spelling), addresses=["192.0.2.1"])
        assert answer.qname == spelling
    assert len(up.asked(name)) == 1


def test_case_of_data(pithd, up, via, unique):
    """Rdata and owners other than the question's keep their case, from the cache as well."""
    name, target = unique(), unique("TaRgEt")
    up.on(name, lambda ask: ask.reply(
        rr(wire.name(ask.name), CNAME, 300, wire.name(target)),
        ask.a(owner=wire.name(target))))
    for _ in range(2):
        answer = answered(pithd, via, query(name))
        assert answer.answer[0].rdata == wire.name(target)
        assert answer.answer[1].owner == target


@pytest.mark.parametrize("label", [b"\0", b".", b"a.b", b" ", b"\\", b"\xff\xfe", b"*", b"@\"",
                                   bytes(range(1, 64)), bytes(range(192, 255))])
def test_any_octet_in_a_name(pithd, up, via, unique, label):
    name = [label] + [x.encode() for x in unique().split(".")]
    for _ in range(2):
        answered(pithd, via, query(name), addresses=["192.0.2.1"])
    asked = [[x.lower() for x in ask.message.questions[0][0]] for ask in up.log]
    assert asked.count([x.lower() for x in name]) == 1


def test_row_44_longest_name(pithd, up, via):
    """255 octets are a name, 256 are none."""
    tag = FRONTS.index(via)
    labels = [b"%da" % tag + b"a" * 61] * 3
    name = labels + [b"b" * 61]
    assert len(wire.name(name)) == 255
    answered(pithd, via, query(name), addresses=["192.0.2.1"])
    refused_as(pithd, via, raw_question(wire.name(labels + [b"b" * 62])), FORMERR)


@pytest.mark.parametrize("qname", [
    b"\xc0\x0c", b"\xc0\xff", b"\x01a\xc0\x0c", b"\xc0\x00", b"\x01a\xc0\x0e",
    b"\x40" + b"a" * 64 + b"\0", b"\x80" + b"a" * 64 + b"\0", b"\x3fabc"],
    ids=lambda qname: qname[:4].hex())
def test_row_44_bad_names(pithd, via, qname):
    """Loops, pointers forward, reserved label types, a label that ends too late."""
    refused_as(pithd, via, raw_question(qname), FORMERR)


def test_question_cut_off(pithd, via, unique):
    message = query(unique())
    for n in range(13, len(message)):
        refused_as(pithd, via, message[:n], FORMERR)


def test_row_71_root(pithd, up, via):
    since = len(up.log)
    flags = RD if via == "udp" else RD | wire.CD
    for _ in range(2):
        answer = answered(pithd, via, query(".", NS, opt(do=via == "dot"), flags=flags))
        assert [r.owner for r in answer.answer] == [".", "."]
    assert len(up.asked(".", NS, since)) <= 1


def test_row_71_no_recursion_desired(pithd, up, via, unique):
    """RD=0 is answered from the cache, and refused where it is not there."""
    name = unique()
    answered(pithd, via, query(name, flags=0), REFUSED)
    assert not up.asked(name)
    answered(pithd, via, query(name), addresses=["192.0.2.1"])
    answered(pithd, via, query(name, flags=0), addresses=["192.0.2.1"])
    assert len(up.asked(name)) == 1


# ---- types

def test_row_46_any(pithd, up, via, unique):
    """A minimal answer (RFC 8482 section 4.2), whatever the cache holds."""
    name = unique()
    answered(pithd, via, query(name))
    answer = pithd.ask(via, message := query(name, wire.ANY))
    assert answer.question == wire.Message(message).question and answer.rcode == 0
    assert [r.type for r in answer.answer] == [HINFO]
    assert answer.answer[0].rdata == b"\x07RFC8482\0"
    assert not up.asked(name, wire.ANY)


@pytest.mark.parametrize("qtype", [wire.TKEY, wire.TSIG, IXFR, AXFR])
def test_meta_types(pithd, up, via, unique, qtype):
    name = unique()
    answered(pithd, via, query(name, qtype), NOTIMP)
    assert not up.asked(name)


@pytest.fixture
def serves(up, unique):
    """serves(qtype, rdata...) is a name whose records of that type have such rdata. A rdata
    may be a function of the offset where it stands in the reply."""
    def register(qtype, *rdatas):
        name = unique()

        def reply(ask):
            records, at = [], 12 + len(ask.message.question)
            for rdata in rdatas:
                rdata = rdata(at + 12) if callable(rdata) else rdata
                records.append(rr(12, qtype, 300, rdata))
                at += len(records[-1])
            ask.reply(*records)
        up.on(name, reply)
        return name
    return register


HTTPS_RDATA = bytes.fromhex(
    "00010000010006026833026832" "00040008c0000201c0000202"
    "0006001020010db8000000000000000000000001" "fde80003abcdef")


def test_row_67_https_record(pithd, up, via, serves):
    name = serves(HTTPS, HTTPS_RDATA)
    for _ in range(2):
        answer = answered(pithd, via, query(name, HTTPS, opt()))
        assert [r.raw for r in answer.answer] == [HTTPS_RDATA]
    assert len(up.asked(name)) == 1


def test_row_68_unknown_type_is_untouched(pithd, via, serves):
    """What looks like a pointer in rdata of an unknown type is none."""
    rdatas = [bytes.fromhex("c00c0102"), b"", bytes(range(256)) * 3]
    name = serves(UNKNOWN, *rdatas)
    for _ in range(2):
        answer = answered(pithd, via, query(name, UNKNOWN, opt()))
        assert sorted(r.raw for r in answer.answer) == sorted(rdatas)


# Each type that may come compressed: the octets before, between and behind its names.
LAYOUTS = {
    NS: [b"", b""], CNAME: [b"", b""], wire.MB: [b"", b""], wire.MG: [b"", b""],
    wire.MR: [b"", b""], wire.PTR: [b"", b""], wire.MX: [b"\0\x0a", b""],
    wire.MINFO: [b"", b"", b""], wire.SOA: [b"", b"", bytes(range(20))],
    wire.RP: [b"", b"", b""], wire.AFSDB: [b"\0\x01", b""], wire.RT: [b"\0\x02", b""],
    wire.PX: [b"\0\x03", b"", b""], SRV: [b"\0\1\0\2\1\xbb", b""], wire.DNAME: [b"", b""],
    wire.NAPTR: [b"\0\1\0\2\x01u\x03sip\x02!!", b""],
    wire.SIG: [bytes(range(18)), b"signature"], wire.NXT: [b"", b"\x40\0\0\x80"],
}


@pytest.mark.parametrize("qtype", LAYOUTS)
def test_row_68_names_in_rdata(pithd, via, serves, qtype):
    """Names that came compressed are whole again; RFC 1035 types alone may be compressed on
    the way out, by pointers that lead to the same names."""
    layout = LAYOUTS[qtype]
    compressed = b"\x06Target\xc0\x0c".join(layout)
    name = serves(qtype, compressed)
    target = wire.name("Target." + name)
    for _ in range(2):
        answer = answered(pithd, via, query(name, qtype))
        record, = answer.answer
        assert record.rdata == target.join(layout)
        assert qtype in wire.COMPRESSED or record.raw == record.rdata


def test_row_68_srv_with_pointer(pithd, via, serves):
    """SRV with an illegal pointer into the question: sent on with the name in full."""
    name = serves(SRV, bytes.fromhex("0000000001bb") + b"\xc0\x0e")
    answer = answered(pithd, via, query(name, SRV))
    assert answer.answer[0].raw == bytes.fromhex("0000000001bb") + wire.name(
        ".".join(name.split(".")[1:]))


# ---- size

@pytest.mark.parametrize("size", [None, 0, 511, 512, 700, 1232, 4096, 65535])
def test_row_61_truncation(pithd, unique, size):
    """Over UDP TC and whole RRsets only, within what the client takes and 1232."""
    name = unique("sets-90")
    message = query(name, A, None if size is None else opt(size=size))
    for _ in range(2):
        answer = answered(pithd, "udp", message)
        assert answer.has(TC)
        assert len([r for r in answer.answer if r.type == A]) in (0, 90)
    fitting = unique("sets-20")
    answer = answered(pithd, "udp", query(fitting, A, opt(size=512)))
    assert not answer.has(TC) and len(answer.answer) == 21


@pytest.mark.parametrize("via", STREAMS + HTTP)
def test_row_61_whole_on_streams(pithd, via, unique):
    for octets in (1500, 17000, 64000):
        name = unique(f"big-{octets}")
        for _ in range(2):
            answer = answered(pithd, via, query(name, TXT))
            assert len(answer.answer) == octets // 213 + 1


def transports(asks):
    """What they came over, in order; more than one datagram counts once."""
    return [via for via, _ in itertools.groupby(ask.via for ask in asks)]


def test_truncated_upstream_goes_to_tcp(hasty, up, via, unique):
    """TC from the upstream is neither passed on nor kept."""
    name = unique("tc")
    for _ in range(2):
        answered(hasty, via, query(name), addresses=["192.0.2.1"])
    assert transports(up.asked(name)) == ["udp", "tcp"]


def test_oversize_upstream_goes_to_tcp(hasty, up, via, unique):
    """A datagram longer than asked for may have been cut; TCP tells."""
    name = unique("oversize")
    if via == "udp":
        assert answered(hasty, via, query(name)).has(TC)
    else:
        assert len(answered(hasty, via, query(name)).answer) == 200
    assert transports(up.asked(name)) == ["udp", "tcp"]


# ---- one ask for many

@pytest.mark.parametrize("via", ["udp", "tcp", "dot", "doh", "doh-get"])
def test_equal_questions_share_one_ask(pithd, up, via, unique):
    """100 at once on two connections. An answer to a later question on each connection shows
    that those before it have been taken."""
    name, known = unique(), unique()
    answered(pithd, via, query(known))
    up.hold(name)
    with clients.Client(pithd, via) as one, clients.Client(pithd, via) as two:
        messages = {client: [query(name) for _ in range(50)] for client in (one, two)}
        for client in messages:
            client.start(*messages[client])
            client.ask(query(known))
        up.release(name)
        for client in messages:
            for message in messages[client]:
                answer = fits(client.finish(message), message, via)
                assert answer.addresses == ["192.0.2.1"]
    assert len(up.asked(name)) == 1


@pytest.mark.parametrize("via", ["udp", "tcp", "dot", "doh", "doh-get"])
def test_case_and_opt_do_not_keep_equal_questions_apart(pithd, up, via, unique):
    """Each waiter gets what it asked for: its spelling, OPT or none."""
    name, known = unique("case"), unique()
    answered(pithd, via, query(known))
    up.hold(name)
    messages = [query(name), query(name.upper(), opt=opt()), query(name, flags=RD | AD),
                query(name.title(), opt=opt((wire.PADDING, b""), size=4096))]
    with clients.Client(pithd, via) as client:
        client.start(*messages)
        client.ask(query(known))
        up.release(name)
        for message in messages:
            assert fits(client.finish(message), message, via).addresses == ["192.0.2.1"]
    assert len(up.asked(name)) == 1


@pytest.mark.parametrize("via", ["tcp", "dot", "doh", "doh-get"])
def test_slow_question_holds_nobody_up(pithd, up, via, unique):
    """Answers out of order (RFC 7766 section 6.2.1.1)."""
    slow, quick = query(unique("held")), query(unique())
    name = wire.Message(slow).qname
    up.hold(name)
    with clients.Client(pithd, via) as client:
        client.start(slow, quick)
        fits(client.finish(quick), quick, via)
        up.release(name)
        fits(client.finish(slow), slow, via)


@pytest.mark.parametrize("via", ["tcp", "dot", "doh", "doh-get", "doh-h1"])
def test_good_and_bad_questions_mixed(pithd, via, unique):
    """Every one gets its own answer."""
    messages, rcodes = [], []
    for i in range(12):
        messages += [query(unique()), query(unique(), opcode=wire.STATUS),
                     query(unique(), qclass=CH), query(unique("nx"))]
        rcodes += [wire.NOERROR, NOTIMP, REFUSED, wire.NXDOMAIN]
    answers = clients.ask_many(pithd, via, messages)
    assert [a.rcode for a in answers] == rcodes
    for answer, message in zip(answers, messages):
        fits(answer, message, via)


# ---- replies that do not fit the question

UNFITTING = ("wrongid", "wrongname", "wrongtype", "wrongclass", "noqr", "noquestion", "ptrloop",
             "rdlength", "cut")


def test_row_44_58_unfitting_replies(hasty, up, via, unique):
    """All dropped: no answer in the end, in bounded time, and nothing kept."""
    names = {label: unique(label) for label in UNFITTING}
    messages = [query(name, opt=opt()) for name in names.values()]
    for answer in all_answered(hasty, via, messages, SERVFAIL):
        assert set(answer.ede) & {wire.EDE_NO_REACHABLE, wire.EDE_NETWORK}
    victim = "victim." + names["wrongname"].split(".", 1)[1]
    answered(hasty, via, query(victim), addresses=["192.0.2.1"])
    assert len(up.asked(victim)) == 1


@pytest.mark.parametrize("label", UNFITTING)
def test_row_58_unfitting_reply_then_a_right_one(hasty, up, unique, label):
    """The right reply behind a false one is taken; the false one is not waited upon."""
    name = unique(label)

    def both(ask):
        up.on(name, lambda ask: ask.reply(ask.a("192.0.2.7")))
        BEHAVIOURS[label](ask)
    up.on(name, both)
    answered(hasty, "udp", query(name), addresses=["192.0.2.7"])


def test_row_58_strangers_are_not_kept(pithd, up, via, unique):
    """Records of other names beside the answer are neither believed nor sent on."""
    name = unique("stranger")
    victim = "victim." + name.split(".", 1)[1]
    for _ in range(2):
        answered(pithd, via, query(name), addresses=["192.0.2.1"])
    answered(pithd, via, query(victim), addresses=["192.0.2.1"])


@pytest.mark.parametrize("daemon", ["over_tls", "over_tcp"])
def test_row_59_answers_in_reverse(request, up, unique, daemon):
    """40 questions on one upstream connection, answered from the last to the first."""
    server, held = request.getfixturevalue(daemon), []

    def reverse(ask):
        held.append(ask)
        if len(held) == 40:
            for i, ask in reversed(list(enumerate(held))):
                ask.reply(ask.a(f"10.1.1.{ask.labels[0][1:]}"))
    messages = []
    for i in range(40):
        name = unique(f"r{i}")
        up.on(name, reverse)
        messages.append(query(name))
    answers = all_answered(server, "dot", messages)
    assert [a.addresses for a in answers] == [[f"10.1.1.{i}"] for i in range(40)]


@pytest.mark.parametrize("daemon", ["over_tls", "over_tcp"])
def test_row_59_ids_swapped(request, up, unique, daemon):
    """Two answers with each other's ID: neither is taken for the other."""
    server, held, names = request.getfixturevalue(daemon), [], [unique("one"), unique("two")]

    def swap(ask):
        ask.address = f"10.2.2.{1 + names.index(ask.name)}"
        held.append(ask)
        if len(held) == 2:
            for ask, other in (held, held[::-1]):
                ask.send(ask.build(ask.a(ask.address), id=other.message.id))
        elif len(held) > 2:
            ask.reply(ask.a(ask.address))
    for name in names:
        up.on(name, swap)
    messages = [query(name) for name in names]
    for i, answer in enumerate(clients.ask_many(server, "dot", messages)):
        fits(answer, messages[i], "dot")
        assert answer.rcode == SERVFAIL or answer.addresses == [f"10.2.2.{i + 1}"]


@pytest.mark.parametrize("daemon", ["over_tls", "over_tcp"])
def test_row_59_unknown_and_repeated_ids(request, up, via, unique, daemon):
    """An answer with an ID nobody used, and one that comes twice, do no harm."""
    server, name, after = request.getfixturevalue(daemon), unique(), unique()

    def noise(ask):
        ask.send(ask.build(ask.a("203.0.113.9"), id=ask.message.id ^ 0x1111))
        ask.reply(ask.a("192.0.2.8"))
        ask.reply(ask.a("203.0.113.9"))
    up.on(name, noise)
    answered(server, via, query(name), addresses=["192.0.2.8"])
    answered(server, via, query(after), addresses=["192.0.2.1"])


@pytest.mark.parametrize("daemon", ["over_tls", "over_tcp"])
def test_row_62_upstream_closed_while_idle(request, up, via, unique, daemon):
    server = request.getfixturevalue(daemon)
    for _ in range(3):
        answered(server, via, query(unique()), addresses=["192.0.2.1"])
        up.drop_connections()
    answered(server, via, query(unique()), addresses=["192.0.2.1"])


@pytest.mark.parametrize("daemon", ["over_tls", "over_tcp"])
@pytest.mark.parametrize("label", ["close-1", "reset-1"])
def test_row_62_upstream_closes_on_a_question(request, up, via, unique, daemon, label):
    """One retry on a new connection brings the answer."""
    server, name = request.getfixturevalue(daemon), unique(label)
    answered(server, via, query(name), addresses=["192.0.2.1"])
    assert 2 <= len(up.asked(name)) <= 3


# ---- who may ask, and over which address

@pytest.fixture(scope="module")
def strict(daemons, upstream):
    return daemons(upstream, access="{ allow: [127.0.0.1/32] }")


def test_outside_access(strict, up, via, unique):
    """REFUSED with EDE 18 on every front end, in the cache or not."""
    name, kept = unique(), unique()
    answered(strict, via, query(kept, opt=opt()))
    for asked in (name, kept):
        answer = answered(strict, via, query(asked, opt=opt()), REFUSED, source="127.0.0.2")
        assert answer.ede == [wire.EDE_PROHIBITED]
    assert answered(strict, via, query(name), REFUSED, source="127.0.0.2").opt is None
    assert not up.asked(name)


def test_wildcard_listener(daemons, up, unique):
    """[::] takes IPv4 as well; such clients count as IPv4, and an answer over UDP leaves from
    the address that was asked."""
    daemon = daemons(up, listen='{ dns: [ {address: "[::]:$dns"} ] }', tls=None,
                     access="{ allow: [127.0.0.0/8] }")
    port = daemon.ports["dns"]
    for address, rcode in (("127.0.0.1", 0), ("127.0.0.3", 0), ("127.9.8.7", 0),
                           ("::1", REFUSED)):
        daemon.dns = (address, port)
        for via in ("udp", "tcp"):
            answered(daemon, via, query(unique()), rcode)


def test_quiet_log(pithd, up, via, unique):
    """At the usual level the log names neither what was asked nor who did."""
    for label in ("quiet", "rcode-2", "ptrloop", "nx"):
        asked = query(unique(label))
        try:
            clients.ask(pithd, via, asked, source="127.0.0.77", timeout=0.2)
        except clients.NoAnswer:
            pass
    refused_as(pithd, via, raw_question(b"\xc0\x0c"), FORMERR)
    assert "example.com" not in pithd.log and "127.0.0.77" not in pithd.log


# ---- without an upstream

@pytest.fixture(scope="module")
def deserted(daemons):
    """A pithd whose only upstream is not there."""
    return daemons(upstreams=upstreams((HOST, free_port())),
                   upstream="{ timeout: 300ms, tries: 2, deadline: 1s }")


def test_no_upstream(deserted, via, unique):
    """SERVFAIL with EDE 22 or 23 within the deadline."""
    answer = answered(deserted, via, query(unique(), opt=opt()), SERVFAIL, timeout=1.5)
    assert set(answer.ede) & {wire.EDE_NO_REACHABLE, wire.EDE_NETWORK}


def test_loop_between_two(daemons, unique):
    """Two daemons that forward to each other: SERVFAIL in time, and the log of who notices says
    so, though not at every question."""
    one = daemons(upstreams=upstreams((HOST, 1)))
    two = daemons(upstreams=upstreams(one.dns))
    one.write_config(upstreams=upstreams(two.dns))
    one.reload()
    for _ in range(10):
        answered(one, "tcp", query(unique()), SERVFAIL)
    for daemon in (one, two):
        assert len([line for line in daemon.lines if "loop" in line]) < 5, daemon.log
    assert "loop" in one.log + two.log

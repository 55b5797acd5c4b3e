"""Names that are answered without an upstream: special names, discovery, local data."""

import ipaddress
import struct

import pytest

import clients
import wire
from checks import answered
from servers import one_upstream
from wire import A, AAAA, MX, NXDOMAIN, PTR, SOA, SVCB, TXT, opt, query


@pytest.fixture
def nothing_asked(up):
    """The upstream was asked nothing during the test."""
    since = len(up.log)
    yield
    assert up.log[since:] == []


@pytest.fixture(scope="module")
def named(daemons, upstream, tmp_path_factory):
    """A pithd with a public name, local data and an upstream for private zones."""
    hosts = tmp_path_factory.mktemp("hosts") / "hosts"
    hosts.write_text("# comment\n192.168.7.1\tprinter.lan printer\n2001:db8::7 printer.lan\n"
                     "10.1.2.3 nas.lan # and a comment\n\n")
    usual = one_upstream(upstream.address, "tcp")
    private = one_upstream(upstream.address, "tcp", domains="[20.10.in-addr.arpa]")
    return daemons(
        upstreams=f"[ {usual}, {private} ]",
        name="dns.pith.test",
        local='[ "router.lan A 192.168.1.1", "router.lan AAAA fd00::1", '
              '"Router.lan TXT hello", '
              '"alias.lan CNAME router.lan", "mail.lan MX 10 router.lan", '
              f'"raw.lan TYPE65280 \\\\# 3 010203", "hosts {hosts}" ]')


@pytest.fixture(scope="module")
def forwarding(daemons, upstream):
    return daemons(upstream, "tcp", private_reverse="true")


# ---- special names (RFC 6761, 6303, 7686)

@pytest.mark.parametrize("name", ["localhost", "LocalHost", "a.localhost", "x.y.localhost"])
def test_localhost(pithd, nothing_asked, via, name):
    answered(pithd, via, query(name), addresses=["127.0.0.1"], local=True)
    answered(pithd, via, query(name, AAAA, opt()), addresses=["::1"], local=True)
    assert not answered(pithd, via, query(name, MX), local=True).answer


@pytest.mark.parametrize("name", [
    "1.0.0.127.in-addr.arpa", "1.0." + "0." * 30 + "ip6.arpa"])
def test_reverse_of_loopback(pithd, nothing_asked, via, name):
    name = "1." + "0." * 31 + "ip6.arpa" if "ip6" in name else name
    answer = answered(pithd, via, query(name, PTR), local=True)
    assert [r.rdata for r in answer.answer] == [wire.name("localhost")]


def test_loopback_net(pithd, nothing_asked, via):
    """127.in-addr.arpa and all below."""
    for name in ("127.in-addr.arpa", "9.9.9.127.in-addr.arpa", "x.127.in-addr.arpa"):
        answer = pithd.ask(via, query(name, PTR))
        assert answer.rcode in (0, NXDOMAIN) and answer.has(wire.AA)


PRIVATE = [
    "10.in-addr.arpa", "16.172.in-addr.arpa", "24.172.in-addr.arpa", "31.172.in-addr.arpa",
    "168.192.in-addr.arpa", "0.in-addr.arpa", "254.169.in-addr.arpa",
    "2.0.192.in-addr.arpa", "100.51.198.in-addr.arpa", "113.0.203.in-addr.arpa",
    "255.255.255.255.in-addr.arpa", "0." * 32 + "ip6.arpa", "d.f.ip6.arpa",
    "8.e.f.ip6.arpa", "9.e.f.ip6.arpa", "a.e.f.ip6.arpa", "b.e.f.ip6.arpa",
    "8.b.d.0.1.0.0.2.ip6.arpa"]


@pytest.mark.parametrize("name", ["invalid", "a.invalid", "A.B.Invalid", "onion", "x.onion",
                                  "resolver.arpa", "x.resolver.arpa"])
def test_names_that_are_not(pithd, nothing_asked, via, name):
    """NXDOMAIN or, for the top of a zone, NODATA; with a SOA so that it is kept."""
    for qtype in (A, AAAA, TXT):
        answer = pithd.ask(via, query(name, qtype))
        assert answer.rcode == NXDOMAIN or (answer.rcode == 0 and name == "resolver.arpa")
        assert not answer.answer and answer.has(wire.AA)
        assert [r.type for r in answer.authority] == [SOA]


@pytest.mark.parametrize("zone", PRIVATE)
def test_private_reverse(pithd, nothing_asked, zone):
    """NXDOMAIN below, on every front end."""
    for via in clients.FRONTS:
        name = zone if zone.startswith(("0.0.", "255.")) else "7." + zone
        answer = pithd.ask(via, query(name, PTR))
        assert (answer.rcode == NXDOMAIN or name == zone) and not answer.answer
        assert answer.has(wire.AA)
        assert [r.type for r in answer.authority] == [SOA]


@pytest.mark.parametrize("name", ["1.15.172.in-addr.arpa", "1.32.172.in-addr.arpa",
                                  "1.169.192.in-addr.arpa", "1.11.in-addr.arpa",
                                  "1.2.ip6.arpa", "c.e.f.ip6.arpa", "e.f.ip6.arpa"])
def test_neighbours_of_private_reverse(pithd, up, via, name):
    """Not private: the upstream is asked."""
    name = f"{clients.FRONTS.index(via)}.{name}"
    answered(pithd, via, query(name, PTR))
    assert len(up.asked(name)) == 1


def test_private_reverse_forwarded(forwarding, up, via):
    name = f"{clients.FRONTS.index(via)}.1.168.192.in-addr.arpa"
    answered(forwarding, via, query(name, PTR))
    assert len(up.asked(name)) == 1


def test_private_reverse_of_a_domain(named, up, via):
    """An upstream that has the zone is asked, for that zone only."""
    octet = clients.FRONTS.index(via)
    answered(named, via, query(f"{octet}.20.10.in-addr.arpa", PTR))
    assert len(up.asked(f"{octet}.20.10.in-addr.arpa")) == 1
    answered(named, via, query(f"{octet}.21.10.in-addr.arpa", PTR), NXDOMAIN, local=True)
    assert not up.asked(f"{octet}.21.10.in-addr.arpa")


def test_names_that_only_look_special(pithd, up, via, unique):
    """`test` is forwarded, and so are names that end in the same letters."""
    tag = unique().split(".")[1]
    for name in (f"{tag}{via}.test", f"{tag}{via}.notlocalhost", f"localhost.{tag}{via}.net",
                 f"{tag}{via}.invalid2", f"onion.{tag}{via}.net"):
        answered(pithd, via, query(name), addresses=["192.0.2.1"])
        assert len(up.asked(name)) == 1


# ---- discovery of designated resolvers (RFC 9461, 9462)

def parameters(rdata):
    """(priority, target, {key: value}) of SVCB rdata."""
    priority, = struct.unpack(">H", rdata[:2])
    labels, at, _ = wire.read_name(rdata, 2)
    values, last = {}, -1
    while at < len(rdata):
        key, n = struct.unpack(">HH", rdata[at:at + 4])
        assert key > last, "keys out of order"
        values[key], last, at = rdata[at + 4:at + 4 + n], key, at + 4 + n
    return priority, wire.text(labels), values


ALPN, PORT, HINT4, HINT6, DOHPATH = 1, 3, 4, 6, 7


@pytest.mark.parametrize("name", ["_dns.resolver.arpa", "_DNS.Resolver.ARPA",
                                  "_dns.dns.pith.test"])
def test_discovery(named, nothing_asked, via, name):
    """SVCB for DoT and DoH, with ALPN, port and path, all under our public name."""
    answer = answered(named, via, query(name, SVCB, opt()), local=True)
    found = {}
    for record in [r for r in answer.answer if r.type == SVCB]:
        priority, target, values = parameters(record.raw)
        assert priority > 0 and target == "dns.pith.test"
        alpn = values[ALPN]
        found[alpn[1:1 + alpn[0]]] = values
    assert set(found) == {b"dot", b"h2"}
    assert struct.unpack(">H", found[b"dot"][PORT])[0] == named.ports["dot"]
    assert struct.unpack(">H", found[b"h2"][PORT])[0] == named.ports["doh"]
    assert found[b"h2"][DOHPATH] == b"/dns-query{?dns}"
    assert DOHPATH not in found[b"dot"]
    for values in found.values():
        assert HINT4 not in values or len(values[HINT4]) % 4 == 0


def test_discovery_without_a_name(pithd, nothing_asked, via):
    """Nothing to designate: NODATA, and never forwarded."""
    answer = answered(pithd, via, query("_dns.resolver.arpa", SVCB), local=True)
    assert not answer.answer
    assert [r.type for r in answer.authority] == [SOA]


def test_discovery_of_other_types(named, nothing_asked, via):
    for qtype in (A, AAAA, TXT):
        answer = answered(named, via, query("_dns.resolver.arpa", qtype), local=True)
        assert not answer.answer


# ---- local data

@pytest.mark.parametrize("name, qtype, rdatas", [
    ("router.lan", A, [bytes([192, 168, 1, 1])]),
    ("ROUTER.Lan", AAAA, [ipaddress.ip_address("fd00::1").packed]),
    ("router.lan", TXT, [b"\x05hello"]),
    ("mail.lan", MX, [b"\0\x0a" + wire.name("router.lan")]),
    ("raw.lan", 65280, [b"\1\2\3"]),
    ("printer.lan", A, [bytes([192, 168, 7, 1])]),
    ("printer", A, [bytes([192, 168, 7, 1])]),
    ("printer.lan", AAAA, [ipaddress.ip_address("2001:db8::7").packed]),
    ("nas.lan", A, [bytes([10, 1, 2, 3])]),
    ("nas.lan", AAAA, []),
    ("router.lan", MX, []),
])
def test_local_data(named, nothing_asked, via, name, qtype, rdatas):
    """With AA, in the case asked, never from upstream; NODATA for types that are not there."""
    for asked in (query(name, qtype), query(name, qtype, opt())):
        answer = answered(named, via, asked, local=True)
        assert [r.rdata for r in answer.answer] == rdatas


def test_local_alias(named, nothing_asked, via):
    answer = answered(named, via, query("alias.lan"), local=True)
    assert answer.answer[0].rdata == wire.name("router.lan")
    assert answer.addresses == ["192.168.1.1"]


def test_local_reverse(named, nothing_asked, via):
    """A hosts file answers the other way round as well."""
    answer = answered(named, via, query("3.2.1.10.in-addr.arpa", PTR), local=True)
    assert [r.rdata for r in answer.answer] == [wire.name("nas.lan")]


def test_beside_local_data(named, up, via, unique):
    """Names below and beside local ones are the upstream's."""
    tag = unique().split(".")[1]
    for name in (f"{tag}{via}.router.lan", f"{tag}{via}.lan"):
        answered(named, via, query(name), addresses=["192.0.2.1"])
        assert len(up.asked(name)) == 1

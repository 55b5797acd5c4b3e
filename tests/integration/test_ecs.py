"""Client subnet (RFC 7871): what goes upstream in each mode, and who shares an answer."""

import ipaddress
import random
import struct

import pytest

import clients
import wire
from checks import all_answered, answered, fits
from scripted import subnet_address
from wire import ECS, FORMERR, NXDOMAIN, SERVFAIL, ecs, opt, query

PROXIED = "{ allow: [127.0.0.0/8, \"::1/128\", 198.51.100.0/24, \"2001:db8::/32\"] }"


@pytest.fixture(scope="module")
def off(daemons, upstream):
    return daemons(upstream, "tcp", ecs="{ mode: off }")


@pytest.fixture(scope="module")
def private(daemons, upstream):
    return daemons(upstream, "tcp", ecs="{ mode: private }")


@pytest.fixture(scope="module")
def narrow(daemons, upstream):
    """Short prefixes."""
    return daemons(upstream, "tcp", ecs="{ mode: forward, ipv4-prefix: 20, ipv6-prefix: 44 }")


@pytest.fixture(scope="module")
def client(daemons, upstream):
    """Subnets from the client's address."""
    return daemons(upstream, "tcp", ecs="{ mode: client }", access=PROXIED)


@pytest.fixture(scope="module")
def hasty(daemons, upstream):
    return daemons(upstream, ecs="{ mode: forward }",
                   upstream="{ timeout: 200ms, tries: 2, deadline: 1s }")


def subnet_query(name, address, source, **how):
    return query(name, opt=opt(ecs(address, source)), **how)


def echoes(answer, address, source, scope):
    """The option came back as it was sent, with that scope."""
    assert answer.opt.get(ECS) == ecs(address, source, scope)[1]


# ---- what goes upstream

def test_mode_off(off, up, via, unique):
    """Not a trace of a subnet, whatever the client sends."""
    name = unique("ecs-24")
    for message in (subnet_query(name, "192.0.2.0", 24), query(name, opt=opt()), query(name)):
        answer = answered(off, via, message, addresses=["192.0.2.10"])
        assert not answer.opt or answer.opt.get(ECS) is None
    ask, = up.asked(name)
    assert ask.ecs is None


def test_mode_private(private, up, via, unique):
    """/0 goes upstream, so that the upstream does not use our own address."""
    for message in (query(unique("ecs-24")), subnet_query(unique("ecs-24"), "192.0.2.0", 24)):
        answered(private, via, message)
        ask, = up.asked(wire.Message(message).qname)
        assert ask.ecs in (b"\0\1\0\0", b"\0\2\0\0")


@pytest.mark.parametrize("daemon, sent, expected", [
    ("pithd", ("192.0.2.77", 32), ("192.0.2.0", 24)),
    ("pithd", ("192.0.2.77", 25), ("192.0.2.0", 24)),
    ("pithd", ("192.0.2.0", 24), ("192.0.2.0", 24)),
    ("pithd", ("192.0.16.0", 20), ("192.0.16.0", 20)),
    ("pithd", ("192.0.0.0", 1), ("128.0.0.0", 1)),
    ("pithd", ("2001:db8:1:2345::9", 128), ("2001:db8:1:2300::", 56)),
    ("pithd", ("2001:db8:1::", 48), ("2001:db8:1::", 48)),
    ("narrow", ("192.0.31.77", 32), ("192.0.16.0", 20)),
    ("narrow", ("192.0.2.0", 13), ("192.0.0.0", 13)),
    ("narrow", ("2001:db8:12f4:5::", 64), ("2001:db8:12f0::", 44)),
])
def test_mode_forward(request, up, via, unique, daemon, sent, expected):
    """The client's option, cut to the prefix lengths configured; its own comes back."""
    name = unique("ecs-8")
    server = request.getfixturevalue(daemon)
    answer = answered(server, via, subnet_query(name, *sent))
    ask, = up.asked(name)
    assert ask.ecs == ecs(*expected)[1]
    assert answer.addresses == [subnet_address(ecs(*expected))]
    assert answer.opt.get(ECS)[:3] == ecs(*sent)[1][:3]
    assert answer.opt.get(ECS)[4:] == ecs(*sent)[1][4:]


def test_mode_forward_without_option(pithd, up, via, unique):
    name = unique("ecs-24")
    for message in (query(name), query(name, opt=opt())):
        answer = answered(pithd, via, message, addresses=["192.0.2.10"])
        assert not answer.opt or answer.opt.get(ECS) is None
    ask, = up.asked(name)
    assert ask.ecs is None


@pytest.mark.parametrize("address, expected", [
    ("198.51.100.77", ("198.51.100.0", 24)),
    ("2001:db8:1:2345::9", ("2001:db8:1:2300::", 56)),
    ("::ffff:198.51.100.78", ("198.51.100.0", 24)),
])
def test_mode_client(client, up, unique, address, expected):
    """The address that the trusted proxy names; nothing of it comes back, and the HTTP answer
    is for this client alone."""
    name = unique("ecs-24")
    for _ in range(2):
        message = query(name, opt=opt())
        answer = fits(clients.ask(client, "doh-clear", message,
                                  headers=[("x-forwarded-for", address)]), message, "doh")
        assert answer.addresses == [subnet_address(ecs(*expected))]
        assert answer.opt.get(ECS) is None
        assert "private" in answer.http.header("cache-control")
    ask, = up.asked(name)
    assert ask.ecs == ecs(*expected)[1]


def test_mode_client_own_option_first(client, up, unique):
    """Who sends a subnet gets it used rather than the address."""
    name = unique("ecs-24")
    message = subnet_query(name, "203.0.113.9", 32)
    answer = fits(clients.ask(client, "doh-clear", message,
                              headers=[("x-forwarded-for", "198.51.100.77")]), message, "doh")
    echoes(answer, "203.0.113.9", 32, 24)
    assert "private" not in answer.http.header("cache-control")
    ask, = up.asked(name)
    assert ask.ecs == ecs("203.0.113.0", 24)[1]


@pytest.mark.parametrize("daemon", ["pithd", "client", "narrow"])
@pytest.mark.parametrize("address", ["0.0.0.0", "::"])
def test_opt_out(request, up, via, unique, daemon, address):
    """Source /0: no address of the client goes upstream (RFC 7871 section 7.1.2), and the
    answer says scope 0."""
    name = unique("ecs-24")
    answer = answered(request.getfixturevalue(daemon), via, subnet_query(name, address, 0))
    echoes(answer, address, 0, 0)
    ask, = up.asked(name)
    assert ask.ecs is None or ask.ecs[2] == 0


# ---- who shares an answer

def test_row_50_answers_kept_apart(pithd, up, via, unique):
    """Three askers, three answers; who is inside the scope of the first gets that."""
    name = unique("ecs-24")
    one, two = ecs("192.0.2.0", 24), ecs("198.51.100.0", 24)
    for _ in range(2):
        echoes(answered(pithd, via, query(name, opt=opt(one)), addresses=[subnet_address(one)]),
               "192.0.2.0", 24, 24)
        answered(pithd, via, query(name, opt=opt(two)), addresses=[subnet_address(two)])
        answered(pithd, via, query(name), addresses=["192.0.2.10"])
        echoes(answered(pithd, via, subnet_query(name, "192.0.2.99", 32),
                        addresses=[subnet_address(one)]), "192.0.2.99", 32, 24)
    assert len(up.asked(name)) == 3


def test_scope_zero_is_for_all(pithd, up, via, unique):
    """One answer for every subnet, and who sent none."""
    name = unique("ecs-0")
    first = subnet_address(ecs("192.0.2.0", 24))
    for address in ("192.0.2.0", "198.51.100.0", "203.0.113.0"):
        echoes(answered(pithd, via, subnet_query(name, address, 24), addresses=[first]),
               address, 24, 0)
    answered(pithd, via, query(name), addresses=[first])
    assert len(up.asked(name)) == 1


def test_upstream_without_client_subnet(pithd, up, via, unique):
    """No option in the reply counts as scope 0."""
    name = unique("ecsnone")
    for address in ("192.0.2.0", "198.51.100.0"):
        answer = answered(pithd, via, subnet_query(name, address, 24))
        echoes(answer, address, 24, 0)
    assert len(up.asked(name)) == 1


def test_longest_scope_wins(pithd, up, via, unique):
    """An answer for a /24 inside an answer for a /16."""
    name = unique("longest")

    def reply(ask):
        scope, address = (16, "192.0.2.16")
        if ask.ecs[4:7] == bytes([10, 20, 30]):
            scope, address = (24, "192.0.2.24")
        ask.reply(ask.a(address), options=[(ECS, ask.ecs[:3] + bytes([scope]) + ask.ecs[4:])])
    up.on(name, reply)
    for address, expected in (("10.20.30.0", "192.0.2.24"), ("10.20.40.0", "192.0.2.16"),
                              ("10.20.30.0", "192.0.2.24"), ("10.20.50.0", "192.0.2.16")):
        answered(pithd, via, subnet_query(name, address, 24), addresses=[expected])
    assert len(up.asked(name)) == 2


def test_families_kept_apart(pithd, up, via, unique):
    """The same leading octets in both families are two subnets."""
    name = unique("ecs-24")
    four, six = ecs("32.1.13.0", 24), ecs("2001:d00::", 24)
    assert four[1][4:] == six[1][4:]
    for _ in range(2):
        for one in (four, six):
            answered(pithd, via, query(name, opt=opt(one)), addresses=[subnet_address(one)])
    assert len(up.asked(name)) == 2


def test_negative_answers_are_for_all(pithd, up, via, unique):
    """RFC 7871 section 7.4: their scope does not count."""
    name = unique("ecsnx-24")
    for address in ("192.0.2.0", "198.51.100.0"):
        echoes(answered(pithd, via, subnet_query(name, address, 24), NXDOMAIN), address, 24, 0)
    assert len(up.asked(name)) == 1


def test_row_52_equal_subnets_share_one_ask(pithd, up, unique):
    """60 askers at once of 6 subnets: 6 asks, and each the answer of its own subnet."""
    name, known = unique("ecs-24"), unique()
    answered(pithd, "dot", query(known))
    up.hold(name)
    subnets = [ecs(f"10.0.{i % 6}.0", 24) for i in range(60)]
    messages = [query(name, opt=opt(subnet)) for subnet in subnets]
    with clients.Client(pithd, "dot") as connection:
        connection.start(*messages)
        connection.ask(query(known))
        up.release(name)
        for message, subnet in zip(messages, subnets):
            answer = fits(connection.finish(message), message, "dot")
            assert answer.addresses == [subnet_address(subnet)]
    assert len(up.asked(name)) == 6


@pytest.mark.parametrize("what", ["address", "source", "family", "short"])
def test_row_52_answer_for_another_subnet(hasty, up, via, unique, what):
    """Dropped, and not kept for those it claims to be for, once the failure is forgotten."""
    name = unique(f"ecswrong-{what}")
    answered(hasty, via, subnet_query(name, "192.0.2.0", 24), SERVFAIL)
    hasty.advance(6000)
    up.on(name, lambda ask: ask.reply(ask.a()))
    other = str(ipaddress.ip_address(bytes([0xc0 ^ 0x55, 0, 2, 0])))
    answered(hasty, via, subnet_query(name, other, 24), addresses=["192.0.2.1"])


def test_option_nobody_sent(pithd, up, via, unique):
    """A subnet in the reply to a question without one is not passed on."""
    name = unique("ecsuncalled")
    for _ in range(2):
        answer = answered(pithd, via, query(name, opt=opt()), addresses=["192.0.2.1"])
        assert answer.opt.get(ECS) is None
    answered(pithd, via, query(name), addresses=["192.0.2.1"])


BAD_OPTIONS = {
    "bits-beyond-prefix": struct.pack(">HBB", 1, 20, 0) + b"\xc0\0\x0f",
    "scope-in-question": struct.pack(">HBB", 1, 24, 24) + b"\xc0\0\2",
    "family-3": struct.pack(">HBB", 3, 24, 0) + b"\xc0\0\2",
    "family-0": struct.pack(">HBB", 0, 0, 0),
    "prefix-33": struct.pack(">HBB", 1, 33, 0) + b"\xc0\0\2\1\0",
    "prefix-129": struct.pack(">HBB", 2, 129, 0) + bytes(17),
    "too-long": struct.pack(">HBB", 1, 24, 0) + b"\xc0\0\2\1",
    "too-short": struct.pack(">HBB", 1, 24, 0) + b"\xc0\0",
    "head-only": b"\0\1\x18",
    "empty": b"",
}


@pytest.mark.parametrize("bad", BAD_OPTIONS)
@pytest.mark.parametrize("daemon", ["pithd", "client"])
def test_row_53_malformed_option(request, up, via, unique, daemon, bad):
    """FORMERR, on every front end; nothing goes upstream."""
    name = unique("ecs-24")
    answered(request.getfixturevalue(daemon), via,
             query(name, opt=opt((ECS, BAD_OPTIONS[bad]))), FORMERR)
    assert not up.asked(name)


def test_many_subnets_of_one_name(pithd, up, unique):
    """More than any cache keeps of a name: each still gets its own answer."""
    name = unique("ecs-24")
    for start in range(0, 600, 60):
        subnets = [ecs(f"10.{i >> 8}.{i & 255}.0", 24) for i in range(start, start + 60)]
        messages = [query(name, opt=opt(subnet)) for subnet in subnets]
        for answer, subnet in zip(all_answered(pithd, "dot", messages), subnets):
            assert answer.addresses == [subnet_address(subnet)]


def test_no_answer_reaches_another_subnet(pithd, up, unique):
    """3000 random questions of both families against an oracle: the upstream parts the
    addresses into blocks of many sizes and answers with a digest of the block."""
    rng = random.Random(7871)
    name = unique("oracle")

    def block(address):
        """The block that the upstream's answer to this address is for, and its scope."""
        top = 16 if address.version == 4 else 40
        whole = ipaddress.ip_network((address, top), strict=False)
        scope = random.Random(str(whole)).choice([top, top + 4, top + 7, top + 8])
        return ipaddress.ip_network((address, scope), strict=False), scope

    def reply(ask):
        size = 4 if ask.ecs[1] == 1 else 16
        address = ipaddress.ip_address(ask.ecs[4:].ljust(size, b"\0"))
        network, scope = block(address)
        digest = subnet_address((ECS, str(network).encode()))
        ask.reply(ask.a(digest), options=[(ECS, ask.ecs[:3] + bytes([scope]) + ask.ecs[4:])])
    up.on(name, reply)

    def address():
        if rng.random() < 0.5:
            return ipaddress.ip_address(0x0a000000 | rng.randrange(1 << 20))
        return ipaddress.ip_address(0x20010db8 << 96 | rng.randrange(1 << 19) << 72)
    with clients.Client(pithd, "udp") as connection:
        for _ in range(3000):
            one = address()
            source = rng.choice([24, 28, 32]) if one.version == 4 else rng.choice([56, 64, 128])
            message = query(name, opt=opt(ecs(str(one), source)))
            answer = fits(connection.ask(message), message, "udp")
            network, _ = block(one)
            expected = subnet_address((ECS, str(network).encode()))
            assert answer.addresses == [expected], f"{one}/{source} in {network}"

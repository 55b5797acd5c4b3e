"""2000 random questions, answered by pithd as by unbound before the same server.

Differences are allowed in the classes below only, each for the RFC that it names."""

import random

import pytest

import clients
import wire
import zone
from servers import Unbound
from wire import AD, CD, RD

QUESTIONS = 2000

TYPES = (wire.A, wire.A, wire.A, wire.AAAA, wire.TXT, wire.MX, wire.NS, wire.SOA, wire.SRV,
         wire.CAA, wire.HTTPS, wire.NAPTR, wire.PTR, wire.CNAME, wire.DNAME, wire.UNKNOWN,
         wire.ANY, 43, 99, 1234)


def any_minimal(question, ours, theirs):
    """RFC 8482: a minimal answer to ANY; unbound asks upstream and gives all."""
    return question.qtype == wire.ANY


def no_recursion(question, ours, theirs):
    """RFC 1035 section 4.1.1: what is not in the cache is REFUSED without RD; unbound gives
    what it has, be it a referral."""
    return not question.has(RD) and ours.rcode == wire.REFUSED


CLASSES = (any_minimal, no_recursion)


@pytest.fixture
def pair(daemons, nsd, tmp_path):
    """pithd and unbound, as servers to ask; both keep nothing else than their caches."""
    daemon = daemons(nsd, ecs="{ mode: forward }")
    unbound = Unbound(str(tmp_path), nsd.address)
    unbound.dns = unbound.address
    yield daemon, unbound
    daemon.stop()
    unbound.stop()


def random_case(rng, text):
    return "".join(rng.choice((c.lower(), c.upper())) for c in text)


def random_name(rng, names):
    name = rng.choice(names)
    kind = rng.random()
    if kind < 0.15:
        name = f"x{rng.randrange(50)}.{name}"
    elif kind < 0.25:
        name = f"none{rng.randrange(50)}.{zone.ZONE}"
    elif kind < 0.3:
        name = f"{rng.randrange(20)}.2.{zone.REVERSE}"
    return random_case(rng, name) if rng.random() < 0.5 else name


def random_opt(rng):
    if rng.random() < 0.4:
        return None
    options = [(wire.PADDING, b""), (wire.NSID, b""), (65001, b"x"), wire.ecs("192.0.2.0", 24),
               wire.ecs("2001:db8::", 48), wire.ecs("0.0.0.0", 0)]
    return wire.opt(*rng.sample(options, rng.choice((0, 0, 1))),
                    do=rng.random() < 0.3, size=rng.choice((512, 1232, 4096)))


def random_question(rng, names):
    flags = RD if rng.random() < 0.95 else 0
    flags |= rng.choice((0, 0, AD, CD, AD | CD))
    return wire.query(random_name(rng, names), rng.choice(TYPES), random_opt(rng), flags=flags)


def negative_soa(answer):
    """The SOA of a negative answer."""
    if any(r.type == answer.qtype for r in answer.answer):
        return set()
    return {r.key for r in answer.authority if r.type == wire.SOA}


def same(ours, theirs):
    return (ours.rcode == theirs.rcode and ours.keys == theirs.keys
            and negative_soa(ours) == negative_soa(theirs))


def test_same_answers_as_unbound(pair):
    daemon, unbound = pair
    rng = random.Random(2000)
    names = [name for name, _ in zone.questions() if "\\" not in name]
    seen = {rule.__name__: 0 for rule in CLASSES}
    different = []
    opened = {via: [clients.Client(server, via) for server in pair] for via in ("udp", "tcp")}
    for _ in range(QUESTIONS):
        message = random_question(rng, names)
        via = rng.choice(("udp", "tcp"))
        ours, theirs = [client.ask(message) for client in opened[via]]
        if ours.has(wire.TC) or theirs.has(wire.TC):  # each by its own rules of size
            ours, theirs = [client.ask(message) for client in opened["tcp"]]
        if same(ours, theirs):
            continue
        rule = next((r for r in CLASSES if r(wire.Message(message), ours, theirs)), None)
        if rule:
            seen[rule.__name__] += 1
        else:
            different.append((wire.Message(message), ours, theirs))
    assert different == [], f"{len(different)} differ: {different[:3]}"
    assert sum(seen.values()) < QUESTIONS / 5, seen

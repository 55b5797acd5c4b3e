"""How long answers live: TTLs, negative answers, failures, stale answers, prefetch. The
daemon's clock is driven; what waits on timers of the real clock waits for fractions of a
second."""

import time

import pytest

import wire
from checks import answered
from clients import HTTP
from wire import NXDOMAIN, SERVFAIL, SOA, TXT, opt, query

DAY, HOUR = 86400, 3600


@pytest.fixture(scope="module")
def plain(daemons, upstream):
    """No stale answers and no prefetch."""
    return daemons(upstream, "tcp", upstream="{ timeout: 200ms, tries: 2, deadline: 1s }")


@pytest.fixture(scope="module")
def bounded(daemons, upstream):
    return daemons(upstream, "tcp",
                   cache="{ min-ttl: 60, max-ttl: 2h, negative-max-ttl: 90, prefetch: false, "
                         "serve-stale: { max-age: 0 } }")


@pytest.fixture(scope="module")
def stale_daemon(daemons, upstream):
    return daemons(upstream, upstream="{ timeout: 300ms, tries: 2, deadline: 1s }",
                   cache="{ prefetch: false, serve-stale: { max-age: 1d, ttl: 30, "
                         "client-timeout: 150ms } }")


@pytest.fixture
def stale(stale_daemon, up, unique):
    """Stale answers are on, and what an earlier test did to the upstream is over."""
    comes_again(stale_daemon, "tcp", unique)
    return stale_daemon


@pytest.fixture(scope="module")
def prefetching(daemons, upstream):
    return daemons(upstream, "tcp", cache="{ prefetch: true, serve-stale: { max-age: 0 } }")


def seconds(daemon, n):
    daemon.advance(n * 1000)


# ---- TTL

def test_ttl_counts_down(plain, up, via, unique):
    """And is asked for again when it is used up, not before."""
    name = unique("ttl-300")
    message = query(name, opt=opt())
    assert answered(plain, via, message).ttls == [300]
    seconds(plain, 100)
    ttl, = answered(plain, via, message).ttls
    assert 199 <= ttl <= 200
    seconds(plain, 198)
    assert answered(plain, via, message).ttls[0] <= 2
    assert len(up.asked(name)) == 1
    seconds(plain, 3)
    assert answered(plain, via, message).ttls == [300]
    assert len(up.asked(name)) == 2


def test_shortest_ttl_of_a_chain(plain, up, via, unique):
    """The whole answer lives as long as the record that lives shortest."""
    name = unique("chain")
    target = wire.name("target.example.com")
    up.on(name, lambda ask: ask.reply(wire.rr(12, wire.CNAME, 600, target),
                                      ask.a(ttl=60, owner=target)))
    answered(plain, via, query(name))
    seconds(plain, 61)
    answered(plain, via, query(name))
    assert len(up.asked(name)) == 2


def test_row_65_top_bit(plain, via, unique):
    """Counts as huge and is capped (RFC 8767 section 4), not as zero."""
    name = unique(f"ttl-{0x80000001}")
    assert answered(plain, via, query(name)).ttls == [DAY]
    seconds(plain, HOUR)
    ttl, = answered(plain, via, query(name)).ttls
    assert DAY - HOUR - 1 <= ttl <= DAY - HOUR
    assert answered(plain, via, query(unique(f"ttl-{7 * DAY}"))).ttls == [DAY]
    assert answered(plain, via, query(unique(f"ttl-{0xffffffff}"))).ttls == [DAY]


def test_row_65_ttl_zero(plain, up, via, unique):
    """Answered, and asked for again."""
    name = unique("ttl-0")
    for _ in range(2):
        assert answered(plain, via, query(name), addresses=["192.0.2.1"]).ttls == [0]
    assert len(up.asked(name)) == 2


def test_ttl_bounds(bounded, up, via, unique):
    for label, ttl in (("ttl-1", 60), ("ttl-0", 60), ("ttl-61", 61), ("ttl-7201", 2 * HOUR),
                       (f"ttl-{0x80000000}", 2 * HOUR)):
        if label == "ttl-0":
            continue  # zero means do not keep, whatever the floor
        assert answered(bounded, via, query(unique(label))).ttls == [ttl]
    answer = answered(bounded, via, query(unique("nx-7200-7200")), NXDOMAIN)
    assert answer.ttls == [90]


# ---- negative answers

@pytest.mark.parametrize("label, rcode, life", [
    ("nx-3600-60", NXDOMAIN, 60), ("nx-60-3600", NXDOMAIN, 60), ("nx-90-90", NXDOMAIN, 90),
    ("nodata-3600-60", 0, 60), ("nodata-60-3600", 0, 60),
    ("nx-86400-86400", NXDOMAIN, HOUR), ("cnamenx-3600-60", NXDOMAIN, 60),
    ("cnamenx-30-3600", NXDOMAIN, 30)])
def test_row_55_56_negative_life(plain, up, via, unique, label, rcode, life):
    """min(TTL of the SOA, MINIMUM, cap), with the SOA, whose TTL counts down."""
    name = unique(label)
    first = answered(plain, via, query(name), rcode)
    assert [r.type for r in first.authority] == [SOA]
    seconds(plain, life - 2)
    again = answered(plain, via, query(name), rcode)
    soa, = again.authority
    assert soa.type == SOA and soa.rdata == first.authority[0].rdata
    assert len(up.asked(name)) == 1
    if label != "cnamenx-30-3600":
        assert soa.ttl <= 2
    if via in HTTP:
        assert again.http.max_age is None or again.http.max_age <= 2
    seconds(plain, 3)
    answered(plain, via, query(name), rcode)
    assert len(up.asked(name)) == 2


@pytest.mark.parametrize("label, rcode", [("nosoa-3", NXDOMAIN), ("nosoa-0", 0)])
def test_row_55_negative_without_soa(plain, up, via, unique, label, rcode):
    """Not kept, and no-store over HTTP."""
    name = unique(label)
    for n in (1, 2):
        answer = answered(plain, via, query(name), rcode)
        assert not answer.authority
        assert len(up.asked(name)) == n


def test_negative_is_for_its_type_only(plain, up, via, unique):
    """NODATA of one type says nothing about another."""
    name = unique("both")
    up.on(name, lambda ask: ask.reply(ask.a()) if ask.type == wire.A
          else ask.reply(authority=[ask.soa()]))
    assert not answered(plain, via, query(name, TXT)).answer
    answered(plain, via, query(name), addresses=["192.0.2.1"])


# ---- failures

def test_servfail_is_kept_five_seconds(plain, up, via, unique):
    """RFC 9520."""
    name = unique("rcode-2")
    answered(plain, via, query(name), SERVFAIL)
    asks = len(up.asked(name))
    seconds(plain, 3)
    answered(plain, via, query(name), SERVFAIL)
    assert len(up.asked(name)) == asks
    seconds(plain, 3)
    answered(plain, via, query(name), SERVFAIL)
    assert len(up.asked(name)) > asks


def test_no_answer_is_kept_five_seconds(plain, up, via, unique):
    """An upstream that does not answer for one name: the failure is kept; others are asked."""
    name = unique("drop")
    answered(plain, via, query(name), SERVFAIL)
    asks = len(up.asked(name))
    answered(plain, via, query(name), SERVFAIL, timeout=0.5)
    assert len(up.asked(name)) == asks
    answered(plain, via, query(unique()), addresses=["192.0.2.1"])
    seconds(plain, 6)
    up.on(name, lambda ask: ask.reply(ask.a()))
    answered(plain, via, query(name), addresses=["192.0.2.1"])


def test_network_failures_are_void_after_recovery(fresh, up, via, unique):
    """No waiting once an upstream is back."""
    daemon = fresh(up, upstream="{ timeout: 200ms, tries: 2, deadline: 1s }")
    name = unique("ttl-60")
    answered(daemon, via, query(unique()))
    up.down()
    answer = answered(daemon, via, query(name, opt=opt()), SERVFAIL)
    assert set(answer.ede) & {wire.EDE_NO_REACHABLE, wire.EDE_NETWORK}
    up.up()
    comes_again(daemon, via, lambda: name)


def comes_again(daemon, via, name, seconds=3):
    """Asks until there is an answer; that takes no longer than a probe may (2 s)."""
    deadline = time.monotonic() + seconds
    while daemon.ask(via, query(name())).rcode:
        assert time.monotonic() < deadline, "no answers again"


def test_probe_while_nothing_is_well(fresh, up, unique):
    """At least every 2 s, without anybody asking."""
    daemon = fresh(up, upstream="{ timeout: 200ms, tries: 2, deadline: 1s }")
    answered(daemon, "tcp", query(unique()))
    up.mute()
    for _ in range(3):
        answered(daemon, "tcp", query(unique()), SERVFAIL)
    since = len(up.log)
    asks = up.wait_asked(n=2, since=since, timeout=5)
    assert asks[1].time - asks[0].time < 2.3


# ---- stale answers (RFC 8767)

@pytest.mark.parametrize("how", ["down", "mute"])
def test_row_64_stale(stale, up, via, unique, how):
    """TTL 30 and EDE 3 when no upstream answers; the new answer once one does."""
    name = unique("count-60")
    message = query(name, opt=opt())
    first = answered(stale, via, message)
    seconds(stale, 70)
    getattr(up, how)()
    answer = answered(stale, via, message, addresses=first.addresses, timeout=2)
    assert answer.ttls == [30] and wire.EDE_STALE in answer.ede
    assert answered(stale, via, query(name)).ttls == [30]
    if via in HTTP:
        assert answer.http.max_age == 30
    up.up()
    deadline = time.monotonic() + 3
    while (answer := stale.ask(via, query(name))).addresses == first.addresses:
        assert time.monotonic() < deadline, "still the stale answer"
    assert answer.rcode == 0 and answer.ttls[0] > 30


def test_row_64_stale_nxdomain(stale, up, via, unique):
    """EDE 19, and the SOA; the name appears at once when it comes to be, with TTL 0."""
    name = unique("nx-60-60")
    message = query(name, opt=opt())
    answered(stale, via, message, NXDOMAIN)
    seconds(stale, 70)
    up.mute()
    answer = answered(stale, via, message, NXDOMAIN, timeout=2)
    assert wire.EDE_STALE_NXDOMAIN in answer.ede
    assert [r.ttl for r in answer.authority] == [30]


def test_row_64_too_stale(stale, up, via, unique):
    name = unique("ttl-60")
    answered(stale, via, query(name))
    seconds(stale, 60 + DAY + 10)
    up.mute()
    answered(stale, via, query(name), SERVFAIL)


def test_row_64_ttl_zero_ends_stale(stale, up, via, unique):
    """An answer of TTL 0 replaces the stale one, which must not come back."""
    name = unique("nx-60-60")
    answered(stale, via, query(name), NXDOMAIN)
    seconds(stale, 70)
    up.on(name, lambda ask: ask.reply(ask.a(ttl=0)))
    answered(stale, via, query(name), addresses=["192.0.2.1"])
    seconds(stale, 1)
    answered(stale, via, query(name), addresses=["192.0.2.1"])


def test_servfail_keeps_stale(stale, up, via, unique):
    """A SERVFAIL of the upstream is no answer: the stale one is given, and kept."""
    name = unique("ttl-60")
    answered(stale, via, query(name))
    seconds(stale, 70)
    up.on(name, lambda ask: ask.reply(rcode=SERVFAIL))
    for _ in range(2):
        answer = answered(stale, via, query(name, opt=opt()), addresses=["192.0.2.1"])
        assert wire.EDE_STALE in answer.ede


def test_client_timeout(stale, up, via, unique):
    """A slow upstream: the stale answer after client-timeout; the fresh one is kept when it
    comes."""
    name = unique("count-60")
    answered(stale, via, query(name), addresses=["10.9.0.1"])
    seconds(stale, 70)
    up.hold(name)
    answer = answered(stale, via, query(name, opt=opt()), addresses=["10.9.0.1"])
    assert wire.EDE_STALE in answer.ede and answer.ttls == [30]
    up.wait_asked(name, 2)
    up.release(name)
    for _ in range(100):
        answer = stale.ask(via, query(name))
        if answer.addresses != ["10.9.0.1"]:
            break
    assert answer.addresses[0] > "10.9.0.1" and answer.ttls[0] > 30


def test_quick_refresh_is_not_stale(stale, up, via, unique):
    """An upstream that answers within client-timeout is waited for."""
    name = unique("count-60")
    answered(stale, via, query(name), addresses=["10.9.0.1"])
    seconds(stale, 70)
    answer = answered(stale, via, query(name, opt=opt()), addresses=["10.9.0.2"])
    assert answer.ede == [] and answer.ttls == [60]


def test_refresh_is_limited(stale, up, unique):
    """A failed refresh is not tried again, nor waited for, by every client (RFC 8767
    section 5)."""
    name = unique("ttl-60")
    answered(stale, "tcp", query(name))
    seconds(stale, 70)
    up.on(name, lambda ask: None)
    start = time.monotonic()
    for _ in range(30):
        answered(stale, "tcp", query(name), addresses=["192.0.2.1"])
    assert time.monotonic() - start < 30 * 0.15 / 2  # client-timeout was not spent each time
    assert len(up.asked(name)) < 10


# ---- prefetch

def test_prefetch(prefetching, up, via, unique):
    """A name asked twice or more is asked for in the last tenth of its life, once, and its
    clients never wait."""
    name = unique("count-100")
    for _ in range(3):
        answered(prefetching, via, query(name), addresses=["10.9.0.1"])
    seconds(prefetching, 85)
    answered(prefetching, via, query(name), addresses=["10.9.0.1"])
    assert len(up.asked(name)) == 1
    seconds(prefetching, 9)
    answered(prefetching, via, query(name), addresses=["10.9.0.1"])
    up.wait_asked(name, 2)
    seconds(prefetching, 20)
    answered(prefetching, via, query(name), addresses=["10.9.0.2"])
    assert len(up.asked(name)) == 2


def test_no_prefetch_of_what_is_asked_once(prefetching, up, via, unique):
    name, marker = unique("count-100"), unique()
    answered(prefetching, via, query(name))
    seconds(prefetching, 95)
    answered(prefetching, via, query(name))
    answered(prefetching, via, query(marker))
    assert len(up.asked(name)) == 1

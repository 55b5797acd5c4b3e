"""OPT and its options, and the DO, CD and AD bits, on every front end."""

import struct

import pytest

import clients
import wire
from checks import answered, fits
from clients import ENCRYPTED
from servers import upstreams
from wire import (AD, BADVERS, CD, COOKIE, FORMERR, KEEPALIVE, NSID, PADDING, RD, REFUSED,
                  RRSIG, SERVFAIL, opt, option, query)


@pytest.fixture(scope="module")
def distrustful(daemons, upstream):
    """A pithd that does not believe its upstream's AD."""
    return daemons(upstreams=upstreams(upstream.address, "tcp", trust_ad="false"))


# ---- OPT or none

def test_row_34_no_opt_without_opt(pithd, via, unique):
    """Nobody gets OPT who sent none, whoever brought the answer into the cache."""
    name = unique()
    for message in (query(name), query(name, opt=opt()), query(name), query(name)):
        answered(pithd, via, message)  # which checks OPT both ways
    fresh = unique()
    for message in (query(fresh, opt=opt()), query(fresh)):
        answered(pithd, via, message)


@pytest.mark.parametrize("do", [False, True])
def test_row_35_opt_with_opt(pithd, up, via, unique, do):
    """From upstream, from the cache, for what is local, refused or not implemented."""
    name = unique("nx")
    for _ in range(2):
        answered(pithd, via, query(name, opt=opt(do=do)), wire.NXDOMAIN)
    assert len(up.asked(name)) == 1
    answered(pithd, via, query("localhost", opt=opt(do=do)), local=True)
    answered(pithd, via, query("version.bind", 16, opt(do=do), qclass=wire.CH), REFUSED)
    answered(pithd, via, query(unique(), opt=opt(do=do), opcode=wire.NOTIFY), wire.NOTIMP)
    answered(pithd, via, query(unique(), wire.AXFR, opt(do=do)), wire.NOTIMP)
    answered(pithd, via, query(unique("rcode-2"), opt=opt(do=do)), SERVFAIL)


@pytest.mark.parametrize("version", [1, 2, 255])
def test_row_37_version(pithd, up, via, unique, version):
    name = unique()
    answer = answered(pithd, via, query(name, opt=opt(version=version)), BADVERS)
    assert not answer.answer and not up.asked(name)


BAD_OPT = {
    "two": opt() + opt(),
    "owner": opt(owner=b"\x01x\0"),
    "rdlength": opt()[:-2] + b"\xff\xff",
    "rdlength-short": opt(option(PADDING, b"1234"))[:-3],
    "option": opt(struct.pack(">HH", 65001, 100) + b"123456"),
    "option-head": opt(b"\0\x0c\0"),
    "option-last": opt(option(65001, b"1"), struct.pack(">HH", 65002, 1)),
}


@pytest.mark.parametrize("bad", BAD_OPT)
def test_row_38_malformed_opt(pithd, up, via, unique, bad):
    name = unique()
    message = query(name, opt=BAD_OPT[bad])
    if bad == "two":
        message = message[:10] + b"\0\2" + message[12:]
    answer = pithd.ask(via, message)
    assert (answer.rcode, answer.id) == (FORMERR, struct.unpack(">H", message[:2])[0])
    assert not up.asked(name)


def test_opt_among_other_records(pithd, via, unique):
    """OPT need not be the only additional record; what else stands there is nobody's matter."""
    extra = wire.rr(b"\0", wire.A, 0, b"\x7f\0\0\1")
    message = query(unique(), opt=extra + opt())
    message = message[:10] + b"\0\2" + message[12:]
    answer = pithd.ask(via, message)
    assert answer.rcode in (wire.NOERROR, FORMERR) and (answer.rcode or answer.opt)


def test_unknown_options_and_flags(pithd, up, via, unique):
    """They are neither answered nor sent on."""
    name = unique()
    message = query(name, opt=opt((65001, b"who"), (NSID, b""), (COOKIE, b"12345678")))
    message = message.replace(struct.pack(">HHBBH", wire.OPT, 1232, 0, 0, 0),
                              struct.pack(">HHBBH", wire.OPT, 1232, 0, 0, 0x7fff))
    answer = answered(pithd, via, message)
    assert answer.opt.get(65001) is None and answer.opt.get(NSID) is None
    ask, = up.asked(name)
    assert not ask.message.opt or not {65001, NSID, COOKIE} & {
        code for code, _ in ask.message.opt.options}


def test_options_of_the_upstream_end_here(pithd, up, via, unique):
    name = unique("options")
    for _ in range(2):
        answer = answered(pithd, via, query(name, opt=opt()))
        assert answer.opt.options == []
    answered(pithd, via, query(name))
    answered(pithd, via, query(unique("options")))
    assert len(up.asked(name)) == 1


# ---- padding, keepalive, cookies

@pytest.mark.parametrize("label", ["a", "sets-20", "nx", "rcode-2"])
def test_row_70_padding(pithd, via, unique, label):
    """Blocks of 468 (RFC 8467 section 4.1) where it is encrypted and asked for; else none,
    whoever asked before."""
    name = unique(label)
    padded = query(name, opt=opt((PADDING, b"")))
    bare = query(name, opt=opt())
    longer = query(name, opt=opt((PADDING, b"0" * 99)))
    for message in (padded, bare, padded, query(name), longer):
        answer = fits(pithd.ask(via, message), message, via)
        asked = wire.Message(message).opt
        if asked and asked.options and via in ENCRYPTED:
            assert len(answer.wire) % 468 == 0
            assert not answer.opt.get(PADDING).strip(b"\0")
        else:
            assert not answer.opt or answer.opt.get(PADDING) is None


def test_row_70_padding_of_errors(pithd, via, unique):
    """Answers that never saw the cache as well."""
    for message in (query(unique(), opt=opt((PADDING, b"")), qclass=wire.CH),
                    query(unique(), opt=opt((PADDING, b"")), opcode=wire.STATUS),
                    query("localhost", opt=opt((PADDING, b"")))):
        answer = pithd.ask(via, message)
        assert (len(answer.wire) % 468 == 0) == (via in ENCRYPTED)


def test_row_70_padding_and_what_fits(pithd, via, unique):
    """Padding never makes an answer too big."""
    name = unique("big-64800")
    answer = answered(pithd, "dot", query(name, wire.TXT, opt((PADDING, b""))))
    assert len(answer.wire) <= 65535


def test_row_29_keepalive(pithd, via, unique):
    """Back on TCP and DoT when asked (RFC 7828), in units of 100 ms; never on UDP and HTTP."""
    answer = answered(pithd, via, query(unique(), opt=opt((KEEPALIVE, b""))))
    value = answer.opt.get(KEEPALIVE)
    if via in ("tcp", "dot"):
        assert struct.unpack(">H", value) == (300,)
    else:
        assert value is None
    assert answered(pithd, via, query(unique(), opt=opt())).opt.get(KEEPALIVE) is None


@pytest.mark.parametrize("via", ["tcp", "dot"])
def test_row_29_keepalive_with_a_value(pithd, via, unique):
    """A client must not give one: ignored or FORMERR, and the connection goes on."""
    message, after = query(unique(), opt=opt((KEEPALIVE, b"\0\2"))), query(unique())
    with clients.Client(pithd, via) as client:
        assert client.ask(message).rcode in (wire.NOERROR, FORMERR)
        fits(client.ask(after), after, via)


def cookie_of(pithd, name, data, rcode=wire.NOERROR):
    return answered(pithd, "udp", query(name, opt=opt((COOKIE, data))), rcode).opt.get(COOKIE)


def test_cookies(pithd, unique):
    """A server cookie for the client's (RFC 7873, 9018), the same for the same client, which
    is taken back; another for another."""
    mine, yours = b"8 octets", b"OTHEROCT"
    first = cookie_of(pithd, unique(), mine)
    assert first[:8] == mine and len(first) == 24
    again = cookie_of(pithd, unique(), first)
    assert again[:8] == mine and len(again) == 24
    other = cookie_of(pithd, unique(), yours)
    assert other[:8] == yours and other[8:] != first[8:]
    forged = cookie_of(pithd, unique(), mine + b"\1\0\0\0" + b"\0" * 12)
    assert forged[:8] == mine and forged[8:] != b"\1\0\0\0" + b"\0" * 12


@pytest.mark.parametrize("octets", [0, 7, 9, 15, 41])
def test_cookie_of_a_wrong_length(pithd, up, unique, octets):
    name = unique()
    message = query(name, opt=opt((COOKIE, b"c" * octets)))
    assert pithd.ask("udp", message).rcode == FORMERR
    assert not up.asked(name)


# ---- extended errors

def test_ede_of_the_upstream(pithd, up, via, unique):
    """Passed on to EDNS clients, from the cache too, with its text; others get the RCODE."""
    name = unique("ede-2-6-bad-signature")
    for _ in range(2):
        answer = answered(pithd, via, query(name, opt=opt()), SERVFAIL)
        assert 6 in answer.ede
        assert struct.pack(">H", 6) + b"bad signature" in [
            data for code, data in answer.opt.options if code == wire.EDE]
    answered(pithd, via, query(name), SERVFAIL)
    assert len(up.asked(name)) == 1


def test_ede_beside_an_answer(pithd, via, unique):
    name = unique("ede-0-4-forged")
    for _ in range(2):
        answer = answered(pithd, via, query(name, opt=opt()), addresses=["192.0.2.1"])
        assert 4 in answer.ede


def test_row_17_servfail_over_http(pithd, unique, via):
    """A SERVFAIL is a DNS answer: status 200 where there is one, question and OPT kept."""
    answered(pithd, via, query(unique("rcode-2"), opt=opt()), SERVFAIL)
    answered(pithd, via, query(unique("rcode-5")), REFUSED)


def test_cached_error_says_so(pithd, up, via, unique):
    """The second SERVFAIL comes from the cache, with EDE 13 (RFC 8914 section 4.14)."""
    name = unique("rcode-2")
    answered(pithd, via, query(name, opt=opt()), SERVFAIL)
    asks = len(up.asked(name))
    answer = answered(pithd, via, query(name, opt=opt()), SERVFAIL)
    assert wire.EDE_CACHED_ERROR in answer.ede
    assert len(up.asked(name)) == asks


# ---- DO, CD, AD

def test_dnssec_records_only_to_do(pithd, up, via, unique):
    """DO and not DO are two answers; nobody gets signatures who did not ask."""
    name = unique("dnssec")
    for do in (True, False, True, False):
        answer = answered(pithd, via, query(name, opt=opt(do=do)), addresses=["192.0.2.1"])
        assert (RRSIG in [r.type for r in answer.answer]) == do
    answer = answered(pithd, via, query(name))
    assert RRSIG not in [r.type for r in answer.answer]
    assert {bool(ask.message.opt and ask.message.opt.do) for ask in up.asked(name)} == {
        True, False}


def test_signatures_nobody_asked_for(pithd, via, unique):
    name = unique("sigs")
    for message in (query(name), query(name, opt=opt()), query(name)):
        answer = answered(pithd, via, message, addresses=["192.0.2.1"])
        assert RRSIG not in [r.type for r in answer.answer]


def test_signatures_asked_for_by_type(pithd, up, via, unique):
    name = unique("sigs")
    answer = answered(pithd, via, query(name, RRSIG))
    assert RRSIG in [r.type for r in answer.answer]


@pytest.mark.parametrize("first", [CD, 0])
def test_row_47_checking_disabled(pithd, up, via, unique, first):
    """What came with CD=1 is never the answer to CD=0, nor the other way round."""
    name = unique("bogus")
    for flags in (first, CD - first, first, CD - first):
        if flags:
            answered(pithd, via, query(name, flags=RD | CD), addresses=["203.0.113.66"])
        else:
            answered(pithd, via, query(name, flags=RD), SERVFAIL)
    answer = answered(pithd, via, query(name, flags=RD | CD))
    assert answer.has(CD)


def test_row_49_authentic_data(pithd, up, via, unique):
    """AD from a trusted upstream to who set AD or DO, to nobody else; it is always asked."""
    name = unique("ad")
    for message, given in ((query(name, flags=RD | AD), True), (query(name), False),
                           (query(name, opt=opt()), False),
                           (query(name, opt=opt(do=True)), True),
                           (query(name, flags=RD | AD), True), (query(name), False)):
        assert answered(pithd, via, message).has(AD) == given
    assert all(ask.message.has(AD) for ask in up.asked(name))
    assert not answered(pithd, via, query(unique(), flags=RD | AD)).has(AD)


def test_row_49_untrusted_upstream(distrustful, via, unique):
    name = unique("ad")
    for message in (query(name, flags=RD | AD), query(name, opt=opt(do=True))):
        assert not answered(distrustful, via, message).has(AD)

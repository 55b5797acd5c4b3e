"""Upstreams over TLS: the same records, strict certificates, and recovery."""

import base64
import hashlib
import subprocess
import time

import pytest

import test_answers
import wire
import zone
from checks import answered
from servers import UPSTREAM_NAME, Unbound, one_upstream, upstreams
from wire import SERVFAIL, opt, query

TIMES = "{ timeout: 2s, tries: 2, deadline: 5s }"


def by_name(address, certificates):
    """YAML of a TLS upstream that has to have the right name and CA."""
    return one_upstream(address, "tls", tls_name=UPSTREAM_NAME, ca=certificates.ca)


@pytest.fixture
def own(start_upstream):
    """A scripted upstream whose certificate a test may change."""
    return start_upstream()


def pin_of(certificate):
    """sha256/BASE64 of the public key in a PEM file."""
    key = subprocess.run(["openssl", "x509", "-in", certificate, "-pubkey", "-noout"],
                         check=True, capture_output=True).stdout
    der = subprocess.run(["openssl", "pkey", "-pubin", "-outform", "der"], input=key,
                         check=True, capture_output=True).stdout
    return "sha256/" + base64.b64encode(hashlib.sha256(der).digest()).decode()


def fails(daemon, name):
    answer = answered(daemon, "dot", query(name, opt=opt()), SERVFAIL)
    assert set(answer.ede) & {wire.EDE_NO_REACHABLE, wire.EDE_NETWORK}


def comes_again(daemon, unique, seconds=6):
    """Answers are back within the time that a probe may take."""
    deadline = time.monotonic() + seconds
    while daemon.ask("dot", query(unique(), opt=opt())).rcode:
        assert time.monotonic() < deadline, "no answers again"


def test_same_records_through_unbound(daemons, nsd, certificates, tmp_path):
    """unbound in front of nsd, asked over TLS."""
    unbound = Unbound(str(tmp_path), nsd.address, certificates.upstream)
    daemon = daemons(upstreams=f"[ {by_name(unbound.tls_address, certificates)} ]",
                     upstream=TIMES)
    questions = zone.questions()
    expected = test_answers.reference("kdig", nsd, questions)
    line = test_answers.command("kdig +https", daemon.doh, daemon.ca)
    first = test_answers.run(line, questions)
    before = nsd.queries()
    for question, got, right in zip(questions, first, expected):
        assert test_answers.records(got) == test_answers.records(right), question
    daemon.advance(5000)
    for got, earlier in zip(test_answers.run(line, questions), first):
        assert test_answers.records(got) == test_answers.records(earlier)
    assert nsd.queries() == before
    daemon.stop()
    unbound.stop()


@pytest.mark.parametrize("wrong", ["wrong_name", "unknown_ca"])
def test_wrong_certificate(daemons, own, certificates, unique, wrong):
    """SERVFAIL with EDE, not one question told to the impostor; answers again, without a
    restart, once the certificate is right."""
    own.use_certificate(*getattr(certificates, wrong))
    daemon = daemons(upstreams=f"[ {by_name(own.tls_address, certificates)} ]", upstream=TIMES)
    for _ in range(3):
        fails(daemon, unique())
    assert own.log == [] and own.accepted > 0
    own.use_certificate(*certificates.upstream)
    comes_again(daemon, unique)
    answered(daemon, "dot", query(unique()), addresses=["192.0.2.1"])
    assert {ask.via for ask in own.log} == {"tls"}


def test_certificate_goes_wrong(daemons, own, certificates, unique):
    """A name that was right once does not stay right."""
    daemon = daemons(upstreams=f"[ {by_name(own.tls_address, certificates)} ]", upstream=TIMES)
    answered(daemon, "dot", query(unique()), addresses=["192.0.2.1"])
    own.use_certificate(*certificates.wrong_name)
    own.drop_connections()
    asks = len(own.log)
    fails(daemon, unique())
    assert len(own.log) == asks
    own.use_certificate(*certificates.upstream)
    comes_again(daemon, unique)


def test_pin(daemons, own, certificates, unique):
    """A pin alone is enough; another key is refused."""
    right, wrong = (pin_of(pair[0]) for pair in (certificates.upstream, certificates.server))
    good = daemons(upstreams=upstreams(own.tls_address, "tls", pin=f"[{right}]"),
                   upstream=TIMES)
    answered(good, "dot", query(unique()), addresses=["192.0.2.1"])
    asks = len(own.log)
    bad = daemons(upstreams=upstreams(own.tls_address, "tls", pin=f"[{wrong}]"),
                  upstream=TIMES)
    fails(bad, unique())
    assert len(own.log) == asks


def test_failover_to_the_next(daemons, own, certificates, unique):
    """With one upstream impersonated the other answers, and no question fails."""
    own.use_certificate(*certificates.unknown_ca)
    first, second = by_name(own.tls_address, certificates), one_upstream(own.address)
    daemon = daemons(upstreams=f"[ {first}, {second} ]",
                     upstream="{ policy: ordered, timeout: 1s, tries: 3, deadline: 4s }")
    for _ in range(3):
        answered(daemon, "dot", query(unique()), addresses=["192.0.2.1"])
    assert {ask.via for ask in own.log} == {"udp"}
    own.use_certificate(*certificates.upstream)
    deadline = time.monotonic() + 8
    while own.log[-1].via != "tls":
        assert time.monotonic() < deadline, "the first upstream is not used again"
        answered(daemon, "dot", query(unique()), addresses=["192.0.2.1"])

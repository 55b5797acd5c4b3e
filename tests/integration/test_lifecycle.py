"""SIGTERM and SIGHUP, idle and under load: no accepted question stays without an answer."""

import os
import re
import signal
import ssl
import threading
import time

import pytest

import clients
import wire
from checks import answered, fits
from load import nothing_lost, start_dnsperf
from servers import free_port, upstreams
from wire import REFUSED, query

FRONTS = ("udp", "tcp", "dot", "doh", "doh-get")  # HTTP/1.1 keeps one question in flight


@pytest.fixture(scope="module", params=["1", "2"], ids=["1-worker", "2-workers"])
def workers(request):
    return request.param


# ---- SIGTERM

def test_sigterm_answers_what_is_open(fresh, up, unique, workers):
    """Questions on their way to the upstream on every front end are answered, connections
    end, HTTP/2 with GOAWAY, and nothing new is taken."""
    daemon = fresh(up, workers=workers, upstream="{ timeout: 4s, tries: 1, deadline: 4s }")
    held, opened = [], []
    for via in FRONTS:
        for _ in range(2):
            client = clients.Client(daemon, via)
            messages = [query(unique("held")) for _ in range(10)]
            for message in messages:
                held.append(wire.Message(message).qname)
                up.hold(held[-1])
            client.start(*messages)
            opened.append((client, messages))
    for name in held:
        up.wait_asked(name)
    daemon.signal(signal.SIGTERM)
    refuses(daemon)
    for name in held:
        up.release(name)
    for client, messages in opened:
        for message in messages:
            answer = fits(client.finish(message), message, client.via)
            assert answer.addresses == ["192.0.2.1"]
        if client.via in ("tcp", "dot"):
            assert client.connection.at_end()
        if client.via in ("doh", "doh-get"):
            assert client.connection.ends().error_code == 0
    daemon.stop()


def refuses(daemon, seconds=3):
    """Waits until new connections are refused."""
    deadline = time.monotonic() + seconds
    while True:
        try:
            clients.Stream(daemon.dns, timeout=1).close()
        except (clients.Closed, OSError):
            return
        assert time.monotonic() < deadline, "new connections are still taken"


def test_sigterm_waits_five_seconds_at_most(fresh, up, unique):
    """For an upstream that never answers."""
    daemon = fresh(up, upstream="{ timeout: 30s, tries: 1, deadline: 30s }")
    message = query(unique("drop"))
    with clients.Client(daemon, "dot") as client:
        client.start(message)
        up.wait_asked(wire.Message(message).qname)
        start = time.monotonic()
        daemon.stop()
        assert 0 < time.monotonic() - start < 7


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_end_while_idle(fresh, up, unique, number):
    """At once, however many connections rest there, of clients that do not even notice."""
    daemon = fresh(up)
    opened = [clients.Client(daemon, via) for via in ("tcp", "dot", "doh", "doh-h1") * 3]
    for client in opened:
        client.ask(query(unique()))
    start = time.monotonic()
    daemon.signal(number)
    daemon.stop()
    assert time.monotonic() - start < 1.5


def test_sigterm_under_load(fresh, up, unique, workers):
    """Clients that ask all the time over HTTP/2: every stream that GOAWAY says was taken is
    answered. Over TLS: an answer or the end of the stream, never silence."""
    daemon = fresh(up, workers=workers)
    name, faults, counts = unique(), [], []
    answered(daemon, "udp", query(name))
    ending = threading.Event()

    def load(via):
        client, done = clients.Client(daemon, via), 0
        try:
            while True:
                messages = [query(name if i % 4 else unique()) for i in range(20)]
                client.start(*messages)
                for message in messages:
                    answer = fits(client.finish(message), message, via)
                    assert answer.addresses == ["192.0.2.1"]
                    done += 1
        except clients.Closed:
            if not ending.is_set():
                faults.append(f"{via}: closed before the end")
            goaway = client.connection.goaway if via == "doh" else None
            if via == "doh" and goaway is None:
                faults.append("no GOAWAY")
            elif goaway and [s for s in client.open.values() if s <= goaway.last_stream_id
                             and s in client.connection.responses]:
                faults.append(f"streams up to {goaway.last_stream_id} taken: {client.open}")
        except Exception as fault:
            faults.append(f"{via}: {fault!r}")
        counts.append(done)
    threads = [threading.Thread(target=load, args=(via,)) for via in ("doh", "dot") * 3]
    for thread in threads:
        thread.start()
    up.wait_asked(n=len(up.log) + 200)
    ending.set()
    daemon.signal(signal.SIGTERM)
    for thread in threads:
        thread.join(15)
    daemon.stop()
    assert faults == [] and min(counts) > 0


# ---- SIGHUP

def test_sighup_keeps_all(fresh, up, unique, workers):
    """Connections, questions on their way, and the cache."""
    daemon = fresh(up, workers=workers, upstream="{ timeout: 4s, tries: 1, deadline: 4s }")
    kept, opened = unique(), []
    for via in FRONTS:
        client = clients.Client(daemon, via)
        client.ask(query(kept))
        message = query(unique("held"))
        up.hold(wire.Message(message).qname)
        client.start(message)
        up.wait_asked(wire.Message(message).qname)
        opened.append((client, message))
    for _ in range(3):
        daemon.reload()
    for client, message in opened:
        client.ask(query(kept))
        client.ask(query(unique()))
        up.release(wire.Message(message).qname)
        fits(client.finish(message), message, client.via)
    assert len(up.asked(kept)) == 1
    daemon.stop()


def test_sighup_under_load(fresh, up, unique, workers, tmp_path):
    """Ten reloads while dnsperf asks over every front end: nothing lost, nothing failed."""
    daemon = fresh(up, workers=workers)
    names = tmp_path / "names"
    names.write_text("".join(f"{unique('ttl-60')} A\n" for _ in range(200)))
    since = len(up.log)
    runs = [start_dnsperf(daemon, mode, 2, str(names)) for mode in ("udp", "tcp", "dot", "doh")]
    up.wait_asked(n=100, since=since)
    for _ in range(10):
        daemon.reload()
    ended = [run for run in runs if run.poll() is not None]
    for run in runs:
        nothing_lost(run)
    assert not ended, "the load ended before the reloads did"
    daemon.stop()


def test_sighup_changes_the_config(fresh, up, start_upstream, unique):
    """Access, local data and upstreams are the new ones from then on."""
    other = start_upstream()
    daemon = fresh(up)
    answered(daemon, "dot", query(unique()), addresses=["192.0.2.1"])
    daemon.write_config(
        upstreams=upstreams(other.address),
        local='[ "router.lan A 192.168.1.1" ]', access="{ allow: [127.0.0.1/32] }")
    daemon.reload()
    name = unique()
    answered(daemon, "dot", query(name), addresses=["192.0.2.1"])
    assert len(other.asked(name)) == 1 and not up.asked(name)
    answered(daemon, "dot", query("router.lan"), addresses=["192.168.1.1"], local=True)
    answered(daemon, "udp", query(name), REFUSED, source="127.0.0.2")


def test_sighup_changes_listeners(fresh, up, unique):
    """A listener that is new is there, one that is gone is not; the others never closed."""
    daemon = fresh(up)
    old = clients.Client(daemon, "tcp")
    old.ask(query(unique()))
    more = free_port()
    daemon.write_config(
        listen='{ dns: [ {address: "127.0.0.1:$dns"}, '
               f'{{address: "127.0.0.1:{more}"}} ] }}')
    daemon.reload()
    old.ask(query(unique()))
    gone = daemon.dot
    daemon.dns = ("127.0.0.1", more)
    answered(daemon, "udp", query(unique()), addresses=["192.0.2.1"])
    answered(daemon, "tcp", query(unique()), addresses=["192.0.2.1"])
    with pytest.raises((clients.Closed, OSError)):
        clients.Stream(gone)


@pytest.mark.parametrize("how", ["syntax", "unknown key", "missing"])
def test_sighup_with_a_bad_config(fresh, up, unique, how):
    """The old one goes on, and the log says why with file and line."""
    daemon = fresh(up)
    if how == "missing":
        os.unlink(daemon.config)
    else:
        with open(daemon.config, "a", encoding="ascii") as file:
            file.write("listen: [ {\n" if how == "syntax" else "worker: 2\n")
    since = len(daemon.lines)
    daemon.signal(signal.SIGHUP)
    daemon.wait_line(r"pith\.yaml(:\d+)?: ", since=since)
    for via in FRONTS:
        answered(daemon, via, query(unique()), addresses=["192.0.2.1"])
    daemon.write_config(local='[ "router.lan A 192.168.1.1" ]')
    daemon.reload()
    answered(daemon, "udp", query("router.lan"), addresses=["192.168.1.1"], local=True)


# ---- certificates

def served(daemon, address):
    """The certificate, as DER, that a new connection gets."""
    context = clients.tls_context()
    with clients.Stream(address, context, daemon.name) as stream:
        return stream.socket.getpeercert(binary_form=True)


def der(pem):
    with open(pem, encoding="ascii") as file:
        return ssl.PEM_cert_to_DER_cert(file.read())


def test_sighup_loads_certificates(fresh, up, certificates, unique):
    """New connections get the new certificate, old ones go on."""
    daemon = fresh(up)
    opened = [clients.Client(daemon, via, ca=daemon.ca) for via in ("dot", "doh", "doh-h1")]
    for address in (daemon.dot, daemon.doh):
        assert served(daemon, address) == der(certificates.server[0])
    daemon.install_certificate(certificates.server2)
    daemon.reload()
    for address in (daemon.dot, daemon.doh):
        assert served(daemon, address) == der(certificates.server2[0])
    for client in opened:
        client.ask(query(unique()))


def test_sighup_with_a_bad_certificate(fresh, up, certificates, unique):
    """The old one goes on, and the log says so."""
    daemon = fresh(up)
    with open(daemon.certificate, "w", encoding="ascii") as file:
        file.write("no certificate\n")
    since = len(daemon.lines)
    daemon.signal(signal.SIGHUP)
    daemon.wait_line(re.escape(daemon.certificate), since=since)
    assert served(daemon, daemon.dot) == der(certificates.server[0])
    answered(daemon, "doh", query(unique()), addresses=["192.0.2.1"])
    daemon.install_certificate(certificates.server2)
    daemon.reload()
    assert served(daemon, daemon.dot) == der(certificates.server2[0])

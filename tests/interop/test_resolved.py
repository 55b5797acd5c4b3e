"""systemd-resolved, run by hand, in each of the ways it may be told to use pithd."""

import os
import re
import shutil
import subprocess
import time

import pytest

import clients
import wire
from servers import HOST, NAME, Process, free_port, upstreams

BINARIES = ["/lib/systemd/systemd-resolved",
            os.path.join(os.environ.get("top_builddir", "."),
                         "tests/interop/resolved/lib/systemd/systemd-resolved")]
DROP_IN = "/etc/systemd/resolved.conf.d"
IDLE = 11  # seconds; it closes connections after 10 without traffic


class Resolved(Process):
    """A systemd-resolved without cache of its own, that listens on a port of ours."""

    def __init__(self, dns, over_tls, extra=""):
        self.port = free_port()
        self.dns = (HOST, self.port)
        os.makedirs(DROP_IN, exist_ok=True)
        with open(f"{DROP_IN}/pith.conf", "w", encoding="ascii") as file:
            file.write(f"[Resolve]\nDNS={dns}\nFallbackDNS=\nDomains=~.\nDNSOverTLS={over_tls}\n"
                       f"DNSSEC=allow-downgrade\nCache=no\nMulticastDNS=no\nLLMNR=no\n"
                       f"DNSStubListener=no\nDNSStubListenerExtra=udp:{HOST}:{self.port}\n{extra}")
        binary = next((x for x in BINARIES if os.access(x, os.X_OK)), None)
        if binary is None:
            pytest.skip("systemd-resolved is not here")
        shutil.rmtree("/run/systemd/resolve", ignore_errors=True)
        super().__init__([binary], {"SYSTEMD_LOG_LEVEL": "debug", "SYSTEMD_LOG_TARGET": "console"})
        self.wait_up()

    def wait_up(self):
        deadline = time.monotonic() + 30
        while True:
            try:
                self.ask("localhost", timeout=0.3)
                return
            except (clients.NoAnswer, clients.Closed):
                assert self.process.poll() is None and time.monotonic() < deadline, self.log
                time.sleep(0.02)  # a socket that is not there yet says nothing

    def ask(self, name, qtype=wire.A, timeout=15.0):
        with clients.Udp(self.dns) as udp:
            udp.send(wire.query(name, qtype, wire.opt()))
            return wire.Message(udp.recv(timeout))

    def stop(self):
        self.kill()


@pytest.fixture
def resolved():
    started = []

    def start(*arguments, **keys):
        started.append(Resolved(*arguments, **keys))
        return started[-1]
    yield start
    for one in started:
        one.stop()


@pytest.fixture(scope="module", autouse=True)
def trust(certificates):
    """The CA among the system's, as update-ca-certificates does it."""
    shutil.copyfile(certificates.ca, "/usr/local/share/ca-certificates/pith-test.crt")
    subprocess.run(["update-ca-certificates"], check=True, capture_output=True)


MODES = {
    "strict-by-name": ("dot", f"#{NAME}", "yes"),
    "strict-by-address": ("dot", "", "yes"),
    "opportunistic": ("dot", f"#{NAME}", "opportunistic"),
    "plain": ("dns", "", "no"),
}


def told(daemon, mode):
    """DNS= and DNSOverTLS= of a mode."""
    front, name, over_tls = MODES[mode]
    return f"{HOST}:{daemon.ports[front]}{name}", over_tls


KINDS = [("web", wire.A, 0), ("nx", wire.A, 3), ("big-3000", wire.TXT, 0), ("nodata", wire.AAAA, 0),
         ("ttl-0", wire.A, 0)]


@pytest.mark.parametrize("mode", MODES)
def test_stays_at_its_best(daemon, resolved, upstream, mode):
    """200 queries of all sorts, a reload, a restart and an outage of the upstream leave it where
    it began: it never falls back to a lesser way of asking."""
    daemon = daemon(cache="{ prefetch: false, serve-stale: { max-age: 1d, client-timeout: 100ms } }")
    server = resolved(*told(daemon, mode))
    for i in range(200):
        label, qtype, rcode = KINDS[i % len(KINDS)]
        answer = server.ask(f"{label}.n{i % 70}.{mode}.site.test", qtype)
        assert answer.rcode == rcode, (i, answer)
    assert "done" in daemon.reload()
    assert server.ask(f"web.reload.{mode}.site.test").addresses == [HOST]

    upstream.down()
    daemon.advance(400_000)  # past the TTL
    assert server.ask(f"web.n0.{mode}.site.test").addresses == [HOST]  # stale
    assert server.ask(f"web.outage.{mode}.site.test").rcode == 2
    upstream.up()
    daemon.advance(10_000)   # past the memory of the failure
    deadline = time.monotonic() + 15
    while server.ask(f"web.outage.{mode}.site.test").rcode:
        assert time.monotonic() < deadline
    before = server.log
    daemon.restart()
    assert server.ask(f"web.restart.{mode}.site.test").addresses == [HOST]
    assert "egraded feature set" not in before, before


def test_wrong_name(daemon, resolved, upstream):
    """Strict means strict: no question goes to a server by another name."""
    daemon = daemon()
    server = resolved(f"{HOST}:{daemon.ports['dot']}#wrong.pith.test", "yes")
    try:
        assert server.ask("web.wrong.site.test", timeout=5).rcode == 2
    except clients.NoAnswer:
        pass  # it goes on trying
    assert not upstream.asked("web.wrong.site.test")
    server.wait_line("hostname mismatch|certificate verify failed")


def test_idle(daemon, resolved):
    """It closes an idle connection and opens another without a word."""
    daemon = daemon()
    server = resolved(*told(daemon, "strict-by-name"))
    assert server.ask("web.idle1.site.test").addresses == [HOST]
    time.sleep(IDLE)
    assert server.ask("web.idle2.site.test").addresses == [HOST]
    assert "egraded feature set" not in server.log


def datagrams():
    """UDP datagrams received so far in this network namespace, whoever got them."""
    with open("/proc/net/snmp", encoding="ascii") as file:
        names, values = (line.split() for line in file if line.startswith("Udp:"))
    return int(values[names.index("InDatagrams")])


def test_loop(daemon, resolved, upstream):
    """resolved asks pithd, which asks the stub of resolved: SERVFAIL on either side, one line that
    says why, no storm; and all is well as soon as pithd has another upstream."""
    daemon = daemon(upstreams=upstreams(("127.0.0.53", 53), "udp"))
    server = resolved(f"{HOST}:{daemon.ports['dns']}", "no", "DNSStubListener=yes\n")
    asked = 20
    before = datagrams()
    for i in range(asked // 2):
        assert daemon.ask("udp", wire.query(f"web.pith{i}.loop.test"), timeout=20).rcode == 2
        assert server.ask(f"web.resolved{i}.loop.test", timeout=30).rcode == 2
    told = [line for line in daemon.lines if "loop" in line]
    assert len(told) == 1, daemon.log
    assert re.search(r"upstream 127\.0\.0\.53(:53)? \(udp\) is down: a loop", told[0]), told
    went = datagrams() - before
    assert went < 20 * asked, went

    daemon.write_config(upstreams=upstreams(upstream.address, "tcp"))
    assert "done" in daemon.reload()
    assert daemon.ask("udp", wire.query("web.open.loop.test")).addresses == [HOST]
    deadline = time.monotonic() + 20
    while server.ask("web.open2.loop.test").rcode:
        assert time.monotonic() < deadline, server.log
    before = datagrams()
    assert server.ask("web.open3.loop.test").addresses == [HOST]
    assert datagrams() - before < 10

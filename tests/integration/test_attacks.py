"""Attacks of every kind beside a good client, which must not notice: no failure, and the memory
they took comes back.

Each attack goes on for about a second; PITH_TEST_ATTACK_SECONDS makes it longer, and then the
good client's time to an answer (99th percentile) is compared with what it is beside lawful
traffic of the same rate, and a table is printed. PITH_TEST_IDLE_CONNECTIONS=10000 adds the test
of that many idle connections. Where taskset is, the longer runs keep server and clients on
processors of their own.
"""

import gc
import json
import os
import random
import re
import resource
import shutil
import subprocess
import sys
import time

import pytest

import attack_clients
import clients
import wire
from attack_clients import HOT, KINDS
from checks import fits
from wire import NOERROR, query

SECONDS = float(os.environ.get("PITH_TEST_ATTACK_SECONDS", "0"))
IDLE = int(os.environ.get("PITH_TEST_IDLE_CONNECTIONS", "0"))
GROWTH = 5 << 20  # octets of resident memory that an attack may leave behind
SLOWER = 3        # how many times

ATTACKS = [name for name in KINDS if not name.startswith("lawful")]
VIAS = ("udp", "tcp", "dot", "doh", "doh-h1")
RATE = 100        # questions a second of the good client
GOOD = "127.0.0.3"

LIMITS = ("{ connections: 300, connections-per-client: 40, streams: 20, handshake: 2s, "
          "idle: 5s, read: 1s, write: 1s }")

# Who does this is told to go.
CUT_OFF = {"rapid_reset", "made_you_reset", "continuation_flood", "settings_flood",
           "ping_flood", "empty_frames", "hpack_bomb", "h1_endless_headers",
           "broken_handshakes", "connection_flood", "connection_flood_of_many",
           "half_open_handshakes"}

# With more addresses than the caps have room for, new connections wait for better days.
FULL = {"connection_flood_of_many"}


class GoodClient:
    """Asks at a steady rate over every front end in turn, on connections that stay open, now
    and then on a new one, and now and then for what is not in the cache."""

    def __init__(self, daemon):
        self.daemon, self.held = daemon, {}
        for via in VIAS:
            self._held(via)

    def close(self):
        for client in self.held.values():
            client.__exit__()

    def _held(self, via):
        if via not in self.held:
            self.held[via] = clients.Client(self.daemon, via, GOOD)
        return self.held[via]

    def _ask(self, client, message):
        tries = 3 if client.via == "udp" else 1  # as every stub resolver does
        for left in reversed(range(tries)):
            try:
                answer = client.ask(message, 1.0 if client.via == "udp" else 5.0)
                break
            except clients.NoAnswer:
                if left == 0:
                    raise
        fits(answer, message, client.via)
        assert answer.rcode == NOERROR, answer

    def run(self, going_on, new=True):
        """Until going_on() is false. Returns seconds to each answer from the cache on a
        connection that was there, and what failed."""
        times, failures = [], []
        start, n = time.monotonic(), 0
        while going_on():
            via = VIAS[n % len(VIAS)]
            fresh, miss = new and n % 20 == 19, n % 10 == 4
            n += 1
            time.sleep(max(0.0, start + n / RATE - time.monotonic()))
            name = f"good{random.getrandbits(48):x}.example.com" if miss else HOT
            begin = time.monotonic()
            try:
                if fresh:
                    with clients.Client(self.daemon, via, GOOD) as client:
                        self._ask(client, query(name))
                else:
                    self._ask(self._held(via), query(name))
                    if not miss:
                        times.append(time.monotonic() - begin)
            except (OSError, AssertionError, wire.Malformed, clients.NoAnswer, clients.Closed,
                    clients.HttpStatus) as fault:
                failures.append(f"{via}{' (new)' if fresh else ''}: {fault!r}")
                if not fresh and via in self.held:
                    self.held.pop(via).__exit__()
        return times, failures


def pinned(command, processor):
    """Only where there is something to compare, and processors enough. The good client has the
    same one and comes first there: what is measured is how the server shares."""
    if SECONDS and shutil.which("taskset") and len(os.sched_getaffinity(0)) > 1:
        return ["nice", "-n", "19", "taskset", "-c", str(processor), *command]
    return command


def start_attack(daemon, name, seconds, rate=None):
    ports = [f"{front}={daemon.ports[front]}" for front in ("dns", "dot", "doh")]
    command = [sys.executable, attack_clients.__file__, name, str(seconds), str(rate or 0)]
    return subprocess.Popen(pinned(command + ports, 1), stdout=subprocess.PIPE, text=True)


def processor_time(daemon):
    """Seconds that the daemon has had a processor for."""
    with open(f"/proc/{daemon.pid}/stat", encoding="ascii") as file:
        user, system = file.read().rsplit(")", 1)[1].split()[11:13]
    return (int(user) + int(system)) / os.sysconf("SC_CLK_TCK")


def beside(daemon, good, name, seconds, rate=None):
    """The good client beside that kind: (times, failures, what became of the other)."""
    begin, used = time.monotonic(), processor_time(daemon)
    attack = start_attack(daemon, name, seconds, rate)
    try:
        times, failures = good.run(lambda: attack.poll() is None, name not in FULL)
    finally:
        if attack.poll() is None:
            attack.kill()
    result = json.loads(attack.communicate()[0])
    assert attack.returncode == 0
    result["cpu"] = (processor_time(daemon) - used) / (time.monotonic() - begin)
    return times, failures, result


def p99(times):
    return sorted(times)[len(times) * 99 // 100]


@pytest.fixture(scope="module")
def attacked(daemons, upstream):
    """One worker, which has to do for all, with small caps and short time-outs, and a cache that
    does not grow by more than may be left behind."""
    daemon = daemons(upstream, "tcp", limits=LIMITS, cache="{ memory: 2MiB }",
                     upstream="{ timeout: 1s, tries: 1, deadline: 1s }")
    if SECONDS and shutil.which("taskset") and len(os.sched_getaffinity(0)) > 1:
        subprocess.run(["taskset", "-acp", "0", str(daemon.pid)], check=True,
                       stdout=subprocess.DEVNULL)
        os.sched_setaffinity(0, {1})
    good = GoodClient(daemon)
    for name in ("lawful_h2", "lawful_dot", "lawful_handshakes", "lawful_udp"):
        _, failures, _ = beside(daemon, good, name, 0.3)  # buffers are warm from now on
        assert failures == []
    good.close()
    yield daemon


@pytest.fixture(scope="module")
def baselines(attacked):
    """baselines(name, rate): the good client's 99th percentile beside this lawful traffic, and
    how much of a processor the daemon took."""
    known = {}

    def measure(good, name, rate):
        if (name, rate) not in known:
            times, failures, result = beside(attacked, good, name, SECONDS, rate)
            assert failures == []
            known[name, rate] = p99(times), result["cpu"]
        return known[name, rate]
    return measure


@pytest.fixture(scope="module")
def table(request):
    """Rows, printed at the end."""
    rows = []
    yield rows
    if SECONDS or IDLE:
        capture = request.config.pluginmanager.getplugin("capturemanager")
        with capture.global_and_fixture_disabled():
            print("", *rows, sep="\n")


def settles(daemon, before, seconds=10):
    """How much more is resident, once it is little or time is up."""
    deadline = time.monotonic() + seconds
    while (grown := daemon.resident() - before) >= GROWTH and time.monotonic() < deadline:
        time.sleep(0.05)
    return grown


@pytest.mark.parametrize("name", ATTACKS)
def test_attack(attacked, baselines, table, name):
    kind, good = KINDS[name], GoodClient(attacked)
    try:
        normal, lawful_cpu = (baselines(good, kind.lawful, kind.rate) if SECONDS
                              else (None, 0))
        before = attacked.resident()
        times, failures, result = beside(attacked, good, name, SECONDS or 0.8)
        peak = attacked.resident() - before
    finally:
        good.close()
    grown = settles(attacked, before)
    worst = p99(times)
    row = (f"{name:26} {len(times):4} answers {len(failures)} failures  "
           f"p99 {worst * 1000:6.2f} ms (x {worst / normal if normal else 0:4.2f})  "
           f"processor {result.pop('cpu') * 100:3.0f} % ({lawful_cpu * 100:3.0f} %)  "
           f"{peak / 1024:6.0f} KB, after {grown / 1024:6.0f} KB  {result}")
    table.append(row)
    assert attacked.process.poll() is None, attacked.log
    assert failures == [], row
    assert result["units"] > 0
    assert name not in CUT_OFF or result["ended"] > 0, row
    assert grown < GROWTH, row
    assert normal is None or worst < SLOWER * normal, row


def test_new_connections_afterwards(attacked):
    """Nobody is kept out once the attacks are over."""
    for via in VIAS:
        for source in (GOOD, attack_clients.SOURCE, "127.0.9.1"):
            message = query(HOT)
            assert clients.ask(attacked, via, message, source=source).rcode == NOERROR


@pytest.mark.parametrize("front", ["dot", "doh"])
def test_handshakes_that_do_not_end_elsewhere(attacked, front):
    """As many as there may be, from many addresses, on one listener: those who come to others,
    or to this one, get through."""
    at, held = (attacked.dns[0], attacked.ports[front]), []
    octets = attack_clients.client_hello()
    try:
        for i in range(200):
            held.append(clients.Stream(at, source=f"127.0.9.{1 + i % 20}"))
            held[-1].write(octets[:len(octets) // 2])
        for via in VIAS:
            message = query(HOT)
            assert clients.ask(attacked, via, message, source=GOOD).rcode == NOERROR
    finally:
        for stream in held:
            stream.close()


# ---- many idle connections

def throughput(daemon, seconds=5):
    """Answers a second that h2load gets from the cache."""
    url = f"https://127.0.0.1:{daemon.ports['doh']}{clients.PATH}"
    line = ["h2load", "-c", "4", "-m", "10", "-t", "1", "-D", str(seconds),
            f"{url}?dns={clients.b64url(query(HOT, id=0))}"]
    report = subprocess.run(line, capture_output=True, check=True, text=True).stdout
    assert " 0 failed, 0 errored, 0 timeout" in report, report
    return int(re.search(r"(\d+) 2xx", report)[1]) / seconds


def hold_idle(daemon, number):
    """So many connections over TLS, half DoT and half HTTP/2, none asking."""
    held, contexts = [], {a: clients.tls_context(None, [a]) for a in ("dot", "h2")}
    for i in range(number):
        front, alpn = (("dot", "dot"), ("doh", "h2"))[i % 2]
        held.append(clients.Stream((daemon.dns[0], daemon.ports[front]), contexts[alpn],
                                   daemon.name, f"127.0.{10 + i // 200}.{1 + i % 200}", 20))
        if alpn == "h2":
            held[-1].write(attack_clients.hello())
    return held


if IDLE:
    def test_idle_connections(daemons, upstream, table):
        """Hits are served at 90 % of the normal rate and more beside them."""
        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        assert hard >= IDLE + 200, "too few descriptors"
        resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, IDLE + 200), hard))
        limits = (f"{{ connections: {IDLE + 500}, connections-per-client: 200, idle: 1h, "
                  "read: 10m }")
        daemon = daemons(upstream, "tcp", limits=limits)
        clients.ask(daemon, "doh", query(HOT))
        throughput(daemon, 2)
        before, normal = daemon.resident(), throughput(daemon)
        held = hold_idle(daemon, IDLE)
        gc.collect()
        size, rate = (daemon.resident() - before) / IDLE, throughput(daemon)
        ended = sum(not s.socket.fileno() >= 0 for s in held)
        for stream in held[::97]:
            message = query(HOT)
            if stream.socket.selected_alpn_protocol() == "dot":
                stream.send(message)
                fits(wire.Message(stream.recv()), message, "dot")
        for stream in held:
            stream.close()
        again = throughput(daemon)
        line = (f"{IDLE} idle: {rate:.0f} answers a second, {normal:.0f} before, {again:.0f} "
                f"after; {size:.0f} octets each")
        table.append(line)
        assert ended == 0
        assert rate >= 0.9 * min(normal, again), line

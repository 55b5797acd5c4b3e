"""Every way in which an upstream may misbehave x transport x one or two upstreams, the second of
which is well, through the whole daemon: every question is answered, as well as can be, in
time, and within 2 s of the upstream's being well again there are good answers again.

Cells run some at a time, each with a daemon of its own, since most of a cell is waiting. With
PITH_TEST_MATRIX=long times are those of the default configuration, there are more questions,
two upstreams are asked by each policy, and the table is printed."""

import collections
import concurrent.futures
import os
import queue
import random
import resource
import socket
import threading
import time

import pytest

import clients
import wire
from clients import frame
from scripted import Scripted
from servers import UPSTREAM_NAME, Pithd, free_port, one_upstream
from wire import NOERROR, REFUSED, SERVFAIL, TC, opt, query

LONG = os.environ.get("PITH_TEST_MATRIX") == "long"
TIMEOUT_MS, DEADLINE_MS, SLOW_MS, ASKS = (1300, 4000, 3000, 40) if LONG else (300, 1100, 850, 8)
LATE_MS = 200     # what an answer may come after the deadline
RECOVERY_MS = 2000
AT_ONCE = 12
ATTEMPTS = 3      # when the machine was too busy to tell
BUSY_MS = 60
POISON = "203.0.113.9"

random_octets = random.Random(5).randbytes


# ---- ways, as what becomes of each question

def slow(ask):
    ask.server.loop.call_later(SLOW_MS / 1000, ask.reply, ask.a())


def fin(ask):
    ask.reply(ask.a())
    ask.connection.close()


def rst_mid_message(ask):
    octets = frame(ask.build(ask.a()))
    ask.connection.writer.write(octets[:len(octets) // 2])
    ask.connection.reset()


def coalesced(ask):
    """All that was asked within some milliseconds is answered in one write: one record."""
    batch = ask.connection.batch

    def flush():
        octets = b"".join(frame(a.build(a.a())) for a in batch)
        batch.clear()
        if not ask.connection.writer.is_closing():
            ask.connection.writer.write(octets)
    batch.append(ask)
    if len(batch) == 1:
        ask.server.loop.call_later(0.02, flush)


def truncated(ask):
    if ask.stream:
        ask.reply(ask.a())
    else:
        ask.send(ask.build(ask.a(POISON), flags=TC))


def oversize(ask):
    """More than the size that was asked for, without TC; over TCP what it should be."""
    if ask.stream:
        ask.reply(ask.a())
    else:
        ask.send(ask.build(*[ask.a(POISON)] * 200))


def wrong_question(ask):
    question = wire.name("victim.example.com") + ask.message.question[-4:]
    ask.send(ask.build(ask.a(POISON), question=question))


def wrong_id(ask):
    ask.send(ask.build(ask.a(POISON), id=ask.message.id ^ 0x5555))


def wrong_source(ask):
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as other:
        other.bind((ask.server.address[0], 0))
        other.sendto(ask.build(ask.a(POISON)), ask.peer)


def servfail(ask):
    ask.reply(rcode=SERVFAIL)


def refused(ask):
    ask.reply(rcode=REFUSED)


def garbage(ask):
    """With the right ID, or nobody would look at it."""
    ask.send(ask.octets[:2] + b"\x81\x80" + random_octets(60))


def noise(ask):
    """Not even a message, or its length."""
    octets = random_octets(7)
    if ask.stream:
        ask.connection.writer.write(octets)
    else:
        ask.send(octets)


def loss(ask):
    """Three of ten questions are not heard."""
    if len(ask.server.log) * 3 % 10 >= 3:
        ask.reply(ask.a())


# ---- ways, as what is done to the server

class BlackHole:
    """A port that takes no connection and refuses none: its queue is full."""

    def __init__(self, address):
        self.sockets = [socket.socket()]
        self.sockets[0].setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self.sockets[0].bind(address)
        self.sockets[0].listen(0)
        for _ in range(3):
            self.sockets.append(socket.socket())
            self.sockets[-1].setblocking(False)
            self.sockets[-1].connect_ex(address)

    def close(self):
        for one in self.sockets:
            one.close()


def swallow(cell):
    cell.first.down()
    cell.hole = BlackHole(cell.address(cell.first))


def spit_out(cell):
    cell.hole.close()
    cell.first.up()


def restart(cell):
    cell.first.down()
    cell.first.up()


def impostor(cell):
    cell.first.use_certificate(*cell.certificates.wrong_name)
    cell.first.drop_connections()


def limit_descriptors(cell):
    """Not one more than are open."""
    cell.limit = resource.prlimit(cell.daemon.pid, resource.RLIMIT_NOFILE)
    top = max(map(int, os.listdir(f"/proc/{cell.daemon.pid}/fd")))
    resource.prlimit(cell.daemon.pid, resource.RLIMIT_NOFILE, (top + 1, cell.limit[1]))


def limit_unconnected(cell):
    """And no connection to the upstream is among them."""
    limit_descriptors(cell)
    cell.first.drop_connections()


def unlimit_descriptors(cell):
    resource.prlimit(cell.daemon.pid, resource.RLIMIT_NOFILE, cell.limit)


ALL, STREAMS = ("udp", "tcp", "tls"), ("tcp", "tls")
GOOD, NONE, ANY = {NOERROR}, {SERVFAIL}, {NOERROR, SERVFAIL}


class Way:
    """transports: where it makes sense. one: the RCODEs that one upstream alone leads to.
    bad and well, taking the cell: what is done to the upstream."""

    def __init__(self, name, transports, one, does=None, bad=None, well=None):
        self.name, self.transports, self.one, self.does = name, transports, one, does
        self.bad = bad or (lambda cell: setattr(cell.first, "way", does))
        self.well = well or (lambda cell: None)


WAYS = [
    Way("closed port", ALL, NONE, bad=lambda c: c.first.down(), well=lambda c: c.first.up()),
    Way("silence", ALL, NONE, bad=lambda c: c.first.mute(), well=lambda c: c.first.up()),
    Way("black hole", STREAMS, NONE, bad=swallow, well=spit_out),
    Way("slow", ALL, GOOD, slow),
    Way("FIN after each answer", STREAMS, GOOD, fin),
    Way("RST mid-message", STREAMS, NONE, rst_mid_message),
    Way("close when idle", STREAMS, GOOD, bad=lambda c: c.first.drop_connections()),
    Way("answers in one record", STREAMS, GOOD, coalesced),
    Way("wrong certificate", ("tls",), NONE, bad=impostor,
        well=lambda c: c.first.use_certificate(*c.certificates.upstream)),
    Way("TC", ("udp",), GOOD, truncated),
    Way("oversize", ("udp",), GOOD, oversize),
    Way("wrong question", ALL, NONE, wrong_question),
    Way("wrong ID", ALL, NONE, wrong_id),
    Way("wrong source", ("udp",), NONE, wrong_source),
    Way("SERVFAIL", ALL, {SERVFAIL}, servfail),
    Way("REFUSED", ALL, {REFUSED}, refused),
    Way("garbage", ALL, NONE, garbage),
    Way("noise", ALL, NONE, noise),
    Way("30 % loss", ("udp",), GOOD, loss),
    Way("30 % unanswered", STREAMS, ANY, loss),  # sent again by nobody but us
    Way("restart", ALL, GOOD, bad=restart),
    Way("no descriptors", ALL, GOOD, bad=limit_descriptors, well=unlimit_descriptors),
    Way("no descriptors, closed", STREAMS, GOOD, bad=limit_unconnected,
        well=unlimit_descriptors),
]


class Slot:
    """Ports and upstreams that one cell after the other uses."""

    def __init__(self, certificates):
        self.ports = Pithd.free_ports()
        self.upstreams = [Scripted(free_port(), free_port(), *certificates.upstream)
                          for _ in range(2)]

    def stop(self):
        for upstream in self.upstreams:
            upstream.stop()


class Cell:
    """One way, transport, number of upstreams and policy; what came of it."""

    def __init__(self, way, transport, n, policy):
        self.way, self.transport, self.n, self.policy = way, transport, n, policy
        self.faults, self.rcodes, self.times = [], collections.Counter(), []
        self.asks, self.recovery_ms = 0, None

    @property
    def id(self):
        name = self.way.name.replace(" ", "-")
        return f"{name}-{self.transport}-{self.n}" + (f"-{self.policy}" if LONG else "")

    def row(self):
        names = {NOERROR: "NOERROR", SERVFAIL: "SERVFAIL", REFUSED: "REFUSED"}
        got = ", ".join(f"{n} {names.get(rcode, rcode)}"
                        for rcode, n in sorted(self.rcodes.items()))
        times = sorted(self.times) or [0]
        return (f"| {self.way.name} | {self.transport} | {self.n} | {self.policy} | {got} "
                f"| {times[len(times) // 2]:.0f} | {times[-1]:.0f} | {self.asks} "
                f"| {self.recovery_ms or 0:.0f} | {'; '.join(self.faults) or 'ok'} |")

    def address(self, upstream):
        return upstream.tls_address if self.transport == "tls" else upstream.address

    def run(self, slot, certificates, folder):
        self.certificates = certificates
        self.first = slot.upstreams[0]
        keys = {}
        if self.transport == "tls":
            keys = {"tls_name": UPSTREAM_NAME, "ca": certificates.ca}
        listed = ", ".join(one_upstream(self.address(u), self.transport, **keys)
                           for u in slot.upstreams[:self.n])
        self.daemon = Pithd(folder, certificates, ports=slot.ports, upstreams=f"[ {listed} ]",
                            upstream=f"{{ policy: {self.policy}, timeout: {TIMEOUT_MS}ms, "
                                     f"tries: 3, deadline: {DEADLINE_MS}ms }}")
        try:
            with clients.Client(self.daemon, "tcp") as client:
                self.ask(client)
            self.daemon.stop()
        except (clients.NoAnswer, clients.Closed, AssertionError) as fault:
            self.faults.append(repr(fault))
        finally:
            self.daemon.kill()
            for upstream in slot.upstreams:
                self.faults += upstream.faults
                upstream.faults.clear()
                upstream.way = None
                upstream.use_certificate(*certificates.upstream)
                upstream.up()

    def ask(self, client):
        if self.resolve(client, "warm").rcode != NOERROR:
            self.faults.append("no answer from an upstream that is well")
        since = len(self.first.log)
        self.way.bad(self)
        self.ask_all(client, ["alone0"])
        self.ask_all(client, ["alone1"])
        self.ask_all(client, [f"together{i}" for i in range(ASKS - 2)])
        self.asks = len([a for a in self.first.log[since:] if a.name != "."])
        self.first.way = None
        self.way.well(self)
        self.recover(client)

    def ask_all(self, client, labels):
        """All at once."""
        messages = {i: query(f"{label}.example.com", opt=opt(), id=i)
                    for i, label in enumerate(labels)}
        start = time.monotonic()
        end = start + (DEADLINE_MS + LATE_MS) / 1000 + 2
        client.start(*messages.values())
        while messages:
            answer = wire.Message(client.connection.recv(max(0.001, end - time.monotonic())))
            self.times.append((time.monotonic() - start) * 1000)
            messages.pop(answer.id)
            self.account(answer)

    def account(self, answer):
        self.rcodes[answer.rcode] += 1
        if answer.rcode == NOERROR and set(answer.addresses) != {"192.0.2.1"}:
            self.faults.append(f"wrong answer: {answer}")
        ours = answer.rcode == SERVFAIL and self.way.does is not servfail
        if ours and not set(answer.ede) & {wire.EDE_NO_REACHABLE, wire.EDE_NETWORK}:
            self.faults.append(f"SERVFAIL without a reason: {answer}")

    def resolve(self, client, label):
        return client.ask(query(f"{label}.example.com", opt=opt()),
                          (DEADLINE_MS + LATE_MS) / 1000 + 2)

    def recover(self, client):
        """Other names until one has an answer."""
        start, pause = time.monotonic(), threading.Event()
        for i in range(1000):
            good = self.resolve(client, f"again{i}").rcode == NOERROR
            self.recovery_ms = (time.monotonic() - start) * 1000
            if good or self.recovery_ms > 2 * RECOVERY_MS:
                break
            pause.wait(0.02)

    def judge(self):
        expected = self.way.one if self.n == 1 else GOOD
        if not self.faults and sum(self.rcodes.values()) != ASKS:
            self.faults.append("a question without an answer")
        if not set(self.rcodes) <= expected:
            self.faults.append(f"RCODEs other than {expected}")
        if max(self.times, default=0) > DEADLINE_MS + LATE_MS:
            self.faults.append("late")
        if (self.recovery_ms or 0) > RECOVERY_MS:
            self.faults.append("slow to recover")


class Stalls:
    """How long this process was kept from running, and when."""

    def __init__(self):
        self.seen, self.ended = [], threading.Event()
        threading.Thread(target=self._watch, daemon=True).start()

    def _watch(self):
        before = time.monotonic()
        while not self.ended.wait(0.01):
            now = time.monotonic()
            if (now - before) * 1000 > BUSY_MS:
                self.seen.append(now)
            before = now

    def since(self, start):
        return any(stall >= start for stall in self.seen)


CELLS = [(way, transport, n, policy) for way in WAYS for transport in way.transports
         for n in (1, 2) for policy in
         (("ordered", "fastest", "round-robin") if LONG and n == 2 else ("ordered",))]


@pytest.fixture(scope="module")
def cells(request, certificates, tmp_path_factory):
    """All cells, by ID, run."""
    selected = {item.callspec.params["cell"] for item in request.session.items
                if item.module is request.module}
    slots, stalls = queue.SimpleQueue(), Stalls()
    owned = [Slot(certificates) for _ in range(AT_ONCE)]
    for slot in owned:
        slots.put(slot)

    def run(place):
        slot = slots.get()
        for _ in range(ATTEMPTS):
            cell, start = Cell(*place), time.monotonic()
            cell.run(slot, certificates, str(tmp_path_factory.mktemp("matrix")))
            cell.judge()
            if not cell.faults or not stalls.since(start):
                break
        slots.put(slot)
        return cell
    with concurrent.futures.ThreadPoolExecutor(AT_ONCE) as pool:
        done = list(pool.map(run, [p for p in CELLS if Cell(*p).id in selected]))
    stalls.ended.set()
    for slot in owned:
        slot.stop()
    print_table(request, done)
    return {cell.id: cell for cell in done}


def print_table(request, done):
    head = ("upstream is at fault", "transport", "upstreams", "policy", "answers", "median ms",
            "worst ms", "asks seen", "good again after ms", "")
    lines = ["", f"| {' | '.join(head)} |", "|---" * len(head) + "|",
             *(cell.row() for cell in done)]
    if not LONG:
        print(*lines, sep="\n")
        return
    capture = request.config.pluginmanager.getplugin("capturemanager")
    with capture.global_and_fixture_disabled():
        print(*lines, sep="\n")


@pytest.mark.parametrize("cell", [Cell(*place).id for place in CELLS])
def test_matrix(cells, cell):
    assert cells[cell].faults == [], cells[cell].row() + "\n" + cells[cell].daemon.log

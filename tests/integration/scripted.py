"""An upstream that does as the name says.

The first label of a question chooses the behaviour, arguments behind hyphens:
`ttl-3.x.example.com` is answered with a TTL of 3, `nx-3600-60.x.example.com` with NXDOMAIN and
a SOA of TTL 3600 and MINIMUM 60. Every question is logged, over which transport and with what
options, so that a test can prove what was asked and what was not. It listens on UDP and TCP
(one port) and TLS (another), can go down and come back, and can hold answers back until told.

One asyncio loop in a thread of its own runs it; the methods of Scripted are for the test's
thread, what takes an Ask runs in the loop.
"""

import asyncio
import hashlib
import ipaddress
import re
import socket
import ssl
import struct
import threading
import time

import wire
from wire import A, AAAA, MX, NS, QR, RA, RD, SOA, TC, TXT, rr

OWNER = 12  # where the question's name stands in a reply

BEHAVIOURS = {}


def behaviour(label):
    """Registers what to do for names whose first label is `label`, with -arguments."""
    def register(function):
        BEHAVIOURS[label] = function
        return function
    return register


class Ask:
    """One question, as it came, and the means to answer it."""

    def __init__(self, server, octets, via, connection, peer, send):
        self.server, self.octets, self.via = server, octets, via
        self.connection, self.peer, self.send = connection, peer, send
        self.time = time.monotonic()
        self.message = wire.Message(octets)
        self.labels = [label.decode("latin-1").lower()
                       for label in self.message.questions[0][0]]
        self.name = ".".join(self.labels) or "."
        self.type = self.message.qtype
        self.zone = ".".join(self.labels[-2:])

    @property
    def stream(self):
        return self.via != "udp"

    @property
    def ecs(self):
        """The data of the client subnet option, None without."""
        return self.message.opt.get(wire.ECS) if self.message.opt else None

    @property
    def size(self):
        return self.message.opt.size if self.message.opt else 512

    def build(self, *answer, authority=(), additional=(), rcode=0, flags=0, options=(),
              id=None, question=None, opt=None):
        """A reply. opt: None answers OPT with OPT, else whether there is one."""
        message = self.message
        if opt or (opt is None and message.opt):
            do = bool(message.opt and message.opt.do)
            additional = [*additional, wire.opt(*options, do=do, rcode=rcode >> 4)]
        flags |= QR | RA | (message.flags & (RD | wire.CD)) | rcode & 15
        return wire.message(message.id if id is None else id, flags,
                            message.question if question is None else question,
                            answer, authority, additional)

    def reply(self, *answer, **how):
        """Sends a reply; over UDP an empty one with TC when it is too big."""
        octets = self.build(*answer, **how)
        if not self.stream and len(octets) > self.size:
            octets = self.build(flags=TC)
        self.send(octets)

    def a(self, address="192.0.2.1", ttl=300, owner=OWNER):
        return rr(owner, A, ttl, ipaddress.ip_address(address).packed)

    def soa(self, ttl=3600, minimum=60):
        return rr(self.zone, SOA, ttl, wire.soa_rdata(self.zone, minimum=minimum))

    def __repr__(self):
        return f"<{self.via} {self.name} {self.type} flags {self.message.flags:#06x}>"


def address_of(ask):
    """An address that tells client subnets apart: 10/8 and a digest of the option sent."""
    if ask.ecs is None:
        return "192.0.2.10"
    return str(ipaddress.ip_address(b"\x0a" + hashlib.sha256(ask.ecs).digest()[:3]))


def subnet_address(option):
    """What address_of() answers to (code, data)."""
    return str(ipaddress.ip_address(b"\x0a" + hashlib.sha256(option[1]).digest()[:3]))


# ---- plain answers

def plain(ask):
    """Something for every type; NODATA for those not named."""
    zone = ask.zone
    records = {
        A: [ask.a()],
        AAAA: [rr(OWNER, AAAA, 300, ipaddress.ip_address("2001:db8::1").packed)],
        TXT: [rr(OWNER, TXT, 300, b"\x08scripted")],
        NS: [rr(OWNER, NS, 300, wire.name(f"{c}.ns.{zone}")) for c in "ab"],
        MX: [rr(OWNER, MX, 300, b"\0\x0a" + wire.name("mx." + zone))],
        SOA: [ask.soa(300)],
    }.get(ask.type)
    if records:
        ask.reply(*records)
    else:
        ask.reply(authority=[ask.soa()])


@behaviour("ttl")
def answer_ttl(ask, ttl):
    ask.reply(ask.a(ttl=int(ttl)))


@behaviour("count")
def answer_count(ask, ttl="300"):
    """Another address each time: 10.9.n.n for the n-th question of this name."""
    n = len(ask.server.asked(ask.name))
    ask.reply(ask.a(f"10.9.{n >> 8}.{n & 255}", int(ttl)))


@behaviour("big")
def answer_big(ask, octets):
    """A TXT set of about that many octets."""
    ask.reply(*[rr(OWNER, TXT, 300, b"\xc8%05d" % i + b"t" * 195)
                for i in range(int(octets) // 213 + 1)])


@behaviour("sets")
def answer_sets(ask, n):
    """A CNAME and n addresses at its end: two RRsets, the second too big for some."""
    target = wire.name("target." + ask.zone)
    cname = rr(OWNER, wire.CNAME, 300, target)
    ask.reply(cname, *[rr(target, A, 300, struct.pack(">I", 0x0a000000 + i))
                       for i in range(int(n))])


@behaviour("slow")
def answer_slow(ask, ms):
    ask.server.loop.call_later(int(ms) / 1000, ask.reply, ask.a())


# ---- negative answers and failures

@behaviour("nx")
def answer_nx(ask, ttl="3600", minimum="60"):
    ask.reply(rcode=wire.NXDOMAIN, authority=[ask.soa(int(ttl), int(minimum))])


@behaviour("nodata")
def answer_nodata(ask, ttl="3600", minimum="60"):
    ask.reply(authority=[ask.soa(int(ttl), int(minimum))])


@behaviour("nosoa")
def answer_nosoa(ask, rcode="3"):
    ask.reply(rcode=int(rcode))


@behaviour("cnamenx")
def answer_cnamenx(ask, ttl, minimum):
    """A chain with a negative end (RFC 2308 section 2.1)."""
    ask.reply(rr(OWNER, wire.CNAME, int(ttl), wire.name("gone." + ask.zone)),
              rcode=wire.NXDOMAIN, authority=[ask.soa(3600, int(minimum))])


@behaviour("rcode")
def answer_rcode(ask, rcode):
    ask.reply(rcode=int(rcode))


@behaviour("ede")
def answer_ede(ask, rcode, code, *words):
    """RCODE with an extended error; the words after it are its text."""
    text = " ".join(words).encode()
    data = struct.pack(">H", int(code)) + text
    records = [ask.a()] if rcode == "0" else []
    ask.reply(*records, rcode=int(rcode), options=[(wire.EDE, data)])


@behaviour("drop")
def answer_drop(ask):
    pass


@behaviour("reset")
def answer_reset(ask, times):
    """The first times the connection is reset with the question unanswered."""
    if len(ask.server.asked(ask.name)) <= int(times):
        ask.connection.reset()
    else:
        ask.reply(ask.a())


@behaviour("close")
def answer_close(ask, times):
    """The first times the connection is closed with the question unanswered."""
    if len(ask.server.asked(ask.name)) <= int(times):
        ask.connection.close()
    else:
        ask.reply(ask.a())


# ---- replies that do not fit the question

@behaviour("wrongid")
def answer_wrongid(ask):
    ask.send(ask.build(ask.a("203.0.113.9"), id=ask.message.id ^ 0x5555))


@behaviour("wrongname")
def answer_wrongname(ask):
    """A whole answer to another question: victim.REST."""
    victim = wire.name("victim." + ".".join(ask.labels[1:]))
    question = victim + struct.pack(">HH", ask.type, wire.IN)
    ask.send(ask.build(ask.a("203.0.113.9"), question=question))


@behaviour("wrongtype")
def answer_wrongtype(ask):
    question = ask.message.question[:-4] + struct.pack(">HH", ask.type ^ 0x100, wire.IN)
    ask.send(ask.build(ask.a("203.0.113.9"), question=question))


@behaviour("wrongclass")
def answer_wrongclass(ask):
    question = ask.message.question[:-2] + struct.pack(">H", wire.CH)
    ask.send(ask.build(ask.a("203.0.113.9"), question=question))


@behaviour("noquestion")
def answer_noquestion(ask):
    ask.send(ask.build(ask.a("203.0.113.9", owner=".".join(ask.labels)), question=b""))


@behaviour("noqr")
def answer_noqr(ask):
    octets = bytearray(ask.build(ask.a("203.0.113.9")))
    octets[2] &= 0x7f
    ask.send(bytes(octets))


@behaviour("stranger")
def answer_stranger(ask):
    """The right question, and records of names that nobody asked about."""
    victim = "victim." + ".".join(ask.labels[1:])
    other = ask.a("203.0.113.9", owner=victim)
    ask.reply(ask.a(), other, additional=[other])


@behaviour("ptrloop")
def answer_ptrloop(ask):
    at = 12 + len(ask.message.question)
    ask.send(ask.build(ask.a("203.0.113.9", owner=at), opt=False))


@behaviour("rdlength")
def answer_rdlength(ask):
    octets = ask.build(ask.a("203.0.113.9"), opt=False)
    ask.send(octets[:-6] + struct.pack(">H", 400) + octets[-4:])


@behaviour("cut")
def answer_cut(ask):
    ask.send(ask.build(ask.a("203.0.113.9"), opt=False)[:-2])


@behaviour("trailing")
def answer_trailing(ask):
    ask.send(ask.build(ask.a("203.0.113.9"), opt=False) + b"\xde\xad")


@behaviour("tc")
def answer_tc(ask):
    """TC over UDP, the answer over TCP."""
    if ask.stream:
        ask.reply(ask.a())
    else:
        ask.send(ask.build(ask.a("203.0.113.9"), flags=TC))


@behaviour("oversize")
def answer_oversize(ask):
    """Over UDP far more than was asked for, without TC."""
    records = [rr(OWNER, A, 300, struct.pack(">I", 0x0a000000 + i)) for i in range(200)]
    ask.send(ask.build(*records))


@behaviour("loop")
def answer_loop(ask):
    """Two CNAMEs that name each other."""
    other = wire.name("loop2." + ".".join(ask.labels[1:]))
    ask.reply(rr(OWNER, wire.CNAME, 300, other), rr(other, wire.CNAME, 300,
                                                    wire.name(ask.name)))


# ---- EDNS and DNSSEC bits

@behaviour("ad")
def answer_ad(ask):
    ask.reply(ask.a(), flags=wire.AD)


@behaviour("dnssec")
def answer_dnssec(ask):
    """An RRSIG for those who set DO."""
    sig = struct.pack(">HBBIIIH", A, 13, 3, 300, 0x7fffffff, 0, 4711) + wire.name(ask.zone)
    records = [ask.a()]
    if ask.message.opt and ask.message.opt.do:
        records.append(rr(OWNER, wire.RRSIG, 300, sig + b"S" * 64))
    ask.reply(*records)


@behaviour("sigs")
def answer_sigs(ask):
    """An RRSIG whether asked for or not."""
    sig = struct.pack(">HBBIIIH", A, 13, 3, 300, 0x7fffffff, 0, 4711) + wire.name(ask.zone)
    ask.reply(ask.a(), rr(OWNER, wire.RRSIG, 300, sig + b"S" * 64))


@behaviour("bogus")
def answer_bogus(ask):
    """Data for CD=1 only, as a validator answers for a bogus name."""
    if ask.message.has(wire.CD):
        ask.reply(ask.a("203.0.113.66"))
    else:
        ask.reply(rcode=wire.SERVFAIL, options=[(wire.EDE, struct.pack(">H", 6))])


@behaviour("options")
def answer_options(ask):
    """Options that concern only the hop to us."""
    options = [(wire.COOKIE, bytes(range(16))), (wire.KEEPALIVE, b"\x01\x2c"),
               (wire.NSID, b"upstream"), (wire.PADDING, bytes(9)), (65001, b"secret")]
    ask.reply(ask.a(), options=options, opt=True)


# ---- client subnet: the address tells which option was sent

def scoped(ask, scope):
    """The option as it came, with a scope."""
    return [(wire.ECS, ask.ecs[:3] + bytes([scope]) + ask.ecs[4:])] if ask.ecs else []


@behaviour("ecs")
def answer_ecs(ask, scope, ttl="300"):
    """The scope is at most the source where that is 0 (RFC 7871 section 7.2.1)."""
    scope = 0 if ask.ecs and ask.ecs[2] == 0 else int(scope)
    ask.reply(ask.a(address_of(ask), int(ttl)), options=scoped(ask, scope))


@behaviour("ecsnone")
def answer_ecsnone(ask):
    """An upstream that knows no client subnet."""
    ask.reply(ask.a(address_of(ask)))


@behaviour("ecsnx")
def answer_ecsnx(ask, scope):
    """NXDOMAIN with a scope, which does not count (RFC 7871 section 7.4)."""
    ask.reply(rcode=wire.NXDOMAIN, authority=[ask.soa()], options=scoped(ask, int(scope)))


@behaviour("ecswrong")
def answer_ecswrong(ask, what):
    """An option that is not the one asked."""
    good = ask.ecs or b"\0\x01\x18\0\xc0\0\x02"
    data = {"address": good[:4] + bytes([good[4] ^ 0x55]) + good[5:],
            "source": good[:2] + bytes([good[2] - 8]) + good[3:-1],
            "family": b"\0\x02" + good[2:],
            "scope": good[:3] + bytes([200]) + good[4:],
            "short": good[:3]}[what]
    ask.reply(ask.a("203.0.113.9"), options=[(wire.ECS, data)])


@behaviour("ecsuncalled")
def answer_ecsuncalled(ask):
    """An option that nobody sent."""
    ask.reply(ask.a(), options=[wire.ecs("203.0.113.0", 24, 24)], opt=True)


class Connection:
    """A stream to us."""

    def __init__(self, server, via, reader, writer):
        self.server, self.via, self.reader, self.writer = server, via, reader, writer
        self.asks = 0
        self.batch = []     # for ways that answer several at once

    def send(self, octets):
        if not self.writer.is_closing():
            self.writer.write(struct.pack(">H", len(octets)) + octets)

    def close(self):
        self.writer.close()

    def reset(self):
        if self.writer.is_closing():
            return
        sock = self.writer.get_extra_info("socket")
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.writer.transport.abort()

    async def serve(self):
        peer = self.writer.get_extra_info("peername")
        try:
            while True:
                n = struct.unpack(">H", await self.reader.readexactly(2))[0]
                octets = await self.reader.readexactly(n)
                self.asks += 1
                self.server.take(octets, self.via, self, peer, self.send)
        except (asyncio.IncompleteReadError, OSError):
            pass
        finally:
            self.server.connections.discard(self)
            self.writer.close()


class Datagrams(asyncio.DatagramProtocol):
    def __init__(self, server):
        self.server = server

    def connection_made(self, transport):
        self.transport = transport

    def datagram_received(self, octets, peer):
        def send(reply):
            self.transport.sendto(reply, peer)
        self.server.take(octets, "udp", None, peer, send)


class Scripted:
    """The upstream. `address` is where UDP and TCP are, `tls_address` where TLS is."""

    def __init__(self, port, tls_port, certificate=None, key=None):
        self.address, self.tls_address = ("127.0.0.1", port), ("127.0.0.1", tls_port)
        self.log = []
        self.way = None     # function(ask) for every question, whatever its name
        self.own = {}       # name: what a test wants done, before any behaviour
        self.held = {}      # name: asks not answered yet
        self.silent = False
        self.faults = []    # of this upstream itself; must stay empty
        self.connections = set()
        self.accepted = 0
        self.changed = threading.Condition()
        self.tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self.tls.set_alpn_protocols(["dot"])
        if certificate:
            self.tls.load_cert_chain(certificate, key)
        self.loop = asyncio.new_event_loop()
        self.udp, self.servers = None, []
        self.thread = threading.Thread(target=self.loop.run_forever, daemon=True)
        self.thread.start()
        self.up()

    # ---- what tests call

    def up(self):
        """Listens, and answers again."""
        self.silent = False
        self._run(self._open())

    def down(self):
        """Closes every socket: port unreachable, connection refused, RST."""
        self._run(self._close())

    def mute(self):
        """Takes questions and answers none."""
        self.silent = True

    def stop(self):
        self.down()
        self.loop.call_soon_threadsafe(self.loop.stop)
        self.thread.join()
        self.loop.close()

    def use_certificate(self, certificate, key):
        """For connections from now on."""
        self.tls.load_cert_chain(certificate, key)

    def drop_connections(self):
        """Closes the streams that are open; new ones are taken."""
        self._call(lambda: [c.close() for c in list(self.connections)])

    def on(self, name, function):
        """Questions for this very name go to function(ask)."""
        self.own[name.lower()] = function

    def hold(self, name):
        """Questions for the name are kept until release()."""
        self.held[name.lower()] = []

    def release(self, name):
        """Answers what was held, in the order it came."""
        name = name.lower()
        self._call(lambda: [self.perform(ask) for ask in self.held.pop(name)])

    def asked(self, name=None, qtype=None, since=0):
        """The log, of one name and type if given."""
        return [ask for ask in self.log[since:]
                if (name is None or ask.name == name.lower())
                and (qtype is None or ask.type == qtype)]

    def wait_asked(self, name=None, n=1, qtype=None, timeout=5.0, since=0):
        """Waits until the name was asked n times; returns these asks."""
        with self.changed:
            done = self.changed.wait_for(
                lambda: len(self.asked(name, qtype, since)) >= n, timeout)
        asks = self.asked(name, qtype, since)
        assert done, f"{name} was asked {len(asks)} times, not {n}"
        return asks

    # ---- in the loop

    def _run(self, coroutine):
        return asyncio.run_coroutine_threadsafe(coroutine, self.loop).result(10)

    def _call(self, function):
        async def call():
            return function()
        return self._run(call())

    async def _open(self):
        if self.servers:
            return
        self.udp, _ = await self.loop.create_datagram_endpoint(
            lambda: Datagrams(self), self.address)
        sock = self.udp.get_extra_info("socket")
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4 << 20)

        def acceptor(via):
            def accepted(reader, writer):
                self.accepted += 1
                connection = Connection(self, via, reader, writer)
                self.connections.add(connection)
                return connection.serve()
            return accepted
        self.servers = [
            await asyncio.start_server(acceptor("tcp"), *self.address, backlog=256),
            await asyncio.start_server(acceptor("tls"), *self.tls_address, backlog=256,
                                       ssl=self.tls)]

    async def _close(self):
        if self.udp:
            self.udp.abort()
            self.udp = None
        for server in self.servers:
            server.close()
        for connection in list(self.connections):
            connection.reset()
        self.servers = []
        await asyncio.sleep(0)

    def take(self, octets, via, connection, peer, send):
        try:
            ask = Ask(self, octets, via, connection, peer, send)
        except (wire.Malformed, IndexError) as fault:
            self.faults.append(f"{via}: {octets.hex()}: {fault!r}")
            return
        with self.changed:
            self.log.append(ask)
            self.changed.notify_all()
        if self.silent:
            return
        if ask.name in self.held:
            self.held[ask.name].append(ask)
        else:
            self.perform(ask)

    def perform(self, ask):
        try:
            if self.way:
                self.way(ask)
                return
            if ask.name in self.own:
                self.own[ask.name](ask)
                return
            label, *arguments = re.split("-", ask.labels[0]) if ask.labels else [""]
            BEHAVIOURS.get(label, lambda ask, *_: plain(ask))(ask, *arguments)
        except OSError:
            pass
        except Exception as fault:  # a test must not take our fault for pithd's
            self.faults.append(f"{ask}: {fault!r}")

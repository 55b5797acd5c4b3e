"""DNS messages for the tests: written octet by octet, read strictly.

A message is written with query(), rr() and message(), so that a test can put anything on the
wire, right or wrong. Message reads one and raises Malformed for whatever RFC 1035 forbids,
octets after the last record included: what pithd sends has to be right to the octet.
"""

import itertools
import struct

A, NS, CNAME, SOA, MB, MG, MR, NULL, PTR, HINFO, MINFO, MX, TXT = (
    1, 2, 5, 6, 7, 8, 9, 10, 12, 13, 14, 15, 16)
RP, AFSDB, RT, SIG, PX, AAAA, NXT, SRV, NAPTR, DNAME, OPT, RRSIG, NSEC = (
    17, 18, 21, 24, 26, 28, 30, 33, 35, 39, 41, 46, 47)
SVCB, HTTPS, TKEY, TSIG, IXFR, AXFR, MAILB, MAILA, ANY, CAA = (
    64, 65, 249, 250, 251, 252, 253, 254, 255, 257)
UNKNOWN = 65280  # first of the private use range

IN, CH, HS, NONE, ANYCLASS = 1, 3, 4, 254, 255

NOERROR, FORMERR, SERVFAIL, NXDOMAIN, NOTIMP, REFUSED, BADVERS, BADCOOKIE = (
    0, 1, 2, 3, 4, 5, 16, 23)

QR, AA, TC, RD, RA, Z, AD, CD = 0x8000, 0x400, 0x200, 0x100, 0x80, 0x40, 0x20, 0x10
QUERY, STATUS, NOTIFY, UPDATE = 0, 2, 4, 5

# EDNS options
NSID, ECS, COOKIE, KEEPALIVE, PADDING, EDE = 3, 8, 10, 11, 12, 15

# extended errors (RFC 8914)
EDE_STALE, EDE_CACHED_ERROR, EDE_PROHIBITED, EDE_STALE_NXDOMAIN = 3, 13, 18, 19
EDE_NO_REACHABLE, EDE_NETWORK = 22, 23

# RFC 1035 types whose names may come and go compressed, as a layout of their rdata: N name,
# a digit that many octets, * the rest. Those below only on the way in (RFC 3597 section 4).
COMPRESSED = {NS: "N", CNAME: "N", SOA: "NN*", MB: "N", MG: "N", MR: "N", PTR: "N",
              MINFO: "NN", MX: "2N"}
PLAIN = {RP: "NN", AFSDB: "2N", RT: "2N", PX: "2NN", SRV: "6N", DNAME: "N"}

_ids = itertools.count(0x4001, 7)


class Malformed(Exception):
    """The octets are no DNS message."""


def name(text):
    """Wire form of a name: text (dots only between labels), or labels as bytes."""
    if isinstance(text, bytes):
        return text
    if isinstance(text, str):
        text = [label.encode("latin-1") for label in text.split(".") if label]
    return b"".join(bytes([len(label)]) + label for label in text) + b"\0"


def option(code, data=b""):
    return struct.pack(">HH", code, len(data)) + data


def opt(*options, size=1232, do=False, version=0, rcode=0, owner=b"\0"):
    """An OPT record. Options are (code, data) pairs or ready octets."""
    rdata = b"".join(o if isinstance(o, bytes) else option(*o) for o in options)
    return owner + struct.pack(">HHBBHH", OPT, size, rcode, version, 0x8000 if do else 0,
                               len(rdata)) + rdata


def ecs(address, source, scope=0, family=None):
    """(code, data) of a client subnet option; the address is cut to the source prefix."""
    import ipaddress
    ip = ipaddress.ip_address(address)
    network = ipaddress.ip_network((ip, source), strict=False)
    octets = network.network_address.packed[:(source + 7) // 8]
    family = family or (1 if ip.version == 4 else 2)
    return ECS, struct.pack(">HBB", family, source, scope) + octets


def query(qname, qtype=A, opt=None, *, id=None, flags=RD, opcode=QUERY, qclass=IN):
    """A question; the ID is another one each time unless given."""
    id = next(_ids) & 0xffff if id is None else id
    head = struct.pack(">6H", id, flags | opcode << 11, 1, 0, 0, 1 if opt else 0)
    return head + name(qname) + struct.pack(">HH", qtype, qclass) + (opt or b"")


def rr(owner, rtype, ttl, rdata, rclass=IN):
    """A record. The owner may be an int: the offset that a compression pointer names."""
    owner = struct.pack(">H", 0xc000 | owner) if isinstance(owner, int) else name(owner)
    return owner + struct.pack(">HHIH", rtype, rclass, ttl, len(rdata)) + rdata


def soa_rdata(zone, serial=1, minimum=60):
    return (name("ns." + zone) + name("hostmaster." + zone)
            + struct.pack(">5I", serial, 7200, 900, 86400, minimum))


def message(id, flags, question=b"", answer=(), authority=(), additional=(), qdcount=None):
    """Any message, from ready-made question and records."""
    qdcount = (1 if question else 0) if qdcount is None else qdcount
    return (struct.pack(">6H", id, flags, qdcount, len(answer), len(authority),
                        len(additional))
            + question + b"".join(answer) + b"".join(authority) + b"".join(additional))


def read_name(wire, at):
    """(labels, offset behind, whether a pointer was used); pointers only backwards."""
    labels, behind, size, limit = [], None, 1, at
    while True:
        if at >= len(wire):
            raise Malformed("name runs past the end")
        n = wire[at]
        if n >= 0xc0:
            if at + 1 >= len(wire):
                raise Malformed("pointer cut off")
            behind = behind or at + 2
            at = (n & 0x3f) << 8 | wire[at + 1]
            if at >= limit:
                raise Malformed("pointer does not go back")
            limit = at
        elif n >= 0x40:
            raise Malformed(f"label type {n:#x}")
        elif n == 0:
            return labels, behind or at + 1, behind is not None
        else:
            size += n + 1
            if size > 255 or at + 1 + n > len(wire):
                raise Malformed("name too long")
            labels.append(wire[at + 1:at + 1 + n])
            at += 1 + n


def text(labels):
    return ".".join(label.decode("latin-1") for label in labels) or "."


class Record:
    """One record. rdata is expanded; raw is as it came; pointers tells whether it held any."""

    def __init__(self, wire, at):
        self.labels, at, self.owner_pointer = read_name(wire, at)
        if at + 10 > len(wire):
            raise Malformed("record cut off")
        self.type, self.rclass, self.ttl, n = struct.unpack(">HHIH", wire[at:at + 10])
        self.start, self.end = at + 10, at + 10 + n
        if self.end > len(wire):
            raise Malformed("rdata runs past the end")
        self.raw = wire[self.start:self.end]
        self.pointers = False
        self.rdata = self._expand(wire) if self.type in COMPRESSED else self.raw

    def _expand(self, wire):
        out, at = b"", self.start
        for part in COMPRESSED[self.type]:
            if part == "N":
                labels, at, pointer = read_name(wire, at)
                self.pointers = self.pointers or pointer
                out += name(labels)
            else:
                n = self.end - at if part == "*" else int(part)
                out, at = out + wire[at:at + n], at + n
        if at != self.end:
            raise Malformed("names in rdata do not fill it")
        return out

    @property
    def owner(self):
        return text(self.labels)

    @property
    def key(self):
        """What makes two records the same: all but the TTL, names without case."""
        rdata = self.rdata.lower() if self.type in COMPRESSED else self.rdata
        return self.owner.lower(), self.type, self.rclass, rdata

    def __repr__(self):
        return f"<{self.owner} {self.ttl} {self.type} {self.rdata.hex()[:48]}>"


class Opt:
    """The OPT of a message."""

    def __init__(self, record):
        if record.labels:
            raise Malformed("owner of OPT is not root")
        self.size = record.rclass
        self.rcode, self.version = record.ttl >> 24, record.ttl >> 16 & 0xff
        self.do, self.z = bool(record.ttl & 0x8000), record.ttl & 0x7fff
        self.options, at, data = [], 0, record.raw
        while at < len(data):
            if at + 4 > len(data):
                raise Malformed("option cut off")
            code, n = struct.unpack(">HH", data[at:at + 4])
            if at + 4 + n > len(data):
                raise Malformed("option runs past RDLENGTH")
            self.options.append((code, data[at + 4:at + 4 + n]))
            at += 4 + n

    def get(self, code):
        """Data of the option, or None; there must not be two."""
        found = [data for c, data in self.options if c == code]
        assert len(found) < 2, f"option {code} came {len(found)} times"
        return found[0] if found else None


class Message:
    """A message read strictly. http is the response that carried it, where one did."""

    def __init__(self, wire, http=None):
        self.wire, self.http = wire, http
        if len(wire) < 12:
            raise Malformed(f"{len(wire)} octets")
        self.id, self.flags, *counts = struct.unpack(">6H", wire[:12])
        self.opcode = self.flags >> 11 & 15
        self.rcode = self.flags & 15
        at, questions = 12, []
        for _ in range(counts[0]):
            labels, end, pointer = read_name(wire, at)
            if end + 4 > len(wire):
                raise Malformed("question cut off")
            questions.append((labels, *struct.unpack(">HH", wire[end:end + 4]), pointer))
            at = end + 4
        self.question = wire[12:at]  # as it stands on the wire
        self.questions = questions
        sections, self.opt = [], None
        for count in counts[1:]:
            records = [Record(wire, at)] if count else []
            while len(records) < count:
                records.append(Record(wire, records[-1].end))
            at = records[-1].end if records else at
            sections.append(records)
        self.answer, self.authority, self.additional = sections
        if at != len(wire):
            raise Malformed(f"{len(wire) - at} octets behind the last record")
        for record in [r for r in self.additional if r.type == OPT]:
            if self.opt:
                raise Malformed("two OPT records")
            self.opt = Opt(record)
            self.rcode |= self.opt.rcode << 4
        self.additional = [r for r in self.additional if r.type != OPT]

    def has(self, bit):
        return bool(self.flags & bit)

    @property
    def qname(self):
        return text(self.questions[0][0]) if self.questions else None

    @property
    def qtype(self):
        return self.questions[0][1] if self.questions else None

    @property
    def addresses(self):
        """Text of the A and AAAA records of the answer, in order."""
        import ipaddress
        return [str(ipaddress.ip_address(r.raw)) for r in self.answer if r.type in (A, AAAA)]

    @property
    def ttls(self):
        return [r.ttl for r in self.answer + self.authority + self.additional]

    @property
    def keys(self):
        """The answer section as a set."""
        return {r.key for r in self.answer}

    @property
    def ede(self):
        """INFO-CODEs of the extended errors."""
        options = self.opt.options if self.opt else []
        return [struct.unpack(">H", data[:2])[0] for code, data in options if code == EDE]

    def __repr__(self):
        return (f"<id {self.id:#x} flags {self.flags:#06x} rcode {self.rcode} {self.qname} "
                f"{self.qtype} {self.answer} {self.authority} ede {self.ede}>")

"""Clients of pithd that hide nothing: UDP, TCP, TLS, HTTP/2 and HTTP/1.1 on raw sockets.

ask(server, via, message) is the usual way in: one question on a connection of its own. What
is not a DNS answer is an exception: NoAnswer, Closed, or HttpStatus.
"""

import base64
import socket
import ssl
import struct
import time

import h2.config
import h2.connection
import h2.events

from wire import Message

# The ways to ask that every rule about answers holds for.
FRONTS = ("udp", "tcp", "dot", "doh", "doh-get", "doh-h1")
STREAMS = ("tcp", "dot")
ENCRYPTED = ("dot", "doh", "doh-get", "doh-h1")
HTTP = ("doh", "doh-get", "doh-h1")

MEDIA_TYPE = "application/dns-message"
PATH = "/dns-query"


class NoAnswer(Exception):
    """Nothing came in time."""


class Closed(Exception):
    """The other side ended the connection."""


class HttpStatus(Exception):
    """An HTTP response other than 200."""

    def __init__(self, response):
        super().__init__(str(response))
        self.response = response
        self.status = response.status


class Response:
    """One HTTP response."""

    def __init__(self, status, headers, body):
        self.status, self.headers, self.body = status, headers, body

    def header(self, name):
        """The value, None without; the header must not be there twice."""
        values = [v for k, v in self.headers if k.lower() == name]
        assert len(values) < 2, f"{name} came {len(values)} times"
        return values[0] if values else None

    @property
    def max_age(self):
        """Seconds of cache-control: max-age; None for no-store."""
        directives = [d.strip() for d in (self.header("cache-control") or "").split(",")]
        ages = [int(d[8:]) for d in directives if d.startswith("max-age=")]
        if "no-store" in directives:
            assert not ages
            return None
        assert len(ages) == 1, f"cache-control: {directives}"
        return ages[0]

    def message(self):
        if self.status != 200:
            raise HttpStatus(self)
        assert self.header("content-type") == MEDIA_TYPE
        length = self.header("content-length")
        assert length is None or int(length) == len(self.body)
        return Message(self.body, self)

    def __repr__(self):
        return f"<HTTP {self.status} {self.headers} {self.body[:60]!r}>"


def tls_context(ca=None, alpn=(), version=None):
    """A client's context; without CA the certificate is not looked at."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    if ca:
        context.load_verify_locations(ca)
    else:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    if alpn:
        context.set_alpn_protocols(list(alpn))
    if version:
        context.minimum_version = context.maximum_version = version
    return context


def b64url(octets):
    return base64.urlsafe_b64encode(octets).rstrip(b"=").decode()


def frame(message):
    """A message as DNS over a stream carries it (RFC 1035 section 4.2.2)."""
    return struct.pack(">H", len(message)) + message


class Udp:
    """A connected UDP socket: an answer from another address than was asked is not seen."""

    def __init__(self, address, source=None):
        family = socket.AF_INET6 if ":" in address[0] else socket.AF_INET
        self.socket = socket.socket(family, socket.SOCK_DGRAM)
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 20)
        if source:
            self.socket.bind((source, 0))
        self.socket.connect(address)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.socket.close()

    def send(self, *messages):
        for message in messages:
            self.socket.send(message)

    def recv(self, timeout=5.0):
        self.socket.settimeout(timeout)
        try:
            return self.socket.recv(65535)
        except socket.timeout:
            raise NoAnswer(f"no datagram in {timeout} s") from None
        except ConnectionRefusedError:
            raise Closed("port unreachable") from None


class Stream:
    """A TCP or TLS connection: octets, or framed DNS messages."""

    def __init__(self, address, tls=None, server_name=None, source=None, timeout=5.0):
        self.buffer = b""
        bound = (source, 0) if source else None
        try:
            self.socket = socket.create_connection(address, timeout, bound)
            self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            if tls:
                self.socket = tls.wrap_socket(self.socket, server_hostname=server_name)
        except ConnectionError as error:
            raise Closed(str(error)) from None

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def close(self):
        self.socket.close()

    def write(self, octets):
        try:
            self.socket.sendall(octets)
        except (ConnectionError, ssl.SSLError) as error:
            raise Closed(str(error)) from None

    def read(self, timeout=5.0):
        """Some octets; Closed at the end of the stream."""
        self.socket.settimeout(timeout)
        try:
            octets = self.socket.recv(65536)
        except socket.timeout:
            raise NoAnswer(f"nothing in {timeout} s") from None
        except (ConnectionError, ssl.SSLError) as error:
            raise Closed(str(error)) from None
        if not octets:
            raise Closed("end of stream")
        return octets

    def send(self, *messages):
        """Framed messages in one write."""
        self.write(b"".join(frame(m) for m in messages))

    def recv(self, timeout=5.0):
        """The next framed message."""
        end = time.monotonic() + timeout
        while len(self.buffer) < 2 or len(self.buffer) - 2 < self._length():
            self.buffer += self.read(max(0.001, end - time.monotonic()))
        n = self._length()
        message, self.buffer = self.buffer[2:2 + n], self.buffer[2 + n:]
        return message

    def _length(self):
        return struct.unpack(">H", self.buffer[:2])[0]

    def at_end(self, timeout=5.0):
        """True when the other side ends the stream within the time and sends nothing more."""
        try:
            return not self.buffer and not self.read(timeout)
        except Closed:
            return True
        except NoAnswer:
            return False


class Http2:
    """HTTP/2 over a Stream by python3-h2, which is strict about what it is sent."""

    def __init__(self, stream, authority):
        self.stream, self.authority = stream, authority
        config = h2.config.H2Configuration(client_side=True, header_encoding="utf-8")
        self.h2 = h2.connection.H2Connection(config)
        # python3-h2 takes the connection for closed at GOAWAY, but streams go on to their end
        machine, states = self.h2.state_machine, h2.connection.ConnectionState
        machine._transitions = {
            **machine._transitions,
            (states.CLIENT_OPEN, h2.connection.ConnectionInputs.RECV_GOAWAY):
                (None, states.CLIENT_OPEN)}
        self.h2.initiate_connection()
        self.responses = {}  # stream ID: [status, headers, body, ended]
        self.resets = {}
        self.goaway = None

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.stream.close()

    def open(self, method, path, headers=(), body=None):
        """Starts a request and returns its stream ID; flush() sends."""
        sid = self.h2.get_next_available_stream_id()
        pseudo = [(":method", method), (":scheme", "https"), (":authority", self.authority),
                  (":path", path)]
        self.responses[sid] = [None, [], b"", False]
        self.h2.send_headers(sid, pseudo + list(headers), end_stream=body is None)
        if body is not None:
            self._send_body(sid, body)
        return sid

    def _send_body(self, sid, body):
        while body:
            if self.responses[sid][3] or sid in self.resets:
                return  # the server has heard enough
            n = min(self.h2.local_flow_control_window(sid), self.h2.max_outbound_frame_size)
            if n == 0:
                self.flush()
                self._pump(5.0)
                continue
            self.h2.send_data(sid, body[:n])
            body = body[n:]
        self.h2.end_stream(sid)

    def flush(self):
        octets = self.h2.data_to_send()
        if octets:
            self.stream.write(octets)

    def ends(self, timeout=5.0):
        """Waits for the end of the connection; the GOAWAY before it, None without."""
        try:
            while True:
                self._pump(timeout)
        except Closed:
            return self.goaway

    def _pump(self, timeout):
        for event in self.h2.receive_data(self.stream.read(timeout)):
            sid = getattr(event, "stream_id", None)
            if isinstance(event, h2.events.ResponseReceived):
                headers = list(event.headers)
                self.responses[sid][0] = int(dict(headers)[":status"])
                self.responses[sid][1] = [h for h in headers if h[0] != ":status"]
            elif isinstance(event, h2.events.DataReceived):
                self.responses[sid][2] += event.data
                self.h2.acknowledge_received_data(event.flow_controlled_length, sid)
            elif isinstance(event, h2.events.StreamEnded):
                self.responses[sid][3] = True
            elif isinstance(event, h2.events.StreamReset):
                self.resets[sid] = event.error_code
            elif isinstance(event, h2.events.ConnectionTerminated):
                self.goaway = event
        self.flush()

    def wait(self, sid, timeout=5.0):
        """The response of that stream."""
        end = time.monotonic() + timeout
        self.flush()
        while not self.responses[sid][3]:
            if sid in self.resets:
                raise Closed(f"stream reset with {self.resets[sid]}")
            self._pump(max(0.001, end - time.monotonic()))
        return Response(*self.responses.pop(sid)[:3])

    def request(self, method, path, headers=(), body=None, timeout=5.0):
        return self.wait(self.open(method, path, headers, body), timeout)

    def post(self, message, headers=()):
        """Starts a POST of the message; returns its stream ID."""
        own = [("content-type", MEDIA_TYPE), ("accept", MEDIA_TYPE),
               ("content-length", str(len(message)))]
        return self.open("POST", PATH, own + list(headers), message)

    def get(self, message, headers=()):
        """Starts a GET of the message; returns its stream ID."""
        return self.open("GET", f"{PATH}?dns={b64url(message)}",
                         [("accept", MEDIA_TYPE)] + list(headers))


class Http1:
    """HTTP/1.1 over a Stream."""

    def __init__(self, stream, authority):
        self.stream, self.authority = stream, authority
        self.buffer = b""

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.stream.close()

    def send(self, method, path, headers=(), body=b""):
        lines = [f"{method} {path} HTTP/1.1", f"Host: {self.authority}"]
        lines += [f"{k}: {v}" for k, v in headers]
        if body or method == "POST":
            lines.append(f"Content-Length: {len(body)}")
        self.stream.write("\r\n".join(lines + ["", ""]).encode("latin-1") + body)

    def request(self, method, path, headers=(), body=b"", timeout=5.0):
        self.send(method, path, headers, body)
        return self.response(timeout, method == "HEAD")

    def response(self, timeout=5.0, head=False):
        end = time.monotonic() + timeout
        while b"\r\n\r\n" not in self.buffer:
            self.buffer += self.stream.read(max(0.001, end - time.monotonic()))
        top, self.buffer = self.buffer.split(b"\r\n\r\n", 1)
        status, *lines = top.decode("latin-1").split("\r\n")
        headers = [tuple(part.strip() for part in line.split(":", 1)) for line in lines]
        headers = [(k.lower(), v) for k, v in headers]
        assert "transfer-encoding" not in dict(headers)
        length = 0 if head else int(dict(headers).get("content-length", 0))
        while len(self.buffer) < length:
            self.buffer += self.stream.read(max(0.001, end - time.monotonic()))
        body, self.buffer = self.buffer[:length], self.buffer[length:]
        return Response(int(status.split()[1]), headers, body)


class Client:
    """A connection to one front end of a server, on which any number of questions may be open,
    each with an ID of its own. `server` says where by its attributes dns, dot, doh and
    doh_clear, each an (address, port) pair, and by its name."""

    def __init__(self, server, via, source=None, timeout=5.0, ca=None):
        self.via, self.timeout = via, timeout
        self.open = {}      # ID: HTTP/2 stream
        self.order = []     # IDs in the order of the HTTP/1.1 requests
        self.answers = {}   # ID: what came for another question than the one waited for
        if via == "udp":
            self.connection = Udp(server.dns, source)
        elif via == "tcp":
            self.connection = Stream(server.dns, None, None, source, timeout)
        elif via == "dot":
            self.connection = Stream(server.dot, tls_context(ca, ["dot"]), server.name, source,
                                     timeout)
        elif via == "doh-h1":
            context = tls_context(ca, ["http/1.1"])
            self.connection = Http1(Stream(server.doh, context, server.name, source, timeout),
                                    server.name)
        elif via == "doh-clear":
            stream = Stream(server.doh_clear, None, None, source, timeout)
            self.connection = Http2(stream, server.name)
        else:
            stream = Stream(server.doh, tls_context(ca, ["h2"]), server.name, source, timeout)
            self.connection = Http2(stream, server.name)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.connection.__exit__()

    def start(self, *messages, headers=()):
        """Asks; does not wait."""
        if self.via in ("udp", "tcp", "dot"):
            self.connection.send(*messages)
            return
        for message in messages:
            id = message[:2]
            if self.via == "doh-h1":
                fields = [("Content-Type", MEDIA_TYPE), *headers]
                self.connection.send("POST", PATH, fields, message)
                self.order.append(id)
            elif self.via == "doh-get":
                self.open[id] = self.connection.get(message, headers)
            else:
                self.open[id] = self.connection.post(message, headers)
        if self.via != "doh-h1":
            self.connection.flush()

    def finish(self, message, timeout=None):
        """The answer to that question, which start() was called with."""
        id, timeout = message[:2], timeout or self.timeout
        if self.via not in ("udp", "tcp", "dot", "doh-h1"):
            return self.connection.wait(self.open.pop(id), timeout).message()
        end = time.monotonic() + timeout
        while id not in self.answers:
            left = max(0.001, end - time.monotonic())
            if self.via == "doh-h1":
                self.answers[self.order.pop(0)] = self.connection.response(left)
            else:
                octets = self.connection.recv(left)
                assert octets[:2] not in self.answers, "an ID was answered twice"
                self.answers[octets[:2]] = octets
        answer = self.answers.pop(id)
        return answer.message() if self.via == "doh-h1" else Message(answer)

    def ask(self, message, timeout=None, headers=()):
        self.start(message, headers=headers)
        return self.finish(message, timeout)


def ask(server, via, message, timeout=5.0, source=None, headers=()):
    """One question on a connection of its own."""
    with Client(server, via, source, timeout) as client:
        return client.ask(message, headers=headers)


def ask_many(server, via, messages, timeout=10.0):
    """All messages at once on one connection; the answers in the order of the messages."""
    with Client(server, via, timeout=timeout) as client:
        client.start(*messages)
        return [client.finish(message) for message in messages]

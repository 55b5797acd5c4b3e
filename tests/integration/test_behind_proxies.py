"""Behind nginx and haproxy, over HTTP/1.1, h2c and PROXY version 1 and 2: it is the client's
address that counts, for the client subnet that goes upstream and for access; what the client
says about its address itself does not."""

import ipaddress
import socket
import struct

import pytest

import clients
import proxies
import wire
from checks import fits
from scripted import subnet_address
from servers import HOST, NAME, free_port
from wire import NOERROR, REFUSED, ecs, opt, query

HTTP_WAYS = ("nginx_h1", "nginx_h2c", "nginx_forwarded", "haproxy_h1", "haproxy_h2c",
             "haproxy_v2_h1", "haproxy_v2_h2c", "haproxy_v2_clear", "haproxy_v2_doh")
TLS_WAYS = ("haproxy_v2_dot", "haproxy_v1_dot", "haproxy_v2_ssl")
DNS_WAYS = ("haproxy_v2_dns", "haproxy_v1_dns")
WAYS = (*HTTP_WAYS, *TLS_WAYS, *DNS_WAYS)

ALLOWED = {"198.51.100.7": ("198.51.100.0", 24),
           "2001:db8:1:2:3:4:5:6": ("2001:db8:1::", 56)}
OTHERS = ("203.0.113.5", "2001:db9::1", "127.0.0.5", "198.51.101.7")

LISTEN = """
  dns: [ {{address: "127.0.0.1:$dns", proxy-protocol: ["127.0.0.1/32"]}} ]
  dot: [ {{address: "127.0.0.1:$dot", proxy-protocol: ["127.0.0.1/32"]}} ]
  doh:
    - {{ address: "127.0.0.1:$doh", proxy-protocol: ["127.0.0.1/32"] }}
    - {{ address: "127.0.0.1:$clear", tls: false, trusted-proxies: ["127.0.0.1/32"] }}
    - {{ address: "127.0.0.1:{0}", tls: false, proxy-protocol: ["127.0.0.1/32"] }}"""


@pytest.fixture(scope="module")
def behind(daemons, upstream, tmp_path_factory):
    """A pithd for documentation prefixes only, not even for its proxies, and the ports of the
    proxies in front of it."""
    clear_pp = free_port()
    daemon = daemons(upstream, "tcp", listen=LISTEN.format(clear_pp), ecs="{ mode: client }",
                     access='{ allow: ["198.51.100.0/24", "2001:db8::/32"] }')
    folder = str(tmp_path_factory.mktemp("proxies"))
    started, ports = proxies.start(folder, daemon, clear_pp)
    daemon.clear_pp = clear_pp
    yield daemon, ports, f"{folder}/stats"
    for process in started:
        process.signal(15)
        process.wait()


@pytest.fixture(params=["h2", "http/1.1"])
def version(request):
    """Of HTTP between the client and the proxy."""
    return request.param


def header_v1(client):
    """What a load balancer says about its client."""
    family = "TCP6" if ":" in client else "TCP4"
    to = "2001:db8::53" if ":" in client else "192.0.2.53"
    return f"PROXY {family} {client} {to} 4711 443\r\n".encode()


def connect(port, client, alpn=None, tls=True, source=None):
    """A stream that comes from that client, as far as the proxy can tell."""
    stream = clients.Stream((HOST, port), source=source)
    if client:
        stream.write(header_v1(client))
    if tls:
        context = clients.tls_context(None, [alpn] if alpn else [])
        stream.socket = context.wrap_socket(stream.socket, server_hostname=NAME)
    return stream


def ask_http(stream, version, message, headers=(), method="POST"):
    """One question, on a stream that is left open."""
    http = (clients.Http2 if version == "h2" else clients.Http1)(stream, NAME)
    fields = [*headers, ("content-type", clients.MEDIA_TYPE)]
    if method == "GET":
        return http.request("GET", f"{clients.PATH}?dns={clients.b64url(message)}", headers)
    if version == "h2":
        fields.append(("content-length", str(len(message))))
    return http.request("POST", clients.PATH, fields, message)


def ask(ports, way, client, message, version="h2", headers=(), method="POST"):
    """The answer to who asks on that way."""
    if way in HTTP_WAYS:
        if way == "haproxy_v2_clear":
            version = "h2"  # haproxy does not look at it, but has told the client so
        with connect(ports[way], client, version) as stream:
            response = ask_http(stream, version, message, headers, method)
            return fits(response.message(), message, "doh")
    alpn = "dot" if way in ("haproxy_v2_dot", "haproxy_v1_dot") else None
    with connect(ports[way], client, alpn, way in TLS_WAYS) as stream:
        stream.send(message)
        return fits(wire.Message(stream.recv()), message, "tcp")


# ---- the client's address

@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("client", ALLOWED)
def test_address_arrives(behind, up, unique, way, client):
    """It is the subnet that goes upstream."""
    name = unique("ecs-24")
    answer = ask(behind[1], way, client, query(name, opt=opt()))
    expected = ecs(*ALLOWED[client])
    assert answer.addresses == [subnet_address(expected)]
    seen, = up.asked(name)
    assert seen.ecs == expected[1]


@pytest.mark.parametrize("way", HTTP_WAYS)
@pytest.mark.parametrize("method", ["GET", "POST"])
def test_address_arrives_over_both_versions(behind, up, unique, way, version, method):
    name = unique("ecs-24")
    ask(behind[1], way, "198.51.100.7", query(name, opt=opt()), version, method=method)
    seen, = up.asked(name)
    assert seen.ecs == ecs("198.51.100.0", 24)[1]


def test_clients_share_connections_of_the_proxy(behind, up, unique):
    """nginx keeps its connections to us: each request has a client of its own."""
    for way in ("nginx_h1", "nginx_h2c", "haproxy_h1", "haproxy_h2c"):
        for octet in (1, 2, 3):
            for client, rcode in ((f"198.51.100.{octet}", NOERROR),
                                  (f"203.0.113.{octet}", REFUSED)):
                assert ask(behind[1], way, client, query(unique())).rcode == rcode


# ---- access

@pytest.mark.parametrize("way", WAYS)
def test_access_is_of_the_client(behind, up, unique, way):
    """The proxy's own address is none of those that may ask."""
    for client in ALLOWED:
        assert ask(behind[1], way, client, query(unique())).rcode == NOERROR
    for client in OTHERS:
        name = unique()
        assert ask(behind[1], way, client, query(name)).rcode == REFUSED
        assert up.asked(name) == []


FORGED = [
    [("x-forwarded-for", "198.51.100.9")],
    [("x-forwarded-for", "198.51.100.9, 127.0.0.1")],
    [("x-forwarded-for", "127.0.0.1")],
    [("x-forwarded-for", "198.51.100.9"), ("x-forwarded-for", "198.51.100.10")],
    [("x-forwarded-for", "")],
    [("x-forwarded-for", "unknown")],
    [("x-real-ip", "198.51.100.9"), ("x-client-ip", "198.51.100.9"),
     ("true-client-ip", "198.51.100.9"), ("cf-connecting-ip", "198.51.100.9")],
]
FORGED_STANDARD = [
    [("forwarded", "for=198.51.100.9")],
    [("forwarded", 'for="[2001:db8::9]:4711";proto=https, for=127.0.0.1')],
    [("forwarded", "for=_hidden, for=unknown")],
    [("forwarded", "for=198.51.100.9"), ("forwarded", "by=127.0.0.1")],
]


@pytest.mark.parametrize("way", HTTP_WAYS)
def test_forged_fields_do_nothing(behind, up, unique, way, version):
    """Neither to get in nor to be taken for somebody else."""
    for headers in FORGED + FORGED_STANDARD:
        message = query(unique())
        answer = ask(behind[1], way, "203.0.113.5", message, version, headers)
        assert answer.rcode == REFUSED, headers
    for headers in FORGED + FORGED_STANDARD:
        name = unique("ecs-24")
        ask(behind[1], way, "198.51.100.7", query(name, opt=opt()), version,
            [(k, v.replace("198.51.100", "203.0.113")) for k, v in headers])
        seen, = up.asked(name)
        assert seen.ecs == ecs("198.51.100.0", 24)[1], headers


@pytest.mark.parametrize("value", ['for="203.0.113.9', 'for="203.0.113.9\\', 'a="', '"\\",b="'])
@pytest.mark.parametrize("client", ALLOWED)
def test_open_quote_in_forwarded(behind, up, unique, value, client):
    """A quote that the client opens does not swallow what the proxy adds."""
    name = unique("ecs-24")
    headers = [("forwarded", value)]
    ask(behind[1], "nginx_forwarded", client, query(name, opt=opt()), "h2", headers)
    seen, = up.asked(name)
    assert seen.ecs == ecs(*ALLOWED[client])[1]


@pytest.mark.parametrize("headers", FORGED + FORGED_STANDARD)
def test_fields_of_who_is_no_proxy(behind, unique, headers, version):
    """Straight to the port that is for the proxies: who is none of them is just a client."""
    for port in (behind[0].ports["clear"], behind[0].clear_pp):
        with connect(port, None, tls=False, source="127.0.0.9") as stream:
            message = query(unique())
            response = ask_http(stream, version, message, headers)
            assert fits(response.message(), message, "doh").rcode == REFUSED


# ---- PROXY headers that are not due, or wrong

def header_v2(client, command=1, family=1, extra=b"", version=2):
    """Version 2, octet by octet."""
    ip = ipaddress.ip_address(client).packed
    body = ip + ip + struct.pack(">HH", 4711, 853) + extra
    return (b"\r\n\r\n\0\r\nQUIT\n" + bytes([version << 4 | command, family << 4 | 1])
            + struct.pack(">H", len(body)) + body)


def raw(behind, front, head, message, source=None, timeout=5.0):
    """A question over TCP or DoT behind these octets; an answer, Closed or NoAnswer."""
    tls = front == "dot"
    stream = clients.Stream((HOST, behind[0].ports[front]), source=source)
    with stream:
        stream.write(head)
        if tls:
            try:
                stream.socket = clients.tls_context(None, ["dot"]).wrap_socket(
                    stream.socket, server_hostname=NAME)
            except OSError as error:
                raise clients.Closed(str(error)) from None
        stream.send(message)
        return fits(wire.Message(stream.recv(timeout)), message, "tcp")


def not_served(behind, front, head, source=None):
    """Closed, or the rest of a message is waited for that the octets are the begin of."""
    with pytest.raises((clients.Closed, clients.NoAnswer)):
        raw(behind, front, head, query("refused.example.com"), source, timeout=0.5)


@pytest.mark.parametrize("front", ["dns", "dot"])
def test_proxy_header_of_who_may_not(behind, unique, front):
    """From an address that is no load balancer it is no header but nonsense."""
    for head in (header_v1("198.51.100.7"), header_v2("198.51.100.7")):
        not_served(behind, front, head, source="127.0.0.9")
    # without, it may connect, and is refused as who it is
    assert raw(behind, front, b"", query(unique()), source="127.0.0.9").rcode == REFUSED


@pytest.mark.parametrize("front", ["dns", "dot"])
def test_proxy_header_is_due(behind, unique, front):
    """Who has to send it and does not is not served; nor with one that is wrong."""
    good = header_v2("198.51.100.7")
    assert raw(behind, front, good, query(unique())).rcode == NOERROR
    for head in (b"", header_v2("198.51.100.7", version=3), header_v2("198.51.100.7", family=2),
                 header_v2("198.51.100.7", command=7), b"PROXY TCP4 1.2.3.4\r\n",
                 good[:14] + b"\xff\xff" + good[16:], header_v1("198.51.100.7")[:-2] + b"\n"):
        not_served(behind, front, head)


@pytest.mark.parametrize("front", ["dns", "dot"])
def test_second_proxy_header(behind, front):
    """What a client sends behind the load balancer's header is not another one."""
    for second in (header_v1("198.51.100.7"), header_v2("198.51.100.7")):
        not_served(behind, front, header_v2("203.0.113.5") + second)


@pytest.mark.parametrize("front", ["dns", "dot"])
def test_local_is_the_balancer_itself(behind, unique, front):
    """LOCAL: its own health checks, whatever address is in there; 127.0.0.1 may not ask."""
    head = header_v2("198.51.100.7", command=0)
    assert raw(behind, front, head, query(unique())).rcode == REFUSED


def test_health_checks_of_haproxy(behind):
    """They connect, say LOCAL and end: haproxy has to find us up."""
    with socket.socket(socket.AF_UNIX) as control:
        control.connect(behind[2])
        control.sendall(b"show stat\n")
        text = b""
        while octets := control.recv(65536):
            text += octets
    rows = [line.split(",") for line in text.decode().splitlines()]
    status = next(r[17] for r in rows if r[:2] == ["haproxy_v2_dns", "pith"])
    assert status == "UP", status


# ---- caps

def test_caps_are_of_the_client(daemons, upstream, unique):
    """connections-per-client counts whom the balancer names; the balancer has no cap."""
    daemon = daemons(upstream, "tcp", listen=LISTEN.format(free_port()),
                     access='{ allow: ["198.51.100.0/24"] }',
                     limits="{ connections-per-client: 2 }")
    held = []
    try:
        for client in ("198.51.100.1", "198.51.100.2", "198.51.100.3"):
            for _ in range(2):
                stream = clients.Stream(daemon.dns)
                held.append(stream)
                stream.write(header_v2(client))
                message = query(unique())
                stream.send(message)
                assert fits(wire.Message(stream.recv()), message, "tcp").rcode == NOERROR
            with pytest.raises(clients.Closed):
                raw((daemon,), "dns", header_v2(client), query(unique()))
    finally:
        for stream in held:
            stream.close()

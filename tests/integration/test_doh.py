"""What is HTTP's own about DoH (RFC 8484): statuses, methods, media types, parameters, caching,
CORS, and strictness about HTTP/1.1; over both versions, with TLS and in clear text."""

import pytest

import clients
import wire
from checks import answered, fits
from clients import MEDIA_TYPE, PATH, b64url
from wire import SERVFAIL, opt, query

VERSIONS = ("h2", "h1", "h2-clear", "h1-clear")


@pytest.fixture(scope="module")
def server(daemons, upstream):
    """CORS is on."""
    return daemons(upstream, "tcp", http='{ cors: "*" }')


@pytest.fixture(params=VERSIONS)
def http(request, server):
    """A connection of each kind: Http2 or Http1."""
    with open_http(server, request.param) as connection:
        yield connection


def open_http(server, version):
    name, _, clear = version.partition("-")
    if clear:
        stream = clients.Stream(server.doh_clear)
    else:
        alpn = {"h2": ["h2"], "h1": ["http/1.1"]}[name]
        stream = clients.Stream(server.doh, clients.tls_context(server.ca, alpn), server.name)
    return (clients.Http2 if name == "h2" else clients.Http1)(stream, server.name)


def good(response, message):
    """An answer to the message; RFC 8484 wants ID 0 to come back as ID 0."""
    return fits(response.message(), message, "doh")


def get(http, message, path=PATH, **how):
    return http.request("GET", f"{path}?dns={b64url(message)}", **how)


def post(http, body, media_type=MEDIA_TYPE):
    headers = [("content-type", media_type)] if media_type else []
    if isinstance(http, clients.Http2):
        headers.append(("content-length", str(len(body))))
    return http.request("POST", PATH, headers, body)


def refused(response, status):
    """An error: for no cache's keeping, with CORS and date like all others."""
    assert response.status == status, f"{response}"
    assert response.header("access-control-allow-origin") == "*"
    assert response.header("date")
    assert "max-age" not in (response.header("cache-control") or "")


def goes_on(http, unique):
    """The connection is as good as before."""
    message = query(unique(), id=0)
    good(get(http, message), message)


# ---- GET

def test_row_01_lengths_and_padding(http, unique):
    """base64url without padding, of all lengths modulo 3; padding does no harm."""
    for label in ("a", "ab", "abc"):
        message = query(unique(label), id=0)
        good(get(http, message), message)
        for pad in ("=", "%3D", "%3d"):
            rest = pad * (-len(b64url(message)) % 4)
            good(http.request("GET", f"{PATH}?dns={b64url(message)}{rest}"), message)


def test_row_02_alphabet(http, unique):
    """- and _ only; + and / are refused and never read as something else."""
    for _ in range(40):
        message = query(unique(), id=0xfbff, opt=opt((65001, b"\xff\xef\xfb\xff\xbf")))
        text = b64url(message)
        if "-" in text and "_" in text:
            break
    good(get(http, message), message)
    standard = text.replace("-", "+").replace("_", "/")
    for value in (standard, standard.replace("+", "%2B").replace("/", "%2F")):
        refused(http.request("GET", f"{PATH}?dns={value}"), 400)
    goes_on(http, unique)


def test_row_04_other_parameters(http, unique):
    """Unknown ones are ignored anywhere, escapes are decoded, two dns are refused."""
    message = query(unique(), id=0)
    text = b64url(message)
    for target in (f"?ct=application/dns-message&dns={text}", f"?dns={text}&random_padding=abc",
                   f"?a&b=&=c&dns={text}&&",
                   f"?dns=%{ord(text[0]):02x}{text[1:]}",
                   f"?%64ns={text}", f"?dns={text}&"):
        good(http.request("GET", PATH + target), message)
    for target in (f"?dns={text}&dns={text}", f"?dns={text}&%64ns={text}"):
        refused(http.request("GET", PATH + target), 400)
    goes_on(http, unique)


@pytest.mark.parametrize("target", [
    "", "?", "?dns", "?dns=", "?dns=A", "?dns=AAAA", "?dns=AAABAAABAAAAAAA", "?dns=!!!!",
    "?dns=AA%", "?dns=AA%4", "?dns=AA%zz", "?dns=AAAB%00AAB", "?DNS=AAABAAABAAAAAAAAAWEAAAEAAQ",
    "?notdns=AAABAAABAAAAAAAAAWEAAAEAAQ", "?dns=A===", "?dns=AAABAAABAAAAAAAAAWEAAAEAAQ=a"])
def test_bad_dns_parameter(http, unique, target):
    refused(http.request("GET", PATH + target), 400)
    goes_on(http, unique)


def test_row_05_accept_is_not_needed(http, unique):
    message = query(unique(), id=0)
    for headers in ([], [("accept", "*/*")], [("accept", "text/html")],
                    [("accept", "application/dns-message;q=0.9, */*")]):
        good(get(http, message, headers=headers), message)


@pytest.mark.parametrize("path", ["/", "/dns-quer", "/dns-query/", "/dns-queryx", "/DNS-query",
                                  "/dns-query/x", "//dns-query"])
def test_other_paths(http, unique, path):
    refused(get(http, query(unique()), path), 404)
    goes_on(http, unique)


# ---- POST

def test_post(http, unique):
    """Parameters and capitals of the media type are tolerated."""
    for media_type in (MEDIA_TYPE, "Application/DNS-Message", f"{MEDIA_TYPE}; charset=utf-8",
                       f"{MEDIA_TYPE} ;x=y"):
        message = query(unique(), id=0)
        good(post(http, message, media_type), message)


@pytest.mark.parametrize("media_type", [None, "text/plain", "application/json", "",
                                        "application/dns-messages", "application/dns",
                                        "application/x-www-form-urlencoded"])
def test_other_media_types(http, unique, media_type):
    refused(post(http, query(unique()), media_type), 415)
    goes_on(http, unique)


@pytest.mark.parametrize("octets", [0, 1, 11])
def test_body_without_a_message(http, unique, octets):
    refused(post(http, query(unique())[:octets]), 400)
    goes_on(http, unique)


def test_body_that_is_a_response(http, unique):
    refused(post(http, query(unique(), flags=wire.QR)), 400)
    goes_on(http, unique)


def test_row_08_largest_body(http, unique):
    """65535 octets are a message, one more is too much."""
    name = unique()
    filling = 65535 - len(query(name, opt=opt((wire.PADDING, b""))))
    message = query(name, opt=opt((wire.PADDING, bytes(filling))), id=0)
    assert len(message) == 65535
    good(post(http, message), message)
    refused(post(http, message + b"\0"), 413)


# ---- methods

@pytest.mark.parametrize("method", ["PUT", "PATCH", "DELETE", "TRACE", "FOO"])
def test_row_11_other_methods(http, unique, method):
    response = http.request(method, f"{PATH}?dns={b64url(query(unique()))}")
    refused(response, 405)
    assert {m.strip() for m in response.header("allow").split(",")} >= {"GET", "HEAD", "POST"}
    goes_on(http, unique)


def test_row_11_head(http, unique):
    """The headers of GET, and nothing else."""
    message = query(unique("ttl-300"), id=0)
    first = get(http, message)
    response = http.request("HEAD", f"{PATH}?dns={b64url(message)}")
    assert response.status == 200 and response.body == b""
    for name in ("content-type", "content-length", "cache-control"):
        assert response.header(name) == first.header(name)
    goes_on(http, unique)


def test_row_11_options(http, unique):
    """A preflight of a page's script (CORS)."""
    response = http.request("OPTIONS", PATH, [
        ("origin", "https://page.example"), ("access-control-request-method", "POST"),
        ("access-control-request-headers", "content-type")])
    assert response.status == 204 and response.body == b""
    assert response.header("access-control-allow-origin") == "*"
    assert "POST" in response.header("access-control-allow-methods")
    assert "content-type" in response.header("access-control-allow-headers").lower()
    goes_on(http, unique)


def test_cors_only_where_configured(pithd, unique):
    with open_http(pithd, "h2") as http:
        assert get(http, query(unique())).header("access-control-allow-origin") is None


# ---- caching

@pytest.mark.parametrize("label, max_age", [
    ("ttl-300", 300), ("ttl-1", 1), ("ttl-0", None), ("nx-3600-60", 60), ("nodata-20-90", 20),
    ("rcode-2", None), ("rcode-5", None), ("nosoa", None)])
def test_row_16_freshness(http, unique, label, max_age):
    """The smallest TTL of the answer, the life of a negative one, no-store for the rest."""
    message = query(unique(label), id=0)
    response = get(http, message)
    assert good(response, message)
    assert response.max_age == max_age
    assert "private" not in response.header("cache-control")


def test_row_16_freshness_goes_down(server, http, unique):
    message = query(unique("ttl-300"), id=0)
    assert get(http, message).max_age == 300
    server.advance(100000)
    assert 198 <= get(http, message).max_age <= 200


def test_row_17_servfail_is_an_answer(http, unique):
    """200, with question, OPT and reason."""
    message = query(unique("ede-2-6-bogus"), opt=opt(), id=0)
    answer = good(get(http, message), message)
    assert answer.rcode == SERVFAIL and 6 in answer.ede


# ---- limits

def test_too_many_headers(server, unique):
    for version in VERSIONS:
        with open_http(server, version) as http:
            headers = [(f"x-{i}", "v" * 1000) for i in range(100)]
            try:
                assert get(http, query(unique()), headers=headers).status == 431
            except clients.Closed:
                assert version.startswith("h2")
    answered(server, "doh", query(unique()))


def test_too_long_a_target(server, unique):
    for version in VERSIONS:
        with open_http(server, version) as http:
            try:
                response = http.request("GET", PATH + "?x=" + "a" * 200000)
                assert response.status in (400, 414, 431)
            except clients.Closed:
                pass
    answered(server, "doh", query(unique()))


def test_rate(daemons, up, unique):
    """Over the rate: 429 over HTTP, REFUSED elsewhere; another client is not concerned."""
    daemon = daemons(up, limits="{ rate: { queries: 1, burst: 5 } }")
    with open_http(daemon, "h2") as http:
        statuses = [get(http, query("localhost")).status for _ in range(10)]
    assert statuses[:4] == [200] * 4 and statuses[-1] == 429
    assert daemon.ask("udp", query("localhost")).rcode == wire.REFUSED
    answered(daemon, "udp", query("localhost"), local=True, source="127.0.0.9")


# ---- HTTP/1.1 is strict

def raw_h1(server, octets):
    """The first response to some octets, and whether the connection ends after it."""
    context = clients.tls_context(server.ca, ["http/1.1"])
    stream = clients.Stream(server.doh, context, server.name)
    with clients.Http1(stream, server.name) as http:
        stream.write(octets)
        response = http.response()
        return response, not http.buffer and stream.at_end(2.0)


GET_LINE = f"GET {PATH}?dns=AAABAAABAAAAAAAAAWEHZXhhbXBsZQNjb20AAAEAAQ HTTP/1.1\r\n".encode()
BODY = query("a.example.com", id=0)
POST_HEAD = (f"POST {PATH} HTTP/1.1\r\nHost: x\r\nContent-Type: {MEDIA_TYPE}\r\n").encode()
LENGTH = f"Content-Length: {len(BODY)}\r\n".encode()

STRICT = {
    "length and chunks": POST_HEAD + LENGTH + b"Transfer-Encoding: chunked\r\n\r\n" + BODY,
    "two lengths": POST_HEAD + LENGTH + b"Content-Length: 7\r\n\r\n" + BODY,
    "list of lengths": POST_HEAD + b"Content-Length: 5, 7\r\n\r\n" + BODY,
    "signed length": POST_HEAD + f"Content-Length: +{len(BODY)}\r\n\r\n".encode() + BODY,
    "huge length": POST_HEAD + b"Content-Length: 18446744073709551617\r\n\r\n" + BODY,
    "folded header": GET_LINE + b"Host: x\r\nX: a\r\n b\r\n\r\n",
    "folded first header": GET_LINE + b" Host: x\r\n\r\n",
    "bare LF": GET_LINE.replace(b"\r\n", b"\n") + b"Host: x\n\n",
    "bare LF in headers": GET_LINE + b"Host: x\nX: y\r\n\r\n",
    "bare CR": GET_LINE + b"Host: x\r\nX: a\rb\r\n\r\n",
    "space before colon": GET_LINE + b"Host: x\r\nX : y\r\n\r\n",
    "no colon": GET_LINE + b"Host: x\r\nnonsense\r\n\r\n",
    "NUL in a value": GET_LINE + b"Host: x\r\nX: a\0b\r\n\r\n",
    "no host": GET_LINE + b"\r\n",
    "two hosts": GET_LINE + b"Host: x\r\nHost: y\r\n\r\n",
    "no version": GET_LINE.replace(b" HTTP/1.1", b"") + b"Host: x\r\n\r\n",
    "other version": GET_LINE.replace(b"1.1", b"1.9x") + b"Host: x\r\n\r\n",
    "bad chunk size": POST_HEAD + b"Transfer-Encoding: chunked\r\n\r\nxyz\r\n",
    "chunk without its end": POST_HEAD + b"Transfer-Encoding: chunked\r\n\r\n1\r\nab\r\n",
}


@pytest.mark.parametrize("fault", STRICT)
def test_http1_is_strict(server, fault):
    """400 and the end, so that nothing behind can be taken for a request."""
    response, ends = raw_h1(server, STRICT[fault])
    assert response.status == 400, f"{response}"
    assert ends


def test_http1_chunks(server, unique):
    """A body in chunks, and the connection goes on."""
    message = query(unique(), id=0)
    head = f"POST {PATH} HTTP/1.1\r\nHost: x\r\nContent-Type: {MEDIA_TYPE}\r\n" \
           "Transfer-Encoding: chunked\r\n\r\n"
    chunks = b"%x\r\n%b\r\n%X;x=y\r\n%b\r\n0\r\nTrailer: x\r\n\r\n" % (
        5, message[:5], len(message) - 5, message[5:])
    with open_http(server, "h1") as http:
        http.stream.write(head.encode() + chunks)
        good(http.response(), message)
        goes_on(http, unique)


def test_http1_close(server, unique):
    message = query(unique(), id=0)
    with open_http(server, "h1") as http:
        good(get(http, message, headers=[("Connection", "close")]), message)
        assert http.stream.at_end()


def test_http10(server):
    """HTTP/1.0 is answered and closed, or refused."""
    response, ends = raw_h1(server, GET_LINE.replace(b"1.1", b"1.0") + b"\r\n")
    assert response.status in (200, 400, 505) and ends


def test_unknown_alpn(server):
    """no_application_protocol (RFC 7301 section 3.2)."""
    with pytest.raises((clients.Closed, OSError), match="(?i)no.application.protocol"):
        clients.Stream(server.doh, clients.tls_context(server.ca, ["spdy/3"]), server.name)

"""Real clients ask pithd and nsd the same 200 names and more: the same records, and the second
time from the cache."""

import http.server
import re
import socket
import subprocess
import threading

import pytest

import servers
import zone

TOOLS = ("kdig +https", "kdig +https-get", "kdig +tls", "kdig +tcp", "kdig", "dig +https")


@pytest.fixture(scope="module")
def daemon(daemons, nsd):
    return daemons(nsd, cache="{ memory: 64MiB, prefetch: false }")


def command(tool, address, ca=None):
    """The tool's command line as far as the names."""
    program, *options = tool.split()
    line = [program, f"@{address[0]}", "-p", str(address[1]), *options]
    if program == "dig":
        line += ["+nocookie", "+time=5"]
    if ca:
        line += [f"+tls-ca={ca}", f"+tls-hostname={servers.NAME}"]
    return line


def run(line, questions):
    """Asks all with one call of a tool. A list of (status, answer, SOA of the authority), where
    records are (owner, type, rdata) with their TTL apart."""
    words = [word for question in questions for word in question]
    out = subprocess.run(line + words, check=True, capture_output=True, timeout=60).stdout
    blocks = re.split(r"->>HEADER<<-", out.decode("latin-1"))[1:]
    assert len(blocks) == len(questions), out[-2000:]
    return [parse(block) for block in blocks]


def parse(block):
    status = re.search(r"status: (\w+)", block)[1]
    sections, section = {"ANSWER": [], "AUTHORITY": []}, None
    for text in block.split("\n"):
        head = re.match(r";; (\w+) SECTION:", text)
        if head:
            section = sections.get(head[1])
        elif text and not text.startswith(";") and section is not None:
            owner, ttl, _, rtype, *rdata = text.split(None, 4)
            section.append((owner.lower(), rtype, " ".join(rdata), int(ttl)))
    return (status, sorted(sections["ANSWER"]),
            sorted(r for r in sections["AUTHORITY"] if r[1] == "SOA"))


def records(result):
    """The result without its TTLs."""
    status, answer, authority = result
    return status, [r[:3] for r in answer], [r[:3] for r in authority]


def ttls(result):
    return [r[3] for r in result[1] + result[2]]


def reference(tool, nsd, questions):
    """What the same program says when it asks nsd."""
    return run(command(tool.split()[0], nsd.address), questions)


@pytest.mark.parametrize("tool", TOOLS)
def test_same_records_as_nsd(daemons, nsd, tool):
    """Over each front end, from upstream and then from the cache, with TTLs gone down."""
    daemon = daemons(nsd)
    front = {"+https": daemon.doh, "+https-get": daemon.doh, "+tls": daemon.dot}
    address = front.get(tool.split()[-1], daemon.dns)
    line = command(tool, address, daemon.ca if address != daemon.dns else None)
    questions = zone.questions()
    assert len(questions) >= 200
    expected = reference(tool, nsd, questions)

    first = run(line, questions)
    before = nsd.queries()
    for question, got, right in zip(questions, first, expected):
        assert records(got) == records(right), question
    assert {got[0] for got in first} == {"NOERROR", "NXDOMAIN"}

    daemon.advance(5000)
    second = run(line, questions)
    assert nsd.queries() == before
    for question, got, earlier in zip(questions, second, first):
        assert records(got) == records(earlier), question
        assert len(ttls(got)) == len(ttls(earlier))
        assert all(x <= y - 5 for x, y in zip(ttls(got), ttls(earlier))), question
    daemon.stop()


class _Quiet(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200)
        self.end_headers()

    def log_message(self, *_):
        pass


@pytest.fixture(scope="module")
def web():
    """The port of a web server on 127.0.0.1 and ::1."""
    class Dual(http.server.ThreadingHTTPServer):
        address_family = socket.AF_INET6

        def server_bind(self):
            self.socket.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
            super().server_bind()
    server = Dual(("::", servers.free_port()), _Quiet)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield server.server_address[1]
    server.shutdown()
    server.server_close()


@pytest.mark.parametrize("name, version, address", [
    ("www4", "-4", "127.0.0.1"), ("www6", "-6", "::1"), ("www46", "-4", "127.0.0.1"),
    ("www46", "-6", "::1")])
def test_curl(daemon, web, name, version, address):
    """curl --doh-url, with the certificate checked."""
    for _ in range(2):
        done = subprocess.run(
            ["curl", "-s", version, "--noproxy", "*", "--cacert", daemon.ca, "--max-time", "10",
             "--doh-url", f"https://127.0.0.1:{daemon.ports['doh']}/dns-query",
             "-w", "%{http_code} %{remote_ip}", f"http://{name}.{zone.ZONE}:{web}/"],
            capture_output=True, text=True, timeout=20)
        assert (done.returncode, done.stdout) == (0, f"200 {address}"), done

"""Stub resolvers, command line tools and libraries; Android's way of asking, replayed."""

import os
import random
import re
import socket
import ssl
import subprocess
import time

import pytest

import clients
import wire
from servers import HOST, NAME, Process, free_port


def run(*command, **how):
    """Standard output of a program that has to end well."""
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False, **how)
    assert done.returncode == 0, f"{command}: {done.stdout}{done.stderr}"
    return done.stdout


class Stubby(Process):
    def __init__(self, folder, daemon):
        self.port = free_port()
        config = os.path.join(folder, "stubby.yml")
        with open(config, "w", encoding="ascii") as file:
            file.write(f"""resolution_type: GETDNS_RESOLUTION_STUB
dns_transport_list: [ GETDNS_TRANSPORT_TLS ]
tls_authentication: GETDNS_AUTHENTICATION_REQUIRED
tls_query_padding_blocksize: 128
tls_ca_file: "{daemon.ca}"
edns_client_subnet_private: 1
idle_timeout: 10000
appdata_dir: "{folder}"
listen_addresses: [ {HOST}@{self.port} ]
upstream_recursive_servers:
  - address_data: {HOST}
    tls_port: {daemon.ports['dot']}
    tls_auth_name: "{NAME}"
""")
        super().__init__(["stubby", "-C", config, "-l"])

    def ask(self, name, qtype=wire.A):
        """Asks until its listener is there."""
        deadline = time.monotonic() + 20
        while True:
            try:
                with clients.Udp((HOST, self.port)) as udp:
                    udp.send(wire.query(name, qtype, wire.opt()))
                    return wire.Message(udp.recv(8))
            except clients.Closed:
                assert time.monotonic() < deadline, self.log
                time.sleep(0.02)


def test_stubby(daemon, need, tmp_path, upstream):
    """200 queries, a reload and a restart; ECS 0/0 goes no further."""
    need("stubby")
    daemon = daemon()
    stubby = Stubby(str(tmp_path), daemon)
    try:
        kinds = [("web", wire.A, 0), ("nx", wire.A, 3), ("nodata", wire.AAAA, 0)]
        for i in range(200):
            label, qtype, rcode = kinds[i % 3]
            assert stubby.ask(f"{label}.s{i % 50}.stubby.test", qtype).rcode == rcode
        assert "done" in daemon.reload()
        assert stubby.ask("web.reload.stubby.test").addresses == [HOST]
        daemon.restart()
        assert stubby.ask("web.restart.stubby.test").addresses == [HOST]
        assert all(ask.ecs is None for ask in upstream.log if ask.name.endswith("stubby.test"))
    finally:
        stubby.kill()


@pytest.mark.parametrize("how", ["", "+https", "+https-get", "+tls", "+tcp"])
def test_kdig(daemon, need, how):
    need("kdig")
    daemon = daemon()
    front = {"": "dns", "+tcp": "dns", "+tls": "dot"}.get(how, "doh")
    tls = [f"+tls-ca={daemon.ca}", f"+tls-hostname={NAME}", "+padding"] if front != "dns" else []
    out = run("kdig", f"@{HOST}", "-p", str(daemon.ports[front]), *([how] if how else []), *tls,
              f"web.kdig{how.replace('+', '')}.site.test")
    assert "status: NOERROR" in out and re.search(rf"\sA\s+{HOST}", out)


@pytest.mark.parametrize("how", ["", "+tcp", "+https", "+https-get", "+tls"])
def test_dig(daemon, need, how):
    need("dig")
    daemon = daemon()
    front = {"": "dns", "+tcp": "dns", "+tls": "dot"}.get(how, "doh")
    ca = [f"+tls-ca={daemon.ca}", f"+tls-hostname={NAME}"] if front != "dns" else []
    out = run("dig", f"@{HOST}", "-p", str(daemon.ports[front]), *([how] if how else []), *ca,
              "+nsid", "+cookie", f"web.dig{how.replace('+', '')}.site.test")
    assert "status: NOERROR" in out and re.search(rf"\sA\s+{HOST}", out)
    assert "WARNING" not in out


def test_curl(daemon, need, web):
    need("curl")
    daemon = daemon()
    assert "This is web.curl.site.test" in run(
        "curl", "-sS", "--cacert", daemon.ca, "--doh-url", daemon.url(), web.url("web.curl.site.test"))


def test_dnspython(daemon):
    message = pytest.importorskip("dns.message")
    query = pytest.importorskip("dns.query")
    daemon = daemon()
    context = ssl.create_default_context(cafile=daemon.ca)
    for i, ask in enumerate((
            lambda q: query.udp(q, HOST, port=daemon.ports["dns"], timeout=10),
            lambda q: query.tcp(q, HOST, port=daemon.ports["dns"], timeout=10),
            lambda q: query.tls(q, HOST, port=daemon.ports["dot"], timeout=10, ssl_context=context,
                                server_hostname=NAME))):
        question = message.make_query(f"web.p{i}.dnspython.test", "A", use_edns=0, pad=128)
        answer = ask(question)
        assert answer.rcode() == 0
        assert [r.to_text() for r in answer.answer[0]] == [HOST]


@pytest.mark.parametrize("via", clients.FRONTS)
def test_python_h2(daemon, via):
    """Python's h2 over TLS, with the chain and the name checked, and the other front ends."""
    daemon = daemon()
    with clients.Client(daemon, via, ca=daemon.ca) as client:
        for i in range(5):
            answer = client.ask(wire.query(f"web.h{i}.{via}.python.test", wire.A, wire.opt()))
            assert answer.rcode == 0 and answer.addresses == [HOST]


class Android:
    """DNS over TLS as Android's resolver does it: TLS 1.2 or newer, SNI, TCP Fast Open, ALPN
    "dot", sessions resumed, one query a record, no EDNS in its probe."""

    def __init__(self, daemon, session=None, context=None):
        self.context = context or ssl.create_default_context(cafile=daemon.ca)
        self.context.set_alpn_protocols(["dot"])
        plain = socket.socket()
        plain.settimeout(10)
        plain.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        plain.setsockopt(socket.IPPROTO_TCP, 30, 1)  # TCP_FASTOPEN_CONNECT
        plain.connect(daemon.dot)
        self.tls = self.context.wrap_socket(plain, server_hostname=NAME, session=session)
        self.buffer = b""

    def send(self, message):
        self.tls.sendall(clients.frame(message))

    def recv(self):
        while len(self.buffer) < 2 or len(self.buffer) < 2 + int.from_bytes(self.buffer[:2], "big"):
            part = self.tls.recv(4096)
            assert part, "closed"
            self.buffer += part
        end = 2 + int.from_bytes(self.buffer[:2], "big")
        octets, self.buffer = self.buffer[2:end], self.buffer[end:]
        return octets

    def close(self):
        self.tls.close()


def test_android(daemon):
    daemon = daemon()
    phone = Android(daemon)
    assert phone.tls.version() in ("TLSv1.2", "TLSv1.3")
    label = "".join(random.choice("abcdefABCDEF") for _ in range(6))
    probe = wire.query(f"{label}-dnsotls-ds.metric.gstatic.com", wire.AAAA, id=0x4242)
    phone.send(probe)
    octets = phone.recv()
    answer = wire.Message(octets)
    assert octets[:2] == probe[:2] and answer.question == probe[12:]  # its case as well
    assert answer.rcode == 0 and answer.opt is None and answer.addresses == ["2001:db8::1"]
    session, context = phone.tls.session, phone.context

    # Closed with queries open, it sends them all again over the next connection.
    pending = [wire.query(f"slow-200.p{i}.android.test", wire.A, id=100 + i) for i in range(5)]
    for message in pending:
        phone.send(message)
    phone.close()
    phone = Android(daemon, session, context)
    assert phone.tls.session_reused
    for message in pending:
        phone.send(message)
    answers = {octets[:2]: wire.Message(octets) for octets in (phone.recv() for _ in pending)}
    assert set(answers) == {message[:2] for message in pending}
    assert all(a.rcode == 0 for a in answers.values())
    phone.close()

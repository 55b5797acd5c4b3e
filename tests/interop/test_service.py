"""pithd as a service: started as root, with keys that only some may read; in the environment; its
filter of system calls; behind the reverse proxies of docker/."""

import grp
import os
import re
import shutil
import subprocess
import time

import pytest

import clients
import wire
from servers import HOST, NAME, Process, free_port, one_upstream, pithd_command

DOCKER = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "docker")


@pytest.fixture
def public():
    """A folder that every user may go through; the private /run, so nothing stays behind."""
    folder = "/run/pith-test"
    os.makedirs(folder, mode=0o755)
    yield folder
    shutil.rmtree(folder)


def filtered(daemon):
    with open(f"/proc/{daemon.pid}/status", encoding="ascii") as file:
        return re.search(r"^Seccomp:\s*(\d)", file.read(), re.M)[1] == "2"


def test_renewed_keys(daemon, certificates, public):
    """After root was given up, a key that cannot be read is told, and the old one stays; -t says
    so before; a group that may read it is enough."""
    daemon = daemon(folder=public, user="nobody")
    os.chmod(daemon.key, 0o600)
    with open(f"/proc/{daemon.pid}/status", encoding="ascii") as file:
        assert re.search(r"^Uid:\s+(?!0\b)", file.read(), re.M)

    def test():
        return subprocess.run([*pithd_command(), "-t", "-c", daemon.config], capture_output=True,
                              text=True, check=False)

    tested = test()
    assert tested.returncode == 1 and "key.pem" in tested.stderr, tested.stderr
    assert "refused" in daemon.reload() or "refused" in daemon.log
    assert re.search("key.pem.*Permission denied", daemon.log)
    assert daemon.ask("dot", wire.query("web.key1.site.test")).rcode == 0

    daemon.install_certificate(certificates.server2)
    os.chmod(daemon.key, 0o640)
    os.chown(daemon.key, 0, grp.getgrnam("nogroup").gr_gid)
    tested = test()
    assert tested.returncode == 0, tested.stderr
    assert "done" in daemon.reload()
    assert daemon.ask("dot", wire.query("web.key2.site.test")).rcode == 0


def test_filter(daemon, upstream, tmp_path):
    """On by default, over a reload that brings other upstreams and listeners, the snapshot and
    the end; "denied" in the log fails every test here."""
    snapshot = tmp_path / "snapshot"
    daemon = daemon(cache=f"{{ snapshot: {snapshot} }}")
    assert filtered(daemon)
    assert daemon.ask("doh", wire.query("web.filter1.site.test")).addresses == [HOST]
    tls = one_upstream(upstream.tls_address, "tls", tls_name="upstream.pith.test", ca=daemon.ca)
    udp = one_upstream(upstream.address, "udp", domains="[udp.test]")
    daemon.write_config(upstreams=f"[ {tls}, {udp} ]")
    assert "done" in daemon.reload()
    assert daemon.ask("dot", wire.query("web.filter2.site.test")).addresses == [HOST]
    assert daemon.ask("tcp", wire.query("web.filter.udp.test")).addresses == [HOST]
    daemon.stop()
    assert snapshot.stat().st_size > 0
    daemon.start_again()
    assert re.search(r"cache: [1-9]", daemon.log)


def test_filter_off(daemon):
    assert not filtered(daemon(seccomp="false"))


def test_environment(tmp_path):
    """A wrong variable is one line and exit status 1."""
    for name, value, told in (("PITH_CACHE_MEMORY", "lots", "is not a size"),
                              ("PITH_CASHE_MEMORY", "1GiB", "unknown variable"),
                              ("PITH_TLS_CERTIFICATES", f"{tmp_path}/none,key=/none", "cannot be read")):
        done = subprocess.run(pithd_command(), env={**os.environ, name: value}, text=True,
                              capture_output=True, timeout=20, check=False)
        assert done.returncode == 1
        assert f"environment: {name}" in done.stderr and told in done.stderr


def behind(daemon):
    """A pithd for proxies on 127.0.0.1; whoever asks must be 127.0.0.2."""
    return daemon(
        listen="""
  doh: [ {address: "127.0.0.1:$clear", tls: false, trusted-proxies: ["127.0.0.1/32"]} ]
  dot: [ {address: "127.0.0.1:$dot", proxy-protocol: ["127.0.0.1/32"]} ]
  dns: [ {address: "127.0.0.1:$dns"} ]""",
        access="{ allow: [127.0.0.2/32] }")


class Front:
    """Where clients find the proxy; attributes as clients.Client wants them."""

    name = NAME

    def __init__(self):
        self.ports = {"doh": free_port(), "dot": free_port()}
        self.doh, self.dot = (HOST, self.ports["doh"]), (HOST, self.ports["dot"])


def started(command, ports):
    """A proxy that takes connections on all these ports."""
    process = Process(command)
    deadline = time.monotonic() + 20
    for port in ports:
        while True:
            try:
                clients.Stream((HOST, port)).close()
                break
            except (OSError, clients.Closed):
                assert process.process.poll() is None and time.monotonic() < deadline, process.log
                time.sleep(0.01)  # it says nothing when it is ready
    return process


def check_clients(front, ca, vias):
    """What a client says about itself does not count; its address does."""
    for via in vias:
        for source, rcode in (("127.0.0.2", 0), ("127.0.0.3", 5)):
            with clients.Client(front, via, source=source, ca=ca) as client:
                lie = () if via == "dot" else [("X-Forwarded-For", "127.0.0.2")]
                for i in range(3):
                    message = wire.query(f"web.{via}{i}.proxied.test", wire.A, wire.opt())
                    assert client.ask(message, headers=lie).rcode == rcode, (via, source)


def test_nginx(daemon, need, certificates, tmp_path):
    need("nginx")
    daemon, front = behind(daemon), Front()
    with open(f"{DOCKER}/nginx/nginx.conf", encoding="ascii") as file:
        text = file.read()
    for old, new in (("pith:8080", f"{HOST}:{daemon.ports['clear']}"),
                     ("listen 443", f"listen {HOST}:{front.ports['doh']}"),
                     ("        listen [::]:443 ssl http2;\n", ""),
                     ("/certs/fullchain.pem", certificates.server[0]),
                     ("/certs/privkey.pem", certificates.server[1]),
                     ("/tmp/nginx.pid", f"{tmp_path}/nginx.pid"),
                     ("worker_processes auto;", "worker_processes 1; daemon off;")):
        assert old in text
        text = text.replace(old, new)
    for what in ("client_body", "proxy", "fastcgi", "uwsgi", "scgi"):
        text = text.replace("http {", f"http {{\n    {what}_temp_path {tmp_path}/{what};", 1)
    config = tmp_path / "nginx.conf"
    config.write_text(text)
    os.chmod(tmp_path, 0o755)
    proxy = started(["nginx", "-e", "stderr", "-c", str(config)], [front.ports["doh"]])
    try:
        check_clients(front, daemon.ca, ["doh", "doh-get", "doh-h1"])
    finally:
        proxy.signal(15)
        proxy.wait()


def test_haproxy(daemon, need, certificates, tmp_path):
    need("haproxy")
    daemon, front = behind(daemon), Front()
    pem = tmp_path / "haproxy.pem"
    with open(pem, "wb") as out:
        for path in certificates.server:
            with open(path, "rb") as file:
                shutil.copyfileobj(file, out)
    with open(f"{DOCKER}/haproxy/haproxy.cfg", encoding="ascii") as file:
        text = file.read()
    for old, new in (("pith:8080", f"{HOST}:{daemon.ports['clear']}"),
                     ("pith:8853", f"{HOST}:{daemon.ports['dot']}"),
                     (":443,:::443 v6only", f"{HOST}:{front.ports['doh']}"),
                     (":853,:::853 v6only", f"{HOST}:{front.ports['dot']}"),
                     ("/certs/haproxy.pem", str(pem))):
        assert old in text
        text = text.replace(old, new)
    config = tmp_path / "haproxy.cfg"
    config.write_text(text)
    proxy = started(["haproxy", "-db", "-f", str(config)], front.ports.values())
    try:
        check_clients(front, daemon.ca, ["doh", "doh-get", "doh-h1", "dot"])
    finally:
        proxy.kill()

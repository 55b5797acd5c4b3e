"""`pithd --check`: good servers are found good, the usual faults are named, and it always ends.
More of it, and of the other commands, in tests/interop."""

import re
import socket
import subprocess
import threading
import time

import pytest

import clients
from servers import HOST, NAME, free_port, pithd_command

PATIENCE = 5.0    # seconds, that it may take
SLACK = 3.0       # for a busy machine, and sanitizers


def check(where, ca):
    """(exit status, what it printed)"""
    start = time.monotonic()
    done = subprocess.run([*pithd_command(), "--check", where, "--ca", ca], text=True,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=30,
                          check=False)
    assert time.monotonic() - start < PATIENCE + SLACK, done.stdout
    return done.returncode, done.stdout


@pytest.fixture(scope="module")
def chained(certificates):
    return certificates.chained(f"DNS:localhost,DNS:{NAME},IP:{HOST}")


def test_good(daemons, upstream, chained):
    daemon = daemons(upstream)
    daemon.install_certificate(chained[1])
    assert "done" in daemon.reload()
    for front in ("doh", "dot"):
        status, out = check(f"localhost:{daemon.ports[front]}", daemon.ca)
        assert status == 0 and "all is good" in out and "FAULT" not in out, out


def test_usual_faults(daemons, upstream, certificates, chained):
    daemon = daemons(upstream)
    port = daemon.ports["doh"]
    for pair, where, told in (
            (chained[0], f"localhost:{port}", "without the chain"),
            (certificates.leaf("only-name", f"DNS:{NAME}"), f"localhost:{port}", "wrong name"),
            (None, f"{HOST}:{port}", "as an IP address"),
            (None, f"{HOST}:{free_port()}", "connection refused"),
            (None, f"{HOST}:{daemon.ports['clear']}", "does not speak TLS")):
        if pair:
            daemon.install_certificate(pair)
            assert "done" in daemon.reload()
        status, out = check(where, daemon.ca)
        assert status == 1 and re.search(f"FAULT.*{told}", out), (told, out)


class Deaf:
    """A server that takes connections, and at most shakes hands."""

    def __init__(self, certificates, handshake):
        self.socket = socket.create_server((HOST, 0))
        self.port = self.socket.getsockname()[1]
        self.context = clients.ssl.SSLContext(clients.ssl.PROTOCOL_TLS_SERVER)
        self.context.load_cert_chain(*certificates.server)
        self.context.set_alpn_protocols(["h2", "dot"])
        self.handshake, self.taken = handshake, []
        threading.Thread(target=self.run, daemon=True).start()

    def run(self):
        while True:
            try:
                taken, _ = self.socket.accept()
            except OSError:
                return  # closed
            if self.handshake:
                try:
                    taken = self.context.wrap_socket(taken, server_side=True)
                except OSError:
                    continue
            self.taken.append(taken)


@pytest.mark.parametrize("handshake", [False, True])
def test_never_hangs(certificates, handshake):
    deaf = Deaf(certificates, handshake)
    try:
        status, out = check(f"localhost:{deaf.port}", certificates.ca)
        assert deaf.taken
    finally:
        deaf.socket.close()
    assert status == 1 and "FAULT" in out, out

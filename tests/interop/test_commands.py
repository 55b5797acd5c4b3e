"""--check, --show-setup, --mobileconfig and --health against servers that are good, and bad in the
usual ways."""

import os
import plistlib
import socket
import subprocess
import time

import pytest

from servers import HOST, NAME, free_port, pithd_command, upstreams


def pithd(*arguments, environment=None):
    """(exit status, what it printed) of a command of pithd, which must take 5 s at most."""
    start = time.monotonic()
    done = subprocess.run([*pithd_command(), *arguments], capture_output=True, text=True,
                          timeout=30, env={**os.environ, **(environment or {})}, check=False)
    assert time.monotonic() - start < 6.5
    return done.returncode, done.stdout + done.stderr


@pytest.fixture(scope="module")
def intermediate(certificates):
    """A CA below the CA; a leaf of it with its chain, without, and one that has expired."""
    folder = certificates.folder
    leaf, full = certificates.chained(f"DNS:localhost,DNS:{NAME},IP:{HOST}")
    expired = f"{folder}/expired.pem"
    certificates._openssl("x509", "-req", "-in", "chained.csr", "-CA", "ca.pem", "-CAkey", "ca.key",
                          "-CAcreateserial", "-days", "0", "-extfile", "chained.ext", "-out",
                          expired)
    return {"leaf": leaf, "full": full, "expired": (expired, leaf[1])}


def fronts(daemon):
    return [f"{host}:{daemon.ports[front]}" for host in ("localhost", HOST)
            for front in ("doh", "dot")]


def test_good(daemon, intermediate):
    daemon = daemon()
    daemon.install_certificate(intermediate["full"])
    daemon.reload()
    for where in fronts(daemon):
        status, out = pithd("--check", where, "--ca", daemon.ca)
        assert status == 0 and "FAULT" not in out and "all is good" in out, out
        assert "2 in the chain" in out


def test_usual_faults(daemon, certificates, intermediate):
    daemon = daemon()
    doh = f"localhost:{daemon.ports['doh']}"

    def faults(pair, where=doh):
        if pair:
            daemon.install_certificate(pair)
            assert "done" in daemon.reload()
        status, out = pithd("--check", where, "--ca", daemon.ca)
        assert status == 1, out
        return " ".join(line for line in out.splitlines() if "FAULT" in line)

    assert "without the chain" in faults(intermediate["leaf"])
    assert f"wrong name: the certificate is for {NAME}" in faults(
        certificates.leaf("only-name", f"DNS:{NAME}"))
    assert "as an IP address" in faults(None, f"{HOST}:{daemon.ports['doh']}")
    assert "without the chain" in faults(certificates.leaf("strange", "DNS:localhost", "other-ca"))
    assert "connection refused" in faults(None, f"{HOST}:{free_port()}")
    assert "handshake" in faults(None, f"{HOST}:{daemon.ports['dns']}")
    assert "its address is not found" in faults(None, "nowhere.invalid")
    assert "has expired" in faults(intermediate["expired"])


def test_silent_server(daemon):
    """It says nothing at all; the check ends all the same."""
    with socket.create_server((HOST, 0)) as silent:
        status, out = pithd("--check", f"{HOST}:{silent.getsockname()[1]}")
    assert status == 1 and "does not come to an end in time" in out
    assert daemon is not None


def test_answers_that_are_wrong(daemon, upstream):
    """Refused, or with an upstream that fails."""
    refusing = daemon(access="{ allow: [192.0.2.0/24] }")
    where = f"localhost:{refusing.ports['doh']}"
    status, out = pithd("--check", where, "--ca", refusing.ca)
    assert status == 1 and "access.allow" in out
    alone = daemon(upstreams=upstreams((HOST, free_port()), "tcp"))
    status, out = pithd("--check", f"localhost:{alone.ports['dot']}", "--ca", alone.ca)
    assert status == 1 and "SERVFAIL" in out, out
    other = daemon(http="{ paths: [/elsewhere] }")
    status, out = pithd("--check", f"localhost:{other.ports['doh']}", "--ca", other.ca)
    assert status == 1 and "404" in out
    status, out = pithd("-c", other.config, "--check", f"localhost:{other.ports['doh']}", "--ca",
                        other.ca)
    assert status == 0, out
    assert upstream


def test_check_usage():
    for what in ("", "a b", "host:99999", "[::1"):
        assert pithd("--check", what)[0] == 2
    assert pithd("--check")[0] == 2


def test_health(daemon):
    daemon = daemon()
    status, out = pithd("-c", daemon.config, "--health")
    assert status == 0 and out.count("answers") == 3, out
    daemon.stop()
    status, out = pithd("-c", daemon.config, "--health")
    assert status == 1 and "refused" in out
    daemon.start_again()


def test_health_behind_proxies(daemon):
    """Clear text, and a listener that wants a PROXY header; who may not ask may still see that
    there are answers."""
    daemon = daemon(listen="""
  doh: [ {address: "127.0.0.1:$clear", tls: false} ]
  dot: [ {address: "127.0.0.1:$dot", proxy-protocol: ["127.0.0.1/32"]} ]
  dns: [ {address: "127.0.0.1:$dns", proxy-protocol: ["192.0.2.1/32"]} ]""",
                    access="{ allow: [192.0.2.0/24] }")
    status, out = pithd("-c", daemon.config, "--health")
    assert status == 0 and out.count("answers") == 2, out


def test_profile(tmp_path, certificates):
    """It is a property list, and can be signed."""
    status, out = pithd("--mobileconfig", NAME)
    assert status == 0
    profile = plistlib.loads(out.encode())
    settings = profile["PayloadContent"][0]["DNSSettings"]
    assert settings == {"DNSProtocol": "HTTPS", "ServerURL": f"https://{NAME}/dns-query"}
    assert profile["PayloadType"] == "Configuration"
    plain, signed = tmp_path / "a.mobileconfig", tmp_path / "b.mobileconfig"
    plain.write_text(out)
    pair = certificates.server
    subprocess.run(["openssl", "smime", "-sign", "-nodetach", "-outform", "der", "-signer", pair[0],
                    "-certfile", pair[0], "-inkey", pair[1], "-in", plain, "-out", signed],
                   check=True, capture_output=True)
    back = subprocess.run(["openssl", "smime", "-verify", "-noverify", "-inform", "der", "-in",
                           signed], check=True, capture_output=True).stdout
    assert plistlib.loads(back.replace(b"\r\n", b"\n")) == profile

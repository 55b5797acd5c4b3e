"""Certificates and session tickets that change while the server runs: nobody fails, new
connections get what is new, and what cannot be used changes nothing."""

import os
import re
import ssl
import subprocess

import pytest

import clients
import wire
from checks import answered, fits
from servers import HOST, NAME
from wire import query

POLL_MS = 5000  # how often files are looked at

TICKETS = "{ certificates: [ {certificate: $certificate, key: $key} ], ticket-keys: %s }"


def served(daemon, address):
    """The certificate that a new connection gets."""
    context = clients.tls_context(daemon.ca)
    with clients.Stream(address, context, NAME) as stream:
        return stream.socket.getpeercert(binary_form=True)


def der(pair):
    with open(pair[0], encoding="ascii") as file:
        return ssl.PEM_cert_to_DER_cert(file.read())


def spoil(daemon, what="no certificate\n"):
    with open(daemon.certificate, "w", encoding="ascii") as file:
        file.write(what)


# ---- certificates

@pytest.fixture
def load(tmp_path):
    """h2load on a daemon: load(daemon) starts it. It goes on until the test is over; then all
    that it asked has to have been answered."""
    running = []

    def start(daemon, seconds=4):
        url = f"https://{HOST}:{daemon.ports['doh']}{clients.PATH}"
        message = query("a.hot.example.com", id=0)
        answered(daemon, "doh", message)
        running.append(subprocess.Popen(
            ["h2load", "-c", "8", "-m", "10", "-t", "1", "-D", str(seconds),
             f"{url}?dns={clients.b64url(message)}"], stdout=subprocess.PIPE, text=True))
        return running[0]
    yield start
    for process in running:
        report, _ = process.communicate(timeout=60)
        assert " 0 failed, 0 errored, 0 timeout" in report, report
        assert " 0 3xx, 0 4xx, 0 5xx" in report, report
        assert int(re.search(r"(\d+) 2xx", report)[1]) > 100, report


@pytest.mark.parametrize("workers", ["1", "2"])
def test_reload_under_load(fresh, up, certificates, load, workers):
    """By SIGHUP, then by change of the files alone, then files that are of no use: h2load
    has no failure, each new connection the certificate that is in force."""
    daemon = fresh(up, workers=workers)
    running = load(daemon)
    assert served(daemon, daemon.doh) == der(certificates.server)

    daemon.install_certificate(certificates.server2)
    assert "done" in daemon.reload()
    for address in (daemon.dot, daemon.doh):
        assert served(daemon, address) == der(certificates.server2)

    daemon.install_certificate(certificates.server)
    since = len(daemon.lines)
    daemon.advance(POLL_MS)
    daemon.wait_line("certificates changed and were loaded", since=since)
    for address in (daemon.dot, daemon.doh):
        assert served(daemon, address) == der(certificates.server)

    spoil(daemon)
    daemon.advance(POLL_MS)
    assert "refused" in daemon.reload()
    assert served(daemon, daemon.doh) == der(certificates.server)
    assert running.poll() is None, "the load was over before the test"


def test_change_of_files_is_seen_in_real_time(fresh, up, certificates):
    """Without a signal and without the clock of the tests, within seconds."""
    daemon = fresh(up)
    daemon.install_certificate(certificates.server2)
    daemon.wait_line("certificates changed and were loaded", timeout=30)
    assert served(daemon, daemon.dot) == der(certificates.server2)


BAD = {
    "garbage": "no certificate\n",
    "empty": "",
    "cut off": "-----BEGIN CERTIFICATE-----\nMIIB\n",
}


@pytest.mark.parametrize("text", BAD.values(), ids=BAD.keys())
def test_bad_file_is_told_once(fresh, up, certificates, unique, text):
    """However often it is looked at; and what comes good later is taken."""
    daemon = fresh(up)
    since = len(daemon.lines)
    spoil(daemon, text)
    for _ in range(4):
        daemon.advance(POLL_MS)
    lines = [line for line in daemon.lines[since:] if daemon.certificate in line]
    assert len(lines) == 1 and "stay" in lines[0], daemon.log
    assert served(daemon, daemon.dot) == der(certificates.server)
    answered(daemon, "doh", query(unique()), addresses=["192.0.2.1"])

    daemon.install_certificate(certificates.server2)
    daemon.advance(POLL_MS)
    daemon.wait_line("certificates changed and were loaded", since=since)
    assert served(daemon, daemon.dot) == der(certificates.server2)

    since = len(daemon.lines)  # the same fault is news again
    spoil(daemon, text)
    daemon.advance(POLL_MS)
    daemon.wait_line(re.escape(daemon.certificate), since=since)


def test_bad_file_at_reload(fresh, up, certificates):
    """SIGHUP tells what is wrong; the looks that follow say once that the old ones stay."""
    daemon = fresh(up)
    spoil(daemon)
    since = len(daemon.lines)
    assert "refused" in daemon.reload()
    assert any(daemon.certificate in line for line in daemon.lines[since:])
    since = len(daemon.lines)
    for _ in range(3):
        daemon.advance(POLL_MS)
    assert len(daemon.lines[since:]) <= 1, daemon.log
    assert served(daemon, daemon.dot) == der(certificates.server)


def test_key_of_another_certificate(fresh, up, certificates, unique):
    """Half of a renewal is here: the old pair goes on until the other half is."""
    daemon = fresh(up)
    old = os.stat(daemon.key)
    daemon.install_certificate((certificates.server2[0], certificates.server[1]))
    assert os.stat(daemon.key).st_ino != old.st_ino
    since = len(daemon.lines)
    for _ in range(3):
        daemon.advance(POLL_MS)
    assert len([x for x in daemon.lines[since:] if "stay" in x]) == 1, daemon.log
    assert served(daemon, daemon.dot) == der(certificates.server)
    daemon.install_certificate(certificates.server2)
    daemon.advance(POLL_MS)
    assert served(daemon, daemon.dot) == der(certificates.server2)


# ---- tickets

VERSIONS = {"1.2": ssl.TLSVersion.TLSv1_2, "1.3": ssl.TLSVersion.TLSv1_3}


@pytest.fixture(params=VERSIONS.values(), ids=VERSIONS.keys())
def client(request, certificates):
    """A client's context: sessions belong to it."""
    return clients.tls_context(certificates.ca, ["dot"], request.param)


def connect(daemon, context, session=None):
    """Asks over a connection that offers the session; whether it was resumed, and the
    session for the next time."""
    with clients.Stream(daemon.dot) as stream:
        stream.socket = context.wrap_socket(stream.socket, server_hostname=NAME,
                                            session=session)
        message = query("tickets.example.com")
        stream.send(message)  # tickets of TLS 1.3 come before the answer
        fits(wire.Message(stream.recv()), message, "dot")
        return stream.socket.session_reused, stream.socket.session


@pytest.fixture
def keys(tmp_path):
    """keys("ab") is a file of two ticket keys; the same letter is the same key."""
    def write(letters, path=tmp_path / "keys"):
        with open(f"{path}.new", "wb") as file:
            file.write(b"".join(letter.encode() * 80 for letter in letters))
        os.rename(f"{path}.new", path)
        return str(path)
    return write


def test_tickets_across_instances(fresh, up, keys, client, tmp_path):
    """Resumed where the file is the same, not where it is another or none; and a client that
    is not known is served all the same."""
    one, two = (fresh(up, tls=TICKETS % keys("a")) for _ in range(2))
    other = fresh(up, tls=TICKETS % keys("b", tmp_path / "other"))
    alone = fresh(up)
    resumed, session = connect(one, client)
    assert not resumed
    for server, expected in ((one, True), (two, True), (other, False), (alone, False)):
        assert connect(server, client, session)[0] == expected


def test_tickets_of_own_keys(fresh, up, client, certificates):
    """Without a file: resumed by the instance itself, whichever worker has the connection, and
    after certificates were changed."""
    daemon = fresh(up, workers="2")
    resumed, session = connect(daemon, client)
    assert not resumed
    assert all(connect(daemon, client, session)[0] for _ in range(6))
    daemon.install_certificate(certificates.server2)
    daemon.reload()
    assert connect(daemon, client, session)[0]


def test_tickets_of_keys_that_rotate(fresh, up, keys, client):
    """A new first key seals, the old one behind it still opens; once it is gone it does not.
    A change of the file alone is enough."""
    daemon = fresh(up, tls=TICKETS % keys("a"))
    old = connect(daemon, client)[1]
    keys("ba")
    daemon.advance(POLL_MS)
    resumed, new = connect(daemon, client, old)
    assert resumed
    keys("b")
    daemon.advance(POLL_MS)
    assert not connect(daemon, client, old)[0]
    assert connect(daemon, client, new)[0]


def test_bad_ticket_keys_leave_the_old(fresh, up, keys, client):
    """A file of a wrong length; told once."""
    path = keys("a")
    daemon = fresh(up, tls=TICKETS % path)
    session = connect(daemon, client)[1]
    with open(path, "wb") as file:
        file.write(b"a" * 79)
    since = len(daemon.lines)
    for _ in range(3):
        daemon.advance(POLL_MS)
    assert len([line for line in daemon.lines[since:] if path in line]) == 1, daemon.log
    assert connect(daemon, client, session)[0]

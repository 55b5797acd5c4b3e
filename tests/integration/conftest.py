"""Fixtures: certificates, nsd, the scripted upstream, and pithd in the configurations that
most tests share. A test asks about names of its own (`unique`), so they can share a daemon."""

import itertools

import pytest

import clients
from scripted import Scripted
from servers import Certificates, Nsd, Pithd, free_port, upstreams

_numbers = itertools.count(1)


@pytest.fixture(scope="session")
def certificates(tmp_path_factory):
    return Certificates(str(tmp_path_factory.mktemp("certificates")))


@pytest.fixture(scope="session")
def nsd(tmp_path_factory):
    server = Nsd(str(tmp_path_factory.mktemp("nsd")))
    yield server
    server.stop()


@pytest.fixture(scope="session")
def start_upstream(certificates):
    """Starts scripted upstreams; all are stopped at the end."""
    started = []

    def start(certificate=None):
        server = Scripted(free_port(), free_port(), *(certificate or certificates.upstream))
        started.append(server)
        return server
    yield start
    for server in started:
        server.stop()


@pytest.fixture(scope="session")
def upstream(start_upstream):
    """The scripted upstream that tests share; it is up and at fault for nothing."""
    return start_upstream()


@pytest.fixture
def up(upstream):
    """The shared upstream for one test."""
    faults = len(upstream.faults)
    yield upstream
    upstream.up()
    assert upstream.faults[faults:] == []


@pytest.fixture(scope="session")
def daemons(tmp_path_factory, certificates):
    """Starts pithd: daemons(upstream, key=YAML, ...). What is left running is stopped, and has
    to end well, at the end of the run."""
    started = []

    def start(server=None, transport="udp", **keys):
        if server is not None:
            keys["upstreams"] = upstreams(server.address, transport)
        folder = str(tmp_path_factory.mktemp("pithd"))
        daemon = Pithd(folder, certificates, **keys)
        started.append(daemon)
        return daemon
    yield start
    stop_all(started)


def stop_all(started):
    """Ends all that still run, and tells of every one that did not end well."""
    faults = []
    for daemon in started:
        try:
            if daemon.process.returncode is None:
                daemon.stop()
        except AssertionError as fault:
            faults.append(str(fault))
    assert not faults, "\n".join(faults)


@pytest.fixture(scope="session")
def pithd(daemons, upstream):
    """The usual pithd: client subnets forwarded, the scripted upstream over TCP, where what is
    asked once is sent once, however busy the machine, so that asks can be counted."""
    return daemons(upstream, "tcp", ecs="{ mode: forward }")


@pytest.fixture
def fresh(daemons):
    """Starts pithd for one test only; it has to end well with the test."""
    started = []

    def start(*arguments, **keys):
        started.append(daemons(*arguments, **keys))
        return started[-1]
    yield start
    stop_all(started)


@pytest.fixture
def unique():
    """unique("ttl-5") is a name that no other test asks about, with that behaviour."""
    return lambda label="a": f"{label}.t{next(_numbers)}.example.com"


@pytest.fixture(params=clients.FRONTS)
def via(request):
    """Every front end in turn."""
    return request.param

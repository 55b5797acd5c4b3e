"""Fixtures: pithd, its upstream and a web site whose names only that upstream knows."""

import os
import shutil
import sys

import pytest

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(os.path.dirname(HERE), "integration"))
sys.path.insert(0, HERE)

# pylint: disable=wrong-import-position
import site_under_test  # noqa: E402
from scripted import Scripted  # noqa: E402
from servers import Certificates, Pithd, Process, free_port, pithd_command, upstreams  # noqa: E402


def pytest_configure():
    if os.environ.get("PITH_TEST_INSIDE") != "yes":
        raise pytest.UsageError("these tests change /etc: start them by tests/interop/run.sh")


class Daemon(Pithd):
    """A pithd that can be started again, on the same ports."""

    def start_again(self):
        Process.__init__(self, [*pithd_command(), "-c", self.config],
                         {"PITH_TEST_CLOCK": self.clock})
        self.wait_line(r"\bready\b")

    def restart(self):
        self.stop()
        self.start_again()

    def url(self, template=""):
        return f"https://127.0.0.1:{self.ports['doh']}/dns-query{template}"


@pytest.fixture(scope="session")
def certificates(tmp_path_factory):
    return Certificates(str(tmp_path_factory.mktemp("certificates")))


@pytest.fixture(scope="session")
def upstream(certificates):
    server = Scripted(free_port(), free_port(), *certificates.upstream)
    yield server
    server.stop()


@pytest.fixture(scope="session")
def web():
    """A web site on every name that resolves to loopback."""
    server = site_under_test.Site()
    yield server
    server.stop()


@pytest.fixture
def daemon(tmp_path, certificates, upstream):
    """daemon(key=YAML, ...) starts a pithd; all have to end well with the test, and have denied
    no system call."""
    started = []

    def start(folder=None, **keys):
        folder = folder or tmp_path / f"pithd{len(started)}"
        os.makedirs(folder, exist_ok=True)
        keys.setdefault("upstreams", upstreams(upstream.address, "tcp"))
        started.append(Daemon(str(folder), certificates, **keys))
        return started[-1]
    yield start
    upstream.up()
    for one in started:
        one.stop()
        assert "system call was denied" not in one.log, one.log


@pytest.fixture(scope="session")
def artefacts():
    """Where screenshots and logs are kept."""
    build = os.environ.get("top_builddir", os.getcwd())
    folder = os.path.join(build, "tests", "interop", "artefacts")
    os.makedirs(folder, exist_ok=True)
    return folder


@pytest.fixture(scope="session")
def need():
    """need("nginx", ...): the test is left out where one of the programs is missing."""
    def check(*programs):
        for program in programs:
            if shutil.which(program) is None:
                pytest.skip(f"{program} is not installed")
    return check

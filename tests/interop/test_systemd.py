"""The units of contrib/ under a real systemd, which is the first process of namespaces of its own
(machine.sh)."""

import glob
import os
import re
import shutil
import signal
import ssl
import subprocess
import time

import pytest

import clients
import wire
from servers import HOST, NAME, Process, upstreams

HERE = os.path.dirname(os.path.abspath(__file__))
CONTRIB = os.path.join(HERE, "..", "..", "contrib")
DOC = os.path.join(HERE, "..", "..", "doc")
BUILD = os.environ.get("top_builddir", ".")
CREDENTIALS = "/run/credentials/pithd.service"
KEYS = "/etc/letsencrypt/live/dns.example.net"   # as in what is installed, and the guides
DYNAMIC = range(61184, 65520)     # users that DynamicUser= hands out
PATIENCE = 30                     # seconds for a command
EXPOSURE = 2.0                    # at most, as `systemd-analyze security` counts it
VIAS = ["udp", "tcp", "dot", "doh", "doh-get", "doh-h1"]


class Machine(Process):
    """A systemd. As a server it has the attributes that clients.Client asks for; its ports are
    the ones that pithd really has."""

    name = NAME
    dns, dot, doh = (HOST, 53), (HOST, 853), (HOST, 443)

    def __init__(self, folder):
        command = [os.path.join(HERE, "machine.sh"), os.path.join(folder, "root"),
                   os.path.join(BUILD, "pithd")]
        super().__init__(command)
        self.first = None
        deadline = time.monotonic() + PATIENCE
        while not self.is_up():
            if self.process.poll() is not None:
                assert self.process.returncode == 77, self.log
                pytest.skip(self.log)
            assert time.monotonic() < deadline, self.log
            time.sleep(0.05)  # nobody tells us when

    def is_up(self):
        """Whether everything is started; its first process is known from then on."""
        for path in glob.glob("/proc/[0-9]*/status"):
            try:
                with open(path, encoding="ascii") as file:
                    status = file.read()
                with open(path.replace("status", "cmdline"), "rb") as file:
                    name = file.read().split(b"\0")[0]
            except (FileNotFoundError, ProcessLookupError):
                continue
            if name == b"/lib/systemd/systemd" and re.search(r"^NSpid:.*\s1$", status, re.M) and \
                    self.is_ours(int(path.split("/")[2])):
                self.first = int(path.split("/")[2])
        return self.first is not None and os.path.exists(self.path("/run/systemd/private")) and \
            self.run("systemctl", "is-system-running", "--wait", check=False).startswith("running")

    def is_ours(self, pid):
        """Whether it is the child of our child, machine.sh that is, and unshare."""
        for _ in range(2):
            with open(f"/proc/{pid}/status", encoding="ascii") as file:
                pid = int(re.search(r"^PPid:\s+(\d+)", file.read(), re.M)[1])
        return pid == self.pid

    def path(self, inside):
        return f"/proc/{self.first}/root{inside}"

    def write(self, inside, text, mode=0o644):
        os.makedirs(os.path.dirname(self.path(inside)), exist_ok=True)
        with open(self.path(inside), "w", encoding="utf-8") as file:
            file.write(text)
        os.chmod(self.path(inside), mode)

    def try_(self, *command):
        """(exit status, all output) of a command in there."""
        done = subprocess.run(["nsenter", "-t", str(self.first), "-m", "-p", "-u", "-i", "-C",
                               *command], stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                              text=True, timeout=PATIENCE, check=False, cwd="/",
                              env={"PATH": "/usr/local/sbin:/usr/sbin:/usr/bin", "LC_ALL": "C"})
        return done.returncode, done.stdout

    def run(self, *command, check=True):
        status, out = self.try_(*command)
        assert not check or status == 0, f"{command}: {out}\n{self.journal()}"
        return out

    def journal(self):
        return self.try_("journalctl", "--no-pager", "-o", "cat", "-b")[1]

    def journal_size(self):
        return len(self.journal())

    def wait_journal(self, pattern, since):
        deadline = time.monotonic() + PATIENCE
        while not re.search(pattern, self.journal()[since:]):
            assert time.monotonic() < deadline, f"no {pattern!r} in:\n{self.journal()[since:]}"
            time.sleep(0.05)

    def show(self, prop, unit="pithd.service"):
        return self.run("systemctl", "show", "--value", "-p", prop, unit).strip()

    def status(self, field):
        """A line of /proc/PID/status of pithd."""
        pid = self.show("MainPID")
        with open(self.path(f"/proc/{pid}/status"), encoding="ascii") as file:
            return re.search(rf"^{field}:\s*(.*)$", file.read(), re.M)[1]

    def install_keys(self, pair):
        """As a renewal does it: files of root's that nobody else may read."""
        self.run("rm", "-rf", KEYS)
        for source, name in zip(pair, ("fullchain.pem", "privkey.pem")):
            with open(source, encoding="ascii") as file:
                self.write(f"{KEYS}/{name}", file.read(), 0o600)
        os.chmod(self.path(os.path.dirname(KEYS)), 0o700)

    def configure(self, upstream, keys):
        self.write("/etc/pith/pith.yaml", f"""
workers: 1
upstreams: {upstreams(upstream.address, "tcp")}
tls: {{ certificates: [ {{ certificate: {keys}/fullchain.pem, key: {keys}/privkey.pem }} ] }}
cache: {{ snapshot: /var/lib/pith/cache.snapshot }}
""")

    def install_unit(self, drop_in):
        with open(f"{CONTRIB}/pithd.service.in", encoding="ascii") as file:
            self.write("/etc/systemd/system/pithd.service",
                       file.read().replace("@sbindir@", "/usr/local/sbin"))
        shutil.rmtree(self.path("/etc/systemd/system/pithd.service.d"), ignore_errors=True)
        self.write("/etc/systemd/system/pithd.service.d/keys.conf", drop_in)
        self.run("systemctl", "daemon-reload")

    def served(self):
        """The certificate that a new connection gets."""
        with clients.Stream(self.dot, clients.tls_context(None, ["dot"]), NAME) as stream:
            return stream.socket.getpeercert(binary_form=True)

    def stop(self):
        self.signal(signal.SIGTERM)
        self.wait(20)


@pytest.fixture(scope="module")
def machine(tmp_path_factory):
    machine = Machine(str(tmp_path_factory.mktemp("machine")))
    yield machine
    machine.stop()


@pytest.fixture(autouse=True)
def tidy(machine):
    yield
    machine.run("systemctl", "stop", "pithd.socket", "pithd.service", check=False)
    journal = machine.journal()
    assert "system call was denied" not in journal, journal
    machine.run("systemctl", "reset-failed", check=False)


def der(pair):
    with open(pair[0], encoding="ascii") as file:
        return ssl.PEM_cert_to_DER_cert(file.read())


def load_credential():
    """What doc/certificates.md says."""
    with open(f"{DOC}/certificates.md", encoding="utf-8") as file:
        text = file.read()
    start = text.index("[Service]\n    LoadCredential=")
    text = text[start:text.index("\n\n", start)].replace("\n    ", "\n") + "\n"
    assert KEYS in text and "ExecReload=\n" in text, text
    return text


def copied_keys():
    """contrib/pithd-keys.conf"""
    with open(f"{CONTRIB}/pithd-keys.conf", encoding="ascii") as file:
        text = file.read()
    assert KEYS in text
    return text


def answers(machine, what, vias=VIAS):
    for via in vias:
        answer = clients.ask(machine, via, wire.query(f"web.{via}.{what}.site.test"))
        assert answer.addresses == [HOST], (via, answer)


def test_verify(machine):
    """Neither a word of systemd's about the units, nor too much that is left open."""
    machine.install_unit(copied_keys())
    with open(f"{CONTRIB}/pithd.socket", encoding="ascii") as file:
        machine.write("/etc/systemd/system/pithd.socket", file.read())
    units = ["/etc/systemd/system/pithd.service", "/etc/systemd/system/pithd.socket"]
    out = machine.run("systemd-analyze", "verify", "--man=no", *units)
    assert "pithd" not in out, out
    out = machine.run("systemd-analyze", "security", "--no-pager", "pithd.service")
    exposure = re.search(r"Overall exposure level for pithd.service: ([0-9.]+)", out)
    assert float(exposure[1]) <= EXPOSURE, out


def test_service(machine, upstream, certificates):
    """It is a user that nobody else is, with one right of root's, and answers on every port as
    soon as systemd takes it for started."""
    machine.install_keys(certificates.server)
    machine.configure(upstream, CREDENTIALS)
    machine.install_unit(load_credential())
    machine.run("systemctl", "start", "pithd.service")
    answers(machine, "service")
    assert machine.show("ActiveState") == "active" and machine.show("Type") == "notify"
    assert int(machine.status("Uid").split()[0]) in DYNAMIC
    net_bind_service = 1 << 10
    for field in ("CapEff", "CapPrm", "CapBnd", "CapAmb"):
        assert int(machine.status(field), 16) == net_bind_service, field
    assert machine.status("NoNewPrivs") == "1" and machine.status("Seccomp") == "2"
    pid = machine.show("MainPID")
    since = machine.journal_size()
    machine.run("systemctl", "reload", "pithd.service")
    machine.wait_journal("reload: done", since)
    answers(machine, "reloaded")

    # systemd copies credentials at a start; a restart keeps the cache.
    machine.install_keys(certificates.server2)
    machine.run("systemctl", "restart", "pithd.service")
    assert machine.served() == der(certificates.server2) and machine.show("MainPID") != pid
    assert re.search("cache: [1-9][0-9]*", machine.journal())
    asked = upstream.asked("web.udp.service.site.test")
    answers(machine, "service")
    assert upstream.asked("web.udp.service.site.test") == asked


def test_reload(machine, upstream, certificates):
    """A reload takes renewed keys that only root may read, with connections and cache kept; one
    that cannot be done says why, and fails, and leaves what there was."""
    machine.install_keys(certificates.server)
    machine.configure(upstream, "/run/pith")
    machine.install_unit(copied_keys())
    machine.run("systemctl", "start", "pithd.service")
    pid = machine.show("MainPID")
    assert machine.served() == der(certificates.server)
    folder = os.stat(machine.path(f"/proc/{pid}/root/run/pith/"))
    assert folder.st_mode & 0o777 == 0o700 and folder.st_uid in DYNAMIC
    with clients.Client(machine, "doh") as client:
        assert client.ask(wire.query("web.reload1.site.test")).addresses == [HOST]
        since = machine.journal_size()
        machine.install_keys(certificates.server2)
        machine.run("systemctl", "reload", "pithd.service")
        machine.wait_journal("reload: done", since)
        assert machine.served() == der(certificates.server2)
        assert client.ask(wire.query("web.reload2.site.test")).addresses == [HOST]

        # A key of another certificate, then a fault in the configuration.
        since = machine.journal_size()
        machine.install_keys((certificates.server2[0], certificates.server[1]))
        assert machine.try_("systemctl", "reload", "pithd.service")[0] != 0
        machine.wait_journal(r"privkey\.pem.*key", since)
        machine.install_keys(certificates.server2)
        since = machine.journal_size()
        machine.write("/etc/pith/pith.yaml", "cashe: {}\n")
        assert machine.try_("systemctl", "reload", "pithd.service")[0] != 0
        machine.wait_journal(r"pith\.yaml:1: cashe", since)
        assert machine.served() == der(certificates.server2)
        assert client.ask(wire.query("web.reload3.site.test")).addresses == [HOST]
    assert machine.show("MainPID") == pid and machine.show("ActiveState") == "active"


def deploy_hook(machine):
    """What doc/certificates.md has the renewal do for a group that may read the keys."""
    with open(f"{DOC}/certificates.md", encoding="utf-8") as file:
        lines = re.findall(r"^    (ch(?:grp|mod) -R .*)$", file.read(), re.M)
    assert len(lines) == 2
    for line in lines:
        machine.run("sh", "-c", line.replace(" /etc/letsencrypt/archive", ""))


def test_group(machine, upstream, certificates):
    """A group of the service's may read the keys: renewed ones are taken without a word."""
    machine.run("groupadd", "--force", "--system", "tls-keys")
    machine.install_keys(certificates.server)
    deploy_hook(machine)
    machine.configure(upstream, KEYS)
    machine.install_unit("[Service]\nSupplementaryGroups=tls-keys\n")
    machine.run("systemctl", "start", "pithd.service")
    assert machine.served() == der(certificates.server)
    machine.run("systemctl", "reload", "pithd.service")
    machine.install_keys(certificates.server2)
    deploy_hook(machine)
    deadline = time.monotonic() + PATIENCE
    while machine.served() != der(certificates.server2):
        assert time.monotonic() < deadline, machine.journal()
        time.sleep(0.1)  # files are looked at now and then


def test_activation(machine, upstream, certificates):
    """With systemd's ports it needs no right of root's; it starts with the first question, and
    who asks while it starts again waits."""
    machine.install_keys(certificates.server)
    machine.configure(upstream, CREDENTIALS)
    machine.install_unit(load_credential() + "AmbientCapabilities=\nCapabilityBoundingSet=\n")
    with open(f"{CONTRIB}/pithd.socket", encoding="ascii") as file:
        machine.write("/etc/systemd/system/pithd.socket", file.read())
    machine.run("systemctl", "daemon-reload")
    since = machine.journal_size()
    machine.run("systemctl", "start", "pithd.socket")
    assert machine.show("ActiveState") == "inactive"
    first = clients.ask(machine, "doh", wire.query("web.first.site.test"), timeout=PATIENCE)
    assert first.addresses == [HOST]
    answers(machine, "activation")
    assert "is no listener" not in machine.journal()[since:]
    for field in ("CapEff", "CapPrm", "CapBnd"):
        assert int(machine.status(field), 16) == 0, field
    assert int(machine.status("Uid").split()[0]) in DYNAMIC

    machine.run("systemctl", "stop", "pithd.service")
    machine.run("systemctl", "reset-failed", "pithd.service")  # and how often it was started
    for via in ("udp", "tcp", "dot", "doh"):
        machine.run("systemctl", "restart", "--no-block", "pithd.service")
        answer = clients.ask(machine, via, wire.query(f"web.again-{via}.site.test"),
                             timeout=PATIENCE)
        assert answer.addresses == [HOST], via

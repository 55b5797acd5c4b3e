"""The servers of the tests: pithd, nsd and unbound as processes, and the certificates.

All listen on loopback. A port is free when the kernel says so, a server is ready when it says
so or answers, and each is ended by its own process ID.
"""

import os
import random
import re
import shlex
import shutil
import signal
import socket
import subprocess
import threading
import time
from string import Template

import clients
import wire
import zone

HOST = "127.0.0.1"
NAME = "dns.pith.test"            # of pithd, in its certificate
UPSTREAM_NAME = "upstream.pith.test"
SANITIZER = re.compile(r"(Address|Leak|Thread|Memory)Sanitizer|runtime error:")

# Freed memory is kept from use for a while only, or resident memory would always grow.
SANITIZER_OPTIONS = {"ASAN_OPTIONS": "quarantine_size_mb=4",
                     "UBSAN_OPTIONS": "print_stacktrace=1"}

_reserved = []                    # sockets that hold our claim on a port number


def free_port():
    """A port that nobody uses over UDP or TCP. It is below the range from which the kernel
    takes ports of outgoing connections, which would otherwise collide with ours now and then;
    other runs on this machine keep off by a socket name they all try to claim."""
    with open("/proc/sys/net/ipv4/ip_local_port_range", encoding="ascii") as file:
        top = min(int(file.read().split()[0]), 32768)
    while True:
        port = random.randrange(10000, top)
        claim = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        try:
            claim.bind(f"\0pith-test-port-{port}")
            for family, host in ((socket.AF_INET, HOST), (socket.AF_INET6, "::1")):
                for kind in (socket.SOCK_DGRAM, socket.SOCK_STREAM):
                    with socket.socket(family, kind) as probe:
                        probe.bind((host, port))
        except OSError:
            claim.close()
            continue
        _reserved.append(claim)
        return port


class Certificates:
    """A CA, leaves it signed, and a leaf of a CA that nobody trusts, as PEM files."""

    def __init__(self, folder):
        self.folder = folder
        self.ca = self._ca("ca")
        self.other_ca = self._ca("other-ca")
        self.server = self.leaf("server", f"DNS:{NAME},DNS:localhost,IP:127.0.0.1,IP:::1")
        self.server2 = self.leaf("server2", f"DNS:{NAME},DNS:second.pith.test,IP:127.0.0.1")
        self.upstream = self.leaf("upstream", f"DNS:{UPSTREAM_NAME}")
        self.wrong_name = self.leaf("wrong-name", "DNS:other.pith.test")
        self.unknown_ca = self.leaf("unknown-ca", f"DNS:{UPSTREAM_NAME}", "other-ca")

    def _path(self, name):
        return os.path.join(self.folder, name)

    def _openssl(self, *arguments):
        subprocess.run(["openssl", *arguments], cwd=self.folder, check=True,
                       capture_output=True)

    def _ca(self, name):
        self._openssl("req", "-x509", "-newkey", "ec", "-pkeyopt",
                      "ec_paramgen_curve:prime256v1", "-nodes", "-keyout", f"{name}.key",
                      "-out", f"{name}.pem", "-days", "30", "-subj", f"/CN=pith test {name}",
                      "-addext", "basicConstraints=critical,CA:TRUE",
                      "-addext", "keyUsage=critical,keyCertSign")
        return self._path(f"{name}.pem")

    def leaf(self, name, subject_names, ca="ca"):
        """(certificate, key) of a new leaf."""
        with open(self._path(f"{name}.ext"), "w", encoding="ascii") as file:
            file.write("basicConstraints=critical,CA:FALSE\nkeyUsage=digitalSignature\n"
                       f"extendedKeyUsage=serverAuth\nsubjectAltName={subject_names}\n")
        self._openssl("req", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1",
                      "-nodes", "-keyout", f"{name}.key", "-out", f"{name}.csr",
                      "-subj", f"/CN=pith test {name}")
        self._openssl("x509", "-req", "-in", f"{name}.csr", "-CA", f"{ca}.pem", "-CAkey",
                      f"{ca}.key", "-CAcreateserial", "-days", "30", "-extfile",
                      f"{name}.ext", "-out", f"{name}.pem")
        return self._path(f"{name}.pem"), self._path(f"{name}.key")

    def chained(self, subject_names):
        """A new leaf of a CA below the CA: (leaf alone, its key), (leaf and chain, its key)."""
        with open(self._path("middle.ext"), "w", encoding="ascii") as file:
            file.write("basicConstraints=critical,CA:TRUE\nkeyUsage=critical,keyCertSign\n")
        self._openssl("req", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes",
                      "-keyout", "middle.key", "-out", "middle.csr", "-subj",
                      "/CN=pith test middle")
        self._openssl("x509", "-req", "-in", "middle.csr", "-CA", "ca.pem", "-CAkey", "ca.key",
                      "-CAcreateserial", "-days", "30", "-extfile", "middle.ext", "-out",
                      "middle.pem")
        leaf, key = self.leaf("chained", subject_names, "middle")
        full = self._path("chained.full.pem")
        with open(full, "wb") as out:
            for part in (leaf, self._path("middle.pem")):
                with open(part, "rb") as file:
                    shutil.copyfileobj(file, out)
        return (leaf, key), (full, key)


class Process:
    """A server process whose standard error is kept, line by line."""

    def __init__(self, command, environment=None):
        if shutil.which("setpriv"):  # so that nothing stays behind when we are killed
            command = ["setpriv", "--pdeathsig", "KILL", *command]
        self.lines = []
        self.news = threading.Condition()
        self.process = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE, text=True, errors="replace",
            env={**SANITIZER_OPTIONS, **os.environ, **(environment or {})})
        self.pid = self.process.pid
        self.reader = threading.Thread(target=self._read, daemon=True)
        self.reader.start()

    def _read(self):
        for line in self.process.stderr:
            with self.news:
                self.lines.append(line.rstrip("\n"))
                self.news.notify_all()
        with self.news:
            self.news.notify_all()

    @property
    def log(self):
        return "\n".join(self.lines)

    def wait_line(self, pattern, timeout=20.0, since=0):
        """Waits for a line of the log that the pattern is found in, and returns it."""
        def found():
            return next((x for x in self.lines[since:] if re.search(pattern, x)), None)
        with self.news:
            self.news.wait_for(lambda: found() or not self.reader.is_alive(), timeout)
        line = found()
        assert line is not None, f"no line with {pattern!r} in:\n{self.log}"
        return line

    def signal(self, number):
        os.kill(self.pid, number)

    def wait(self, timeout=10.0):
        """The exit status."""
        status = self.process.wait(timeout)
        self.reader.join(timeout)
        return status

    def kill(self):
        if self.process.poll() is None:
            self.process.kill()
        self.wait()

    def resident(self):
        """Octets of memory that are resident."""
        with open(f"/proc/{self.pid}/statm", encoding="ascii") as file:
            return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def pithd_command():
    """How to start the daemon under test: $PITHD, or what was built."""
    if os.environ.get("PITHD"):
        return shlex.split(os.environ["PITHD"])
    build = os.environ.get("top_builddir", os.curdir)
    for path in ("pithd", "src/pithd"):
        path = os.path.join(build, path)
        if os.access(path, os.X_OK) and os.path.isfile(path):
            return [path]
    raise FileNotFoundError(f"no pithd in {build}: set PITHD or top_builddir")


def one_upstream(address, transport="udp", **keys):
    """YAML of an upstream; keys have _ for -."""
    keys = {"address": f'"{address[0]}:{address[1]}"', "transport": transport, **keys}
    inside = ", ".join(f"{key.replace('_', '-')}: {value}" for key, value in keys.items())
    return "{ " + inside + " }"


def upstreams(address, transport="udp", **keys):
    """YAML of a list of one upstream."""
    return f"[ {one_upstream(address, transport, **keys)} ]"


# Keys of every configuration unless a test has others: YAML as it stands in the file, but for
# what begins with $.
BASE = {
    "workers": "1",
    "listen": """
  dns: [ {address: "127.0.0.1:$dns"} ]
  dot: [ {address: "127.0.0.1:$dot"} ]
  doh:
    - { address: "127.0.0.1:$doh" }
    - { address: "127.0.0.1:$clear", tls: false, trusted-proxies: ["127.0.0.1/32"] }""",
    "tls": "{ certificates: [ {certificate: $certificate, key: $key} ] }",
    "cache": "{ prefetch: false, serve-stale: { max-age: 0 } }",
    "access": '{ allow: [127.0.0.0/8, "::1/128"] }',
}


class Pithd(Process):
    """A pithd with its own ports, configuration and clock.

    Keys of the configuration are given by keyword, _ for -; None leaves one out. In their
    YAML $dns, $dot, $doh and $clear stand for the ports, $certificate and $key for files."""

    name = NAME

    def __init__(self, folder, certificates, arguments=(), ports=None, **keys):
        self.folder = folder
        self.ports = ports or self.free_ports()
        self.dns, self.dot = (HOST, self.ports["dns"]), (HOST, self.ports["dot"])
        self.doh, self.doh_clear = (HOST, self.ports["doh"]), (HOST, self.ports["clear"])
        self.ca = certificates.ca
        self.certificate = os.path.join(folder, "certificate.pem")
        self.key = os.path.join(folder, "key.pem")
        self.install_certificate(certificates.server)
        self.config = os.path.join(folder, "pith.yaml")
        self.keys = keys
        self.write_config()
        self.clock = os.path.join(folder, "clock")
        with open(self.clock, "w", encoding="ascii"):
            pass
        super().__init__([*pithd_command(), "-c", self.config, *arguments],
                         {"PITH_TEST_CLOCK": self.clock})
        try:
            self.wait_line(r"\bready\b")
        except AssertionError:
            self.kill()
            raise

    @staticmethod
    def free_ports():
        return {front: free_port() for front in ("dns", "dot", "doh", "clear")}

    def install_certificate(self, pair):
        for source, target in zip(pair, (self.certificate, self.key)):
            shutil.copyfile(source, target + ".new")
            os.rename(target + ".new", target)

    def write_config(self, **keys):
        """Writes the file; keys change those the daemon was made with, for good."""
        self.keys.update(keys)
        known = {**self.ports, "certificate": self.certificate, "key": self.key}
        text = ""
        for key, value in {**BASE, **self.keys}.items():
            if value is not None:
                text += f"{key.replace('_', '-')}: {Template(value).substitute(known)}\n"
        with open(self.config, "w", encoding="utf-8") as file:
            file.write(text)

    def reload(self):
        """SIGHUP, and waits for the line that says how it went."""
        since = len(self.lines)
        self.signal(signal.SIGHUP)
        return self.wait_line(r"reload", since=since)

    def advance(self, ms):
        """Moves the daemon's clocks forward. It empties the file once that is done."""
        with open(self.clock, "w", encoding="ascii") as file:
            file.write(f"{ms}\n")
        self.signal(signal.SIGUSR1)
        deadline = time.monotonic() + 5
        while os.path.getsize(self.clock):
            assert time.monotonic() < deadline, f"clock not taken:\n{self.log}"
            time.sleep(0.001)

    def ask(self, via, message, **how):
        return clients.ask(self, via, message, **how)

    def stop(self):
        """SIGTERM; it has to end well, and quietly."""
        if self.process.poll() is None:
            self.signal(signal.SIGTERM)
        try:
            status = self.wait(15)
        except subprocess.TimeoutExpired:
            self.kill()
            raise AssertionError(f"still there after SIGTERM:\n{self.log}") from None
        assert status == 0, f"exit status {status}:\n{self.log}"
        assert not SANITIZER.search(self.log), self.log


def wait_answer(address, timeout=10.0):
    """Waits until a DNS server answers at all."""
    deadline = time.monotonic() + timeout
    while True:
        try:
            with clients.Udp(address) as udp:
                udp.send(wire.query(zone.ZONE, wire.SOA))
                return udp.recv(0.2)
        except (clients.NoAnswer, clients.Closed):
            assert time.monotonic() < deadline, f"no answer from {address}"
            time.sleep(0.02)


class Nsd(Process):
    """nsd with the zones of zone.py; queries() is its counter."""

    def __init__(self, folder):
        self.port = free_port()
        self.address = (HOST, self.port)
        self.config = os.path.join(folder, "nsd.conf")
        for name, text in ((zone.ZONE, zone.zone_text()), (zone.REVERSE, zone.reverse_text())):
            with open(os.path.join(folder, name), "w", encoding="latin-1") as file:
                file.write(text)
        with open(self.config, "w", encoding="ascii") as file:
            file.write(f"""
server:
  ip-address: {HOST}@{self.port}
  server-count: 1
  username: ""
  chroot: ""
  zonesdir: "{folder}"
  database: ""
  pidfile: "{folder}/nsd.pid"
  xfrdfile: "{folder}/xfrd.state"
  xfrdir: "{folder}"
  zonelistfile: "{folder}/zone.list"
  cookie-secret-file: "{folder}/cookies"
  rrl-ratelimit: 0
  rrl-whitelist-ratelimit: 0
  tcp-count: 200
remote-control:
  control-enable: yes
  control-interface: {folder}/control
""" + "".join(f'zone:\n  name: "{n}"\n  zonefile: "{n}"\n' for n in (zone.ZONE, zone.REVERSE)))
        super().__init__(["nsd", "-d", "-c", self.config])
        wait_answer(self.address)

    def queries(self):
        """Queries answered so far."""
        out = subprocess.run(["nsd-control", "-c", self.config, "stats_noreset"], check=True,
                             capture_output=True, text=True).stdout
        return int(re.search(r"^num\.queries=(\d+)", out, re.M)[1])

    def stop(self):
        self.signal(signal.SIGTERM)
        self.wait()


class Unbound(Process):
    """unbound in front of an authoritative server, with TLS where a certificate is given."""

    def __init__(self, folder, forward, certificate=None, port=None, tls_port=None, extra=""):
        self.folder, self.forward, self.extra = folder, forward, extra
        self.port, self.tls_port = port or free_port(), tls_port or free_port()
        self.address, self.tls_address = (HOST, self.port), (HOST, self.tls_port)
        config = os.path.join(folder, "unbound.conf")
        tls = ""
        if certificate:
            tls = (f"  interface: {HOST}@{self.tls_port}\n  tls-port: {self.tls_port}\n"
                   f'  tls-service-pem: "{certificate[0]}"\n'
                   f'  tls-service-key: "{certificate[1]}"\n')
        with open(config, "w", encoding="ascii") as file:
            file.write(f"""
server:
  interface: {HOST}@{self.port}
{tls}  username: ""
  chroot: ""
  directory: "{folder}"
  pidfile: ""
  use-syslog: no
  do-daemonize: no
  do-not-query-localhost: no
  do-ip6: no
  num-threads: 1
  access-control: 127.0.0.0/8 allow_snoop
  module-config: "iterator"
  local-zone: "test." nodefault
  minimal-responses: no
{extra}
remote-control:
  control-enable: no
forward-zone:
  name: "."
  forward-addr: {forward[0]}@{forward[1]}
""")
        super().__init__(["unbound", "-d", "-c", config])
        wait_answer(self.address)

    def stop(self):
        self.signal(signal.SIGTERM)
        self.wait()

"""Configuration: each fault is one line that names file, line and key, and nothing is half
started."""

import os
import re
import socket
import subprocess

import pytest

from checks import answered
from servers import SANITIZER, free_port, pithd_command
from wire import query

READY = re.compile(r"\bready\b")

GOOD = """\
listen:
  dns: [ {address: "127.0.0.1:5300"} ]
upstreams:
  - { address: 192.0.2.53 }
"""


def run(folder, text, *arguments):
    """(exit status, lines of standard error, standard output) of a short run."""
    path = os.path.join(str(folder), "pith.yaml")
    with open(path, "w", encoding="utf-8") as file:
        file.write(text)
    done = subprocess.run([*pithd_command(), "-c", path, *arguments], capture_output=True,
                          text=True, timeout=20, stdin=subprocess.DEVNULL)
    assert not SANITIZER.search(done.stderr), done.stderr
    return done.returncode, done.stderr.splitlines(), done.stdout


# Each with the line and a part of the key of every fault in it. A mark => stands where the
# fault is, so that the line follows from the text.
BROKEN = {
    "unknown key": (GOOD + "=>worker: 2\n", ["worker"]),
    "unknown key inside": (GOOD + "cache:\n  memory: 64MiB\n=>  memroy: 1MiB\n", ["memroy"]),
    "unknown key in a list": (GOOD + "=>  - { address: 192.0.2.54, prot: tcp }\n", ["prot"]),
    "key twice": (GOOD + "workers: 1\n=>workers: 2\n", ["workers"]),
    "list for a map": (GOOD + "=>cache: [ 1, 2 ]\n", ["cache"]),
    "map for a number": (GOOD + "=>workers: { n: 1 }\n", ["workers"]),
    "text for a number": (GOOD + "=>workers: many\n", ["workers"]),
    "number too big": (GOOD + "=>limits: { streams: 99999999999999999999 }\n", ["streams"]),
    "negative number": (GOOD + "=>limits: { connections: -1 }\n", ["connections"]),
    "no value": (GOOD + "upstream:\n=>  tries:\n", ["tries"]),
    "unit missing": (GOOD + "=>upstream: { timeout: 1300 }\n", ["timeout"]),
    "unknown unit": (GOOD + "=>cache: { memory: 64parsecs }\n", ["memory"]),
    "too little memory": (GOOD + "=>cache: { memory: 1KiB }\n", ["memory"]),
    "no boolean": (GOOD + "cache:\n=>  prefetch: maybe\n", ["prefetch"]),
    "unknown choice": (GOOD + "ecs:\n=>  mode: sometimes\n", ["mode"]),
    "prefix too long": (GOOD + "=>ecs: { mode: forward, ipv4-prefix: 33 }\n", ["ipv4-prefix"]),
    "bad address": (GOOD.replace('  dns: [ {address: "127.0.0.1:5300"} ]',
                                 '=>  dns: [ {address: "127.0.0.300:5300"} ]'), ["address"]),
    "bad port": (GOOD.replace("  - { address: 192.0.2.53 }",
                              '=>  - { address: "192.0.2.53:70000" }'), ["address"]),
    "address missing": (GOOD.replace("  - { address: 192.0.2.53 }",
                                     "=>  - { transport: tcp }"), ["address"]),
    "unknown transport": (GOOD.replace("  - { address: 192.0.2.53 }",
                                       "=>  - { address: 192.0.2.53, transport: quic }"),
                          ["transport"]),
    "tls without a name": (GOOD.replace("  - { address: 192.0.2.53 }",
                                        "=>  - { address: 192.0.2.53, transport: tls }"),
                           ["tls-name|address"]),
    "bad pin": (GOOD.replace(
        "  - { address: 192.0.2.53 }",
        "=>  - { address: 192.0.2.53, transport: tls, pin: [sha256/AAAA] }"), ["pin"]),
    "bad range": (GOOD + "access:\n=>  allow: [127.0.0.0/33]\n", ["allow"]),
    "missing file": (GOOD + "tls:\n  certificates:\n"
                     "=>    - { certificate: /nowhere/cert.pem, key: /nowhere/key.pem }\n",
                     ["certificate", "key"]),
    "TLS without a certificate": (GOOD.replace(
        "listen:\n", 'listen:\n=>  dot: [ {address: "127.0.0.1:5853"} ]\n'), ["dot"]),
    "same address twice": (GOOD.replace(
        '"127.0.0.1:5300"} ]', '"127.0.0.1:5300"},\n=>    {address: "127.0.0.1:5300"} ]'),
        ["dns"]),
    "own listener as upstream": (GOOD.replace("  - { address: 192.0.2.53 }",
                                              '=>  - { address: "127.0.0.1:5300" }'),
                                 ["address"]),
    "bad domain": (GOOD.replace("  - { address: 192.0.2.53 }",
                                "=>  - { address: 192.0.2.53, domains: [a..b] }"), ["domains"]),
    "bad local line": (GOOD + "local:\n  - router.lan A 192.168.1.1\n"
                       "=>  - router.lan A 192.168.1\n", ["local"]),
    "bad path": (GOOD + "=>http: { paths: [dns-query] }\n", ["paths"]),
    "three faults": (GOOD + "=>workers: many\nhttp:\n=>  json: perhaps\n=>  josn: true\n",
                     ["workers", "json", "josn"]),
}


@pytest.mark.parametrize("fault", BROKEN)
@pytest.mark.parametrize("check_only", [True, False])
def test_broken_config(tmp_path, fault, check_only):
    """Exit status 1 and one line for each fault, whether only checking or starting."""
    text, keys = BROKEN[fault]
    marked = [i for i, line in enumerate(text.split("\n"), 1) if line.startswith("=>")]
    numbers = marked if len(marked) == len(keys) else marked * len(keys)
    status, lines, _ = run(tmp_path, text.replace("=>", ""), *(["-t"] if check_only else []))
    assert status == 1
    faults = [line for line in lines if "pith.yaml:" in line]
    assert len(faults) == len(keys), lines
    for line, number, key in zip(faults, numbers, keys):
        assert re.search(rf"pith\.yaml:{number}: \S*({key})\S*: \S", line), line
    assert not any(READY.search(line) for line in lines)


@pytest.mark.parametrize("text", ["listen: [ {", "a: b: c\n", "\t- x\n", "- 1\n- 2\n", "\0\1\2",
                                  "\"unfinished", "&a [*a]", "just text\n"])
def test_no_yaml(tmp_path, text):
    """Not even a map: one line with the line number."""
    status, lines, _ = run(tmp_path, text, "-t")
    assert status == 1
    assert [line for line in lines if re.search(r"pith\.yaml:\d+: ", line)], lines
    assert len(lines) <= 2


def test_no_file(tmp_path):
    done = subprocess.run([*pithd_command(), "-c", str(tmp_path / "none.yaml")],
                          capture_output=True, text=True, timeout=20)
    assert done.returncode == 1
    assert "none.yaml" in done.stderr and len(done.stderr.splitlines()) == 1


def test_good_config(tmp_path):
    """-t says nothing bad; -p prints a configuration that -p prints again."""
    assert run(tmp_path, GOOD, "-t")[0] == 0
    status, _, effective = run(tmp_path, GOOD, "-p")
    assert status == 0 and "192.0.2.53" in effective and "negative-max-ttl" in effective
    status, _, again = run(tmp_path, effective, "-p")
    assert (status, again) == (0, effective)


def test_version():
    done = subprocess.run([*pithd_command(), "--version"], capture_output=True, text=True,
                          timeout=20)
    assert done.returncode == 0 and re.search(r"\d+\.\d+", done.stdout)


@pytest.mark.parametrize("kind", [socket.SOCK_DGRAM, socket.SOCK_STREAM])
def test_port_in_use(tmp_path, kind):
    """Exit status 1 and a line with the address; the other listeners do not stay."""
    port, other = free_port(), free_port()
    text = GOOD.replace("5300", str(port)).replace(
        "upstreams:",
        f'  doh: [ {{address: "127.0.0.1:{other}", tls: false}} ]\nupstreams:')
    with socket.socket(socket.AF_INET, kind) as holder:
        holder.bind(("127.0.0.1", port))
        if kind == socket.SOCK_STREAM:
            holder.listen()
        status, lines, _ = run(tmp_path, text)
    assert status == 1
    assert [line for line in lines if f"127.0.0.1:{port}" in line and "in use" in line], lines
    assert not any(READY.search(line) for line in lines)


def test_port_in_use_by_another_pithd(tmp_path, pithd):
    """SO_REUSEPORT must not let two daemons share their clients unawares."""
    status, lines, _ = run(tmp_path, GOOD.replace("5300", str(pithd.ports["dns"])))
    assert status == 1
    assert [line for line in lines if "in use" in line], lines


@pytest.mark.parametrize("broken", ["text", "empty", "mismatch", "directory", "unreadable"])
def test_bad_certificate(tmp_path, certificates, broken):
    """A key that cannot be read, is none, or belongs to another certificate."""
    certificate, key = certificates.server
    bad = tmp_path / "key.pem"
    if broken == "directory":
        bad.mkdir()
    else:
        bad.write_text({"text": "hello\n", "empty": ""}.get(broken) or open(
            certificates.server2[1], encoding="ascii").read())
    text = GOOD + f"tls:\n  certificates:\n    - certificate: {certificate}\n      key: {bad}\n"
    if broken == "unreadable":
        if os.geteuid() == 0:  # root reads everything
            text = text.replace(str(bad), "/proc/self/mem")
        bad.chmod(0)
    status, lines, _ = run(tmp_path, text, "-t")
    assert status == 1
    assert [line for line in lines if re.search(r"pith\.yaml:[78]: \S*(key|certificate)", line)]


def test_defaults(daemons, up, unique):
    """Sections that nobody gave have their documented defaults."""
    daemon = daemons(up, cache=None, access=None)
    for via in ("udp", "doh"):
        answered(daemon, via, query(unique()), addresses=["192.0.2.1"])


def test_nothing_half_started(tmp_path):
    """One of two ports is taken: the other is free again after the failure."""
    free, taken = free_port(), free_port()
    text = GOOD.replace('"127.0.0.1:5300"} ]', f'"127.0.0.1:{free}"}}, '
                        f'{{address: "127.0.0.1:{taken}"}} ]')
    with socket.socket() as holder:
        holder.bind(("127.0.0.1", taken))
        holder.listen()
        status, lines, _ = run(tmp_path, text)
    assert status == 1 and not any(READY.search(line) for line in lines), lines
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", free))

"""Load by dnsperf and h2load: nothing lost, nothing failed, memory flat. Some seconds of it by
default; PITH_TEST_LOAD_SECONDS makes it longer."""

import os
import re
import subprocess

import pytest

import clients
import wire
import zone
from load import dnsperf_command, nothing_lost, start, start_dnsperf

SECONDS = int(os.environ.get("PITH_TEST_LOAD_SECONDS", "2"))
GROWTH = 4 << 20  # octets of resident memory that a run may add to one like it


@pytest.fixture(scope="module")
def daemon(daemons, nsd):
    """Two workers in front of nsd."""
    return daemons(nsd, workers="2", cache="{ memory: 16MiB }")


@pytest.fixture(scope="module")
def names(tmp_path_factory):
    """The questions as a file for dnsperf: all of the zone, and many that miss."""
    path = tmp_path_factory.mktemp("load") / "names"
    lines = [f"{name} {qtype}" for name, qtype in zone.questions()
             if "\\" not in name and name != f"big.{zone.ZONE}"]
    lines += [f"m{i}.wild.{zone.ZONE} A" for i in range(2000)]
    path.write_text("\n".join(lines) + "\n")
    return str(path)


@pytest.mark.parametrize("mode", ["udp", "tcp", "dot", "doh"])
def test_dnsperf(daemon, names, mode):
    nothing_lost(start_dnsperf(daemon, mode, 1, names))  # fills caches and buffers
    before = daemon.resident()
    asked = nothing_lost(start_dnsperf(daemon, mode, SECONDS, names))
    assert asked > 1000 or mode == "doh"
    assert daemon.resident() - before < GROWTH


def test_cache_grows(daemons, nsd, tmp_path):
    """It begins with a part of its memory. Nothing is lost on the way to all of it, nor taken
    more than there is."""
    count, path = 40000, tmp_path / "many"
    path.write_text("".join(f"g{i}.wild.{zone.ZONE} A\n" for i in range(count)))
    daemon = daemons(nsd, cache="{ memory: 16MiB }", arguments=["-v"])
    before = daemon.resident()
    once = dnsperf_command(daemon, "udp", 60, str(path)) + ["-n", "1"]
    assert nothing_lost(start(once)) == count
    daemon.wait_line("has all of its memory now")
    assert daemon.resident() - before < 20 << 20
    asked = nsd.queries()
    assert nothing_lost(start(once)) == count
    assert nsd.queries() - asked < 20  # probes, if any


def h2load(arguments, seconds):
    """Runs it; returns how many requests were answered, all with 2xx."""
    line = ["h2load", "-c", "8", "-m", "20", "-t", "1", "-D", str(seconds), *arguments]
    report = subprocess.run(line, capture_output=True, check=True, text=True,
                            timeout=seconds + 30).stdout
    assert " 0 failed, 0 errored, 0 timeout" in report, report
    assert " 0 3xx, 0 4xx, 0 5xx" in report, report
    return int(re.search(r"(\d+) 2xx", report)[1])


@pytest.mark.parametrize("method", ["GET", "POST"])
def test_h2load(daemon, tmp_path, method):
    message = wire.query(f"a1.{zone.ZONE}", opt=wire.opt(), id=0)
    url = f"https://127.0.0.1:{daemon.ports['doh']}{clients.PATH}"
    arguments = [f"{url}?dns={clients.b64url(message)}"]
    if method == "POST":
        body = tmp_path / "body"
        body.write_bytes(message)
        arguments = ["-d", str(body), "-H", f"content-type: {clients.MEDIA_TYPE}", url]
    h2load(arguments, 1)
    before = daemon.resident()
    assert h2load(arguments, SECONDS) > 1000
    assert daemon.resident() - before < GROWTH

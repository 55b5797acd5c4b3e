"""Two workers under misses, while the daemon reloads all the time, to other upstreams each time,
and one upstream restarts: nothing is lost, nothing fails, and sanitizers find nothing. This is
the run for ThreadSanitizer (--with-sanitizer=thread); PITH_TEST_WORKERS_SECONDS makes it
longer. helgrind needs a build without sanitizers and a low rate (PITH_TEST_WORKERS_RATE=20):

    PITHD="valgrind --tool=helgrind --error-exitcode=99 --suppressions=SRCDIR/tests/helgrind.supp
           ./pithd" """

import os
import time

import pytest

from load import nothing_lost, start_dnsperf
from servers import UPSTREAM_NAME, one_upstream

SECONDS = int(os.environ.get("PITH_TEST_WORKERS_SECONDS", "2"))
RATE = int(os.environ.get("PITH_TEST_WORKERS_RATE", "1500"))  # of each client, at most


def roster(certificates, transport, *servers):
    """YAML of the upstreams."""
    keys = {"tls_name": UPSTREAM_NAME, "ca": certificates.ca} if transport == "tls" else {}
    return "[ " + ", ".join(
        one_upstream(s.tls_address if keys else s.address, transport, **keys)
        for s in servers) + " ]"


@pytest.mark.parametrize("transport", ["udp", "tcp", "tls"])
def test_workers(fresh, start_upstream, certificates, unique, tmp_path, transport):
    """The second upstream is well, and in the configuration, all the time."""
    first, second = start_upstream(), start_upstream()
    rosters = [roster(certificates, transport, *servers)
               for servers in ((first, second), (second, first), (second,))]
    daemon = fresh(workers="2", cache="{ memory: 2MiB, prefetch: false }", upstreams=rosters[0],
                   upstream="{ timeout: 4s, tries: 3, deadline: 12s }")
    runs = []
    for mode in ("udp", "dot"):
        names = tmp_path / mode
        names.write_text("".join(f"{unique(f'm{i}')} A\n" for i in range(SECONDS * RATE)))
        runs.append(start_dnsperf(daemon, mode, SECONDS, str(names), RATE))
    end, reloads, restarts = time.monotonic() + SECONDS, 0, 0
    while time.monotonic() < end:
        reloads += 1
        daemon.write_config(upstreams=rosters[reloads % len(rosters)])
        daemon.reload()
        if reloads % 4 == 0:
            first.down()
            first.up()
            restarts += 1
    questions = sum(map(nothing_lost, runs))
    print(f"{transport}: {questions} questions, {reloads} reloads, {restarts} restarts of an "
          f"upstream, asks: {len(first.log)} + {len(second.log)}")
    assert reloads > 0 and first.log and second.log
    assert first.faults == second.faults == []
    daemon.stop()

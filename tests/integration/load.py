"""dnsperf, and what it reports."""

import re
import subprocess


def dnsperf_command(daemon, mode, seconds, names, rate=None):
    """The command line for one front end. Few clients: what is tested is not speed.
    rate is a limit: questions a second, where a busy machine may take its time.

    dnsperf 2.10 reads one HTTP/2 response from a TLS record and forgets those behind it until
    more comes in, so over DoH a connection has one question in flight; h2load has many."""
    port = {"udp": daemon.dns, "tcp": daemon.dns, "dot": daemon.dot, "doh": daemon.doh}[mode][1]
    many = ["-c", "4", "-q", "40"] if mode != "doh" else ["-c", "4", "-q", "4", "-T", "4"]
    if rate:
        many += ["-Q", str(rate)]
    return ["dnsperf", "-m", mode, "-s", "127.0.0.1", "-p", str(port), *many,
            "-l", str(seconds), "-t", "15" if rate else "5",
            "-O", "doh-uri=https://localhost/dns-query", "-d", names]


def start(command):
    return subprocess.Popen(command, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)


def start_dnsperf(daemon, mode, seconds, names, rate=None):
    return start(dnsperf_command(daemon, mode, seconds, names, rate))


def nothing_lost(run):
    """Waits for dnsperf and reads its report: every question was answered, and without
    failure. Returns how many there were."""
    report, _ = run.communicate(timeout=600)
    assert run.returncode == 0, report
    sent, completed, lost = (int(re.search(rf"Queries {what}: +(\d+)", report)[1])
                             for what in ("sent", "completed", "lost"))
    assert lost == 0 and sent == completed > 0, report
    codes = re.search(r"Response codes: +(.*)", report)[1]
    assert set(re.findall(r"[A-Z]+", codes)) <= {"NOERROR", "NXDOMAIN"}, report
    return completed

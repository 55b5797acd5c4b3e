#!/usr/bin/python3
"""Misses through each transport to the upstream: lost, CPU, memory, beside peers.

usage: misses.py [--misses N] [--transports udp,tcp,tls] [--only WORD,...]     from the build tree (make bench-misses)

N names that no cache has are asked for over UDP in five lots, 100 at a time, with caches so small that they are full
after the first lot. Reported for each server and transport: questions without an answer, user and system time of the
server's process a miss, and its resident memory after each lot. One JSON line each, a table at the end. The upstream
is nsd; it and the load share the second processor. Loopback only."""
import argparse, json, subprocess, sys, tempfile, time
from peers import LOAD_CPU, Dnsdist, Pithd, Setting, Unbound, answers, cpu_us, free_port, number, resident, run

LOTS = 5


def change(path, *changes):
    text = open(path).read()
    for old, new in changes:
        if old not in text: sys.exit(f'{path}: no "{old}" in it')
        text = text.replace(old, new)
    open(path, 'w').write(text)


class Upstream:
    """nsd with TLS beside plain DNS."""
    def __init__(s, setting):
        s.setting, s.tls = setting, free_port()
        d = setting.dir
        change(f'{d}/nsd.conf', ('server:\n', f'''server:
  ip-address: 127.0.0.1@{s.tls}
  tls-port: {s.tls}
  tls-service-key: "{d}/ec.key"
  tls-service-pem: "{d}/ec.pem"
  tcp-count: 200
  tcp-query-count: 0
'''))
        s.process = subprocess.Popen(['taskset', '-c', LOAD_CPU, 'nsd', '-d', '-c', f'{d}/nsd.conf'], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        end = time.monotonic() + 10
        while not answers(setting.upstream):
            if time.monotonic() > end: sys.exit('nsd did not start')
            time.sleep(0.05)

    def port(s, transport): return s.tls if transport == 'tls' else s.setting.upstream

    def stop(s):
        s.process.terminate()
        s.process.wait()


class Through:
    """A server whose upstream is asked by `transport`."""
    def __init__(s, setting, upstream, transport):
        super().__init__(setting)
        s.upstream, s.transport = upstream, transport


class PithdThrough(Through, Pithd):
    def command(s):
        cmd = super().command()
        tls = f', tls-name: localhost, ca: {s.setting.dir}/ec.pem' if s.transport == 'tls' else ''
        change(cmd[-1], (f'{s.setting.upstream}", transport: udp', f'{s.upstream.port(s.transport)}", transport: {s.transport}{tls}'))
        open(cmd[-1], 'a').write('cache: { memory: 2MiB }\n')
        return cmd


class DnsdistThrough(Through, Dnsdist):
    def command(s):
        cmd, d = super().command(), s.setting.dir
        more = {'udp': '', 'tcp': ', tcpOnly=true', 'tls': f", tls='openssl', subjectName='localhost', caStore='{d}/ec.pem'"}[s.transport]
        change(cmd[-1], (f"127.0.0.1:{s.setting.upstream}'}}", f"127.0.0.1:{s.upstream.port(s.transport)}'{more}}}"), ('400000', '10000'))
        return cmd


class UnboundThrough(Through, Unbound):
    def command(s):
        cmd, d = super().command(), s.setting.dir
        port, more, server = s.upstream.port(s.transport), '', ''
        if s.transport == 'tls': port, more, server = f'{port}#localhost', '\n  forward-tls-upstream: yes', f'\n  tls-cert-bundle: "{d}/ec.pem"'
        if s.transport == 'tcp': more = '\n  forward-tcp-upstream: yes'
        change(cmd[-1], (f'127.0.0.1@{s.setting.upstream}', f'127.0.0.1@{port}{more}'), ('  msg-cache-size: 200m', f'  msg-cache-size: 1m{server}'),
               ('rrset-cache-size: 200m', 'rrset-cache-size: 2m'))
        return cmd


def lot(server, k, size):
    """Asks for names k * size .. (k + 1) * size - 1; returns how many were asked for and how many answered."""
    path = f'{server.setting.dir}/lot'
    with open(path, 'w') as f: f.writelines(f'n{i}.{server.name[0]}{server.transport}.example.com A\n' for i in range(k * size, (k + 1) * size))
    out = run(['dnsperf', '-m', 'udp', '-s', '127.0.0.1', '-p', str(server.port['udp']), '-d', path, '-n', '1', '-q', '100', '-c', '10', '-t', '10'], 600)
    return number(r'Queries sent:\s+(\d+)', out), number(r'NOERROR (\d+)', out)


def measure(server, n):
    size, asked, answered, memory = n // LOTS, 0, 0, []
    before, start = cpu_us(server.process.pid), time.monotonic()
    for k in range(LOTS):
        a, b = lot(server, k, size)
        asked, answered = asked + a, answered + b
        memory.append(resident(server.process.pid))
    used, took = cpu_us(server.process.pid) - before, time.monotonic() - start
    return {'bench': f'misses-{server.transport}', 'server': server.name, 'asked': asked, 'lost': asked - answered, 'us_cpu': round(used / asked, 2),
            'qps': round(asked / took), 'resident_mib': [round(m / 1048576, 2) for m in memory]}


def main():
    a = argparse.ArgumentParser()
    a.add_argument('--misses', type=int, default=100000)
    a.add_argument('--transports', default='udp,tcp,tls')
    a.add_argument('--only', default='')
    args = a.parse_args()
    only, rows = [w for w in args.only.split(',') if w], []
    with tempfile.TemporaryDirectory(prefix='pith-bench-') as d:
        setting = Setting(d)
        upstream = Upstream(setting)
        try:
            for transport in args.transports.split(','):
                for kind in (PithdThrough, DnsdistThrough, UnboundThrough):
                    server = kind(setting, upstream, transport)
                    if not server.installed() or (only and not any(w in server.name for w in only)): continue
                    server.start()
                    try:
                        row = measure(server, args.misses)
                        print(json.dumps(row), flush=True)
                        rows.append(row)
                    finally: server.stop()
        finally: upstream.stop()
    print('\n' + f'{"":<12}{"server":<10}{"lost":>8}{"us a miss":>11}{"a second":>10}   MiB after each lot')
    for r in rows:
        print(f"{r['bench']:<12}{r['server']:<10}{r['lost']:>8}{r['us_cpu']:>11}{r['qps']:>10}   " + ' '.join(f'{m:.2f}' for m in r['resident_mib']))


if __name__ == '__main__':
    main()

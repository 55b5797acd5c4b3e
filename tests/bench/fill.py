#!/usr/bin/python3
"""Resident octets a cached name in the whole daemon, filled over the network.

usage: fill.py [--names N] [--memory SIZE,...] [--only WORD,...]     from the build tree (make bench-fill)

A zone of N names of 26 octets with the mix of the cache's benchmark (56 % A, 25 % AAAA, 19 % TXT of 64 to 224 octets,
1 to 4 records each) is asked once over UDP, then a second time. Reported: (resident after - before) / names still
answered, and how many of the second pass went upstream again. One JSON line a server. Loopback only."""
import argparse, json, os, random, re, subprocess, sys, tempfile, time
import peers
from peers import Dnsdist, Pithd, Setting, Unbound, answers, number, resident, run


def write_zone(d, n, seed=1):
    r = random.Random(seed)
    raw = 0
    with open(f'{d}/zone', 'w') as z, open(f'{d}/fill', 'w') as q:
        z.write('$TTL 86400\n@ SOA ns hm 1 3600 900 604800 60\n@ NS ns\nns A 192.0.2.53\nh0 A 192.0.2.1\n')
        for i in range(n):
            name = ''.join(r.choice('abcdefghijklmnopqrstuvwxyz0123456789-') for _ in range(6)) + f'{i:06x}'
            name = 'x' + name[1:]
            count, kind = r.randint(1, 4), r.random()
            raw += 26
            for _ in range(count):
                if kind < .56: z.write(f'{name} A {r.randint(1, 223)}.{r.randint(0, 255)}.{r.randint(0, 255)}.{r.randint(0, 255)}\n'); raw += 4
                elif kind < .81: z.write(f'{name} AAAA 2001:db8:' + ':'.join(f'{r.randint(0, 65535):x}' for _ in range(6)) + '\n'); raw += 16
                else:
                    text = ''.join(r.choice('abcdefghijklmnopqrstuvwxyz0123456789=') for _ in range(r.randint(63, 223)))
                    z.write(f'{name} TXT "{text}"\n'); raw += len(text) + 1
            q.write(f"{name}.example.com {'A' if kind < .56 else 'AAAA' if kind < .81 else 'TXT'}\n")
    return raw / n


class Filled(Pithd):
    memory = '38MiB'
    def command(s):
        cmd = super().command()
        with open(cmd[-1], 'a') as f: f.write(f'cache: {{ memory: {s.memory} }}\n' if s.memory else '')
        return cmd


def asked(d):
    out = subprocess.run(['nsd-control', '-c', f'{d}/nsd.conf', 'stats_noreset'], capture_output=True, text=True).stdout
    return number(r'^num.queries=(\d+)', out) or int(re.search(r'num\.queries=(\d+)', out)[1])


def one_pass(server, d):
    """Completed and lost; what was lost on the way is asked again."""
    out = run(['dnsperf', '-m', 'udp', '-s', '127.0.0.1', '-p', str(server.port['udp']), '-d', f'{d}/fill', '-n', '1', '-q', '100', '-c', '4', '-l', '300'], timeout=320)
    return number(r'Queries completed:\s+(\d+)', out), number(r'Queries lost:\s+(\d+)', out)


def main():
    a = argparse.ArgumentParser()
    a.add_argument('--names', type=int, default=300000)
    a.add_argument('--memory', default='38MiB,')
    a.add_argument('--only', default='')
    args = a.parse_args()
    only = [w for w in args.only.split(',') if w]
    with tempfile.TemporaryDirectory(prefix='pith-fill-') as d:
        setting = Setting(d)
        raw = write_zone(d, args.names)
        conf = open(f'{d}/nsd.conf').read().replace('control-enable: no', f'control-enable: yes\n  control-interface: {d}/nsd.ctl')
        open(f'{d}/nsd.conf', 'w').write(conf)
        nsd = subprocess.Popen(['taskset', '-c', peers.LOAD_CPU, 'nsd', '-d', '-c', f'{d}/nsd.conf'], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        try:
            end = time.monotonic() + 60
            while not answers(setting.upstream):
                if time.monotonic() > end: sys.exit('nsd did not start')
                time.sleep(0.1)
            servers = []
            for memory in args.memory.split(','):
                s = Filled(setting)
                s.memory, s.name = memory, f'pithd {memory or "default"}'
                servers.append(s)
            for server in servers + [Dnsdist(setting), Unbound(setting)]:
                if not server.installed() or (only and not any(w in server.name for w in only)): continue
                server.start()
                try:
                    before = resident(server.process.pid)
                    first = one_pass(server, d)
                    after, upstream = resident(server.process.pid), asked(d)
                    second = one_pass(server, d)
                    again = asked(d) - upstream
                    kept = args.names - again
                    print(json.dumps({'bench': 'fill', 'server': server.name, 'names': args.names, 'raw_bytes': round(raw, 1),
                                      'resident_before': before, 'resident_after': after, 'kept': kept,
                                      'bytes_a_name': round((after - before) / max(kept, 1), 1),
                                      'asked_again_percent': round(100 * again / args.names, 3), 'lost': first[1] + second[1]}), flush=True)
                finally: server.stop()
        finally:
            nsd.terminate()
            nsd.wait()


if __name__ == '__main__':
    main()

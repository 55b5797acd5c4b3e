#!/usr/bin/python3
"""Instructions a query of the front ends, counted by callgrind: exact, and the same on a busy machine.

usage: instructions.py [--only WORD,...] [--functions N]     from the build tree (make bench-instructions)

For each front end pithd runs twice under valgrind, with one worker and a warm cache: once for a short load, once for a
longer one of the same kind. The difference of what was counted, divided by the difference of queries answered, is what
a query takes, without start, connections and the end. Only the process itself is counted, not the system's kernel.
One JSON line a front end with the split by library and the heaviest functions of pithd, a table at the end."""
import argparse, collections, json, os, re, subprocess, sys, tempfile
from peers import BUILD, NAMES, Pithd, Setting, answers, number, query, run
import time

LINE = re.compile(r'^\s*([\d,]+) \(\s*[\d.]+%\)\s+(\S+?):(\S+)(?: \[(.*)\])?$')


class Counted(Pithd):
    """pithd under callgrind. The filter of system calls has to be off: valgrind makes calls of its own."""
    def __init__(s, setting, out):
        super().__init__(setting)
        s.out = out

    def command(s):
        pithd = super().command()
        text = open(pithd[-1]).read()
        open(pithd[-1], 'w').write(text + 'seccomp: false\n')
        return ['valgrind', '--tool=callgrind', f'--callgrind-out-file={s.out}'] + pithd


def dnsperf(mode):
    def load(server, n):
        port = server.port['udp' if mode == 'udp' else 'dot']
        return number(r'Queries completed:\s+(\d+)', run(['dnsperf', '-m', mode, '-s', '127.0.0.1', '-p', str(port), '-d',
                      f'{server.setting.dir}/names', '-n', str(n // NAMES), '-c', '4', '-q', '40', '-t', '30']))
    return load


def dot_pipelined(server, n):
    """By time, as the load has no count."""
    return number(r'answered (\d+)', run([os.path.abspath(f'{BUILD}/tests/bench/load'), 'dot', str(server.port['dot']), '4', '20',
                  str(1 + n // 5000), f'{server.setting.dir}/names']))


def h2load(post):
    def load(server, n):
        d, port = server.setting.dir, server.port['doh']
        cmd = ['h2load', '-c', '4', '-m', '20', '-n', str(n)]
        if post:
            open(f'{d}/body', 'wb').write(query('h7.example.com'))
            cmd += ['-d', f'{d}/body', '-H', 'content-type: application/dns-message', f'https://127.0.0.1:{port}/dns-query']
        else: cmd += ['-i', server.setting.uris(port)]
        return number(r'(\d+) succeeded', run(cmd))
    return load


LOADS = {'udp': dnsperf('udp'), 'dot-single': dnsperf('dot'), 'dot-pipelined': dot_pipelined,
         'doh-get': h2load(False), 'doh-post': h2load(True)}


def counts(path):
    """Instructions by (library, function), of one run. What was inlined from headers is said without a library."""
    text = subprocess.run(['callgrind_annotate', '--threshold=100', path], capture_output=True, text=True).stdout
    rows = [m for line in text.splitlines() if (m := LINE.match(line))]
    home = {m[3]: os.path.basename(m[4]) for m in rows if m[4]}
    found = collections.Counter()
    for m in rows: found[home.get(m[3], 'pithd'), m[3]] += int(m[1].replace(',', ''))
    return found


def counted(setting, load, n, out):
    server = Counted(setting, out)
    server.start()
    warm = run(['dnsperf', '-s', '127.0.0.1', '-p', str(server.port['udp']), '-d', f'{setting.dir}/names', '-n', '1', '-q', '20', '-t', '30'])
    done = load(server, n)
    server.stop()
    if not done or number(r'Queries completed:\s+(\d+)', warm) < NAMES: sys.exit(f'the load was not answered: {warm}')
    return done, counts(out)


def library(name):
    return re.sub(r'[-.].*', '', name) if name != 'pithd' else name


def main():
    a = argparse.ArgumentParser()
    a.add_argument('--only', default='')
    a.add_argument('--functions', type=int, default=6)
    args = a.parse_args()
    only = [w for w in args.only.split(',') if w]
    table = {}
    with tempfile.TemporaryDirectory(prefix='pith-bench-') as d:
        setting = Setting(d)
        nsd = subprocess.Popen(['nsd', '-d', '-c', f'{d}/nsd.conf'], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        try:
            end = time.monotonic() + 10
            while not answers(setting.upstream):
                if time.monotonic() > end: sys.exit('nsd did not start')
                time.sleep(0.05)
            for name, load in LOADS.items():
                if only and not any(w in name for w in only): continue
                few, before = counted(setting, load, 2 * NAMES, f'{d}/few')
                many, after = counted(setting, load, 12 * NAMES, f'{d}/many')
                each = {k: (after[k] - before[k]) / (many - few) for k in after}
                parts, own = collections.Counter(), collections.Counter()
                for (lib, function), n in each.items():
                    parts[library(lib)] += n
                    if lib == 'pithd': own[function.split("'")[0]] += n
                table[name] = parts
                print(json.dumps({'bench': 'instructions', 'front': name, 'queries': many - few, 'instructions': round(sum(parts.values())),
                                  'by_library': {k: round(v) for k, v in parts.most_common() if v >= 1},
                                  'pithd': {k: round(v) for k, v in own.most_common(args.functions)}}), flush=True)
        finally:
            nsd.terminate()
            nsd.wait()
    libs = sorted({k for p in table.values() for k in p if p[k] >= 10}, key=lambda k: (k != 'pithd', k))
    print('\n' + ' ' * 16 + f'{"all":>10}' + ''.join(f'{k:>12}' for k in libs))
    for name, p in table.items(): print(f'{name:<16}{sum(p.values()):>10.0f}' + ''.join(f'{p[k]:>12.0f}' for k in libs))


if __name__ == '__main__':
    main()

#!/usr/bin/python3
"""CPU a query of pithd beside its peers, in one run.

usage: peers.py [--seconds N] [--runs N] [--only WORD,...]     from the build tree (make bench-peers)

Each server runs with one worker, pinned to the first processor it may use; loads and the upstream (nsd) to the
second. What counts is the user and system time of the server's process divided by the queries it answered; the
median of the runs. A load by dnsperf leaves servers some time to sleep, those called "full" and the others do not.
At last pithd with two workers on the one processor, in turn with one; "times one" is a median of neighbouring runs.
Peers that are not installed are left out. Prints one JSON line a figure, a table at the end.
Loopback only; every server that is started is ended by its pid."""
import argparse, base64, contextlib, json, os, re, shutil, socket, statistics, subprocess, sys, tempfile, time

BUILD = os.environ.get('top_builddir', '.')
CPUS = sorted(os.sched_getaffinity(0))
SERVER_CPU, LOAD_CPU = str(CPUS[0]), str(CPUS[-1])
TICK = os.sysconf('SC_CLK_TCK')
NAMES = 1000


def free_port():
    """A port that is free for UDP and TCP."""
    while True:
        with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as t, socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as u:
            t.bind(('127.0.0.1', 0))
            try: u.bind(t.getsockname())
            except OSError: continue
            return t.getsockname()[1]


def descendants(pid):
    out = [pid]
    with contextlib.suppress(OSError):
        for task in os.listdir(f'/proc/{pid}/task'):
            for child in open(f'/proc/{pid}/task/{task}/children').read().split(): out += descendants(int(child))
    return out


def cpu_us(pid):
    total = 0
    for p in descendants(pid):
        with contextlib.suppress(OSError):
            f = open(f'/proc/{p}/stat').read().rsplit(')', 1)[1].split()
            total += int(f[11]) + int(f[12])
    return total * 1e6 / TICK


def resident(pid):
    total = 0
    for p in descendants(pid):
        with contextlib.suppress(OSError):
            total += int(re.search(r'^Rss:\s+(\d+)', open(f'/proc/{p}/smaps_rollup').read(), re.M)[1]) * 1024
    return total


def run(cmd, timeout=120):
    r = subprocess.run(['taskset', '-c', LOAD_CPU] + cmd, capture_output=True, text=True, timeout=timeout)
    return r.stdout + r.stderr


def query(name, ident=0):
    wire = b''.join(bytes([len(l)]) + l.encode() for l in name.split('.')) + b'\0'
    return ident.to_bytes(2, 'big') + bytes.fromhex('01000001000000000000') + wire + bytes.fromhex('00010001')


def answers(port):
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as s:
        s.settimeout(0.2)
        s.connect(('127.0.0.1', port))
        try:
            s.send(query('h0.example.com'))
            return s.recv(4096)[3] & 15 == 0
        except OSError: return False


class Setting:
    """A directory with certificates, zone, lists of names and URIs, and the upstream."""
    def __init__(s, d):
        s.dir = d
        s.upstream = free_port()
        sh = lambda c: subprocess.run(c, shell=True, check=True, cwd=d, capture_output=True)
        for name, key in (('ec', 'ec -pkeyopt ec_paramgen_curve:prime256v1'), ('rsa', 'rsa:2048')):
            sh(f'openssl req -x509 -newkey {key} -nodes -keyout {name}.key -out {name}.pem -subj /CN=localhost -days 30 '
               '-addext subjectAltName=DNS:localhost,IP:127.0.0.1')
        with open(f'{d}/zone', 'w') as f:
            f.write('$TTL 86400\n@ SOA ns hm 1 3600 900 604800 60\n@ NS ns\nns A 192.0.2.53\n* A 192.0.2.99\n')
            f.writelines(f'h{i} A 192.0.2.{i % 250}\n' for i in range(NAMES))
        with open(f'{d}/names', 'w') as f: f.writelines(f'h{i}.example.com A\n' for i in range(NAMES))
        with open(f'{d}/misses', 'w') as f: f.writelines(f'm{i}.example.com A\n' for i in range(200000))
        open(f'{d}/nsd.conf', 'w').write(f'''server:
  ip-address: 127.0.0.1@{s.upstream}
  username: ""
  chroot: ""
  zonesdir: "{d}"
  pidfile: "{d}/nsd.pid"
  xfrdfile: "{d}/xfrd"
  rrl-ratelimit: 0
  minimal-responses: yes
  server-count: 1
remote-control:
  control-enable: no
zone:
  name: example.com
  zonefile: zone
''')

    def uris(s, port):
        path = f'{s.dir}/uris.{port}'
        with open(path, 'w') as f:
            for i in range(NAMES):
                q = base64.urlsafe_b64encode(query(f'h{i}.example.com')).decode().rstrip('=')
                f.write(f'https://127.0.0.1:{port}/dns-query?dns={q}\n')
        return path


class Server:
    """Started by start(); ports by front end."""
    fronts = ('udp', 'dot', 'doh')
    program = None

    def __init__(s, setting):
        s.setting, s.port = setting, {f: free_port() for f in ('udp', 'dot', 'doh')}

    def installed(s): return shutil.which(s.program)

    def start(s):
        s.log = open(f'{s.setting.dir}/{s.name}.log', 'w')
        s.process = subprocess.Popen(['taskset', '-c', SERVER_CPU] + s.command(), stdout=s.log, stderr=s.log, cwd=s.setting.dir)
        end = time.monotonic() + 20
        while time.monotonic() < end:
            if s.process.poll() is not None: break
            if s.ready(): return
            time.sleep(0.05)
        sys.exit(f'{s.name} did not start: {open(s.log.name).read()[-500:]}')

    def ready(s): return answers(s.port['udp'])

    def stop(s):
        s.process.terminate()
        try: s.process.wait(10)
        except subprocess.TimeoutExpired: s.process.kill()
        s.log.close()


class Pithd(Server):
    name, workers = 'pithd', 1
    def installed(s): return True

    def command(s):
        d = s.setting.dir
        open(f'{d}/pith.yaml', 'w').write(f'''workers: {s.workers}
listen:
  dns: [ {{address: "127.0.0.1:{s.port['udp']}"}} ]
  dot: [ {{address: "127.0.0.1:{s.port['dot']}"}} ]
  doh: [ {{address: "127.0.0.1:{s.port['doh']}"}} ]
tls: {{ certificates: [ {{certificate: {d}/ec.pem, key: {d}/ec.key}} ] }}
limits: {{ connections-per-client: 4000, idle: 120s }}
upstreams: [ {{address: "127.0.0.1:{s.setting.upstream}", transport: udp}} ]
''')
        return [os.path.abspath(f'{BUILD}/pithd'), '-c', f'{d}/pith.yaml']


class Dnsdist(Server):
    name = program = 'dnsdist'

    def command(s):
        d, p = s.setting.dir, s.port
        open(f'{d}/dnsdist.conf', 'w').write(f'''setACL({{'127.0.0.0/8'}})
setLocal('127.0.0.1:{p['udp']}')
addTLSLocal('127.0.0.1:{p['dot']}', '{d}/ec.pem', '{d}/ec.key')
addDOHLocal('127.0.0.1:{p['doh']}', '{d}/ec.pem', '{d}/ec.key', '/dns-query')
newServer({{address='127.0.0.1:{s.setting.upstream}'}})
pc = newPacketCache(400000)
getPool(''):setCache(pc)
''')
        return ['dnsdist', '--supervised', '--disable-syslog', '-C', f'{d}/dnsdist.conf']


class Unbound(Server):
    name = program = 'unbound'

    def command(s):
        d, p = s.setting.dir, s.port
        open(f'{d}/unbound.conf', 'w').write(f'''server:
  chroot: ""
  username: ""
  directory: "{d}"
  pidfile: ""
  use-syslog: no
  num-threads: 1
  interface: 127.0.0.1@{p['udp']}
  interface: 127.0.0.1@{p['dot']}
  interface: 127.0.0.1@{p['doh']}
  tls-port: {p['dot']}
  https-port: {p['doh']}
  tls-service-key: "{d}/ec.key"
  tls-service-pem: "{d}/ec.pem"
  do-not-query-localhost: no
  module-config: "iterator"
  incoming-num-tcp: 2000
  msg-cache-size: 200m
  rrset-cache-size: 200m
forward-zone:
  name: "."
  forward-addr: 127.0.0.1@{s.setting.upstream}
remote-control:
  control-enable: no
''')
        return ['unbound', '-d', '-c', f'{d}/unbound.conf']


class Floor(Server):
    def __init__(s, setting, front):
        super().__init__(setting)
        s.fronts, s.name = (front,), f'floor-{front}'
    def installed(s): return os.path.exists(f'{BUILD}/tests/bench/floor')

    def command(s):
        front, d = s.fronts[0], s.setting.dir
        return [os.path.abspath(f'{BUILD}/tests/bench/floor'), front, str(s.port[front])] + ([f'{d}/ec.pem', f'{d}/ec.key'] if front == 'dot' else [])

    def ready(s):
        if s.fronts[0] == 'udp': return answers(s.port['udp'])
        with contextlib.suppress(OSError), socket.create_connection(('127.0.0.1', s.port['dot']), 0.2): return True
        return False


class Nghttpd(Server):
    """The HTTP libraries with a static file of 90 octets: what HTTP/2 itself costs."""
    name = program = 'nghttpd'
    fronts = ('doh',)

    def command(s):
        d = s.setting.dir
        os.makedirs(f'{d}/www', exist_ok=True)
        open(f'{d}/www/dns-query', 'wb').write(b'x' * 90)
        return ['nghttpd', '-d', f'{d}/www', str(s.port['doh']), f'{d}/ec.key', f'{d}/ec.pem']

    def ready(s):
        with contextlib.suppress(OSError), socket.create_connection(('127.0.0.1', s.port['doh']), 0.2): return True
        return False


# ---- loads: each returns how many queries were answered

def number(pattern, text):
    m = re.search(pattern, text)
    return int(m[1]) if m else 0


def dnsperf(mode, more=()):
    def load(server, seconds):
        port = server.port['udp' if mode == 'udp' else 'dot']
        return number(r'Queries completed:\s+(\d+)', run(['dnsperf', '-m', mode, '-s', '127.0.0.1', '-p', str(port), '-d',
                      f'{server.setting.dir}/names', '-l', str(seconds), '-c', '10', '-q', '200'] + list(more)))
    return load


def h2load(post):
    def load(server, seconds):
        port, d = server.port['doh'], server.setting.dir
        cmd = ['h2load', '-c', '10', '-m', '20', '-D', str(seconds)]
        if post:
            open(f'{d}/body', 'wb').write(query('h7.example.com'))
            cmd += ['-d', f'{d}/body', '-H', 'content-type: application/dns-message', f'https://127.0.0.1:{port}/dns-query']
        elif isinstance(server, Nghttpd): cmd += [f'https://127.0.0.1:{port}/dns-query']
        else: cmd += ['-i', server.setting.uris(port)]
        return number(r'(\d+) succeeded', run(cmd))
    return load


def full(mode):
    """More than the server can do: it never sleeps."""
    def load(server, seconds):
        port = server.port['udp' if mode == 'udp' else 'dot']
        return number(r'answered (\d+)', run([os.path.abspath(f'{BUILD}/tests/bench/load'), mode, str(port), '10', '20',
                      str(seconds), f'{server.setting.dir}/names']))
    return load


def misses(server, seconds):
    """Each name once."""
    path, at = f'{server.setting.dir}/misses', getattr(server, 'missed', 0)
    lines = open(path).readlines()[at:at + 20000]
    server.missed = at + len(lines)
    open(f'{server.setting.dir}/slice', 'w').writelines(lines)
    return number(r'Queries completed:\s+(\d+)', run(['dnsperf', '-m', 'udp', '-s', '127.0.0.1', '-p', str(server.port['udp']), '-d',
                  f'{server.setting.dir}/slice', '-n', '1', '-l', '60', '-q', '100', '-c', '10']))


def handshakes(server, seconds):
    """A new connection, full handshake, one query."""
    return number(r'(\d+) succeeded', run(['h2load', '-c', '1', '-m', '1', '-n', '1', f'https://127.0.0.1:{server.port["doh"]}/dns-query?dns=AAABAAABAAAAAAAAAmg3B2V4YW1wbGUDY29tAAABAAE'])) and \
        many_handshakes(server, 400)


def many_handshakes(server, n):
    out = run(['h2load', '-c', str(n), '-m', '1', '-n', str(n), '-r', '100',
               f'https://127.0.0.1:{server.port["doh"]}/dns-query?dns=AAABAAABAAAAAAAAAmg3B2V4YW1wbGUDY29tAAABAAE'])
    return number(r'(\d+) succeeded', out)


LOADS = {
    'doh-get': ('doh', h2load(False)),
    'doh-post': ('doh', h2load(True)),
    'dot-pipelined': ('dot', full('dot')),
    'dot-single': ('dot', dnsperf('dot')),
    'dot-single-full': ('dot', full('dot-single')),
    'udp': ('udp', dnsperf('udp')),
    'udp-full': ('udp', full('udp')),
    'miss-udp': ('udp', misses),
    'handshake': ('doh', handshakes),
}


def measure(server, load, seconds, runs):
    figures = []
    for _ in range(runs):
        before, start = cpu_us(server.process.pid), time.monotonic()
        n = load(server, seconds)
        used, took = cpu_us(server.process.pid) - before, time.monotonic() - start
        if n: figures.append((used / n, n / took))
    return figures


def measure_pair(servers, load, seconds, runs):
    """Both in turn, as neighbours on the machine may slow down one or the other: figures of the second, and how many
    times the first's they are, a median."""
    figures, times = [], []
    for _ in range(runs):
        one, two = (measure(server, load, seconds, 1) for server in servers)
        if one and two:
            figures += two
            times.append(two[0][0] / one[0][0])
    return figures, statistics.median(times) if times else 0


def idle_connections(server, front, n=1000):
    """Resident octets a connection that asked once and is idle."""
    import ssl
    ctx = ssl.create_default_context()
    ctx.check_hostname, ctx.verify_mode = False, ssl.CERT_NONE
    ctx.set_alpn_protocols(['dot'] if front == 'dot' else ['h2'])
    preface = b'PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n' + bytes.fromhex('000000040000000000')
    before, held = resident(server.process.pid), []
    for _ in range(n):
        c = ctx.wrap_socket(socket.create_connection(('127.0.0.1', server.port[front])))
        q = query('h7.example.com')
        c.sendall(len(q).to_bytes(2, 'big') + q if front == 'dot' else preface)
        c.recv(4096)
        held.append(c)
    size = (resident(server.process.pid) - before) / n
    for c in held: c.close()
    return size


def main():
    a = argparse.ArgumentParser()
    a.add_argument('--seconds', type=int, default=3)
    a.add_argument('--runs', type=int, default=3)
    a.add_argument('--only', default='')
    args = a.parse_args()
    only = [w for w in args.only.split(',') if w]
    table = {}
    with tempfile.TemporaryDirectory(prefix='pith-bench-') as d:
        setting = Setting(d)
        nsd = subprocess.Popen(['taskset', '-c', LOAD_CPU, 'nsd', '-d', '-c', f'{d}/nsd.conf'], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        try:
            end = time.monotonic() + 10
            while not answers(setting.upstream):
                if time.monotonic() > end: sys.exit('nsd did not start')
                time.sleep(0.05)
            servers = [Pithd(setting), Dnsdist(setting), Unbound(setting), Nghttpd(setting), Floor(setting, 'udp'), Floor(setting, 'dot')]

            def put(name, server, figures, **more):
                us, qps = statistics.median(f[0] for f in figures), statistics.median(f[1] for f in figures)
                table[server.name, name] = us
                print(json.dumps({'bench': name, 'server': server.name, 'us_cpu': round(us, 2), 'qps': round(qps),
                                  'min': round(min(f[0] for f in figures), 2), 'max': round(max(f[0] for f in figures), 2), **more}), flush=True)

            for server in servers:
                if not server.installed() or (only and not any(w in server.name for w in only) and server.name != 'pithd'): continue
                server.start()
                try:
                    if not isinstance(server, (Floor, Nghttpd)):
                        # First, while no memory was freed that they could take.
                        for front in ('dot', 'doh'):
                            size = idle_connections(server, front)
                            table[server.name, f'idle-{front}'] = size
                            print(json.dumps({'bench': f'idle-{front}', 'server': server.name, 'resident_bytes': round(size)}), flush=True)
                    for name, (front, load) in LOADS.items():
                        if front not in server.fronts: continue
                        if isinstance(server, (Floor, Nghttpd)) and name in ('miss-udp', 'handshake', 'doh-post'): continue
                        load(server, 1)
                        figures = measure(server, load, args.seconds, args.runs)
                        if figures: put(name, server, figures)
                finally: server.stop()

            one, two = Pithd(setting), Pithd(setting)
            two.name, two.workers = 'pithd-2-workers', 2
            with contextlib.ExitStack() as ending:
                for server in (one, two):
                    server.start()
                    ending.callback(server.stop)
                for name, (front, load) in LOADS.items():
                    if name == 'miss-udp': continue
                    for server in (one, two): load(server, 1)
                    figures, times = measure_pair((one, two), load, max(1, args.seconds // 2), 3 * args.runs)
                    if figures:
                        put(name, two, figures, times_one_worker=round(times, 3))
                        table['times one', name] = times
        finally:
            nsd.terminate()
            nsd.wait()
    names = sorted({s for s, _ in table}, key=lambda s: (not s.startswith('pithd'), s != 'times one', s))
    print('\n' + ' ' * 16 + ''.join(f'{n:>17}' for n in names))
    for row in list(LOADS) + ['idle-dot', 'idle-doh']:
        print(f'{row:<16}' + ''.join(f'{table[n, row]:>17.2f}' if (n, row) in table else ' ' * 16 + '-' for n in names))


if __name__ == '__main__':
    main()

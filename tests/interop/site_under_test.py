"""What there is to find: names that only our upstream knows, and the web pages behind them."""

import http.server
import threading

from scripted import behaviour, plain
from servers import HOST, free_port
from wire import A


@behaviour("web")
def answer_web(ask):
    """This machine over IPv4; no other records."""
    if ask.type == A:
        ask.reply(ask.a(HOST))
    else:
        ask.reply(authority=[ask.soa()])


@behaviour("www")
def answer_www(ask):
    """What providers are probed with (www.gstatic.com)."""
    plain(ask)


class Page(http.server.BaseHTTPRequestHandler):
    def do_GET(self):  # pylint: disable=invalid-name
        body = ("<!doctype html><title>found</title><h1>This is "
                f"{self.headers['Host'].split(':')[0]}</h1>\n").encode()
        self.send_response(200)
        self.send_header("Content-Type", "text/html")
        self.send_header("Content-Length", str(len(body)))
        self.send_header("Cache-Control", "no-store")
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format, *args):  # pylint: disable=redefined-builtin
        pass


class Site:
    def __init__(self):
        self.port = free_port()
        self.server = http.server.ThreadingHTTPServer((HOST, self.port), Page)
        self.server.daemon_threads = True
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def url(self, name):
        return f"http://{name}:{self.port}/"

    def stop(self):
        self.server.shutdown()
        self.server.server_close()

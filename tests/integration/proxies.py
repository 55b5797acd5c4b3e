"""nginx and haproxy in front of pithd, as processes of our own.

Both take connections that begin with a PROXY header of version 1, as from a load balancer
before them, so that a client on loopback can be any client of the Internet.
"""

import os
import socket
import time

from servers import HOST, Process, free_port

NGINX = """
daemon off;
master_process off;
pid $folder/nginx.pid;
error_log stderr error;
events { worker_connections 128; }
http {
    access_log off;
    client_body_temp_path $folder/body;
    proxy_temp_path $folder/proxy;
    fastcgi_temp_path $folder/fastcgi;
    uwsgi_temp_path $folder/uwsgi;
    scgi_temp_path $folder/scgi;
    ssl_certificate $certificate;
    ssl_certificate_key $key;
    set_real_ip_from 127.0.0.1;
    real_ip_header proxy_protocol;
    # a pool of connections for each version of HTTP
    upstream pith_h1 { server 127.0.0.1:$clear; keepalive 8; }
    upstream pith_h2c { server 127.0.0.1:$clear; keepalive 8; }

    # as everybody has it: HTTP/1.1, X-Forwarded-For made longer
    server {
        listen 127.0.0.1:$nginx_h1 ssl http2 proxy_protocol;
        location / {
            proxy_pass http://pith_h1;
            proxy_http_version 1.1;
            proxy_set_header Connection "";
            proxy_set_header Host $$host;
            proxy_set_header X-Forwarded-For $$proxy_add_x_forwarded_for;
        }
    }
    # nginx speaks HTTP/2 to gRPC servers only, but does not look at what is said
    server {
        listen 127.0.0.1:$nginx_h2c ssl http2 proxy_protocol;
        location / {
            grpc_pass grpc://pith_h2c;
            grpc_set_header X-Forwarded-For $$proxy_add_x_forwarded_for;
        }
    }
    # HTTP/1.0 and a connection a request, nginx's default; Forwarded of RFC 7239
    map $$remote_addr $$forwarded_for {
        ~^[0-9.]+$$     "for=$$remote_addr";
        ~^[0-9A-Fa-f:.]+$$ "for=\\"[$$remote_addr]\\"";
    }
    server {
        listen 127.0.0.1:$nginx_forwarded ssl http2 proxy_protocol;
        location / {
            proxy_pass http://127.0.0.1:$clear;
            proxy_set_header X-Forwarded-For "";
            proxy_set_header Forwarded "$$http_forwarded, $$forwarded_for";
        }
    }
}
"""

HAPROXY = """
global
    maxconn 200
    stats socket $folder/stats
defaults
    timeout connect 5s
    timeout client 30s
    timeout server 30s
    retries 0
"""

# front end and back end of each way: mode, what to bind with, what the server is told
HAPROXY_WAYS = {
    "haproxy_h1": ("http", "ssl crt $pair alpn h2,http/1.1", "$clear", "", True),
    "haproxy_h2c": ("http", "ssl crt $pair alpn h2,http/1.1", "$clear", "proto h2", True),
    "haproxy_v2_h1": ("http", "ssl crt $pair alpn h2,http/1.1", "$clear_pp",
                      "send-proxy-v2", False),
    "haproxy_v2_h2c": ("http", "ssl crt $pair alpn h2,http/1.1", "$clear_pp",
                       "send-proxy-v2 proto h2", False),
    "haproxy_v2_clear": ("tcp", "ssl crt $pair alpn h2", "$clear_pp", "send-proxy-v2", False),
    "haproxy_v2_doh": ("tcp", "", "$doh", "send-proxy-v2", False),
    "haproxy_v2_dot": ("tcp", "", "$dot", "send-proxy-v2", False),
    "haproxy_v2_ssl": ("tcp", "ssl crt $pair", "$dns",
                       "send-proxy-v2-ssl-cn proxy-v2-options crc32c,unique-id", False),
    "haproxy_v2_dns": ("tcp", "", "$dns", "send-proxy-v2 check check-send-proxy inter 50",
                       False),
    "haproxy_v1_dot": ("tcp", "", "$dot", "send-proxy", False),
    "haproxy_v1_dns": ("tcp", "", "$dns", "send-proxy", False),
}
NGINX_WAYS = ("nginx_h1", "nginx_h2c", "nginx_forwarded")


def fill(text, values):
    """$name is the value, $$ is $."""
    from string import Template
    return Template(text).substitute(values)


class Proxy(Process):
    """A proxy that listens on all of its ports."""

    def __init__(self, command, ports):
        super().__init__(command)
        for port in ports:
            self._wait_port(port)

    def _wait_port(self, port):
        deadline = time.monotonic() + 20
        while True:
            try:
                socket.create_connection((HOST, port), 1).close()
                return
            except OSError:
                assert self.process.poll() is None and time.monotonic() < deadline, self.log
                time.sleep(0.01)


def start(folder, pithd, clear_pp):
    """Starts both in front of a pithd. Returns the processes, and the port of each way."""
    ports = {way: free_port() for way in (*HAPROXY_WAYS, *NGINX_WAYS)}
    pair = os.path.join(folder, "pair.pem")
    with open(pair, "w", encoding="ascii") as file:
        for path in (pithd.certificate, pithd.key):
            with open(path, encoding="ascii") as part:
                file.write(part.read())
    values = {**pithd.ports, **ports, "clear_pp": clear_pp, "folder": folder, "pair": pair,
              "certificate": pithd.certificate, "key": pithd.key}

    haproxy = HAPROXY
    for way, (mode, bind, target, server, forward) in HAPROXY_WAYS.items():
        haproxy += (f"listen {way}\n    mode {mode}\n"
                    f"    bind 127.0.0.1:${way} accept-proxy {bind}\n"
                    f"    server pith 127.0.0.1:{target} {server}\n"
                    + ("    option forwardfor\n" if forward else "")
                    + ("    unique-id-format %pid-%rt\n" if "unique-id" in server else ""))
    configs = {"nginx.conf": NGINX, "haproxy.cfg": haproxy}
    for name, text in configs.items():
        with open(os.path.join(folder, name), "w", encoding="ascii") as file:
            file.write(fill(text, values))
    started = [
        Proxy(["nginx", "-p", folder, "-c", os.path.join(folder, "nginx.conf")],
              [ports[way] for way in NGINX_WAYS]),
        Proxy(["haproxy", "-db", "-f", os.path.join(folder, "haproxy.cfg")],
              [ports[way] for way in HAPROXY_WAYS])]
    return started, ports

"""Chromium (by chromedriver) and Firefox (by Marionette), headless, each with a profile of its
own."""

import base64
import json
import os
import re
import socket
import subprocess
import time
import urllib.error
import urllib.request

from servers import HOST, Process, free_port

PATIENCE = 90  # seconds; the machine may be busy


class Chromium:
    """One session. The policy makes it use pithd, and nothing else, for names; unless only=False,
    when it probes pithd first and would go on without it."""

    policies = "/etc/chromium/policies/managed"
    arguments = ["--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage",
                 "--disable-quic", "--no-first-run", "--disable-background-networking",
                 "--disable-component-update", "--disable-sync", "--disable-extensions",
                 "--disable-features=OptimizationHints,MediaRouter,HttpsUpgrades"]

    def __init__(self, folder, template, ca, only=True):
        os.makedirs(self.policies, exist_ok=True)
        der = subprocess.run(["openssl", "x509", "-in", ca, "-outform", "DER"], check=True,
                             capture_output=True).stdout
        with open(f"{self.policies}/pith.json", "w", encoding="ascii") as file:
            json.dump({"DnsOverHttpsMode": "secure" if only else "automatic",
                       "DnsOverHttpsTemplates": template,
                       "BuiltInDnsClientEnabled": True,
                       "CACertificates": [base64.b64encode(der).decode()]}, file)
        port = free_port()
        self.driver = Process(["chromedriver", f"--port={port}",
                               f"--log-path={folder}/chromedriver.log"])
        self.base = f"http://{HOST}:{port}"
        self.wait_driver()
        options = {"binary": "/usr/bin/chromium",
                   "args": [*self.arguments, f"--user-data-dir={folder}/chromium"]}
        self.session = None
        try:
            made = self.call("POST", "/session", {"capabilities": {"alwaysMatch": {
                "goog:chromeOptions": options,
                "timeouts": {"pageLoad": PATIENCE * 1000}}}})
        except Exception:
            self.driver.kill()
            raise
        self.version = "Chromium " + made["capabilities"]["browserVersion"]
        self.session = made["sessionId"]

    def wait_driver(self):
        deadline = time.monotonic() + PATIENCE
        while True:
            try:
                return self.call("GET", "/status")
            except (urllib.error.URLError, ConnectionError):
                assert time.monotonic() < deadline, "chromedriver does not start"
                time.sleep(0.05)

    def call(self, method, path, body=None):
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(self.base + path, data, method=method,
                                         headers={"Content-Type": "application/json"})
        try:
            with urllib.request.urlopen(request, timeout=PATIENCE) as response:
                return json.load(response)["value"]
        except urllib.error.HTTPError as error:
            return json.load(error)["value"]  # a page that is an error; its source tells

    def open(self, url):
        """The text of the page that shows then."""
        self.call("POST", f"/session/{self.session}/url", {"url": url})
        return self.call("GET", f"/session/{self.session}/source")

    def screenshot(self, path):
        data = self.call("GET", f"/session/{self.session}/screenshot")
        with open(path, "wb") as file:
            file.write(base64.b64decode(data))

    def close(self):
        if self.session:
            self.call("DELETE", f"/session/{self.session}")
        self.driver.kill()


class Firefox:
    """One instance, with the CA in its profile and TRR in mode 3: names by pithd or not at all;
    or in mode 2, which asks pithd once it is confirmed."""

    preferences = {
        "network.trr.mode": 3,
        "network.trr.allow-rfc1918": True,
        "network.trr.request_timeout_mode_trronly_ms": 30000,
        "network.trr.confirmation_telemetry_enabled": False,
        "network.dns.disablePrefetch": True,
        "network.manage-offline-status": False,
        "network.captive-portal-service.enabled": False,
        "network.connectivity-service.enabled": False,
        "dom.security.https_first": False,
        "browser.shell.checkDefaultBrowser": False,
        "browser.startup.page": 0,
        "browser.aboutwelcome.enabled": False,
        "datareporting.policy.dataSubmissionEnabled": False,
        "toolkit.telemetry.server": "",
        "app.normandy.enabled": False,
        "browser.safebrowsing.malware.enabled": False,
        "browser.safebrowsing.phishing.enabled": False,
        "extensions.update.enabled": False,
        "services.settings.server": "data:,",
        "media.gmp-manager.url": "data:,",
        "remote.prefs.recommended": False,
    }

    def __init__(self, folder, uri, ca, only=True):
        self.profile = f"{folder}/firefox"
        os.makedirs(self.profile)
        subprocess.run(["certutil", "-N", "-d", f"sql:{self.profile}", "--empty-password"],
                       check=True, capture_output=True)
        subprocess.run(["certutil", "-A", "-d", f"sql:{self.profile}", "-t", "CT,C,C", "-n", "pith",
                        "-i", ca], check=True, capture_output=True)
        port = free_port()
        wanted = {**self.preferences, "network.trr.mode": 3 if only else 2, "network.trr.uri": uri, "network.trr.custom_uri": uri,
                  "marionette.port": port}
        with open(f"{self.profile}/user.js", "w", encoding="ascii") as file:
            for key, value in wanted.items():
                file.write(f"user_pref({json.dumps(key)}, {json.dumps(value)});\n")
        self.log = f"{folder}/firefox-dns.log"
        self.process = Process(["firefox-esr", "--no-remote", "--profile", self.profile,
                                "--headless", "--marionette"],
                               {"MOZ_LOG": "nsHostResolver:4", "MOZ_LOG_FILE": self.log,
                                "MOZ_CRASHREPORTER_DISABLE": "1"})
        self.number = 0
        self.socket = None
        try:
            self.connect(port)
            made = self.call("WebDriver:NewSession",
                             {"capabilities": {"alwaysMatch": {"pageLoadStrategy": "normal"}}})
        except Exception:
            self.process.kill()
            raise
        self.version = "Firefox " + made["capabilities"]["browserVersion"]
        self.call("WebDriver:SetTimeouts", {"pageLoad": PATIENCE * 1000})

    def connect(self, port):
        deadline = time.monotonic() + PATIENCE
        while True:
            try:
                self.socket = socket.create_connection((HOST, port), 5)
                break
            except OSError:
                assert time.monotonic() < deadline, f"no Marionette:\n{self.process.log}"
                time.sleep(0.05)
        self.socket.settimeout(PATIENCE)
        self.receive()  # its greeting

    def receive(self):
        length = b""
        while not length.endswith(b":"):
            octet = self.socket.recv(1)
            assert octet, "Firefox is gone"
            length += octet
        text = b""
        while len(text) < int(length[:-1]):
            part = self.socket.recv(int(length[:-1]) - len(text))
            assert part, "Firefox is gone"
            text += part
        return json.loads(text)

    def call(self, command, parameters=None):
        self.number += 1
        text = json.dumps([0, self.number, command, parameters or {}]).encode()
        self.socket.sendall(b"%d:%s" % (len(text), text))
        _, _, error, result = self.receive()
        if error and command != "WebDriver:Navigate":
            raise AssertionError(f"{command}: {error}")
        return result

    def open(self, url):
        """The text of the page that shows then, an error page too."""
        self.call("WebDriver:Navigate", {"url": url})
        return self.call("WebDriver:GetPageSource")["value"]

    def screenshot(self, path):
        data = self.call("WebDriver:TakeScreenshot", {"full": False})["value"]
        with open(path, "wb") as file:
            file.write(base64.b64decode(data))

    def close(self):
        if self.socket:
            self.socket.close()
        self.process.kill()

    def trr_log(self):
        """What it says about its resolver."""
        text = ""
        for name in os.listdir(os.path.dirname(self.log)):
            if re.match(r"firefox-dns\.log", name):
                with open(os.path.join(os.path.dirname(self.log), name), encoding="utf-8",
                          errors="replace") as file:
                    text += file.read()
        return text

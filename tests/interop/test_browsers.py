"""Pages whose names only our upstream knows, in browsers that ask pithd and nobody else."""

import os
import time

import pytest

import browsers
import wire

HTTPS = 65
HAS_IPV6 = os.path.exists("/proc/net/if_inet6")


class Case:
    """A browser and how it is told where pithd is."""

    def __init__(self, label, browser, template, programs):
        self.label, self.browser = label, browser
        self.template, self.programs = template, programs

    def __repr__(self):
        return self.label


CASES = [
    Case("chromium-get", browsers.Chromium, "{?dns}", ["chromium", "chromedriver"]),
    Case("chromium-post", browsers.Chromium, "", ["chromium", "chromedriver"]),
    Case("firefox", browsers.Firefox, "", ["firefox-esr", "certutil"]),
]


@pytest.fixture(params=CASES, ids=repr)
def case(request, need):
    need(*request.param.programs)
    return request.param


@pytest.fixture
def start(case, tmp_path):
    """start(daemon) is a browser with a profile of its own."""
    started = []

    def new(daemon, **how):
        folder = tmp_path / f"browser{len(started)}"
        folder.mkdir()
        started.append(case.browser(str(folder), daemon.url(case.template), daemon.ca,
                                    **how))
        return started[-1]
    yield new
    for browser in started:
        browser.close()


def found(name):
    return f"This is {name}"


def test_pages(case, start, daemon, upstream, web, artefacts, certificates):
    """A page is found, by questions of each type; names that are not there, and those that
    cannot be told, show the browser's own error page; a new visitor is served from the cache; a
    renewed certificate and a restart of pithd are not noticed."""
    daemon = daemon()
    name = f"web.{case.label}.site.test"
    browser = start(daemon)
    print(browser.version)
    assert found(name) in browser.open(web.url(name))
    browser.screenshot(os.path.join(artefacts, f"{case.label}-page.png"))
    types = {ask.type for ask in upstream.log
             if ask.name.endswith(name)}
    wanted = {wire.A, wire.AAAA} if HAS_IPV6 else {wire.A}
    assert wanted <= types
    if case.browser is browsers.Chromium:
        assert HTTPS in types

    for label, word in (("nx", "nx"), ("rcode-2", "servfail")):
        page = browser.open(web.url(f"{label}.{case.label}.site.test"))
        assert found(f"{label}.{case.label}.site.test") not in page
        assert "ERR_NAME_NOT_RESOLVED" in page or "DNS_PROBE" in page or "neterror" in page
        browser.screenshot(os.path.join(artefacts, f"{case.label}-{word}.png"))

    second = f"web.second.{case.label}.site.test"
    daemon.install_certificate(certificates.server2)
    assert "done" in daemon.reload()
    assert found(second) in browser.open(web.url(second))

    asked = len(upstream.asked(name))
    other = start(daemon)
    assert found(name) in other.open(web.url(name))
    assert len(upstream.asked(name)) == asked

    daemon.restart()
    third = f"web.third.{case.label}.site.test"
    assert found(third) in browser.open(web.url(third))
    assert found(third) in other.open(web.url(third))


def test_provider_check(case, start, daemon, upstream, web):
    """Where the browser may choose, it tries a provider first; pithd passes, and is used."""
    since = len(upstream.log)
    browser = start(daemon(), only=False)
    probe = {browsers.Chromium: ("www.gstatic.com", wire.A),
             browsers.Firefox: ("example.com", wire.NS)}[case.browser]
    upstream.wait_asked(probe[0], qtype=probe[1], timeout=60, since=since)
    name = f"web.chosen.{case.label}.site.test"
    deadline = time.monotonic() + 120
    while found(name) not in browser.open(web.url(name)):  # not confirmed yet
        assert time.monotonic() < deadline


def test_probes(daemon):
    """The same questions as they are on the wire: ID 0, and Firefox's with client subnet 0/0."""
    daemon = daemon()
    probe = wire.query("www.gstatic.com", wire.A, wire.opt(), id=0)
    answer = daemon.ask("doh", probe)
    assert answer.rcode == 0 and any(r.type == wire.A for r in answer.answer)
    probe = wire.query("example.com", wire.NS, wire.opt(wire.ecs("0.0.0.0", 0), size=4096), id=0)
    answer = daemon.ask("doh", probe)
    assert answer.id == 0 and answer.rcode == 0
    assert any(r.type == wire.NS for r in answer.answer)

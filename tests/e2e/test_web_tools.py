"""The web tools with a real Chromium, against a site on loopback. Needs Chromium and the extra `browser`."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import http.server
import importlib.util
import os
import shutil
import socket
import tempfile
import threading
from dataclasses import dataclass, field

import pytest

from toolyard.codemode.custom import load_custom_tools
from toolyard.codemode.custom.browser import PROGRAMS
from toolyard.config.custom_tools import Browser
from toolyard.config.models import Config, ToolyardSection
from toolyard.config.settings import Settings
from toolyard.core.errors import SecurityError, ToolError, ToolyardError
from toolyard.files.content.images import measure_image

HAS_BROWSER = importlib.util.find_spec("playwright") is not None and any(map(shutil.which, PROGRAMS))
pytestmark = [
    pytest.mark.e2e,
    pytest.mark.skipif(not HAS_BROWSER, reason="needs chromium and playwright"),
    pytest.mark.timeout(120),
]
SETTINGS = Settings.from_environment({"HOME": "/h"})
PAGE = b"<html><head><title>A page</title></head><body><main>hello</main></body></html>"


@dataclass
class Files:
    kept: dict[str, bytes] = field(default_factory=dict)

    def read(self, path: str) -> bytes:
        if path not in self.kept:
            raise SecurityError(f"{path} may not be read.")
        return self.kept[path]

    def write(self, path: str, data: bytes) -> str:
        self.kept[path] = data
        return path


@dataclass
class Site:
    port: int
    asked: list[str] = field(default_factory=list)
    pages: dict[str, bytes] = field(default_factory=dict)
    moved: dict[str, str] = field(default_factory=dict)

    def url(self, path: str = "/", host: str = "localhost") -> str:
        return f"http://{host}:{self.port}{path}"


@contextlib.contextmanager
def serving():
    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            site.asked.append(self.path)
            if self.path in site.moved:
                self.send_response(302)
                self.send_header("Location", site.moved[self.path])
                self.send_header("Content-Length", "0")
                self.end_headers()
                return
            body = site.pages.get(self.path, PAGE)
            self.send_response(200)
            self.send_header("Content-Type", "text/html")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *args: object) -> None: ...

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    site = Site(server.server_port)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield site
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


@pytest.fixture
def site():
    with serving() as one:
        yield one


@pytest.fixture
def secret_site():
    """Somewhere on this machine that the browser may not go."""
    with serving() as one:
        yield one


@dataclass
class Yard:
    files: Files
    connections: list[tuple[str, int, bool]]
    browser: Browser

    async def call(self, tool: str, **arguments: object):
        section = ToolyardSection(available_custom_tools=("web.*",), browser=self.browser)
        tell = lambda *connection: self.connections.append(connection)  # noqa: E731
        tools = load_custom_tools(Config(toolyard=section), SETTINGS, self.files, tell)
        return await tools.call("web", tool, arguments)


@pytest.fixture
def yard(site):
    hosts = (f"localhost:{site.port}",)
    browser = Browser(allowed_hosts=hosts, sandbox=os.geteuid() != 0, seconds=30, width=320, height=200)
    return Yard(Files(), [], browser)


async def test_a_page_is_visited_and_pictured(yard, site):
    site.moved["/old"] = "/new"
    answer = await yard.call("playwright_navigate", url=site.url("/old"), screenshot=True, wait_for="main")

    path = answer.structured["screenshot_path"]
    assert answer.structured == {
        "final_url": site.url("/new"),
        "title": "A page",
        "status": 200,
        "screenshot_path": path,
    }
    picture = yard.files.kept[path]
    assert (measure_image(picture).width, measure_image(picture).height) == (320, 200)
    assert base64.b64decode(answer.content[1]["data"]) == picture
    assert yard.connections
    assert all(each == ("localhost", site.port, True) for each in yard.connections)


async def test_without_a_picture_none_is_kept(yard, site):
    answer = await yard.call("playwright_navigate", url=site.url())
    assert (answer.structured["title"], yard.files.kept, len(answer.content)) == ("A page", {}, 1)


async def test_a_whole_page_is_taller_than_the_window(yard):
    answer = await yard.call("screenshot", url="data:text/html,<div style='height:999px'>x</div>", full_page=True)
    assert measure_image(yard.files.kept[answer.structured["screenshot_path"]]).height > 900


async def test_a_page_of_the_workspace_is_shown_with_what_belongs_to_it(yard):
    yard.files.kept = {
        "site/index.html": b"<script src='app.js'></script><body><img src='/gone.png'></body>",
        "site/app.js": b"document.title = 'from the workspace'",
    }
    answer = await yard.call("playwright_navigate", url="site/index.html")
    assert answer.structured["title"] == "from the workspace"
    assert answer.structured["final_url"] == "site/index.html"


async def test_a_file_the_agent_may_not_read_is_refused_in_its_own_words(yard):
    for url in ("file:///etc/passwd", "/etc/passwd", "../up.html"):
        with pytest.raises(SecurityError, match="may not be read"):
            await yard.call("playwright_navigate", url=url)


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "[::1]"])
async def test_a_redirect_leads_nowhere_else(yard, site, secret_site, host):
    site.moved["/out"] = secret_site.url("/secret", host)
    with pytest.raises(SecurityError, match="may not reach"):
        await yard.call("playwright_navigate", url=site.url("/out"))
    assert secret_site.asked == []


async def test_nothing_on_a_page_reaches_further_than_the_page(yard, site, secret_site):
    inner = secret_site.url("/secret", "127.0.0.1")
    site.pages["/"] = f"""<title>x</title><img src="{inner}"><iframe src="{inner}"></iframe>
        <iframe src="file:///etc/passwd"></iframe><link rel="preconnect" href="{inner}">
        <script>
          const ends = [];
          ends.push(fetch("{inner}", {{mode: "no-cors"}}).catch(() => 0));
          navigator.sendBeacon("{inner}");
          const socket = new WebSocket("{inner.replace("http", "ws")}");
          ends.push(new Promise(closed => {{ socket.onclose = closed }}));
          const footer = document.createElement("footer");
          footer.textContent = "done";
          Promise.all(ends).then(() => document.body.append(footer));
        </script>""".encode()
    answer = await yard.call("playwright_navigate", url=site.url(), wait_for="footer")
    assert answer.structured["title"] == "x"
    assert secret_site.asked == []
    assert ("127.0.0.1", secret_site.port, False) in yard.connections


async def test_what_never_comes_is_given_up(yard, site):
    yard.browser = yard.browser.model_copy(update={"seconds": 2.0})
    with pytest.raises(ToolError, match="After 2 seconds '#never' was not there"):
        await yard.call("playwright_navigate", url=site.url(), wait_for="#never")


async def test_a_page_that_is_busy_for_ever_is_given_up(yard, site):
    yard.browser = yard.browser.model_copy(update={"seconds": 8.0})
    site.pages["/busy"] = b"<script>onload = () => setTimeout(() => { while (true); }, 0)</script>"
    with pytest.raises(ToolError, match="After 8 seconds the page was not ready"):
        await yard.call("playwright_navigate", url=site.url("/busy"))


async def test_of_a_title_without_end_the_beginning_is_told(yard, site):
    site.pages["/long"] = (
        b"<script>String.prototype.slice = function () { return this }</script><title>%b</title>" % (b"x" * 1_000_000)
    )
    answer = await yard.call("playwright_navigate", url=site.url("/long"))
    assert answer.structured["title"] == "x" * 1_000


async def test_a_host_that_does_not_answer_is_a_clear_error(yard):
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    yard.browser = yard.browser.model_copy(update={"allowed_hosts": (f"localhost:{port}",)})
    with contextlib.suppress(ToolError):  # the proxy's 502 may also be shown as a page
        answer = await yard.call("playwright_navigate", url=f"http://localhost:{port}/")
        assert answer.structured["status"] == 502


@pytest.fixture
def own_temp(monkeypatch):
    """A folder for files of runs that nobody else uses."""
    folder = tempfile.mkdtemp()
    monkeypatch.setenv("XDG_STATE_HOME", folder)
    yield folder
    shutil.rmtree(folder)


async def test_nothing_is_left_behind_when_a_call_is_cancelled(yard, site, own_temp):
    task = asyncio.create_task(yard.call("playwright_navigate", url=site.url(), wait_for="#never"))
    while not site.asked:
        await asyncio.sleep(0.05)
    assert _browsers(own_temp)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert await _left_behind(own_temp) == ([], [])


async def test_nothing_is_left_behind_when_a_call_has_ended(yard, site, own_temp):
    await yard.call("playwright_navigate", url=site.url())
    assert await _left_behind(own_temp) == ([], [])


async def test_a_browser_that_is_none_does_not_start(yard):
    yard.browser = yard.browser.model_copy(update={"executable": "/bin/true"})
    with pytest.raises(ToolyardError, match="does not start"):
        await yard.call("playwright_navigate", url="data:text/html,x")


async def _left_behind(temp: str) -> tuple[list[int], list[str]]:
    """The browsers that do not end within a while, and what is in the folder for temporary files."""
    for _ in range(100):
        if not _browsers(temp):
            break
        await asyncio.sleep(0.1)
    return _browsers(temp), os.listdir(f"{temp}/toolyard/run")


def _browsers(temp: str) -> list[int]:
    """Browsers whose home lies in this folder, whoever is their parent by now."""
    found: list[int] = []
    for entry in filter(str.isdecimal, os.listdir("/proc")):
        with contextlib.suppress(OSError):
            with open(f"/proc/{entry}/comm") as file:
                is_browser = "chrom" in file.read()
            with open(f"/proc/{entry}/environ", "rb") as file:  # of one that has ended it is empty
                is_ours = f"HOME={temp}/".encode() in file.read()
            if is_browser and is_ours:
                found.append(int(entry))
    return found

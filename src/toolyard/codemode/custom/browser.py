"""One browser page that can reach only hosts that the user allows.

`open_page` owns the browser, its driver and its proxy while its block runs, and ends all of them. Chromium reaches
the network only through our proxy, loopback included: hosts are resolved and checked there, so a redirect, script,
frame or socket of a page is subject to the same allow-list as its address. The browser reads no files: pages of the
workspace are served to it from memory, under a host name that does not resolve.
"""

from __future__ import annotations

import asyncio
import contextlib
import importlib.util
import mimetypes
import os
import shutil
from collections import deque
from collections.abc import AsyncGenerator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final
from urllib.parse import quote, unquote, urlsplit
from weakref import WeakKeyDictionary

from toolyard.codemode.custom.context import ToolContext
from toolyard.core.errors import SecurityError, ToolError, ToolyardError, ValidationError
from toolyard.core.limits import KIB
from toolyard.linux.unix_socket import short_name
from toolyard.sandbox.proxy.allow_list import AllowList, normalized_host
from toolyard.sandbox.proxy.endpoint import SOCKET_NAME, ProxyEndpoint
from toolyard.storage.temp_folders import TemporaryFolder

if TYPE_CHECKING:
    from playwright.async_api import Browser, Page, Playwright, Request, Route

WORKSPACE_HOST: Final = "workspace.invalid"
"""The host name under which pages see the workspace. It cannot exist in DNS."""
PROGRAMS: Final = ("chromium", "chromium-browser", "google-chrome-stable", "google-chrome")
MAX_BROWSERS: Final = 3
"""Concurrent browsers; further calls wait. Each takes hundreds of megabytes."""
_browser_slots: WeakKeyDictionary[asyncio.AbstractEventLoop, asyncio.Semaphore] = WeakKeyDictionary()
_PORTS: Final = {"http": 80, "https": 443}
_RELAY_BYTES: Final = 64 * KIB
_CLOSE_SECONDS: Final = 10.0
_ADDRESS_HINT: Final = "Give an http or https address, or a file of the workspace."
_FLAGS: Final = (
    "--disable-quic",
    "--force-webrtc-ip-handling-policy=disable_non_proxied_udp",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-domain-reliability",
    "--disable-sync",
    "--dns-prefetch-disable",
    "--no-first-run",
    "--no-pings",
    # Requests to Google at every start. Browsers block this port, so they are never sent.
    "--gaia-url=http://127.0.0.1:9",
    "--component-updater=url-source=http://127.0.0.1:9",
)


def resolve_address(url: str, context: ToolContext) -> str:
    """Returns the address to open for a requested URL. Raises if it is not allowed."""
    try:
        parts = urlsplit(url.strip())
    except ValueError:
        raise ValidationError.of("url", "is not an address", hint=_ADDRESS_HINT) from None
    scheme = parts.scheme.lower()
    if scheme == "data" or url == "about:blank":
        return url.strip()
    if scheme in {"", "file"}:
        path = unquote(parts.path) if scheme == "file" else url.strip()
        return f"http://{WORKSPACE_HOST}/{quote(path.lstrip('/') if scheme == '' else path)}"
    if scheme not in _PORTS:
        raise SecurityError(f"Pages at {scheme}: are not allowed.", hint=_ADDRESS_HINT)
    try:
        port = parts.port or _PORTS[scheme]
    except ValueError:
        port = 0
    host = _normal_host_of(url.strip())
    if host is None or port == 0:
        raise ValidationError.of("url", "has no host that could be reached", hint=_ADDRESS_HINT)
    if not AllowList(context.allowed_hosts).matches(host, port):
        raise _host_not_allowed_error(f"{host}:{port}" if port not in _PORTS.values() else host, context)
    return url.strip()


def _normal_host_of(url: str) -> str | None:
    """Returns the normalised host of an address."""
    name = urlsplit(url).hostname or ""
    return normalized_host(f"[{name}]" if ":" in name else name)


def _host_not_allowed_error(host: str, context: ToolContext) -> SecurityError:
    allowed = AllowList(context.allowed_hosts).describe()
    return SecurityError(
        f"The browser may not reach {host}. Allowed: {allowed}.",
        hint=f"Ask the user to add {host} to `toolyard.browser.allowed_hosts` in toolyard.yaml.",
    )


def workspace_file_of(url: str) -> str | None:
    """Returns the workspace file that an address stands for, or None."""
    parts = urlsplit(url)
    return unquote(parts.path).removeprefix("/") if parts.hostname == WORKSPACE_HOST else None


@dataclass(frozen=True, slots=True)
class OpenPage:
    """A page in the browser."""

    page: Page
    navigation: deque[str]
    """The address that the page itself is at or navigates to, once there is one."""
    refused_hosts: set[str]
    """The hosts that the page tried to reach and may not."""


@contextlib.asynccontextmanager
async def open_page(context: ToolContext) -> AsyncGenerator[OpenPage]:
    """Opens a fresh page without history or cookies."""
    executable = find_browser(context)
    refused: set[str] = set()
    led_to: deque[str] = deque(maxlen=1)  # a page may navigate endlessly

    def record_connection(host: str, port: int, allowed: bool) -> None:
        context.on_connection(host, port, allowed)
        if not allowed:
            refused.add(host)

    async with contextlib.AsyncExitStack() as undo:
        await undo.enter_async_context(_browser_slot())
        door = undo.enter_context(ProxyEndpoint.open(context.allowed_hosts, record_connection))
        port = await undo.enter_async_context(_relay_port(os.path.join(door.folder, SOCKET_NAME)))
        home = undo.enter_context(TemporaryFolder("browser"))
        playwright = await undo.enter_async_context(_playwright_driver())
        browser = await _launch(playwright, executable, port, home.path, context)
        undo.push_async_callback(_close_browser, browser)
        inside = await browser.new_context(
            viewport={"width": context.browser.width, "height": context.browser.height},
            accept_downloads=False,
            service_workers="block",
        )
        page = await inside.new_page()
        page.set_default_timeout(context.browser.seconds * 1000)

        async def serve(route: Route) -> None:
            await _serve_workspace_file(route, context)

        await inside.route(lambda url: urlsplit(url).hostname == WORKSPACE_HOST, serve)
        page.on("request", lambda request: led_to.append(request.url) if _is_page_navigation(request, page) else None)
        yield OpenPage(page, led_to, refused)


def _browser_slot() -> asyncio.Semaphore:
    """Returns the semaphore that limits the browsers of the running loop. Limits of the calling code do not cover
    them.
    """
    return _browser_slots.setdefault(asyncio.get_running_loop(), asyncio.Semaphore(MAX_BROWSERS))


def _is_page_navigation(request: Request, page: Page) -> bool:
    """Whether a request navigates the page itself, rather than loading a part of it."""
    return request.is_navigation_request() and request.frame == page.main_frame


@contextlib.asynccontextmanager
async def report_refused_hosts(opened: OpenPage, context: ToolContext) -> AsyncGenerator[None]:
    """Raises SecurityError if the page itself is on a refused host, in place of the browser's error."""
    from playwright.async_api import Error

    failure: Error | None = None
    try:
        yield
    except Error as error:
        failure = error
    host = _normal_host_of(opened.navigation[-1]) if opened.navigation else None
    if host in opened.refused_hosts:
        raise _host_not_allowed_error(host or "", context) from None
    if failure is not None:
        raise failure


def require_playwright() -> None:
    """Raises ToolError if playwright is not installed."""
    if importlib.util.find_spec("playwright") is None:
        raise ToolError("The package playwright is not installed.", hint="Install Toolyard with the extra `browser`.")


def find_browser(context: ToolContext) -> str:
    """Returns the browser to start. Raises ToolError with installation instructions."""
    if os.geteuid() == 0 and context.browser.sandbox:
        raise ToolError(
            "Chromium has no sandbox of its own when it is run as root.",
            hint="Run Toolyard as another user, or set `toolyard: {browser: {sandbox: false}}` explicitly.",
        )
    wanted = context.browser.executable
    found = shutil.which(wanted) if wanted else next(filter(None, map(shutil.which, PROGRAMS)), None)
    if found is None:
        missing = f"There is no browser at {wanted!r}." if wanted else "There is no Chromium on this machine."
        raise ToolError(
            missing, hint="Install it (Debian: `apt install chromium`), or set `toolyard.browser.executable`."
        )
    return found


@contextlib.asynccontextmanager
async def _playwright_driver() -> AsyncGenerator[Playwright]:
    from playwright.async_api import async_playwright

    async with async_playwright() as playwright:
        yield playwright


async def _launch(playwright: Playwright, executable: str, port: int, home: str, context: ToolContext) -> Browser:
    from playwright.async_api import Error

    try:
        return await playwright.chromium.launch(
            executable_path=executable,
            # Without `bypass`, loopback addresses would not use the proxy.
            proxy={"server": f"http://127.0.0.1:{port}", "bypass": "<-loopback>"},
            chromium_sandbox=context.browser.sandbox,
            args=list(_FLAGS),
            env={"PATH": os.defpath, "HOME": home, "TMPDIR": home},  # no environment variables of the host
            timeout=context.browser.seconds * 1000,
        )
    except Error as error:
        first = error.message.strip().partition("\n")[0]
        raise ToolError(f"The browser does not start: {first}", hint=f"Try {executable} by hand.") from None


async def _close_browser(browser: Browser) -> None:
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(_CLOSE_SECONDS):
            await browser.close()


async def _serve_workspace_file(route: Route, context: ToolContext) -> None:
    """Answers a request for a workspace file."""
    path = workspace_file_of(route.request.url) or ""
    try:
        content = await asyncio.to_thread(context.files.read, path)
    except ToolyardError as error:
        await route.fulfill(status=404, content_type="text/plain; charset=utf-8", body=str(error))
        return
    kind = mimetypes.guess_type(path)[0] or "application/octet-stream"
    await route.fulfill(status=200, content_type=kind, body=content)


@contextlib.asynccontextmanager
async def _relay_port(socket_path: str) -> AsyncGenerator[int]:
    """Yields a local TCP port that forwards to the proxy's socket: browsers do not support unix sockets."""

    async def pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError):
            while data := await reader.read(_RELAY_BYTES):
                writer.write(data)
                await writer.drain()
            writer.write_eof()

    async def relay_connection(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError):
            with short_name(socket_path) as name:
                inner_reader, inner_writer = await asyncio.open_unix_connection(name)
            try:
                await asyncio.gather(pump(reader, inner_writer), pump(inner_reader, writer))
            finally:
                inner_writer.close()
        writer.close()

    server = await asyncio.start_server(relay_connection, "127.0.0.1", 0)
    try:
        yield server.sockets[0].getsockname()[1]
    finally:
        server.close()

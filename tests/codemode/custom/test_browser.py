"""What the browser may open, told before one is started."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys

import pytest

from toolyard.codemode.custom import ToolContext
from toolyard.codemode.custom import browser as custom_browser
from toolyard.codemode.custom.browser import find_browser, resolve_address
from toolyard.codemode.custom.context import NoFiles
from toolyard.config.custom_tools import Browser
from toolyard.config.settings import Settings
from toolyard.core.errors import SecurityError, ToolError, ValidationError

SETTINGS = Settings.from_environment({"HOME": "/h"})


def context(*hosts: str, **browser: object) -> ToolContext:
    return ToolContext(SETTINGS, NoFiles(), Browser(**browser), allowed_hosts=hosts)


@pytest.mark.parametrize(
    ("url", "hosts", "address"),
    [
        ("https://example.org/a?b#c", ("example.org",), "https://example.org/a?b#c"),
        ("HTTP://EXAMPLE.org/", ("example.org",), "HTTP://EXAMPLE.org/"),
        ("http://localhost:8080/", ("localhost:8080",), "http://localhost:8080/"),
        ("http://[::1]:8080/", ("[::1]:8080",), "http://[::1]:8080/"),
        ("data:text/html,hi", (), "data:text/html,hi"),
        ("site/index.html", (), "http://workspace.invalid/site/index.html"),
        ("file:///w/a%20b.html", (), "http://workspace.invalid//w/a%20b.html"),
    ],
)
def test_addresses_that_may_be_opened(url, hosts, address):
    assert resolve_address(url, context(*hosts)) == address


@pytest.mark.parametrize(
    "url",
    [
        *("http://example.org/", "https://example.com/", "http://127.0.0.1/", "http://localhost/", "http://[::1]/"),
        *(
            "http://169.254.169.254/latest/meta-data/",
            "http://2130706433/",
            "http://0x7f.1/",
            "http://allowed.org:22/",
        ),
        *("http://allowed.org@evil.org/", "http://evil.org#allowed.org", "https://sub.allowed.org/", "http:///x"),
        *(
            "chrome://settings",
            "view-source:http://allowed.org",
            "javascript:alert(1)",
            "ftp://allowed.org/",
            "about:x",
        ),
        *("http://allowed.org:99999/", "http://[::1/", "devtools://x", "blob:http://allowed.org/x"),
    ],
)
def test_everything_else_is_refused_before_a_browser_is_started(url):
    with pytest.raises((SecurityError, ValidationError)):
        resolve_address(url, context("allowed.org"))


def test_a_refusal_says_what_to_add():
    with pytest.raises(SecurityError, match=r"add example\.org to `toolyard\.browser\.allowed_hosts`"):
        resolve_address("https://example.org/x", context("allowed.org"))


def test_a_missing_browser_says_how_to_get_one():
    with pytest.raises(ToolError, match="apt install chromium"):
        find_browser(context(executable="/no/such/browser", sandbox=False))


def test_as_root_chromiums_missing_sandbox_has_to_be_accepted_by_name(monkeypatch):
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    with pytest.raises(ToolError, match="sandbox: false"):
        find_browser(context())


def test_the_tools_are_listed_without_playwright_being_imported():
    code = (
        "import sys; from toolyard.codemode.custom import load_custom_tools as l;"
        "from toolyard.config.models import Config, ToolyardSection; from toolyard.config.settings import Settings;"
        "t = l(Config(toolyard=ToolyardSection(available_custom_tools=('web.*', 'multimodal.*'))),"
        " Settings.from_environment({})); assert len(t) == 3, t.problems;"
        "print([m for m in ('playwright', 'httpx2') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=50, check=True)
    assert done.stdout.strip() == "[]"


async def test_only_a_few_browsers_run_at_once_and_the_next_one_waits():
    running, most, done = 0, 0, 0
    full, go = asyncio.Event(), asyncio.Event()

    async def browse() -> None:
        nonlocal running, most, done
        async with custom_browser._browser_slot():
            running += 1
            most = max(most, running)
            if running == custom_browser.MAX_BROWSERS:
                full.set()
            await go.wait()
            running -= 1
        done += 1

    async with asyncio.TaskGroup() as group:
        for _ in range(10):
            group.create_task(browse())
        await full.wait()
        go.set()
    assert (most, done) == (custom_browser.MAX_BROWSERS, 10)

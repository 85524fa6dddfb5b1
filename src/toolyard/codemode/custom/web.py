"""Built-in tools for web pages."""

from __future__ import annotations

import asyncio
import base64
import secrets
from typing import TYPE_CHECKING, Annotated, Any, Final, NotRequired
from urllib.parse import urlsplit

from pydantic import Field
from typing_extensions import TypedDict  # pydantic reads no other before Python 3.12

from toolyard.codemode.custom.browser import (
    open_page,
    report_refused_hosts,
    require_playwright,
    resolve_address,
    workspace_file_of,
)
from toolyard.codemode.custom.context import NoFiles, ToolContext
from toolyard.core.errors import ToolError
from toolyard.core.upstream import UpstreamResult

if TYPE_CHECKING:
    from playwright.async_api import Page

SCREENSHOT_FOLDER: Final = "screenshots"
Address = Annotated[
    str, Field(description="http or https on an allowed host, a data: URL, or an HTML file of the workspace.")
]
Selector = Annotated[str | None, Field(description="A CSS selector to wait for first.")]
_MAX_TITLE_CHARS: Final = 1_000
_MAX_URL_CHARS: Final = 8_000
_MAX_MESSAGE_CHARS: Final = 500
_ANNOTATIONS: Final = {"destructiveHint": False, "openWorldHint": True}


class VisitedPage(TypedDict):
    final_url: str
    title: str
    status: NotRequired[int]
    screenshot_path: NotRequired[str]


async def playwright_navigate(
    url: Address,
    context: ToolContext,
    screenshot: Annotated[bool, Field(description="Whether to keep a picture of it in the workspace.")] = False,
    wait_for: Selector = None,
) -> VisitedPage:
    """Open a web page in a browser and tell where it led and what it is called, with a screenshot if wanted."""
    return await _visit(url, context, wait_for, picture=screenshot, whole=False)  # type: ignore[return-value]


async def screenshot(
    url: Address,
    context: ToolContext,
    full_page: Annotated[bool, Field(description="Whether to show all of it, not what fits the window.")] = False,
    wait_for: Selector = None,
) -> VisitedPage:
    """Take a picture of a web page and keep it in the workspace as PNG."""
    return await _visit(url, context, wait_for, picture=True, whole=full_page)  # type: ignore[return-value]


for _tool in (playwright_navigate, screenshot):
    _tool.__tool_annotations__ = _ANNOTATIONS  # type: ignore[attr-defined]


async def _visit(
    url: str, context: ToolContext, wait_for: str | None, *, picture: bool, whole: bool
) -> UpstreamResult:
    """Visits a page. The result also carries the screenshot as content, for models that can see images."""
    require_playwright()
    from playwright.async_api import Error
    from playwright.async_api import TimeoutError as TooLate

    address = resolve_address(url, context)
    if (path := workspace_file_of(address)) is not None:
        await asyncio.to_thread(context.files.read, path)  # its error is clearer than the browser's
    context.progress(0, None, f"Opening {urlsplit(address).hostname or 'the page'}")
    try:
        async with open_page(context) as page, report_refused_hosts(page, context):
            return await _capture_page(page.page, address, context, wait_for, picture=picture, whole=whole)
    except (TooLate, TimeoutError):
        what = f"{wait_for!r} was not there" if wait_for else "the page was not ready"
        seconds = f"{context.browser.seconds:g} seconds"
        raise ToolError(
            f"After {seconds} {what}.", hint="Check the address and the selector.", retryable=True
        ) from None
    except Error as error:
        first = error.message.strip().partition("\n")[0][:_MAX_MESSAGE_CHARS]
        raise ToolError(f"The page cannot be shown: {first}", hint="Check the address.") from None


async def _capture_page(
    page: Page, address: str, context: ToolContext, wait_for: str | None, *, picture: bool, whole: bool
) -> UpstreamResult:
    response = await page.goto(address, wait_until="load")
    if wait_for:
        await page.wait_for_selector(wait_for)
    async with asyncio.timeout(context.browser.seconds):  # a page that is busy forever does not answer
        seen: dict[str, Any] = {
            "final_url": _reported_url(page.url)[:_MAX_URL_CHARS],
            "title": await _page_title(page),
        }
    if response is not None:
        seen["status"] = response.status
    content: list[dict[str, Any]] = []
    if picture:
        data = await page.screenshot(full_page=whole, type="png")
        if not isinstance(context.files, NoFiles):
            seen["screenshot_path"] = context.files.write(f"{SCREENSHOT_FOLDER}/{secrets.token_hex(6)}.png", data)
        content = [{"type": "image", "data": base64.b64encode(data).decode(), "mimeType": "image/png"}]
    text = f"{seen['title']} ({seen['final_url']})"
    return UpstreamResult(({"type": "text", "text": text}, *content), seen)


async def _page_title(page: Page) -> str:
    """Returns the beginning of the page's title: the whole may take half of the browser's memory.

    It is cut in an isolated world, where the page's scripts cannot have replaced the functions that cut it.
    """
    devtools: Any = await page.context.new_cdp_session(page)  # its answers are untyped
    frame = (await devtools.send("Target.getTargetInfo"))["targetInfo"]["targetId"]
    world = await devtools.send("Page.createIsolatedWorld", {"frameId": frame})
    cut = {
        "expression": f"document.title.slice(0, {_MAX_TITLE_CHARS})",
        "contextId": world["executionContextId"],
        "returnByValue": True,
    }
    answer = await devtools.send("Runtime.evaluate", cut)
    return str(answer["result"].get("value", ""))


def _reported_url(url: str) -> str:
    """Returns the path for a page of the workspace, otherwise the URL."""
    path = workspace_file_of(url)
    return url if path is None else path

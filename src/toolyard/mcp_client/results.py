"""Converts and validates results of servers, and masks the secrets of their entries. Invalid results raise errors.

A server may print the key it got, and our errors quote its last line of stderr. So every text of a server that goes
into an error, a status or a log passes its `SecretMask`, which hides every value of the entry. Results of tools are
data for callers. There, only values that look like secrets by name or form are hidden: a folder in `env` stays
readable in returned paths.
"""

from __future__ import annotations

import json
import re
from collections import deque
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Any, cast
from urllib.parse import parse_qsl, quote, unquote, urlsplit

from toolyard.config.models import ServerEntry
from toolyard.config.secret_extraction import looks_secret
from toolyard.core.limits import MIB
from toolyard.core.upstream import Json, ServerListing, ToolSchema, UpstreamResult
from toolyard.mcp_client.errors import CallFailed, ServerMisbehaved, invalid_result_error
from toolyard.mcp_client.network_hints import network_hint

MAX_TOOLS = 10_000
MAX_PAGES = 1_000
MAX_LISTING_BYTES = 256 * MIB

_TEXT_KEYS = frozenset({"description", "title", "default", "examples", "const", "$comment"})
"""Schema keys that hold texts and values. If one holds an object it may be the name of an argument."""
_COMPLETE_TYPES = (None, "complete")

_MIN_CHARS = 4
"""Shorter values ("1", "on", "en") are not secrets, and masking them would damage ordinary words."""
_MIN_UNNAMED_CHARS = 8
"""In results, for values whose name does not say that they are secret."""
_ORDINARY = re.compile(
    r"[A-Za-z]+(?:[ _.,:/+-][A-Za-z]+)*"  # words
    r"|[~.]{0,2}/.*"  # a path
    r"|[a-z][a-z0-9+.-]*://[^@?#]*"  # a URL without user or parameters
    r"|[\d\s.,:_/-]+"  # numbers, dates
    r"|[\w.-]+:\d+",  # host and port
    re.DOTALL,
)
_MASKED = "***"
_REMEMBERED_TOKENS = 8
"""Tokens of the last sign-ins; older ones have expired."""

FetchPage = Callable[[str | None], Awaitable[Mapping[str, Any]]]
"""Fetches one page of tools/list at a cursor."""
NoteCallback = Callable[[str], None]


def tool_answer(
    server: str, tool: str, result: object, mask: SecretMask, read_log: Callable[[], str] = lambda: ""
) -> UpstreamResult:
    """Returns the result of a call, with the secrets of the entry masked.

    `read_log` returns what the server printed during the call: many servers only log the reason of a failure.
    """
    if not isinstance(result, dict):
        raise invalid_result_error(server, tool)
    body = cast("dict[str, Any]", result)
    if body.get("resultType") not in _COMPLETE_TYPES:
        raise CallFailed(
            server,
            tool,
            f"Server '{server}' wants to ask the user before {tool} continues, which is not possible here",
            hint="Give the tool all it needs in its arguments.",
        )
    content = body.get("content", ())
    if not isinstance(content, list):
        content = ()
    blocks_in = [cast("Json", block) for block in cast("list[object]", content) if isinstance(block, dict)]
    try:
        blocks, structured = mask.mask_answer(blocks_in), mask.mask_answer(body.get("structuredContent"))
    except RecursionError:
        raise invalid_result_error(server, tool) from None
    answer = UpstreamResult(tuple(blocks), structured, body.get("isError") is True)
    hint = network_hint(answer.text) or network_hint(read_log()) if answer.is_error else ""
    if not hint:
        return answer
    return replace(answer, content=(*answer.content, {"type": "text", "text": f"Hint of Toolyard: {hint}"}))


def masked_listing(listing: ServerListing, mask: SecretMask) -> ServerListing:
    """Returns the listing with secrets masked. Names of tools and arguments stay, because calls need them."""
    try:
        tools = tuple(
            replace(
                tool,
                description=mask.mask_answer(tool.description),
                title=mask.mask_answer(tool.title),
                input_schema=_masked_schema(tool.input_schema, mask),
                output_schema=_masked_schema(tool.output_schema, mask),
            )
            for tool in listing.tools
        )
    except RecursionError:
        raise _misbehavior_error(listing.server, "lists a schema that is nested too deeply") from None
    return replace(listing, tools=tools, instructions=mask.mask_answer(listing.instructions))


def _masked_schema(schema: Any, mask: SecretMask) -> Any:
    if isinstance(schema, list):
        return [_masked_schema(one, mask) for one in cast("list[Any]", schema)]
    if not isinstance(schema, dict):
        return schema
    return {
        key: mask.mask_answer(value)
        if key in _TEXT_KEYS and not isinstance(value, dict)
        else _masked_schema(value, mask)
        for key, value in cast("dict[str, Any]", schema).items()
    }


async def fetch_all_tools(
    server: str, fetch_page: FetchPage, note: NoteCallback, received_bytes: Callable[[], int]
) -> tuple[ToolSchema, ...]:
    """Fetches all pages, within limits. `received_bytes` counts the bytes from the server so far."""
    tools: dict[str, ToolSchema] = {}
    seen: set[str] = set()
    cursor: str | None = None
    before = received_bytes()
    for _ in range(MAX_PAGES):
        body = await fetch_page(cursor)
        listed = body.get("tools")
        if not isinstance(listed, list):
            raise _misbehavior_error(server, "answered tools/list without a list of tools")
        for raw in cast("list[object]", listed):
            tool = _parse_tool_schema(raw, note)
            if tool is not None and tools.setdefault(tool.name, tool) is not tool:
                note(f"tools/list: more than one tool is called {tool.name!r}; the first is used")
        if len(tools) > MAX_TOOLS or received_bytes() - before > MAX_LISTING_BYTES:
            raise _misbehavior_error(server, f"lists more than {MAX_TOOLS:,} tools or {MAX_LISTING_BYTES // MIB} MiB")
        following = body.get("nextCursor")
        if not following:
            return tuple(tools.values())
        if not isinstance(following, str) or following in seen:
            raise _misbehavior_error(server, "lists its tools in a loop: it repeats a page")
        seen.add(following)
        cursor = following
    raise _misbehavior_error(server, f"lists its tools on more than {MAX_PAGES:,} pages without an end")


def _misbehavior_error(server: str, what: str) -> ServerMisbehaved:
    return ServerMisbehaved(server, what, retryable=False)


def _parse_tool_schema(raw: object, note: NoteCallback) -> ToolSchema | None:
    tool = cast("dict[str, Any]", raw) if isinstance(raw, dict) else {}
    name = tool.get("name")
    if not isinstance(name, str) or not name:
        note("tools/list: a tool without a name was left out")
        return None
    takes, gives = tool.get("inputSchema"), tool.get("outputSchema")
    if not isinstance(takes, dict):
        note(f"tools/list: {name!r} has an inputSchema that is not an object; it is treated as empty")
        takes = {}
    return ToolSchema(
        name=name,
        description=_text_or_empty(tool.get("description")),
        input_schema=cast("Json", takes),
        output_schema=cast("Json", gives) if isinstance(gives, dict) else None,
        annotations=_object_or_empty(tool.get("annotations")),
        title=_text_or_empty(tool.get("title")),
    )


def _text_or_empty(value: object) -> str:
    return value if isinstance(value, str) else ""


def _object_or_empty(value: object) -> Json:
    return cast("Json", value) if isinstance(value, dict) else {}


class SecretMask:
    """Masks a server's secrets. It learns them at each start, when their values are resolved."""

    __slots__ = ("_answers", "_entry", "_secrets", "_tokens", "_values")

    def __init__(self) -> None:
        self._entry: set[str] = set()
        self._secrets: set[str] = set()
        self._tokens: deque[str] = deque(maxlen=_REMEMBERED_TOKENS)
        self._values: list[str] = []
        self._answers: list[str] = []

    def learn_entry(self, written: ServerEntry, started: ServerEntry, more: Iterable[str] = ()) -> None:
        """Learns the secrets of an entry: as written in the file, and with variables expanded (`started`).

        `more` are secrets outside of the entry.
        """
        named = list(_named_values(started))
        # A word that contains the value of a variable is always secret.
        before = {*written.command_line, *_segments(written.url)}
        words = {*started.command_line, *_segments(started.url)} - before
        named += [word.partition("=")[::2] if "=" in word else ("", word) for word in words]
        more = tuple(more)
        self._entry |= {value for _, value in named} | words | {*more}
        self._secrets |= {value for name, value in named if _is_secret(name, value)} | {*more}
        self._rebuild()

    def learn_tokens(self, *tokens: str) -> None:
        """Learns the tokens of a sign-in."""
        self._tokens.extend(tokens)
        self._rebuild()

    def _rebuild(self) -> None:
        self._values = _longest_first((*self._entry, *self._tokens))
        secrets = _longest_first((*self._secrets, *self._tokens))
        self._answers = _longest_first(form for value in secrets for form in _encoded_forms(value))

    def __call__(self, text: str) -> str:
        return _mask_values(text, self._values)

    def mask_answer(self, value: Any) -> Any:
        """Returns part of a result with secrets masked in all nested strings."""
        return self._mask_nested(value) if self._answers else value

    def _mask_nested(self, value: Any) -> Any:
        if isinstance(value, str):
            return _mask_values(value, self._answers)
        if isinstance(value, dict):
            items = cast("dict[str, Any]", value).items()
            return {_mask_values(key, self._answers): self._mask_nested(item) for key, item in items}
        if isinstance(value, list):
            return [self._mask_nested(item) for item in cast("list[Any]", value)]
        return value


def _mask_values(text: str, values: Iterable[str]) -> str:
    for value in values:
        if value in text:
            text = text.replace(value, _MASKED)
    return text


def _longest_first(values: Iterable[str]) -> list[str]:
    """Longest first: masking a contained value first would leave the ends of the longer one."""
    return sorted({value for value in values if len(value) >= _MIN_CHARS}, key=len, reverse=True)


def _encoded_forms(value: str) -> Iterator[str]:
    """Yields the encodings of a value in a result: plain, JSON, URL."""
    yield value
    yield json.dumps(value)[1:-1]
    yield json.dumps(value, ensure_ascii=False)[1:-1]
    yield quote(value, safe="")


def _is_secret(name: str, value: str) -> bool:
    if looks_secret(name, value):
        return True
    return len(value) >= _MIN_UNNAMED_CHARS and not _ORDINARY.fullmatch(value)


def _named_values(entry: ServerEntry) -> Iterator[tuple[str, str]]:
    yield from entry.env.items()
    for name, header in entry.headers.items():
        yield name, header
        for word in header.split()[1:]:  # "Bearer abc": the token alone, too
            yield name, word
    if entry.oauth is not None and entry.oauth.client_secret:
        yield "client_secret", entry.oauth.client_secret
    if entry.url:
        parts = urlsplit(entry.url)
        yield "password", unquote(parts.password or "")
        yield "query", parts.query
        yield from parse_qsl(parts.query)


def _segments(url: str | None) -> list[str]:
    return urlsplit(url).path.split("/") if url else []

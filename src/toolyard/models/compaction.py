"""Compacts a conversation: old results become short, and old exchanges become a note.

Deterministic; no model is asked.

An exchange is an answer of the model with what followed it (results of its calls, the next question). The two are
removed or kept together, so that no call is left without its result. The task, which is the first message, and the
newest exchange always stay. In this order, and only as far as needed:

    1. results that alone take a large part of the room keep their beginning and end;
    2. results of older exchanges become a line each;
    3. the oldest exchanges become one note beside the task: later questions, tools that ran, files that were written;
    4. results of the newest exchanges become as short as possible, and the note is dropped.

Each step shortens the original result, not what an earlier step left of it: otherwise the outcome would depend on the
order of the steps, and the line would report the length of a fragment.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any, TypeAlias, cast

from toolyard.models.token_estimate import content_tokens, message_tokens, text_tokens

if TYPE_CHECKING:
    from pydantic_ai.messages import ModelMessage, ModelRequest, ModelResponse

NOTE_HEADING = "[Earlier work, left out to save room]"
"""First line of the note that replaces omitted exchanges; a later compaction recognises the note by it."""
_RECENT_EXCHANGES = 4
"""Number of newest exchanges whose results are shortened last."""
_LARGE_SHARE = 4
"""One result may take one part in this many of the room (a quarter)."""
_SHORT_RESULT = 60
"""In tokens. Results up to this size are not shortened, and no placeholder line is longer."""
_PREVIEW_CHARS = 120
"""Characters of a result that its placeholder line quotes."""
_MOST_LINES = 60
"""Length of a note: the newest lines are kept."""
_QUESTION_CHARS = 1_500
"""Characters of a later question that the note quotes."""
_CHARACTERS_A_TOKEN = 2
"""A low estimate, so that what is cut to fit really fits."""
_PATH_ARGUMENTS = ("file_path", "path", "notebook_path")
_WRITING_TOOL_PREFIXES = (
    "write",
    "edit",
    "multiedit",
    "notebookedit",
    "create",
    "append",
    "move",
    "delete",
    "remove",
)
_Shortener: TypeAlias = Callable[[str, int], str | None]
"""Takes the text of a result and its number of pictures; returns a shorter text, or None to leave it unchanged."""


@dataclass(slots=True)
class _Exchange:
    """An answer of the model and the request that followed it."""

    response: ModelResponse
    request: ModelRequest | None
    """None if nothing has followed the answer yet."""
    tokens: int
    original_request: ModelRequest | None = None
    """`request` before anything was shortened."""

    @property
    def messages(self) -> list[ModelMessage]:
        return [self.response] if self.request is None else [self.response, self.request]


class _History:
    """A conversation while it is being compacted, with its estimated token counts."""

    def __init__(self, head: ModelRequest, exchanges: list[_Exchange], target: int) -> None:
        self.head = head
        self.exchanges = exchanges
        self._target = target
        self._task = _without_note(head)
        self._task_tokens = message_tokens(self._task)
        self._note_tokens = message_tokens(head) - self._task_tokens
        self._note_lines = _read_note_lines(head)
        self._exchange_tokens = sum(each.tokens for each in exchanges)

    @property
    def fits(self) -> bool:
        return self._task_tokens + self._note_tokens + self._exchange_tokens <= self._target

    def shorten_results(self, exchange: _Exchange, shorter: _Shortener) -> None:
        """Shortens the results of an exchange."""
        request = exchange.request
        if request is None:
            return
        whole = exchange.original_request = exchange.original_request or request
        parts = [_shorten_part(*pair, shorter) for pair in zip(request.parts, whole.parts, strict=True)]
        if any(new is not old for new, old in zip(parts, request.parts, strict=True)):
            exchange.request = replace(request, parts=parts)
            self._exchange_tokens -= exchange.tokens
            exchange.tokens = message_tokens(exchange.response) + message_tokens(exchange.request)
            self._exchange_tokens += exchange.tokens

    def fold_oldest_into_note(self) -> None:
        """Moves the oldest exchanges into the note: as many as are needed to reach the target without the note."""
        while len(self.exchanges) > 1:
            oldest = self.exchanges.pop(0)
            self._exchange_tokens -= oldest.tokens
            self._note_lines += _describe_exchange(oldest)
            if self._task_tokens + self._exchange_tokens <= self._target:
                break
        self._note_lines = self._note_lines[-_MOST_LINES:]
        self.head = _with_note(self._task, self._note_lines)
        self._note_tokens = message_tokens(self.head) - self._task_tokens

    def drop_note(self) -> None:
        self.head = self._task
        self._note_tokens = 0


def compact_messages(messages: Sequence[ModelMessage], sizes: Sequence[int], target: int) -> list[ModelMessage]:
    """Returns the conversation in at most `target` estimated tokens, or in as few as possible."""
    head, exchanges = _split_exchanges(messages, sizes)
    history = _History(head, exchanges, target)
    for each in exchanges:
        if not history.fits:
            history.shorten_results(each, partial(_cut_to_tokens, max(_SHORT_RESULT, target // _LARGE_SHARE)))
    for each in exchanges[:-_RECENT_EXCHANGES]:
        if not history.fits:
            history.shorten_results(each, _placeholder_line)
    while len(exchanges) > 1 and not history.fits:
        history.fold_oldest_into_note()
    for each in exchanges:
        if not history.fits:
            history.shorten_results(each, _shortest_form)
    if not history.fits:
        history.drop_note()
    return [history.head, *(message for each in exchanges for message in each.messages)]


def without_pictures(messages: Sequence[ModelMessage]) -> list[ModelMessage]:
    """Returns the messages with each picture replaced by a remark, for a model that cannot see pictures."""
    return [_message_without_pictures(message) for message in messages]


def _message_without_pictures(message: ModelMessage) -> ModelMessage:
    if message.kind == "response":
        return message
    parts: list[Any] = []
    for part in message.parts:
        text, pictures = _text_and_picture_count(part.content) if part.part_kind == "tool-return" else ("", 0)
        parts.append(replace(part, content=f"{text}\n[A picture that you cannot see]".lstrip()) if pictures else part)
    return message if parts == list(message.parts) else replace(message, parts=parts)


def _split_exchanges(messages: Sequence[ModelMessage], sizes: Sequence[int]) -> tuple[ModelRequest, list[_Exchange]]:
    head, *others = messages
    if head.kind != "request":
        raise ValueError("the conversation starts with an answer of the model")
    exchanges: list[_Exchange] = []
    for message, size in zip(others, sizes[1:], strict=True):
        if message.kind == "response":
            exchanges.append(_Exchange(message, None, size))
        elif not exchanges or exchanges[-1].request is not None:
            raise ValueError("the conversation has two requests in a row")
        else:
            exchanges[-1].request = message
            exchanges[-1].tokens += size
    return head, exchanges


def _shorten_part(part: Any, whole: Any, shorter: _Shortener) -> Any:
    """Returns the part with a shorter text, if that saves tokens; `whole` is the part before any shortening."""
    if part.part_kind != "tool-return":
        return part
    short = shorter(*_text_and_picture_count(whole.content))
    if short is None or text_tokens(short) >= content_tokens(part.content):
        return part
    return replace(part, content=short)


def _cut_to_tokens(most: int, text: str, pictures: int) -> str | None:
    if text_tokens(text) <= most:
        return None
    ends = _beginning_and_end(most, text, pictures)
    if ends is None or text_tokens(ends) > most:
        return _placeholder_line(text, pictures)
    return ends


def _placeholder_line(text: str, pictures: int) -> str | None:
    if not pictures and text_tokens(text) <= _SHORT_RESULT:
        return None
    beginning = " ".join(text[: 2 * _PREVIEW_CHARS].split())[:_PREVIEW_CHARS]
    while True:
        line = f"[Left out: a result of {len(text):,} characters{_picture_count(pictures)}. It began: {beginning}]"
        if not beginning or text_tokens(line) <= _SHORT_RESULT:
            return line
        beginning = beginning[: len(beginning) // 2]  # characters that take one token each, or several


def _shortest_form(text: str, pictures: int) -> str | None:
    """Returns the placeholder line or the beginning and end, whichever is shorter."""
    forms = [_placeholder_line(text, pictures), _cut_to_tokens(_SHORT_RESULT, text, pictures)]
    return min((form for form in forms if form is not None), key=text_tokens, default=None)


def _beginning_and_end(most: int, text: str, pictures: int) -> str | None:
    """Returns the beginning and the end of a text; None if nothing lies between them."""
    half = max(most * _CHARACTERS_A_TOKEN // 2 - _PREVIEW_CHARS // 2, _PREVIEW_CHARS // 2)
    if len(text) <= 2 * half:
        return None
    return f"{text[:half]}\n[Left out: {len(text) - 2 * half:,} characters{_picture_count(pictures)}]\n{text[-half:]}"


def _picture_count(pictures: int) -> str:
    return f" and {pictures} pictures" if pictures else ""


def _text_and_picture_count(content: Any) -> tuple[str, int]:
    """Returns the text of a result and how many pictures it has."""
    if isinstance(content, str):
        return content, 0
    items = cast("list[Any]", content) if isinstance(content, list) else [content]
    texts = [each for each in items if isinstance(each, str)]
    return "\n".join(texts), len(items) - len(texts)


def _with_note(head: ModelRequest, lines: Sequence[str]) -> ModelRequest:
    from pydantic_ai.messages import UserPromptPart

    when = next(part.timestamp for part in head.parts if part.part_kind == "user-prompt")
    return replace(head, parts=[*head.parts, UserPromptPart("\n".join([NOTE_HEADING, *lines]), timestamp=when)])


def _without_note(head: ModelRequest) -> ModelRequest:
    return replace(head, parts=[part for part in head.parts if not _is_note(part)])


def _read_note_lines(head: ModelRequest) -> list[str]:
    noted = [cast("Any", part).content for part in head.parts if _is_note(part)]
    return [line for note in noted for line in cast("str", note).split("\n")[1:]]


def _is_note(part: Any) -> bool:
    return part.part_kind == "user-prompt" and isinstance(part.content, str) and part.content.startswith(NOTE_HEADING)


def _describe_exchange(exchange: _Exchange) -> list[str]:
    """Returns the lines of a note for one exchange."""
    lines: list[str] = []
    text = " ".join((exchange.response.text or "").split())
    if text:
        lines.append(f"- You said: {_truncate(text, 2 * _PREVIEW_CHARS)}")
    failed = {
        part.tool_call_id
        for part in (exchange.request.parts if exchange.request is not None else ())
        if part.part_kind == "tool-return" and part.outcome != "success"
    }
    for call in exchange.response.tool_calls:
        arguments = call.args_as_dict()
        path = next((str(arguments[key]) for key in _PATH_ARGUMENTS if arguments.get(key)), "")
        what = (
            f"wrote {path} with {call.tool_name}"
            if path and _is_writing_tool(call.tool_name)
            else f"called {call.tool_name}"
        )
        on = f" on {path}" if path and not _is_writing_tool(call.tool_name) else ""
        lines.append(f"- You {what}{_truncate(on, 200)}{', which failed' if call.tool_call_id in failed else ''}")
    lines.extend(
        f"- The user wrote: {_truncate(' '.join(part.content.split()), _QUESTION_CHARS)}"
        for part in (exchange.request.parts if exchange.request is not None else ())
        if part.part_kind == "user-prompt" and isinstance(part.content, str)
    )
    return lines


def _is_writing_tool(tool: str) -> bool:
    name = tool.rpartition("__")[2].lower()
    return name.startswith(_WRITING_TOOL_PREFIXES)


def _truncate(text: str, most: int) -> str:
    return text if len(text) <= most else f"{text[: most - 1]}…"

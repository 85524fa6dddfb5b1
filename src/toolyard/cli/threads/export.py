"""Exports a thread as Markdown, into a private file that is written atomically.

Questions are put into a code fence, because they may contain code. Answers are Markdown and are quoted, so that their
headings cannot be mistaken for ours. Titles are escaped and file names are inline code, so that neither can contain
links, images or HTML.
"""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Iterator
from typing import Final

from toolyard.assistant.threads.thread import Message, Thread
from toolyard.cli.threads.output import answer_heading, count_turns, format_time, turn_heading
from toolyard.core.errors import ToolError
from toolyard.core.text import printable
from toolyard.files.temp_names import temporary_name

_PRIVATE: Final = 0o600
_SHORTEST_FENCE: Final = 3
_LINE_END: Final = re.compile(r"\r\n|\r|\n")
"""Line ends of Markdown."""
_MARKDOWN_SIGN: Final = re.compile(r"[\\`*_\[\]<>&!#~|$]")
_ELSEWHERE: Final = "Name another file with -o, or omit -o to print it."


def thread_markdown(thread: Thread) -> str:
    """Returns a thread as a Markdown page."""
    return "\n\n".join(_markdown_blocks(thread)) + "\n"


def _markdown_blocks(thread: Thread) -> Iterator[str]:
    yield f"# {_escape_markdown(thread.summary.title) or 'Thread'}"
    period = f"{format_time(thread.created)} to {format_time(thread.updated)}"
    yield f"Thread {_inline_code(thread.id)}, {period}: {count_turns(thread)}."
    for number, turn in enumerate(thread.turns, 1):
        yield f"## {_escape_markdown(turn_heading(number, turn.asked))}"
        yield "### Asked"
        yield _code_fence(turn.asked.text.strip("\n"))
        yield from _files(turn.asked)
        heading = _escape_markdown(answer_heading(turn.answered))
        yield f"### {heading[:1].upper()}{heading[1:]}"
        yield _block_quote(turn.answered.text.strip("\n"))
        yield from _files(turn.answered)


def _files(message: Message) -> Iterator[str]:
    if message.files:
        yield f"Files: {', '.join(_inline_code(file.path) for file in message.files)}"


def _escape_markdown(text: str) -> str:
    """Returns the text on one line with all Markdown characters escaped."""
    return _MARKDOWN_SIGN.sub(r"\\\g<0>", printable(text).strip())


def _inline_code(text: str) -> str:
    shown = printable(text)
    marks = "`" * (_longest_marks(shown) + 1)
    pad = " " if shown.strip(" ") and (shown[0] in " `" or shown[-1] in " `") else ""
    return f"{marks}{pad}{shown}{pad}{marks}"


def _code_fence(text: str) -> str:
    fence = "`" * max(_longest_marks(text) + 1, _SHORTEST_FENCE)
    return f"{fence}text\n{text}\n{fence}"


def _longest_marks(text: str) -> int:
    return max(map(len, re.findall(r"`+", text)), default=0)


def _block_quote(text: str) -> str:
    return "\n".join(f"> {line}".rstrip(" ") for line in _LINE_END.split(text))


def write_private(path: str, data: bytes, *, force: bool) -> None:
    """Writes a file that only the user can read. Raises ToolError.

    Links are followed; a folder or device is never replaced.
    """
    target = os.path.realpath(path)
    shown = os.path.abspath(path)
    if os.path.lexists(target) and not os.path.isfile(target):
        raise ToolError(f"{shown} is not a regular file; nothing was written.", hint=_ELSEWHERE)
    try:
        _write_atomically(target, data, force=force)
    except FileExistsError:
        hint = "Name another file with -o, or replace this one with --force."
        raise ToolError(f"{shown} already exists; nothing was written.", hint=hint) from None
    except OSError as error:
        raise ToolError(f"{shown} cannot be written: {error.strerror}.", hint=_ELSEWHERE) from error


def _write_atomically(target: str, data: bytes, *, force: bool) -> None:
    """Raises OSError; FileExistsError if the file exists and `force` is not given."""
    if not force and os.path.lexists(target):
        raise FileExistsError
    beside = os.path.join(os.path.dirname(target), temporary_name())
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    try:
        with open(os.open(beside, flags, _PRIVATE), "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        if not force:
            # Claims the name; fails if another process created the file meanwhile.
            os.close(os.open(target, flags, _PRIVATE))
        os.replace(beside, target)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(beside)
        raise

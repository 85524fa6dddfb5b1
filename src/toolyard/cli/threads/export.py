"""A thread as a page of Markdown, and in a file, which is there as a whole, private, and replaces nothing unasked.

What was asked stands in a fence: it may hold code, and changes as they are. What was answered is Markdown itself, and
stands in a quote. So no heading of theirs passes for one of ours. Titles are text, and names of files are code,
whatever signs they have: nothing in them is a link, a picture or HTML.
"""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Iterator
from typing import Final

from toolyard.assistant.threads.thread import Message, Thread
from toolyard.cli.threads.output import answered, heading, moment, turns_of
from toolyard.core.errors import ToolError
from toolyard.core.text import printable
from toolyard.files.temp_names import temporary_name

_PRIVATE: Final = 0o600
_SHORTEST_FENCE: Final = 3
_LINE_END: Final = re.compile(r"\r\n|\r|\n")
"""As Markdown has it."""
_SIGN: Final = re.compile(r"[\\`*_\[\]<>&!#~|$]")
_ELSEWHERE: Final = "Name another file with -o, or leave -o out to have it printed."


def markdown(thread: Thread) -> str:
    return "\n\n".join(_markdown(thread)) + "\n"


def _markdown(thread: Thread) -> Iterator[str]:
    yield f"# {_text(thread.summary.title) or 'Thread'}"
    yield f"Thread {_code(thread.id)}, {moment(thread.created)} to {moment(thread.updated)}: {turns_of(thread)}."
    for number, turn in enumerate(thread.turns, 1):
        yield f"## {_text(heading(number, turn.asked))}"
        yield "### Asked"
        yield _fenced(turn.asked.text.strip("\n"))
        yield from _files(turn.asked)
        said = _text(answered(turn.answered))
        yield f"### {said[:1].upper()}{said[1:]}"
        yield _quoted(turn.answered.text.strip("\n"))
        yield from _files(turn.answered)


def _files(message: Message) -> Iterator[str]:
    if message.files:
        yield f"Files: {', '.join(_code(file.path) for file in message.files)}"


def _text(text: str) -> str:
    """On one line, with every sign escaped that could mean something."""
    return _SIGN.sub(r"\\\g<0>", printable(text).strip())


def _code(text: str) -> str:
    shown = printable(text)
    marks = "`" * (_longest_marks(shown) + 1)
    pad = " " if shown.strip(" ") and (shown[0] in " `" or shown[-1] in " `") else ""
    return f"{marks}{pad}{shown}{pad}{marks}"


def _fenced(text: str) -> str:
    fence = "`" * max(_longest_marks(text) + 1, _SHORTEST_FENCE)
    return f"{fence}text\n{text}\n{fence}"


def _longest_marks(text: str) -> int:
    return max(map(len, re.findall(r"`+", text)), default=0)


def _quoted(text: str) -> str:
    return "\n".join(f"> {line}".rstrip(" ") for line in _LINE_END.split(text))


def write_private(path: str, data: bytes, *, force: bool) -> None:
    """Raises ToolError. A link stays a link; what is no file (a folder, a device) is never replaced."""
    target = os.path.realpath(path)
    shown = os.path.abspath(path)
    if os.path.lexists(target) and not os.path.isfile(target):
        raise ToolError(f"{shown} is no file that could be replaced; nothing was written.", hint=_ELSEWHERE)
    try:
        _place(target, data, force=force)
    except FileExistsError:
        hint = "Name another file with -o, or replace this one with --force."
        raise ToolError(f"{shown} is there already; nothing was written.", hint=hint) from None
    except OSError as error:
        raise ToolError(f"{shown} cannot be written: {error.strerror}.", hint=_ELSEWHERE) from error


def _place(target: str, data: bytes, *, force: bool) -> None:
    """Raises OSError, FileExistsError where somebody was there before."""
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
            # Takes the name, unless somebody else did this moment.
            os.close(os.open(target, flags, _PRIVATE))
        os.replace(beside, target)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(beside)
        raise

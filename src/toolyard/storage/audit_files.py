"""The two files of the audit log, `audit.jsonl` and `audit.head`: their format, and how they are opened and read.

A line is compact ASCII JSON. Its last member is `hash`: BLAKE2b-256, in hex, over the hex text of `prev` and the line
without that member. `prev` is the hash of the line before, so no line can be changed, removed, moved or inserted
without breaking the chain. The head has the number, the end and the hash of the newest line: without it, removing
lines from the end would leave a shorter but valid chain.

A line with a `mark` was written by the log itself during recovery:

    torn:<digest>   the line before is what a killed writer left; <digest> is that of its bytes
    cut             the log was shorter than its head said: lines were removed
    foreign         something was added after the head that does not follow the chain
    headless        the head was missing or unreadable, so removed lines at the end could not be noticed

Nothing here trusts what it finds: a link, a pipe or a device in place of a file is refused without blocking on it,
and a line never takes more than LINE_BYTES of memory, however long it is.
"""

from __future__ import annotations

import fcntl
import json
import math
import os
import re
import stat
import time
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache
from hashlib import blake2b
from json.encoder import encode_basestring_ascii as quoted
from typing import NamedTuple, cast

from toolyard.core.errors import SecurityError, SystemFault, ToolError
from toolyard.core.events import MAX_TARGET_CHARS, CallOutcome, Event
from toolyard.core.limits import DEFAULT_LIMITS, KIB

LOG_NAME = "audit.jsonl"
HEAD_NAME = "audit.head"
VERSION = 1
DIGEST_BYTES = 32
GENESIS = "0" * (2 * DIGEST_BYTES)
"""`prev` of the first line."""
LINE_BYTES = 64 * KIB
"""No line is longer: nine texts of TARGET_CHARS characters, at most twelve bytes each, and the fixed part."""

TORN = "torn:"
CUT = "cut"
FOREIGN = "foreign"
HEADLESS = "headless"

PRIVATE_FILE = 0o600
READ_ONLY = os.O_RDONLY
READ_WRITE = os.O_RDWR | os.O_CREAT
APPEND = os.O_RDWR | os.O_CREAT | os.O_APPEND
BUFFER_BYTES = 256 * KIB
LOCK_POLL_SECONDS = 0.0005
"""Pause between two attempts at a lock that another writer holds for some microseconds."""
# A link could redirect the log; opening a pipe would hang.
_CAREFUL = os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC

_HASH_MEMBER = re.compile(rb',"hash":"([0-9a-f]{64})"\}\Z')
_HASH_MEMBER_BYTES = len(',"hash":""}') + len(GENESIS)
_HEAD = re.compile(rb"toolyard-audit 1 ([0-9]{20}) ([0-9]{20}) ([0-9a-f]{64})\n\Z")
HEAD_BYTES = len(f"toolyard-audit 1 {0:020} {0:020} {GENESIS}\n")
_OUTCOME_TEXT = {outcome: outcome.value for outcome in CallOutcome}
_OUTCOMES: frozenset[object] = frozenset(_OUTCOME_TEXT.values())
_TEXTS = ("call", "surface", "agent", "session", "tool", "kind", "target", "decision", "reason")


class Head(NamedTuple):
    """The newest line: its number, where it ends, its hash. (A tuple, because one is created per line.)"""

    seq: int = 0
    length: int = 0
    hash: str = GENESIS

    def to_bytes(self) -> bytes:
        return b"toolyard-audit 1 %020d %020d %s\n" % (self.seq, self.length, self.hash.encode("ascii"))

    @classmethod
    def from_bytes(cls, raw: bytes) -> Head | None:
        """Parses a head; None if the bytes are not one."""
        found = _HEAD.match(raw)
        return cls(int(found[1]), int(found[2]), found[3].decode("ascii")) if found else None


@dataclass(frozen=True, slots=True)
class AuditRecord:
    """One line of the log, read back. `intact`: its hash matches its content."""

    seq: int
    time: str
    event: Event
    prev: str
    hash: str
    mark: str = ""
    intact: bool = True


def digest(data: bytes) -> str:
    """Returns the BLAKE2b-256 of the bytes, in hex."""
    return blake2b(data, digest_size=DIGEST_BYTES).hexdigest()


def encode(event: Event, head: Head, now: float, mark: str = "") -> tuple[bytes, str]:
    """Returns the line that follows `head`, with its newline, and its hash. Hot path: hence one f-string."""
    call, surface, agent, session = event.call, event.surface, event.agent, event.session
    tool, kind, target, decision, reason = event.tool, event.kind, event.target, event.decision, event.reason
    texts = (call, surface, agent, session, tool, kind, target, decision, reason)
    if max(map(len, texts)) > MAX_TARGET_CHARS:
        call, surface, agent, session, tool, kind, target, decision, reason = map(_short, texts)
    milliseconds = event.milliseconds if math.isfinite(event.milliseconds) else 0.0
    marked = f',"mark":{quoted(mark)}' if mark else ""
    second = int(now)
    body = (
        f'{{"v":{VERSION},"seq":{head.seq + 1},"time":"{_second(second)}.{int((now - second) * 1000):03}Z"'
        f',"call":{quoted(call)},"surface":{quoted(surface)},"agent":{quoted(agent)},"session":{quoted(session)}'
        f',"tool":{quoted(tool)},"kind":{quoted(kind)},"target":{quoted(target)},"decision":{quoted(decision)}'
        f',"reason":{quoted(reason)},"outcome":"{_OUTCOME_TEXT[event.outcome]}","code":{event.code}'
        f',"milliseconds":{milliseconds:.3f}{marked},"prev":"{head.hash}"'
    ).encode("ascii")
    line_hash = blake2b(b"%s%s}" % (head.hash.encode("ascii"), body), digest_size=DIGEST_BYTES).hexdigest()
    return b'%s,"hash":"%s"}\n' % (body, line_hash.encode("ascii")), line_hash


@lru_cache(maxsize=2)  # many lines share a second, and formatting it takes longer than the rest of `encode`
def _second(second: int) -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(second))


def parse(line: bytes) -> AuditRecord | None:
    """Parses a line (without its newline); None if it is not a record. A changed record is not `intact`."""
    member = _HASH_MEMBER.search(line, max(0, len(line) - _HASH_MEMBER_BYTES))
    if member is None:
        return None
    body = line[: member.start()] + b"}"
    try:
        loaded = json.loads(body)
    except (ValueError, RecursionError):
        return None
    if not isinstance(loaded, dict):
        return None
    fields = cast("dict[str, object]", loaded)
    event = _event(fields)
    seq, when, prev, mark = fields.get("seq"), fields.get("time"), fields.get("prev"), fields.get("mark", "")
    if event is None or fields.get("v") != VERSION or type(seq) is not int:
        return None
    if not (isinstance(when, str) and isinstance(prev, str) and isinstance(mark, str)):
        return None
    stated = member[1].decode("ascii")
    computed = digest(prev.encode("utf-8", "surrogatepass") + body)
    return AuditRecord(seq, when, event, prev, stated, mark, intact=stated == computed)


def _event(fields: dict[str, object]) -> Event | None:
    texts = [text for name in _TEXTS if isinstance(text := fields.get(name), str)]
    outcome, code, milliseconds = fields.get("outcome"), fields.get("code"), fields.get("milliseconds")
    if len(texts) != len(_TEXTS) or outcome not in _OUTCOMES or type(code) is not int:
        return None
    if not isinstance(milliseconds, (int, float)):
        return None
    call, surface, agent, session, tool, kind, target, decision, reason = texts
    return Event(
        call=call,
        surface=surface,
        agent=agent,
        session=session,
        tool=tool,
        kind=kind,
        target=target,
        decision=decision,
        reason=reason,
        outcome=CallOutcome(outcome),
        code=code,
        milliseconds=float(milliseconds),
    )


def _short(text: str) -> str:
    return text if len(text) <= MAX_TARGET_CHARS else text[: MAX_TARGET_CHARS - 1] + "…"


@dataclass(frozen=True, slots=True)
class LogLine:
    """One line without its newline. `data` is cut at LINE_BYTES; `digest` covers all its bytes."""

    number: int
    data: bytes
    end: int
    complete: bool
    long_digest: str = ""

    @property
    def too_long(self) -> bool:
        return bool(self.long_digest)

    @property
    def digest(self) -> str:
        return self.long_digest or digest(self.data)


def open_regular(name: str, flags: int, directory: int) -> int:
    """Opens a regular file in the folder. Raises SecurityError for anything else, OSError as open does."""
    try:
        handle = os.open(name, flags | _CAREFUL, PRIVATE_FILE, dir_fd=directory)
    except IsADirectoryError:
        raise _not_a_plain_file(name) from None
    if not stat.S_ISREG(os.fstat(handle).st_mode):
        os.close(handle)
        raise _not_a_plain_file(name)
    return handle


def _not_a_plain_file(name: str) -> SecurityError:
    return SecurityError(
        f"{name} in the state folder is not a plain file.",
        hint="Look at what was put there, move it away, and start again.",
    )


def lock(handle: int, operation: int, state_dir: str) -> None:
    """Takes the lock (LOCK_EX or LOCK_SH). Raises SystemFault if a stuck process holds it for too long."""
    deadline = 0.0
    while True:
        try:
            fcntl.flock(handle, operation | fcntl.LOCK_NB)
        except BlockingIOError:
            deadline = deadline or time.monotonic() + DEFAULT_LIMITS.lock_seconds
            if time.monotonic() >= deadline:
                break
            time.sleep(LOCK_POLL_SECONDS)
        else:
            return
    raise SystemFault(
        f"Another process has held the audit log in {state_dir} for {DEFAULT_LIMITS.lock_seconds:g} seconds.",
        hint="Look for a stopped Toolyard process of this workspace and end it.",
        retryable=True,
    )


def read_head(handle: int) -> Head | None:
    """Returns the head, or None if it is empty or unreadable."""
    return Head.from_bytes(os.pread(handle, HEAD_BYTES + 1, 0))


def iter_lines(handle: int, start: int, end: int) -> Iterator[LogLine]:
    """Yields the lines between two positions of the file, numbered from 1. The last may be unfinished."""
    with open(handle, "rb", buffering=BUFFER_BYTES, closefd=False) as file:
        file.seek(start)
        number = 0
        while start < end:
            number += 1
            data = file.readline(min(LINE_BYTES, end - start))
            if not data:
                return  # the file was truncated while it was read
            start += len(data)
            if data.endswith(b"\n"):
                yield LogLine(number, data[:-1], start, complete=True)
                continue
            if start >= end or len(data) < LINE_BYTES:
                yield LogLine(number, data, start, complete=False)
                continue
            running, piece = blake2b(data, digest_size=DIGEST_BYTES), data
            while start < end and not piece.endswith(b"\n"):
                piece = file.readline(min(LINE_BYTES, end - start))
                if not piece:
                    break
                start += len(piece)
                running.update(piece.removesuffix(b"\n"))
            yield LogLine(number, data, start, piece.endswith(b"\n"), running.hexdigest())


def has_log(state_dir: str) -> bool:
    """Returns whether any call was recorded there; also if only the head is left."""
    return any(os.path.lexists(os.path.join(state_dir, name)) for name in (LOG_NAME, HEAD_NAME))


@contextmanager
def open_log(state_dir: str) -> Generator[tuple[int | None, int | None]]:
    """Opens the log and the head for reading; None for a missing one. Raises ToolError if both are missing."""
    handles: list[int] = []
    found: list[int | None] = []
    try:
        try:
            handles.append(directory := os.open(state_dir, READ_ONLY | os.O_DIRECTORY | os.O_CLOEXEC))
            for name in (LOG_NAME, HEAD_NAME):
                try:
                    handles.append(handle := open_regular(name, READ_ONLY, directory))
                    found.append(handle)
                except FileNotFoundError:
                    found.append(None)
        except (FileNotFoundError, NotADirectoryError):
            found = [None, None]
        except OSError as error:
            raise unreadable_error(state_dir, error) from error
        log, head = found
        if log is None and head is None:
            raise ToolError(
                f"There is no audit log in {state_dir}.",
                hint="It begins with the first tool call in the workspace; check --workspace and --state.",
            )
        yield log, head
    finally:
        for handle in handles:
            os.close(handle)


def unreadable_error(state_dir: str, error: OSError) -> SystemFault:
    """Builds the error for a log that cannot be read."""
    return SystemFault(
        f"The audit log in {state_dir} cannot be read: {error.strerror or error}.",
        hint="Read it as the user it belongs to.",
    )

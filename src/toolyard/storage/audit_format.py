"""The on-disk format of the audit log: one line of `audit.jsonl`, and the record in `audit.head`.

A line is compact ASCII JSON. Its last member is `hash`: BLAKE2b-256, in hex, over the hex text of `prev` and the line
without that member. `prev` is the hash of the line before, so no line can be changed, removed, moved or inserted
without breaking the chain. The head has the number, the end and the hash of the newest line: without it, removing
lines from the end would leave a shorter but valid chain.

A line with a `mark` was written by the log itself during recovery:

    torn:<digest>   the line before is what a killed writer left; <digest> is that of its bytes
    cut             the log was shorter than its head said: lines were removed
    foreign         something was added after the head that does not follow the chain
    headless        the head was missing or unreadable, so removed lines at the end could not be noticed
"""

from __future__ import annotations

import json
import math
import re
import time
from dataclasses import dataclass
from functools import lru_cache
from hashlib import blake2b
from json.encoder import encode_basestring_ascii as quoted
from typing import NamedTuple, cast

from toolyard.core.events import MAX_TARGET_CHARS, CallOutcome, Event
from toolyard.core.limits import KIB

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

"""Parses the output of each linter. Paths are kept as printed. Pure functions.

Output is parsed line by line where possible: it may be megabytes, and a single call of a parser would block other
threads.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any, Final, cast

from toolyard.assistant.linting.model import Level, LintFinding
from toolyard.assistant.sandboxed_commands import ProgramResult
from toolyard.assistant.traces.locations import is_number, parse_location

_TEXT_CHARS = 400
_CODE = re.compile(r" \[([A-Za-z0-9_-]{1,60})\]$")
# Rules for code that fails when it runs; ruff's other rules are about care or taste.
_RUFF_ERRORS = re.compile(r"E9|F5|F6|F7|F82|PLE|invalid-syntax")
_RUFF_WARNINGS = re.compile(r"[FBS]\d|ASYNC|BLE|DTZ|PLW|TRY|RUF")
_LEVELS: Final[Mapping[str, Level]] = {
    "error": "error",
    "warning": "warning",
    "portability": "warning",
    "performance": "warning",
}


def parse_ruff(ran: ProgramResult) -> Iterator[LintFinding]:
    """Parses one JSON object per line."""
    for line in _lines(ran.out):
        record = _parse_object(line)
        where = record.get("location")
        if not isinstance(where, dict):
            continue
        code = _one_line(record.get("code"))
        path, row = _one_line(record.get("filename")), _line_number(cast("dict[str, Any]", where).get("row"))
        yield LintFinding("ruff", path, row, code, _one_line(record.get("message")), _ruff_level(code))


def parse_shellcheck(ran: ProgramResult) -> Iterator[LintFinding]:
    """Parses `./a.sh:2:6: note: Double quote to prevent globbing. [SC2086]`."""
    for line in _lines(ran.out):
        head, _, rest = line.partition(": ")
        where = parse_location(head)
        level, _, message = rest.partition(": ")
        if where is None or not message:
            continue
        code = _CODE.search(message)
        text = message[: code.start()] if code else message
        yield LintFinding(
            "shellcheck", where.file, where.line, code[1] if code else "", _one_line(text), _LEVELS.get(level, "note")
        )


def parse_cppcheck(ran: ProgramResult) -> Iterator[LintFinding]:
    """Parses tab-separated fields, as the template defines them."""
    for line in _lines(ran.err):
        fields = line.split("\t", 4)
        if len(fields) == 5 and is_number(fields[1]):
            path, number, level, code, text = fields
            yield LintFinding("cppcheck", path, int(number), code, _one_line(text), _LEVELS.get(level, "note"))


def parse_go_vet(ran: ProgramResult) -> Iterator[LintFinding]:
    """Parses `./m.go:5:15: fmt.Printf format %d has arg x of wrong type`; `vet: ` precedes compile errors."""
    for line in _lines(ran.err):
        is_broken = line.startswith("vet: ")
        head, _, message = line.removeprefix("vet: ").partition(": ")
        where = parse_location(head)
        if where is not None and where.file.endswith(".go") and message:
            level: Level = "error" if is_broken else "warning"
            yield LintFinding("go vet", where.file, where.line, "", _one_line(message), level)


def _ruff_level(code: str) -> Level:
    if not code or _RUFF_ERRORS.match(code):
        return "error"
    return "warning" if _RUFF_WARNINGS.match(code) else "note"


def _lines(data: bytes) -> Iterator[str]:
    """Yields the complete lines; a last line that was cut off is dropped."""
    at = 0
    while (end := data.find(b"\n", at)) >= 0:
        yield data[at:end].decode("utf-8", "replace").rstrip("\r")
        at = end + 1


def _parse_object(line: str) -> dict[str, Any]:
    try:
        value = json.loads(line)
    except (ValueError, RecursionError):
        return {}
    return cast("dict[str, Any]", value) if isinstance(value, dict) else {}


def _one_line(value: object) -> str:
    line = " ".join(value.split()) if isinstance(value, str) else ""
    return line[:_TEXT_CHARS].encode("utf-8", "replace").decode()


def _line_number(value: object) -> int:
    return value if isinstance(value, int) and not isinstance(value, bool) and value > 0 else 0

"""Parses a model's review findings and checks them against the files that the model was shown. Pure functions.

The spelling is parsed leniently (`Warning`, `"12-15"`, `./src/a.py`), the claims are not: a finding about a file that
was not sent, or about a line that the file does not have, is dropped with a reason. A wrong line number is the best
sign of an invented finding. A finding without a line is about the whole file and has line 0.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Annotated, Final, Literal, cast, get_args

from pydantic import AliasChoices, BaseModel, BeforeValidator, Field, ValidationError

from toolyard.assistant.arguments import SeverityFilter
from toolyard.assistant.json_extraction import NotJson
from toolyard.assistant.traces.locations import parse_location

Severity = Literal["critical", "high", "medium", "low"]

MOST_FINDINGS = 200
_RANKS: Final[Mapping[str, int]] = {severity: rank for rank, severity in enumerate(get_args(Severity))}
_SEVERITY_WORDS: Final[Mapping[str, Severity]] = {
    **dict.fromkeys(("critical", "blocker", "severe", "fatal", "p0"), "critical"),
    **dict.fromkeys(("high", "major", "error", "important", "serious", "p1"), "high"),
    **dict.fromkeys(("medium", "moderate", "warning", "warn", "normal", "p2"), "medium"),
    **dict.fromkeys(("low", "minor", "info", "note", "nit", "style", "trivial", "suggestion", "hint", "p3"), "low"),
}
_FIRST_WORD = re.compile(r"[a-z]+[0-9]?")
_NUMBER = re.compile(r"\d{1,9}")
_DIFF_PREFIXES = frozenset({"a", "b"})
"""Prefixes of the two sides of a diff."""
_LIST_KEYS = ("findings", "issues")
_TITLE_CHARS, _FIX_CHARS, _CATEGORY_CHARS, _QUOTED_CHARS = 500, 5_000, 60, 80
_READ_CHARS = 20_000
"""Characters of a field that are read; every stored field is shorter."""
_PATH_CHARS = 4_096
_MOST_LINES = 10**9


@dataclass(frozen=True, slots=True)
class Finding:
    """One problem in a file."""

    severity: Severity
    category: str
    file: str
    line: int
    """0 for a finding about the whole file."""
    title: str
    fix: str = ""
    cause: str = ""
    """How the change causes the problem, for a finding outside of the changed lines."""


@dataclass(frozen=True, slots=True)
class CheckedFindings:
    """The valid findings, worst first and without duplicates, and why each of the others was dropped."""

    findings: tuple[Finding, ...]
    dropped: tuple[str, ...] = ()


def _as_text(value: object) -> object:
    if value is None:
        return ""
    return value[:_READ_CHARS].encode("utf-8", "replace").decode().strip() if isinstance(value, str) else value


def _as_line(value: object) -> object:
    """Returns the first line of `12`, `"12"`, `"L12-15"` or `[12, 15]`; 0 if there is none."""
    first = next(iter(cast("list[object]", value)), 0) if isinstance(value, list) else value
    if isinstance(first, str):
        number = _NUMBER.search(first[:_READ_CHARS])
        return int(number[0]) if number else 0
    if isinstance(first, float) and first.is_integer():
        return int(first)
    return 0 if first is None else first


_Text = Annotated[str, BeforeValidator(_as_text)]


class _RawFinding(BaseModel, strict=True):
    """A finding in the spellings that models use."""

    severity: Annotated[_Text, Field(validation_alias=AliasChoices("severity", "level", "priority"))]
    file: Annotated[_Text, Field(validation_alias=AliasChoices("file", "path", "filename"))]
    title: Annotated[_Text, Field(validation_alias=AliasChoices("title", "issue", "message", "description"))]
    line: Annotated[
        int,
        BeforeValidator(_as_line),
        Field(validation_alias=AliasChoices("line", "line_number", "lines"), ge=-_MOST_LINES, le=_MOST_LINES),
    ] = 0
    category: Annotated[_Text, Field(validation_alias=AliasChoices("category", "type"))] = ""
    fix: Annotated[_Text, Field(validation_alias=AliasChoices("fix", "suggestion", "recommendation"))] = ""
    cause: _Text = ""


class _InvalidFinding(Exception):  # noqa: N818 - rejects one finding, not the review
    pass


def read_findings(reply: object, lines_of: Mapping[str, int], *, is_change: bool = False) -> CheckedFindings:
    """Parses the findings of a reply. `lines_of` holds the files that may be named, with their number of lines.

    For a change, the number is the last line that was shown: the file itself may be longer. Raises NotJson if the
    reply has no list of findings.
    """
    raw_findings = _finding_list(reply)
    files = _SentFiles(lines_of, is_change=is_change)
    valid: list[Finding] = []
    dropped: list[str] = []
    for number, each in enumerate(raw_findings[:MOST_FINDINGS], 1):
        try:
            valid.append(_parse_finding(each, files))
        except _InvalidFinding as unfit:
            dropped.append(f"{_label_of(each, number)}: {unfit}")
    if len(raw_findings) > MOST_FINDINGS:
        dropped.append(f"{len(raw_findings) - MOST_FINDINGS} findings after the first {MOST_FINDINGS}")
    return CheckedFindings(sort_and_deduplicate(valid), tuple(dropped))


def filter_to_change(reviewed: CheckedFindings, touches: Callable[[str, int], bool]) -> CheckedFindings:
    """Drops findings on lines that the change does not touch, unless they explain how the change causes them."""
    valid: list[Finding] = []
    dropped = list(reviewed.dropped)
    for finding in reviewed.findings:
        if touches(finding.file, finding.line):
            valid.append(replace(finding, cause=""))
        elif finding.cause:
            valid.append(finding)
        else:
            where = f"line {finding.line} of {finding.file} is not part of the change"
            dropped.append(f"{_quote(finding.title)}: {where}, and it does not say how the change causes it")
    return CheckedFindings(tuple(valid), tuple(dropped))


def filter_by_severity(findings: Iterable[Finding], severity_filter: SeverityFilter) -> tuple[Finding, ...]:
    """Returns the findings of this severity or worse."""
    most = _RANKS.get(severity_filter, len(_RANKS))
    return tuple(finding for finding in findings if _RANKS[finding.severity] <= most)


def sort_and_deduplicate(findings: Iterable[Finding]) -> tuple[Finding, ...]:
    """Sorts by severity, file and line; of findings with the same title on the same line, the worst is kept."""
    once: dict[tuple[str, int, str], Finding] = {}
    for finding in sorted(findings, key=_sort_key):
        once.setdefault((finding.file, finding.line, " ".join(finding.title.casefold().split())), finding)
    return tuple(once.values())


def _sort_key(finding: Finding) -> tuple[int, str, int]:
    return _RANKS[finding.severity], finding.file, finding.line


def _finding_list(reply: object) -> list[object]:
    value = reply
    if isinstance(reply, dict):
        fields = cast("dict[str, object]", reply)
        value = next((fields[name] for name in _LIST_KEYS if name in fields), None)
    if not isinstance(value, list):
        raise NotJson('it is not an object with a list of "findings"')
    return cast("list[object]", value)


def _parse_finding(raw: object, files: _SentFiles) -> Finding:
    try:
        parsed = _RawFinding.model_validate(raw)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        raise _InvalidFinding(f"{'.'.join(map(str, first['loc'])) or 'it'}: {first['msg']}") from None
    severity = _parse_severity(parsed.severity)
    file, line = files.resolve_location(parsed.file, parsed.line)
    title = " ".join(parsed.title.split())
    if not title:
        raise _InvalidFinding("it has no title")
    category = " ".join(parsed.category.lower().split()) or "general"
    cause = " ".join(parsed.cause.split())[:_TITLE_CHARS]
    return Finding(
        severity, category[:_CATEGORY_CHARS], file, line, title[:_TITLE_CHARS], parsed.fix[:_FIX_CHARS], cause
    )


def _parse_severity(word: str) -> Severity:
    found = _FIRST_WORD.search(word.casefold())
    severity = _SEVERITY_WORDS.get(found[0]) if found else None
    if severity is None:
        raise _InvalidFinding(f"{_quote(word)} is not a severity")
    return severity


class _SentFiles:
    """The files that were sent to the model."""

    def __init__(self, lines_of: Mapping[str, int], *, is_change: bool) -> None:
        self._lines_of = lines_of
        self._is_change = is_change
        self._most_parts = max((path.count("/") + 1 for path in lines_of), default=0)

    def resolve_location(self, file: str, line: int) -> tuple[str, int]:
        """Returns the file and the line that are meant. `file` may include the line: `src/a.py:12`."""
        if len(file) > _PATH_CHARS:
            raise _InvalidFinding(f"{_quote(file)} is not a path: it is longer than {_PATH_CHARS:,} characters")
        path = self._match_path(file)
        if path is None and (named := parse_location(file)) is not None:
            path, line = self._match_path(named.file), line or named.line
        if path is None:
            raise _InvalidFinding(f"{_quote(file)} is not one of the files")
        lines = self._lines_of[path]
        if not 0 <= line <= lines:
            if self._is_change:
                raise _InvalidFinding(f"the change shows no line {line} of {path}, the last one is {lines:,}")
            raise _InvalidFinding(f"{path} has no line {line}, only {lines:,}")
        return path, line

    def _match_path(self, spelled: str) -> str | None:
        """Returns the file with this path, else the only one whose path ends with it.

        Absolute paths and those of diffs are matched by their end.
        """
        clean = spelled.strip("`'\" ").replace("\\", "/")
        parts = [part for part in clean.split("/") if part not in {"", "."}]
        if not parts:
            return None
        is_longer = clean.startswith("/") or parts[0] in _DIFF_PREFIXES or parts[0].endswith(":")
        first = max(len(parts) - self._most_parts, 0)  # a longer suffix cannot be one of the files
        for at in range(first, len(parts) if is_longer else first + 1):
            if (end := "/".join(parts[at:])) in self._lines_of:
                return end
        whole = "/".join(parts)
        ending = [path for path in self._lines_of if path.endswith(f"/{whole}")]
        return ending[0] if len(ending) == 1 else None


def _label_of(each: object, number: int) -> str:
    """Returns the name of a dropped finding for messages."""
    title = cast("dict[str, object]", each).get("title") if isinstance(each, dict) else None
    return _quote(title) if isinstance(title, str) and title.strip() else f"finding {number}"


def _quote(text: str) -> str:
    line = " ".join(text[:_READ_CHARS].split()).encode("utf-8", "replace").decode()
    return f'"{line[:_QUOTED_CHARS]}…"' if len(line) > _QUOTED_CHARS else f'"{line}"'

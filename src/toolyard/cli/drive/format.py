"""Formats the messages of a run: the subject of a call, its result, durations and usage.

Models, files and providers choose these texts. `terminal_safe` escapes what a terminal would interpret.
"""

from __future__ import annotations

import difflib
import os
import re
import unicodedata
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final, cast

from toolyard.core.text import printable
from toolyard.drivers import Finished, ToolCall
from toolyard.snapshots.service.format import pluralize

_SUBJECT_ARGUMENTS: Final = (
    *("command", "pattern", "file_path", "notebook_path", "path", "source", "query", "code", "url", "snapshot"),
    *("reason", "prompt", "name"),
)
"""Arguments that describe a call, the most specific first."""
_PATH_ARGUMENTS: Final = frozenset({"file_path", "notebook_path", "path", "source"})
_COMMANDS: Final = frozenset({"Bash", "BashOutput", "execute_bash", "execute_python"})
_EDITS: Final = frozenset({"Edit", "MultiEdit", "edit_file"})
_OLD, _NEW = ("old_string", "oldText"), ("new_string", "newText")
_REPLACED: Final = re.compile(r"(\d+) replacements?\b")
_WRITTEN: Final = re.compile(r"^(Created|Replaced) .*\((\d[\d,]*) lines?\b")
_PEER_NEWS: Final = re.compile(r"\[.+ (?:changed \d+ files?|published new work): .+\]$")
"""News about peers, which is attached to the next tool result."""
_INVISIBLE: Final = frozenset("\u200b\u200c\u200d\u2060\ufeff\u00ad")
"""Joiners and word breaks, which terminals do not show."""
_MAX_DIFF_LINES: Final = 1000
"""Above this many lines an edit is compared coarsely: an exact diff would take too long."""
_NOTE_CHARS: Final = 60
_TAB: Final = 4
_MILLISECOND, _A_MOMENT, _SHORT, _MINUTE = 0.001, 0.1, 10.0, 60.0
_CENT: Final = 0.01


def terminal_safe(text: str) -> str:
    """Returns the text with control characters escaped, tabs expanded and rare spaces replaced."""
    lines = text.replace("\r\n", "\n").expandtabs(_TAB).split("\n")
    return "\n".join(
        line if line.isprintable() else printable("".join(map(_plain_character, line))) for line in lines
    )


def _plain_character(character: str) -> str:
    if character in _INVISIBLE:
        return ""
    return " " if unicodedata.category(character) == "Zs" else character


def one_line(text: str) -> str:
    """Returns the first line that is not blank."""
    return next((line.strip() for line in terminal_safe(text).split("\n") if line.strip()), "")


def call_subject(call: ToolCall, workspace: str) -> str:
    """Returns what a call is about in one line: the file, the pattern, the command."""
    arguments = call.arguments
    key = next((name for name in _SUBJECT_ARGUMENTS if isinstance(arguments.get(name), str) and arguments[name]), "")
    if not key:
        words = (value for value in arguments.values() if isinstance(value, str))
        return one_line(next(words, ""))
    if key in _PATH_ARGUMENTS:
        return one_line(_workspace_relative(arguments[key], workspace))
    if key == "pattern":
        where = arguments.get("path") or arguments.get("glob")
        inside = f" in {_workspace_relative(where, workspace)}" if isinstance(where, str) and where else ""
        return one_line(arguments[key] + inside)
    return one_line(arguments[key])


def _workspace_relative(path: str, workspace: str) -> str:
    """Returns a path relative to the workspace if it lies inside."""
    return os.path.relpath(path, workspace) if path.startswith(workspace.rstrip("/") + "/") else path


@dataclass(frozen=True, slots=True)
class CallSummary:
    """The result of a call at a glance."""

    ok: bool
    note: str = ""
    reason: str = ""
    """The whole reason of a failure."""


def describe_result(call: ToolCall, text: str, *, ok: bool, exit_code: int | None = None) -> CallSummary:
    """Returns the summary of a call's result."""
    lines = [line for line in terminal_safe(text).split("\n") if line.strip() and not _PEER_NEWS.match(line)]
    if not ok and exit_code:
        last_line = _last_output_line(lines, exit_code)
        return CallSummary(ok=False, note=f"exit {exit_code}" + (f": {last_line}" if last_line else ""))
    if not ok:
        return CallSummary(ok=False, reason=terminal_safe(text).strip())
    if call.name in _COMMANDS:
        return CallSummary(ok=True, note=_truncate(lines[-1].strip()) if lines else "")
    if call.name in _EDITS:
        return CallSummary(ok=True, note=_edit_counts(call.arguments, text))
    if match := _WRITTEN.match(lines[0] if lines else ""):
        size = pluralize(int(match[2].replace(",", "")), "line")
        return CallSummary(ok=True, note=f"new, {size}" if match[1] == "Created" else size)
    if len(lines) == 1 and len(lines[0]) <= _NOTE_CHARS and call.name not in {"Read", "read_file"}:
        return CallSummary(ok=True, note=lines[0].strip())
    return CallSummary(ok=True, note=pluralize(len(lines), "line") if lines else "")


def _last_output_line(lines: list[str], exit_code: int) -> str:
    """Returns the last line of a command's output, without the exit code and notes that follow it."""
    repeated = f"Exit code {exit_code}"
    output = lines[: lines.index(repeated)] if repeated in lines else lines
    return _truncate(output[-1].strip()) if output else ""


def _edit_counts(arguments: Mapping[str, Any], result_text: str) -> str:
    """Returns how many lines an edit adds and removes."""
    edits = arguments.get("edits")
    pairs = [*_edit_pairs(cast("list[object]", edits))] if isinstance(edits, list) else [*_edit_pairs([arguments])]
    counts = [_line_counts(old, new) for old, new in pairs]
    match = _REPLACED.search(result_text)
    times = int(match[1]) if match and len(pairs) == 1 else 1
    added, removed = (sum(each[side] for each in counts) * times for side in (0, 1))
    return f"+{added} -{removed}"


def _edit_pairs(edits: Iterable[object]) -> Iterable[tuple[str, str]]:
    for edit in edits:
        if isinstance(edit, Mapping):
            found = cast("Mapping[str, object]", edit)
            yield _first_value(found, _OLD), _first_value(found, _NEW)


def _first_value(found: Mapping[str, object], names: Iterable[str]) -> str:
    return str(next((found[name] for name in names if name in found), ""))


def _line_counts(old: str, new: str) -> tuple[int, int]:
    """Returns added and removed lines; for a long text, all lines between the first and the last change."""
    before, after = old.splitlines(), new.splitlines()
    if len(before) + len(after) > _MAX_DIFF_LINES:
        equal = _common_prefix_length(before, after)
        before, after = before[equal:], after[equal:]
        equal = _common_prefix_length(before[::-1], after[::-1])
        return len(after) - equal, len(before) - equal
    blocks = difflib.SequenceMatcher(None, before, after, autojunk=False).get_matching_blocks()
    unchanged = sum(block.size for block in blocks)
    return len(after) - unchanged, len(before) - unchanged


def _common_prefix_length(one: list[str], other: list[str]) -> int:
    """Returns how many leading lines are equal."""
    pairs = enumerate(zip(one, other, strict=False))
    return next((number for number, (a, b) in pairs if a != b), min(len(one), len(other)))


def _truncate(text: str) -> str:
    return text if len(text) <= _NOTE_CHARS else f"{text[: _NOTE_CHARS - 1]}…"


def format_duration(seconds: float) -> str:
    """Returns a readable duration; empty if it is too short to measure."""
    if seconds < _MILLISECOND:
        return ""
    if seconds < _A_MOMENT:
        return f"{seconds * 1000:.0f} ms"
    if seconds < _SHORT:
        return f"{seconds:.1f} s"
    if seconds < _MINUTE:
        return f"{seconds:.0f} s"
    return f"{seconds // _MINUTE:.0f} min {seconds % _MINUTE:.0f} s"


def format_usage(finished: Finished) -> list[str]:
    """Returns duration, tokens and cost, as far as they are known."""
    tokens, words = finished.tokens, [format_duration(finished.seconds)]
    if tokens.input or tokens.output:
        cached = f" ({tokens.cached:,} cached)" if tokens.cached else ""
        words.append(f"{tokens.input:,} tokens in{cached}, {tokens.output:,} out")
    if finished.cost:
        words.append(f"${finished.cost:.2f}" if finished.cost >= _CENT else f"${finished.cost:.4f}")
    return [word for word in words if word]

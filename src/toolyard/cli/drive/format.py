"""The messages of a run in words: what a call is about, what came of it, how long it took, what it cost.

Everything here was chosen by a model, a file or a provider. `terminal_safe` takes out what a terminal would act on.
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
"""Arguments that say what a call is about, the most telling first."""
_PATH_ARGUMENTS: Final = frozenset({"file_path", "notebook_path", "path", "source"})
_COMMANDS: Final = frozenset({"Bash", "BashOutput", "execute_bash", "execute_python"})
_EDITS: Final = frozenset({"Edit", "MultiEdit", "edit_file"})
_OLD, _NEW = ("old_string", "oldText"), ("new_string", "newText")
_REPLACED: Final = re.compile(r"(\d+) replacements?\b")
_WRITTEN: Final = re.compile(r"^(Created|Replaced) .*\((\d[\d,]*) lines?\b")
_PEER_NEWS: Final = re.compile(r"\[.+ (?:changed \d+ files?|published new work): .+\]$")
"""What peers did meanwhile, told with whatever result came next."""
_INVISIBLE: Final = frozenset("\u200b\u200c\u200d\u2060\ufeff\u00ad")
"""Joins and breaks of words: a terminal shows nothing for them, so nothing is lost."""
_MAX_DIFF_LINES: Final = 1000
"""Lines of an edit: finding what is alike in more takes longer than anybody waits for a note."""
_NOTE_CHARS: Final = 60
_TAB: Final = 4
_MILLISECOND, _A_MOMENT, _SHORT, _MINUTE = 0.001, 0.1, 10.0, 60.0
_CENT: Final = 0.01


def terminal_safe(text: str) -> str:
    """`text` in lines, with an escape for all that a terminal would act on. Rare spaces become plain ones."""
    lines = text.replace("\r\n", "\n").expandtabs(_TAB).split("\n")
    return "\n".join(
        line if line.isprintable() else printable("".join(map(_plain_character, line))) for line in lines
    )


def _plain_character(character: str) -> str:
    if character in _INVISIBLE:
        return ""
    return " " if unicodedata.category(character) == "Zs" else character


def one_line(text: str) -> str:
    """The first line that says something."""
    return next((line.strip() for line in terminal_safe(text).split("\n") if line.strip()), "")


def call_subject(call: ToolCall, workspace: str) -> str:
    """What a call is about, in one line: the file, the pattern, the command."""
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
    """As seen from the workspace."""
    return os.path.relpath(path, workspace) if path.startswith(workspace.rstrip("/") + "/") else path


@dataclass(frozen=True, slots=True)
class CallSummary:
    """What came of a call, as one sees it at a glance."""

    ok: bool
    note: str = ""
    reason: str = ""
    """Of a failure, whole."""


def describe_result(call: ToolCall, text: str, *, ok: bool, exit_code: int | None = None) -> CallSummary:
    lines = [line for line in terminal_safe(text).split("\n") if line.strip() and not _PEER_NEWS.match(line)]
    if not ok and exit_code:
        said = _last_output_line(lines, exit_code)
        return CallSummary(ok=False, note=f"exit {exit_code}" + (f": {said}" if said else ""))
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
    """The last line of a command's output. The result's text repeats the exit code after it, and may have remarks."""
    repeated = f"Exit code {exit_code}"
    output = lines[: lines.index(repeated)] if repeated in lines else lines
    return _truncate(output[-1].strip()) if output else ""


def _edit_counts(arguments: Mapping[str, Any], told: str) -> str:
    """How many lines come and go, from what was asked for."""
    edits = arguments.get("edits")
    pairs = [*_edit_pairs(cast("list[object]", edits))] if isinstance(edits, list) else [*_edit_pairs([arguments])]
    counts = [_line_counts(old, new) for old, new in pairs]
    match = _REPLACED.search(told)
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
    """Lines that come and that go. Of a very long piece, all between its first and its last change."""
    before, after = old.splitlines(), new.splitlines()
    if len(before) + len(after) > _MAX_DIFF_LINES:
        same = _common_prefix_length(before, after)
        before, after = before[same:], after[same:]
        same = _common_prefix_length(before[::-1], after[::-1])
        return len(after) - same, len(before) - same
    blocks = difflib.SequenceMatcher(None, before, after, autojunk=False).get_matching_blocks()
    kept = sum(block.size for block in blocks)
    return len(after) - kept, len(before) - kept


def _common_prefix_length(one: list[str], other: list[str]) -> int:
    """How many lines at the beginning are the same."""
    pairs = enumerate(zip(one, other, strict=False))
    return next((number for number, (a, b) in pairs if a != b), min(len(one), len(other)))


def _truncate(text: str) -> str:
    return text if len(text) <= _NOTE_CHARS else f"{text[: _NOTE_CHARS - 1]}…"


def format_duration(seconds: float) -> str:
    """A time as one reads it at a glance; nothing where it is too short to have been measured."""
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
    """Time, tokens and money, as far as they are known."""
    tokens, words = finished.tokens, [format_duration(finished.seconds)]
    if tokens.input or tokens.output:
        cached = f" ({tokens.cached:,} cached)" if tokens.cached else ""
        words.append(f"{tokens.input:,} tokens in{cached}, {tokens.output:,} out")
    if finished.cost:
        words.append(f"${finished.cost:.2f}" if finished.cost >= _CENT else f"${finished.cost:.4f}")
    return [word for word in words if word]

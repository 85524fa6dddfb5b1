"""Rules in gitignore syntax for what a snapshot leaves out.

They come from the settings and from the `.toolyardignore` of each folder. The last matching rule decides, `!`
includes a name again, a slash at the end matches folders only, a slash elsewhere anchors the rule to its folder.
Everything in an ignored folder is ignored too. A restore never deletes ignored files.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import takewhile

from toolyard.core.errors import ValidationError
from toolyard.core.limits import DEFAULT_LIMITS, KIB
from toolyard.files.search.glob_patterns import Glob, compile_glob
from toolyard.files.temp_names import TEMPORARY_PREFIX

IGNORE_FILE = ".toolyardignore"
DEFAULT_RULES = ("__pycache__/", ".mypy_cache/", ".pytest_cache/", ".ruff_cache/", ".hypothesis/")
"""Only what programs generate again by themselves. The settings can override it."""
MAX_IGNORE_FILE_BYTES = 64 * KIB
_MOST_RULES = 2_000
_BRACES = re.compile(r"[{}]")


@dataclass(frozen=True, slots=True)
class _Rule:
    glob: Glob
    depth: int
    """How many leading folders are cut from a path before it is matched."""
    is_negated: bool
    folders_only: bool


class IgnoreRules:
    """Ignore rules. Immutable; `with_folder_rules` returns those of a folder with rules of its own."""

    def __init__(self, lines: Iterable[str] = DEFAULT_RULES, *, _rules: tuple[_Rule, ...] = ()) -> None:
        self._rules = _rules or tuple(_parse_rules(lines, 0))
        self._for_files = _quick_filter(rule for rule in self._rules if not rule.folders_only)
        self._for_folders = _quick_filter(self._rules)

    def with_folder_rules(self, depth: int, text: bytes) -> IgnoreRules:
        """Returns these rules and those of a folder `depth` levels down, whose `.toolyardignore` contains `text`."""
        own = tuple(_parse_rules(text.decode("utf-8", "surrogateescape").splitlines(), depth))
        return IgnoreRules((), _rules=self._rules + own) if own else self

    def ignored_names(self, folder: Sequence[str], files: Iterable[str], folders: Iterable[str]) -> set[str]:
        """Returns the names in a folder that are ignored."""
        found: set[str] = set()
        if self._for_files is not None:
            suspects = filter(self._for_files, files)
            found.update(name for name in suspects if self._is_ignored((*folder, name), is_folder=False))
        if self._for_folders is not None:
            suspects = filter(self._for_folders, folders)
            found.update(name for name in suspects if self._is_ignored((*folder, name), is_folder=True))
        return found

    def _is_ignored(self, parts: tuple[str, ...], *, is_folder: bool) -> bool:
        for rule in reversed(self._rules):
            if rule.folders_only and not is_folder:
                continue
            if rule.glob.matches(parts[rule.depth :]):
                return not rule.is_negated
        return False


def temporary_names(names: Sequence[str]) -> set[str]:
    """Returns, of sorted names, those of Toolyard's temporary files, of a running writer or a killed one."""
    first = bisect_left(names, TEMPORARY_PREFIX)
    return set(takewhile(lambda name: name.startswith(TEMPORARY_PREFIX), names[first:]))


def _quick_filter(rules: Iterable[_Rule]) -> Callable[[str], object] | None:
    """Returns a quick test of a name alone: only names that pass it can match a rule. None if no rule can match."""
    lasts = {alternative[-1] for rule in rules for alternative in rule.glob.alternatives}
    if not lasts:
        return None
    patterns = [f"(?:{last.pattern})" for last in lasts if last is not None]
    if len(patterns) < len(lasts):  # one ends in `**`
        return bool
    return re.compile("|".join(sorted(patterns)), re.DOTALL).fullmatch


def _parse_rules(lines: Iterable[str], depth: int) -> list[_Rule]:
    rules: list[_Rule] = []
    for line in lines:
        text = line.rstrip("\r\n")
        # A trailing space counts only after a backslash.
        while text.endswith(" ") and not text.endswith("\\ "):
            text = text[:-1]
        if not text or text.startswith("#"):
            continue
        takes_back = text.startswith("!")
        text = text.removeprefix("!")
        folders_only = text.endswith("/")
        body = text.rstrip("/")
        if not body or len(rules) >= _MOST_RULES:
            continue
        if "/" in body and not body.startswith("/"):
            body = "/" + body
        try:
            glob = compile_glob(_BRACES.sub(r"\\\g<0>", body), "rule", DEFAULT_LIMITS, any_depth=True)
        except ValidationError:
            continue  # too long to be a rule; git ignores invalid rules as well
        rules.append(_Rule(glob, depth, takes_back, folders_only))
    return rules

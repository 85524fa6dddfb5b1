"""Searches the files of a repository for words, as they would be committed."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from toolyard.assistant.precommit.git import Git
from toolyard.core.limits import MIB

_OUTPUT_BYTES = 4 * MIB
_LINE_CHARS = 1_000
_NO_MATCH = (1,)
_GREP = (
    *("grep", "-z", "-n", "-I", "--no-color", "--no-column", "--full-name", "--no-recurse-submodules"),
    *("--max-depth=-1", "--no-textconv"),
)
_CODE = frozenset(
    {
        *(
            ".py",
            ".js",
            ".jsx",
            ".ts",
            ".tsx",
            ".mjs",
            ".cjs",
            ".vue",
            ".svelte",
            ".go",
            ".rs",
            ".java",
            ".kt",
            ".rb",
        ),
        *(".php", ".c", ".cc", ".cpp", ".cxx", ".h", ".hpp", ".cs", ".swift", ".scala", ".ex", ".exs", ".lua", ".pl"),
    }
)
_DOC = re.compile(r"(?:^|/)README[^/]*$|(?:^|/)docs?/.*\.(?:txt|html?)$|\.(?:md|mdx|rst|adoc)$", re.IGNORECASE)
_HISTORY = re.compile(
    r"(?:^|/)(?:change(?:s|log)|history|news|releases?|release[-_ ]?notes|migrat\w+|upgrad\w+|adrs?|decisions)"
    r"(?:[-_.]\w+)*(?:\.\w+)?(?:/|$)",
    re.IGNORECASE,
)
_TEST = re.compile(
    r"(?:^|/)(?:tests?|__tests__|specs?|e2e)/|(?:^|/)(?:test_[^/]*|conftest)\.py$|[^/]_(?:test|spec)\.\w+$"
    r"|\.(?:test|spec|cy)\.\w+$|[^/](?:Test|Tests|Spec)\.(?:java|kt|cs|scala|php|swift)$"
)


def is_code(path: str) -> bool:
    return os.path.splitext(path)[1].lower() in _CODE


def is_doc(path: str) -> bool:
    """Whether a document describes the present state; a changelog describes the past."""
    return _DOC.search(path) is not None and not is_history(path)


def is_history(path: str) -> bool:
    return _HISTORY.search(path) is not None and _DOC.search(path) is not None


def is_test(path: str) -> bool:
    return _TEST.search(path) is not None


@dataclass(frozen=True, slots=True)
class WordMatch:
    """A line that contains one of the words."""

    path: str
    line: int
    text: str


@dataclass(frozen=True, slots=True)
class CommitTree:
    """The files of the commit: those of the index if only staged changes count, else those on disk."""

    git: Git
    is_index: bool

    def files(self) -> tuple[str, ...]:
        others = () if self.is_index else ("--others", "--exclude-standard")
        ran = self.git.run("ls-files", "-z", "--cached", *others, output_bytes=_OUTPUT_BYTES)
        return tuple(dict.fromkeys(os.fsdecode(name) for name in ran.out.split(b"\0") if name))

    def find_lines(
        self, texts: Sequence[str], *, pattern: str = "", among: Sequence[str] = ()
    ) -> Iterator[WordMatch]:
        """Yields lines that contain one of the texts, or match the pattern (an extended regular expression)."""
        wanted = ("-E", "-e", pattern) if pattern else ("-F", *(word for text in texts for word in ("-e", text)))
        where = "--cached" if self.is_index else "--untracked"
        paths = ("--", *among, *self.git.visible_pathspecs[2:]) if among else self.git.visible_pathspecs
        ran = self.git.run(*_GREP, where, *wanted, *paths, output_bytes=_OUTPUT_BYTES, allowed_codes=_NO_MATCH)
        for line in ran.out.split(b"\n"):
            path, _, rest = line.partition(b"\0")
            number, _, text = rest.partition(b"\0")
            if number.isdigit():
                yield WordMatch(os.fsdecode(path), int(number), text[:_LINE_CHARS].decode("utf-8", "replace"))

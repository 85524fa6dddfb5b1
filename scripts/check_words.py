"""Checks that prose uses the words of the field: `make lint`.

Reads comments, docstrings and texts in `src`, `benchmarks` and `scripts`, and the pages in Markdown. Prints each line
with a word of the list and what to write instead.
"""

from __future__ import annotations

import io
import os
import re
import sys
import tokenize
from collections.abc import Iterator

PROJECT = os.path.dirname(os.path.dirname(os.path.realpath(__file__)))
FOLDERS = ("src", "benchmarks", "scripts")
PAGES = ("README.md", "ARCHITECTURE.md", "CONTRIBUTING.md", "docs")

WORDS = {
    r"whoever": "name the caller, the client or the user",
    r"nobody": "no user, no client, no one; or say what does not happen",
    r"merely": "only, or leave it out",
    r"for want of": "without, because there is no",
    r"(?:is|are|was|were|be|been|gets?) told": "receives, is notified, sees the message",
    r"told of": "notified of, reported to",
    r"what is kept": "say what: the snapshot, the record, the cached file",
    r"of now": "current",
    r"is no longer there": "is gone, was removed",
    r"none of (?:its|their|our) business": "not checked here",
    r"as it (?:stands|stood)": "unchanged",
    r"comes to nothing": "has no effect",
    r"wants nothing": "needs nothing",
}
ALLOWED = {
    "src/toolyard/sandbox/guest_layout.py": "nobody",  # the name of an account
    "src/toolyard/team/prompts.py": "merely",  # the text of a prompt, measured with models
    "scripts/check_words.py": "",
}
"""Files in which a word of the list has another meaning; an empty word stands for every word."""

_PATTERNS = {re.compile(rf"\b{word}\b", re.IGNORECASE): advice for word, advice in WORDS.items()}


def findings() -> Iterator[str]:
    """Yields a line for each use of a word of the list."""
    for path in _files():
        name = os.path.relpath(path, PROJECT)
        allowed = ALLOWED.get(name)
        if allowed == "":
            continue
        with open(path, encoding="utf-8") as file:
            text = file.read()
        for number, prose in _prose(text) if path.endswith(".py") else enumerate(text.splitlines(), 1):
            for pattern, advice in _PATTERNS.items():
                found = pattern.search(prose)
                if found and found[0].lower() != allowed:
                    yield f"{name}:{number}: {found[0]!r}: write {advice}"


def _files() -> Iterator[str]:
    for name in (*FOLDERS, *PAGES):
        path = os.path.join(PROJECT, name)
        if os.path.isfile(path):
            yield path
        for folder, _, names in os.walk(path):
            ending = ".md" if name in PAGES else ".py"
            yield from (os.path.join(folder, each) for each in sorted(names) if each.endswith(ending))


def _prose(text: str) -> Iterator[tuple[int, str]]:
    """Yields the lines of comments and texts, not of code: a name may be any word."""
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type in (tokenize.COMMENT, tokenize.STRING):
            for offset, line in enumerate(token.string.splitlines()):
                yield token.start[0] + offset, line


if __name__ == "__main__":
    lines = list(findings())
    print("\n".join(lines))
    sys.exit(1 if lines else 0)

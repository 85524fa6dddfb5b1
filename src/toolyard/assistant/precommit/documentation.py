"""Checks whether documentation mentions what a change removes. Deterministic; the result is a warning.

Names that users may know are collected from the removed lines: public definitions, command-line options, environment
variables, configuration keys, and names of files that are deleted or renamed. A name that remains only in
documentation is reported with the line that mentions it. So is a function whose parameters change while a page that
shows a call of it does not.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Iterator

from toolyard.assistant.precommit.findings import ChangeStatus, Check, CheckDetail, CheckOutcome, FileChange
from toolyard.assistant.precommit.word_search import CommitTree, WordMatch, is_code, is_doc, is_history

NAME = "docs"
_MOST_NAMES = 200
_MOST_DETAILS = 50
_SHORTEST = 3
_LONGEST_LINE = 1_000
_DEFINITIONS = (
    re.compile(r"^\s*(?:async )?(?:def|class) (?P<name>[A-Za-z]\w*)"),
    re.compile(r"^(?P<name>[A-Z][A-Z0-9]*_[A-Z0-9_]+)\s*(?::[^=]+)?="),
    re.compile(
        r"^\s*export (?:default )?(?:async )?(?:function\*?|class|const|let|interface|type|enum) "
        r"(?P<name>[A-Za-z]\w*)"
    ),
    re.compile(r"^func (?:\([^)]*\) )?(?P<name>[A-Z]\w*)"),
    re.compile(r"^type (?P<name>[A-Z]\w*)"),
    re.compile(r"^\s*pub(?:\([^)]*\))? (?:async )?(?:fn|struct|enum|trait|const|static|type) (?P<name>[A-Za-z]\w*)"),
    re.compile(r"^\s*public (?:[\w<>\[\],]+ )*?(?:class|interface|enum|record) (?P<name>\w+)"),
    re.compile(r"^\s*public (?:[\w<>\[\],]+ )+(?P<name>\w+)\("),
)
_PUBLIC_STRINGS = (
    re.compile(r"""["'`](?P<name>--[a-z][a-z0-9]*(?:-[a-z0-9]+)*)["'`=\s,]"""),
    re.compile(
        r"""(?:environ(?:\.get)?[\[(]|getenv\(|process\.env\.|process\.env\[|env::var\()\s*["']?(?P<name>[A-Z][A-Z0-9_]+)"""
    ),
)
_KEY = re.compile(r"""^\s*["']?(?P<name>[a-z][a-z0-9]*(?:[_-][a-z0-9]+)+)["']?\s*[:=]""")
_SETTINGS = (".yaml", ".yml", ".toml", ".ini", ".cfg", ".json")
_SIGNATURE = re.compile(
    r"^\s*(?:export )?(?:pub )?(?:async )?(?:def|function|func|fn) (?P<name>[A-Za-z]\w*)(?P<rest>\(.*)"
)
_PLAIN_WORD = re.compile(r"[a-z]+")


def check_documentation(changes: Iterable[FileChange], tree: CommitTree, check_time: Callable[[], None]) -> Check:
    """Checks the documentation of a commit against its changes."""
    listed = [change for change in changes if not is_doc(change.path) and not is_history(change.path)]
    gone = dict.fromkeys(name for change in listed for name in _removed_names(change, check_time))
    files = _removed_files(listed, tree) if any(map(_old_name, listed)) else {}
    changed = _changed_signatures(listed)
    texts = [*gone, *files, *changed][:_MOST_NAMES]
    if not texts:
        return Check(NAME, CheckOutcome.SKIPPED if not listed else CheckOutcome.PASSED)
    touched = {change.path for change in changes} if changed else set[str]()
    found = [each for each in tree.find_lines(texts) if not is_history(each.path)]
    check_time()
    in_docs = [each for each in found if is_doc(each.path)]
    in_code = [each for each in found if not is_doc(each.path)]
    warned: list[CheckDetail] = []
    for name in texts:
        check_time()
        if name in files:
            warned += _find_mentions(in_docs, name, f"mentions {name}, which is {files[name]}")
        elif name in gone and not any(_mentions_word(name, each.text) for each in in_code):
            warned += _find_mentions(in_docs, name, f"mentions {name}, which no other file contains any more")
        elif name in changed:
            shown = [each for each in in_docs if f"{name}(" in each.text and each.path not in touched]
            warned += _find_mentions(shown, name, f"shows {name}(), whose parameters change in {changed[name]}")
    return Check.from_details(NAME, warned=tuple(dict.fromkeys(warned))[:_MOST_DETAILS])


def _removed_names(change: FileChange, check_time: Callable[[], None]) -> Iterator[str]:
    patterns = (
        (*_DEFINITIONS, *_PUBLIC_STRINGS)
        if is_code(change.path)
        else (_KEY,)
        if change.path.endswith(_SETTINGS)
        else ()
    )
    if not patterns:
        return
    for at, text in enumerate(change.removed):
        if not at % 1_000:
            check_time()
        if len(text) > _LONGEST_LINE:
            continue
        for pattern in patterns:
            for match in pattern.finditer(text):
                if len(match["name"]) >= _SHORTEST:
                    yield match["name"]


def _old_name(change: FileChange) -> str:
    if change.status is ChangeStatus.DELETED:
        return change.path
    return change.old_path if change.status is ChangeStatus.RENAMED else ""


def _removed_files(changes: Iterable[FileChange], tree: CommitTree) -> dict[str, str]:
    """Returns the names of files that no longer exist, with what happened to each."""
    existing = {os.path.basename(path) for path in tree.files()} - {
        os.path.basename(change.path) for change in changes if change.status is ChangeStatus.DELETED
    }
    gone: dict[str, str] = {}
    for change in changes:
        name = os.path.basename(_old_name(change))
        if "." in name and len(name) > _SHORTEST and name not in existing:
            gone[name] = "deleted" if change.status is ChangeStatus.DELETED else f"{change.path} now"
    return gone


def _changed_signatures(changes: Iterable[FileChange]) -> dict[str, str]:
    """Returns the functions whose parameters changed, each with its file."""
    found: dict[str, str] = {}
    for change in changes:
        if not is_code(change.path):
            continue
        before = dict(_parameters(change.removed))
        for name, rest in _parameters(text for _, text in change.added):
            if name in before and before[name] != rest:
                found[name] = change.path
    return found


def _parameters(lines: Iterable[str]) -> Iterator[tuple[str, str]]:
    for text in lines:
        match = _SIGNATURE.match(text) if len(text) <= _LONGEST_LINE else None
        if match is not None:
            yield match["name"], " ".join(match["rest"].split())


def _find_mentions(found: Iterable[WordMatch], name: str, text: str) -> Iterator[CheckDetail]:
    for each in found:
        if _mentions_word(name, each.text) and (not _PLAIN_WORD.fullmatch(name) or _is_code_word(name, each.text)):
            yield CheckDetail(each.path, each.line, text)


def _mentions_word(name: str, text: str) -> bool:
    return re.search(rf"(?<![\w-]){re.escape(name)}(?![\w-])", text) is not None


def _is_code_word(name: str, text: str) -> bool:
    """Whether an ordinary word is used as a name: in backticks, or called."""
    return f"`{name}`" in text or re.search(rf"(?<!\w){name}\(", text) is not None

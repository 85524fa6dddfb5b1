"""Finds the tests that a change affects: those named after a changed file, or importing it. No test is run."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Sequence

from toolyard.assistant.precommit.findings import ChangeStatus, Check, CheckDetail, CheckOutcome, FileChange
from toolyard.assistant.precommit.word_search import CommitTree, WordMatch, is_code, is_test

NAME = "tests"
_MOST_MODULES = 50
_MOST_NAMED = 5
_FOLDER_MODULES = frozenset({"__init__", "index", "mod", "main", "lib", "__main__"})
"""Files that are identified by their folder."""
_TESTS = ("*[tT]est*", "*spec*", "*e2e*")
_OWN_TESTS = (".rs", ".h", ".hpp")
"""Suffixes of files that contain their tests, or whose implementation does."""
_SCRIPTS = frozenset({".js", ".jsx", ".ts", ".tsx", ".mjs", ".cjs", ".vue", ".svelte"})
_AFFIX = re.compile(r"^test_|[._-](?:test|tests|spec|cy)$|(?:Test|Tests|Spec)$")
_IMPORT_WORDS = r"(import|from|require|use|include|mock|patch)"


def check_affected_tests(changes: Iterable[FileChange], tree: CommitTree, check_time: Callable[[], None]) -> Check:
    """Lists the tests of each changed module; warns about modules without tests."""
    listed = list(changes)
    changed = {change.path for change in listed if is_test(change.path) and change.status is not ChangeStatus.DELETED}
    modules = sorted(
        {
            change.path
            for change in listed
            if is_code(change.path)
            and not is_test(change.path)
            and change.status not in {ChangeStatus.DELETED, ChangeStatus.SUBMODULE}
            and (change.added or change.removed)
        }
    )[:_MOST_MODULES]
    if not modules:
        return Check(NAME, CheckOutcome.SKIPPED)
    tests = [path for path in tree.files() if is_test(path) and is_code(path)]
    check_time()
    lines = _import_lines(tree, modules) if tests else []
    advice: list[CheckDetail] = []
    warned: list[CheckDetail] = []
    for module in modules:
        check_time()
        related = _related_tests(module, tests, lines)
        if related:
            advice.append(CheckDetail(module, 0, f"is tested by {_join_paths(related)}"))
        elif not changed and not module.endswith(_OWN_TESTS):
            why = "no test is named after it or imports it" if tests else "there are no tests in this repository"
            warned.append(CheckDetail(module, 0, f"changes, and {why}"))
    result = Check.from_details(NAME, warned=tuple(warned))
    return Check(NAME, result.outcome, (*result.details, *advice))


def _import_lines(tree: CommitTree, modules: Sequence[str]) -> list[WordMatch]:
    stems = sorted({re.escape(_stem(module)) for module in modules})
    pattern = rf"{_IMPORT_WORDS}.*({'|'.join(stems)})"
    return [each for each in tree.find_lines((), pattern=pattern, among=_TESTS) if is_test(each.path)]


def _related_tests(module: str, tests: Sequence[str], lines: Sequence[WordMatch]) -> list[str]:
    stem, folder = _stem(module), _folder(module)
    wanted = _normalized_name(stem)
    by_name = [
        path
        for path in tests
        if _normalized_name(_AFFIX.sub("", os.path.splitext(os.path.basename(path))[0])) == wanted
    ]
    # A test of the same name may be about another module: one in a subfolder is about the module in such a folder.
    near = [path for path in by_name if _is_near(path, module, folder)]
    if module.endswith(".go"):
        beside = os.path.dirname(module)
        near += [path for path in tests if os.path.dirname(path) == beside and path.endswith("_test.go")]
    is_python = module.endswith(".py")
    imports = [each.path for each in lines if _imports(each.text, stem, folder, is_python=is_python)]
    found = dict.fromkeys([*near, *imports])
    return [path for path in found if _language(path) == _language(module)]


def _language(path: str) -> str:
    """Returns the suffix that stands for the file's language; those of JavaScript count as one."""
    ending = os.path.splitext(path)[1].lower()
    return ".js" if ending in _SCRIPTS else ending


def _is_near(test: str, module: str, folder: str) -> bool:
    around = os.path.dirname(test)
    is_at_the_top = not around or is_test(f"{os.path.basename(around)}/")
    return is_at_the_top or around == os.path.dirname(module) or folder in around.split("/")


def _imports(text: str, stem: str, folder: str, *, is_python: bool) -> bool:
    name, where = re.escape(stem), re.escape(folder)
    if not is_python:
        return re.search(rf"""[/'"<.:]{name}(?:\.\w+)?['">;:\s]""", text) is not None
    if not folder:
        return re.search(rf"\b(?:import|from)\s+{name}\b", text) is not None
    return re.search(rf"\b{where}\.{name}\b|\bfrom\s+[\w.]*\b{where}\s+import\b.*\b{name}\b", text) is not None


def _stem(path: str) -> str:
    stem = os.path.splitext(os.path.basename(path))[0]
    return os.path.basename(os.path.dirname(path)) or stem if stem in _FOLDER_MODULES else stem


def _folder(path: str) -> str:
    """Returns the package of a module: the folder of the file, or of the folder that identifies it."""
    folder = os.path.dirname(path)
    if os.path.splitext(os.path.basename(path))[0] in _FOLDER_MODULES:
        folder = os.path.dirname(folder)
    name = os.path.basename(folder)
    return "" if name in {"src", "lib", "app"} else name


def _normalized_name(name: str) -> str:
    return re.sub(r"[^a-z0-9]", "", name.lower())


def _join_paths(paths: Sequence[str]) -> str:
    more = f" and {len(paths) - _MOST_NAMED} more" if len(paths) > _MOST_NAMED else ""
    return f"{', '.join(paths[:_MOST_NAMED])}{more}"

"""Which tests a change concerns: those that are named after a changed file, or import it. Nothing is run."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Sequence

from toolyard.assistant.precommit.findings import Change, Check, Detail, Outcome, Status
from toolyard.assistant.precommit.word_search import Found, Tree, is_code, is_test

NAME = "tests"
_MOST_MODULES = 50
_MOST_NAMED = 5
_GENERAL = frozenset({"__init__", "index", "mod", "main", "lib", "__main__"})
"""Files that are known by the folder they lie in."""
_TESTS = ("*[tT]est*", "*spec*", "*e2e*")
_OWN_TESTS = (".rs", ".h", ".hpp")
"""Where tests stand in the file itself, or in that of its implementation."""
_SCRIPTS = frozenset({".js", ".jsx", ".ts", ".tsx", ".mjs", ".cjs", ".vue", ".svelte"})
_AFFIX = re.compile(r"^test_|[._-](?:test|tests|spec|cy)$|(?:Test|Tests|Spec)$")
_IMPORTING = r"(import|from|require|use|include|mock|patch)"


def impact(changes: Iterable[Change], tree: Tree, check_time: Callable[[], None]) -> Check:
    listed = list(changes)
    changed = {change.path for change in listed if is_test(change.path) and change.status is not Status.DELETED}
    modules = sorted(
        {
            change.path
            for change in listed
            if is_code(change.path)
            and not is_test(change.path)
            and change.status not in {Status.DELETED, Status.SUBMODULE}
            and (change.added or change.removed)
        }
    )[:_MOST_MODULES]
    if not modules:
        return Check(NAME, Outcome.SKIPPED)
    tests = [path for path in tree.files() if is_test(path) and is_code(path)]
    check_time()
    lines = _importing(tree, modules) if tests else []
    advice: list[Detail] = []
    warned: list[Detail] = []
    for module in modules:
        check_time()
        related = _related(module, tests, lines)
        if related:
            advice.append(Detail(module, 0, f"is tested by {_named(related)}"))
        elif not changed and not module.endswith(_OWN_TESTS):
            why = "no test is named after it or imports it" if tests else "there are no tests in this repository"
            warned.append(Detail(module, 0, f"changes, and {why}"))
    result = Check.of(NAME, warned=tuple(warned))
    return Check(NAME, result.outcome, (*result.details, *advice))


def _importing(tree: Tree, modules: Sequence[str]) -> list[Found]:
    stems = sorted({re.escape(_stem(module)) for module in modules})
    pattern = rf"{_IMPORTING}.*({'|'.join(stems)})"
    return [each for each in tree.lines_with((), pattern=pattern, among=_TESTS) if is_test(each.path)]


def _related(module: str, tests: Sequence[str], lines: Sequence[Found]) -> list[str]:
    stem, folder = _stem(module), _folder(module)
    wanted = _plain(stem)
    by_name = [
        path for path in tests if _plain(_AFFIX.sub("", os.path.splitext(os.path.basename(path))[0])) == wanted
    ]
    # Tests of one name may be about others: one in a folder of its own is about the module of such a folder.
    near = [path for path in by_name if _is_near(path, module, folder)]
    if module.endswith(".go"):
        beside = os.path.dirname(module)
        near += [path for path in tests if os.path.dirname(path) == beside and path.endswith("_test.go")]
    is_python = module.endswith(".py")
    imports = [each.path for each in lines if _imports(each.text, stem, folder, is_python=is_python)]
    found = dict.fromkeys([*near, *imports])
    return [path for path in found if _language(path) == _language(module)]


def _language(path: str) -> str:
    """Files of one language have one ending, or one of those of JavaScript."""
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
    return os.path.basename(os.path.dirname(path)) or stem if stem in _GENERAL else stem


def _folder(path: str) -> str:
    """The package a module is in: the folder that holds it, or holds the folder it is known by."""
    folder = os.path.dirname(path)
    if os.path.splitext(os.path.basename(path))[0] in _GENERAL:
        folder = os.path.dirname(folder)
    name = os.path.basename(folder)
    return "" if name in {"src", "lib", "app"} else name


def _plain(name: str) -> str:
    return re.sub(r"[^a-z0-9]", "", name.lower())


def _named(paths: Sequence[str]) -> str:
    more = f" and {len(paths) - _MOST_NAMED} more" if len(paths) > _MOST_NAMED else ""
    return f"{', '.join(paths[:_MOST_NAMED])}{more}"

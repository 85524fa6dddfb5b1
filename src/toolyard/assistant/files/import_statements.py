"""Finds the imports of a source file by the look of its lines, without a parser.

Only the beginning of a file and of each line is read: imports stand there. Text in a string or a comment that looks
like an import does no harm: it resolves to no file, at worst to a package that is not used.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Final

from toolyard.assistant.files.regex_outline import numbered_lines
from toolyard.assistant.files.sources import SourceFile
from toolyard.core.limits import KIB

_READ_CHARS = 256 * KIB
_LINE_CHARS = 1_000
_JOINED_LINES = 60
_MOST_REFERENCES = 500
_MOST_EXPANDED = 100
_DEEPEST = 32
_PATH_CHARS = 500


@dataclass(frozen=True, slots=True)
class ImportReference:
    """One import as the file spells it."""

    target: str
    names: tuple[str, ...] = ()
    """Imported names, if each of them may be a file of its own."""
    is_path: bool = False
    """Whether the target is a path relative to the importing file, never a package."""


def find_references(source: SourceFile) -> tuple[ImportReference, ...]:
    """Returns the distinct imports of a source file."""
    find = _FINDERS.get(source.language)
    if find is None:
        return ()
    found: dict[ImportReference, None] = {}
    for reference in find(_lines(source)):
        found[reference] = None
        if len(found) >= _MOST_REFERENCES:
            break
    return tuple(found)


def declared_namespace(source: SourceFile) -> str:
    """Returns the package or namespace that the file declares; for a go.mod, its module."""
    pattern = _NAMESPACES.get(source.language)
    if pattern is not None:
        for line in _lines(source):
            if found := pattern.match(line):
                return found[1]
    return ""


def _lines(source: SourceFile) -> Iterator[str]:
    for _, line in numbered_lines(source.text[:_READ_CHARS]):
        yield line[:_LINE_CHARS]


# Repeats are possessive (`*+`, `++`) and optional groups atomic (`(?>x|)`), so no line makes a pattern backtrack. A
# possessive quantifier on a group would say the same, but Python before 3.11.5 matches it wrongly.
_NAMESPACES: Final = {
    "java": re.compile(r"\s*+package\s++([\w.]++)\s*+;"),
    "csharp": re.compile(r"\s*+namespace\s++([\w.]++)"),
    "php": re.compile(r"\s*+(?><\?php\s++|)namespace\s++([\w\\]++)\s*+[;{]"),
    "go.mod": re.compile(r"\s*+module\s++(\S++)"),
}
_PYTHON_FROM = re.compile(r"\s*+from\s++([\w.]*+)\s++import\s++(.*+)")
_PYTHON_IMPORT = re.compile(
    r"\s*+import\s++([\w.]++(?>\s++as\s++\w++|)(?>(?:\s*+,\s*+[\w.]++(?>\s++as\s++\w++|))*))\s*+(?>[#;].*+|)\Z"
)
_JAVASCRIPT = re.compile(
    r"""(?:^\s*+(?:import|export|\})[^"'`]{0,300}?\bfrom\s*+|^\s*+import\s*+|\b(?:require|import)\s?+\(\s*+)["']([^"']{1,300}+)["']"""
)
_JAVA = re.compile(r"\s*+import\s++(?>static\s++|)([\w.]++\*?+)\s*+;")
_CSHARP = re.compile(r"\s*+(?>global\s++|)using\s++(?>static\s++|)(?>\w++\s*+=\s*+|)([A-Z][\w.]*+)\s*+;")
_GO_ONE = re.compile(r"\s*+import\s++(?>[\w.]++\s++|)\"([^\"]{1,300}+)\"")
_GO_OF_BLOCK = re.compile(r"\s*+(?>[\w.]++\s++|)\"([^\"]{1,300}+)\"")
_RUST = re.compile(
    r"\s*+(?>pub(?>\([^)]{0,40}+\)|)\s++|)"
    r"(?:use\s++(?P<use>.*+)|mod\s++(?P<mod>\w++)\s*+;|extern\s++crate\s++(?P<crate>\w++))"
)
_INCLUDE = re.compile(r"\s*+#\s*+(?:include|import)\s*+(?:<([^>]{1,300}+)>|\"([^\"]{1,300}+)\")")
_RUBY = re.compile(r"\s*+(require_relative|require|load)\b\s*+(?>\(\s*+|)[\"']([^\"']{1,300}+)[\"']")
_PHP_USE = re.compile(r"use\s++(?>function\s++|const\s++|)\\?+([\w\\]++)(?>\{([^}]{0,600}+)\}?+|)")
_PHP_FILE = re.compile(
    r"(?:require|include)(?>_once|)\s*+(?>\(\s*+|)(?>__DIR__\s*+\.\s*+|)[\"']([^\"']{1,300}+)[\"']"
)
_RUST_SIGN = re.compile(r"([{},])")
_NAME = re.compile(r"\w+")


def _python_imports(lines: Iterator[str]) -> Iterator[ImportReference]:
    quotes = ""
    for line in lines:
        if quotes:
            quotes = "" if quotes in line else quotes
        elif found := _PYTHON_FROM.match(line):
            listed = found[2].partition("#")[0]
            if "(" in listed and ")" not in listed:
                listed += _join_until(")", lines)
            parts = listed.strip(" ()\\").split(",")
            yield ImportReference(found[1], tuple(name[0] for part in parts if (name := _NAME.search(part))))
        elif found := _PYTHON_IMPORT.match(line):
            yield from (ImportReference(part.split()[0]) for part in found[1].split(","))
        else:
            quotes = next((each for each in ('"""', "'''") if line.count(each) % 2), "")


def _javascript_imports(lines: Iterator[str]) -> Iterator[ImportReference]:
    for line in lines:
        if not line.lstrip().startswith(("//", "*", "/*")):
            for found in _JAVASCRIPT.finditer(line):
                yield ImportReference(found[1], is_path=found[1].startswith("."))


def _go_imports(lines: Iterator[str]) -> Iterator[ImportReference]:
    is_block = False
    for line in lines:
        if is_block:
            is_block = not line.lstrip().startswith(")")
            found = _GO_OF_BLOCK.match(line)
        else:
            is_block = line.replace(" ", "").startswith("import(") and ")" not in line
            found = _GO_ONE.match(line)
        if found:
            yield ImportReference(found[1])


def _rust_imports(lines: Iterator[str]) -> Iterator[ImportReference]:
    for line in lines:
        found = _RUST.match(line)
        if found is None:
            continue
        if found["mod"]:
            yield ImportReference(f"self::{found['mod']}", is_path=True)
        elif found["crate"]:
            yield ImportReference(found["crate"])
        else:
            used = found["use"] if ";" in found["use"] else found["use"] + _join_until(";", lines)
            yield from (ImportReference(each) for each in expand_use_tree(used.partition(";")[0]))


def expand_use_tree(tree: str) -> tuple[str, ...]:
    """Returns each path of a `use` tree: `a::{b, c::{d, e}}` has three. Length and depth are limited."""
    paths: dict[str, None] = {}
    prefixes: list[str] = []
    current = ""
    for part in _RUST_SIGN.split(tree):
        if part == "{":
            prefixes.append(current)
        elif part in {",", "}"}:
            if current != (prefixes[-1] if prefixes else ""):
                paths[current.rstrip(":")] = None
            if part == "}" and prefixes:
                prefixes.pop()
            current = prefixes[-1] if prefixes else ""
        else:
            current += _without_alias(part)
        if len(paths) >= _MOST_EXPANDED or len(prefixes) > _DEEPEST or len(current) > _PATH_CHARS:
            return tuple(path for path in paths if path)
    paths[current.rstrip(":")] = None
    return tuple(path for path in paths if path)


def _without_alias(path: str) -> str:
    """Returns a path without its alias (`as name`) and without spaces."""
    words = path.split()
    return "".join(words[: words.index("as")] if "as" in words else words)


def _c_includes(lines: Iterator[str]) -> Iterator[ImportReference]:
    for line in lines:
        if found := _INCLUDE.match(line):
            yield ImportReference(found[1] or found[2], is_path=found[1] is None)


def _ruby_imports(lines: Iterator[str]) -> Iterator[ImportReference]:
    for line in lines:
        if found := _RUBY.match(line):
            yield ImportReference(found[2], is_path=found[1] == "require_relative")


def _php_imports(lines: Iterator[str]) -> Iterator[ImportReference]:
    for line in lines:
        if found := _PHP_USE.match(line):  # indented, `use` is about traits
            names = tuple(name[0] for part in (found[2] or "").split(",") if (name := re.search(r"[\w\\]+", part)))
            yield from (ImportReference(f"{found[1]}{name}") for name in names or ("",))
        elif found := _PHP_FILE.search(line):
            yield ImportReference(found[1].lstrip("/"), is_path=True)


def _finder_for(pattern: re.Pattern[str]) -> Callable[[Iterator[str]], Iterator[ImportReference]]:
    def find(lines: Iterator[str]) -> Iterator[ImportReference]:
        return (ImportReference(found[1]) for line in lines if (found := pattern.match(line)))

    return find


def _join_until(end: str, lines: Iterable[str]) -> str:
    """Joins the lines up to the one with `end`; at most `_JOINED_LINES` of them."""
    taken: list[str] = []
    for line in lines:
        taken.append(line.partition("#")[0] if end == ")" else line)
        if end in line or len(taken) >= _JOINED_LINES:
            break
    return " ".join(("", *taken))


_FINDERS: Final[dict[str, Callable[[Iterator[str]], Iterator[ImportReference]]]] = {
    "python": _python_imports,
    **dict.fromkeys(("javascript", "typescript", "tsx", "vue", "svelte"), _javascript_imports),
    "java": _finder_for(_JAVA),
    "csharp": _finder_for(_CSHARP),
    "go": _go_imports,
    "rust": _rust_imports,
    "c": _c_includes,
    "cpp": _c_includes,
    "objective-c": _c_includes,
    "ruby": _ruby_imports,
    "php": _php_imports,
}

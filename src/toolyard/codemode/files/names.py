"""Spells names of untrusted origin as Python identifiers. Pure, and independent of machine and order.

docs/tool-files.md explains the rules to users. A spelling depends only on the name and the names that clash with it,
never on their positions in the list, which keeps it stable.
"""

from __future__ import annotations

import hashlib
import keyword
import re
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass, replace

OWN_SERVER = "filesystem"
"""The package of Toolyard's own file tools: `servers.filesystem`. An attached server of that
name gets another one.
"""
LONGEST_NAME = 64
"""Characters of a spelling. With `.py` it fits every file system."""
LONGEST_BYTES = 192
"""The same limit in UTF-8 bytes, for names beyond ASCII."""
_DIGEST_CHARS = 6

_SIGN_WORDS = {"<": "-lt-", ">": "-gt-", "=": "-eq-", "+": "-plus-"}
"""Characters that distinguish real names: `StartTime<` and `StartTime>`."""

_NOT_A_NAME = re.compile(r"\W+")
_PLAIN_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_]*", re.ASCII)

KEYWORDS = frozenset(keyword.kwlist)

# A fixed list instead of `builtins`: spellings must not change with the Python version.
# fmt: off
BUILTINS = frozenset(
    {
        "abs", "aiter", "all", "anext", "any", "ascii", "bin", "bool", "breakpoint", "bytearray", "bytes",
        "callable", "chr", "classmethod", "compile", "complex", "copyright", "credits", "delattr", "dict",
        "dir", "divmod", "enumerate", "eval", "exec", "exit", "filter", "float", "format", "frozenset",
        "getattr", "globals", "hasattr", "hash", "help", "hex", "id", "input", "int", "isinstance",
        "issubclass", "iter", "len", "license", "list", "locals", "map", "max", "memoryview", "min", "next",
        "object", "oct", "open", "ord", "pow", "print", "property", "quit", "range", "repr", "reversed",
        "round", "set", "setattr", "slice", "sorted", "staticmethod", "str", "sum", "super", "tuple", "type",
        "vars", "zip",
    }
)
# fmt: on

IMPORTED_NAMES = frozenset({"Any", "Literal", "Never", "NotRequired", "Result", "TypeAlias", "TypedDict"})
"""Names that a tool file imports for its types."""


@dataclass(frozen=True, slots=True)
class SpellingRules:
    """The rules for one kind of name."""

    reserved: frozenset[str]
    """Names that get a trailing underscore."""
    fallback: str
    """The name if no valid characters remain."""
    strips_underscores: bool = True
    """Whether leading and trailing underscores are removed: they have a meaning in Python."""
    folds_case: bool = True
    """Whether names that differ only in case clash, as they do on some file systems."""
    own: frozenset[str] = frozenset()
    """Names that belong to Toolyard; others get the suffix `_server`."""


TOOLS = SpellingRules(
    KEYWORDS
    | BUILTINS
    | IMPORTED_NAMES
    | {"TYPE_CHECKING", "annotations", "custom_tool", "index", "lazy_tools", "tool"},
    fallback="tool",
)
FOLDERS = SpellingRules(KEYWORDS | {"index"}, fallback="server")
SERVER_FOLDERS = replace(FOLDERS, own=frozenset({OWN_SERVER}))
PARAMETERS = SpellingRules(
    KEYWORDS | {"self", "__debug__"}, fallback="argument", strips_underscores=False, folds_case=False
)


def name_digest(text: str, length: int = _DIGEST_CHARS) -> str:
    """Returns a short hash of a name. Lone surrogates are allowed."""
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:length]


def is_identifier(name: str) -> bool:
    """Whether Python accepts the name and does not normalise it."""
    return name.isidentifier() and not keyword.iskeyword(name) and unicodedata.normalize("NFKC", name) == name


def spell_names(names: Sequence[str], rules: SpellingRules) -> list[str]:
    """Returns a different Python name for each name, in the given order."""
    wanted = [_spell_name(name, rules) for name in names]
    groups: dict[str, list[int]] = {}
    for place, text in enumerate(wanted):
        groups.setdefault(text.casefold() if rules.folds_case else text, []).append(place)
    if len(groups) == len(names):
        return wanted
    clashing: list[int] = []
    for places in groups.values():
        if len(places) > 1:
            exact = {names[place] for place in places if names[place] == wanted[place]}
            unchanged = next(place for place in places if names[place] in exact) if len(exact) == 1 else -1
            clashing += [place for place in places if place != unchanged]
    return _disambiguate(names, wanted, clashing)


def _disambiguate(names: Sequence[str], wanted: list[str], clashing: list[int]) -> list[str]:
    """Appends a hash of the name to each clashing spelling, and of its number for repeated names."""
    apart = set(clashing)
    taken = {text.casefold() for place, text in enumerate(wanted) if place not in apart}
    seen: dict[str, int] = {}
    for place in clashing:
        name = names[place]
        seen[name] = seen.get(name, 0) + 1
        marked = name if seen[name] == 1 else f"{name}#{seen[name]}"
        length = _DIGEST_CHARS
        spelled = _with_digest(wanted[place], marked, length)
        while spelled.casefold() in taken and length < LONGEST_NAME // 2:
            length += _DIGEST_CHARS
            spelled = _with_digest(wanted[place], marked, length)
        taken.add(spelled.casefold())
        wanted[place] = spelled
    return wanted


def _with_digest(text: str, name: str, length: int = _DIGEST_CHARS) -> str:
    stem = text[: LONGEST_NAME - length - 1]
    while len(stem.encode()) > LONGEST_BYTES - length - 1:
        stem = stem[:-1]
    return f"{stem.rstrip('_')}_{name_digest(name, length)}"


def _spell_name(name: str, rules: SpellingRules) -> str:
    if _PLAIN_NAME.fullmatch(name):
        text = name
    else:
        text = unicodedata.normalize("NFKC", name)
        for sign, word in _SIGN_WORDS.items():
            text = text.replace(sign, word)
        text = "_".join(part for part in _NOT_A_NAME.split(text) if part)
    if rules.strips_underscores:
        text = text.strip("_")
    if text[:1].isdigit():
        text = f"_{text}"
    if not text.strip("_"):
        return f"{rules.fallback}_{name_digest(name)}"
    if not _PLAIN_NAME.fullmatch(text) and not _is_stable_identifier(text):
        # Letters that are invalid in Python: keep the ASCII part, and add a hash to distinguish it.
        return _with_digest(f"{rules.fallback}_" + re.sub(r"\W+", "", text, flags=re.ASCII), name)
    if len(text) > LONGEST_NAME or len(text.encode()) > LONGEST_BYTES:
        return _with_digest(text, name)
    if text.casefold() in rules.own:
        return f"{text}_server"
    return f"{text}_" if text in rules.reserved else text


def _is_stable_identifier(text: str) -> bool:
    return text.isidentifier() and unicodedata.normalize("NFKC", text) == text


def class_name(hint: str) -> str:
    """Returns a class name: the words of the hint, capitalised."""
    words = [word for word in re.split(r"[\W_]+", unicodedata.normalize("NFKC", hint[: LONGEST_NAME * 2])) if word]
    text = "".join(word[0].upper() + word[1:] for word in words)[:LONGEST_NAME]
    if not text or text[0].isdigit():
        text = f"Shape{text}"[:LONGEST_NAME]
    return text if _is_stable_identifier(text) and text not in KEYWORDS else f"Shape_{name_digest(hint)}"

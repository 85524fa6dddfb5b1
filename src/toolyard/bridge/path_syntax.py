"""Parses and formats POSIX and Windows paths. Accesses no disk.

A client may be another machine, so its paths are checked by their spelling alone. A path is accepted only if it means
the same to a person, to this module and to the client's system. Ambiguous paths are refused:

    UNICODE  characters that are invisible, or easily mistaken for a dot, a slash or a colon
    FORM     spellings that one system interprets specially: devices, streams, drives without a folder

`POSIX` and `WINDOWS` are for clients whose root is known; `EITHER` is for others and accepts what both read alike.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable
from functools import lru_cache
from typing import Final, NamedTuple, NoReturn, Protocol

from toolyard.bridge.errors import PathRefusedError, Violation
from toolyard.core.errors import ValidationError

MAX_PATH_BYTES: Final = 4_096
MAX_NAME_BYTES: Final = 255
_MAX_UTF8_BYTES: Final = 4
"""Maximum size of a character in UTF-8: nearly all paths are short enough without encoding them."""

_FIELD: Final = "path"
_PARENT: Final = ".."
_SKIPPED: Final = frozenset({"", "."})

_INVISIBLE_CATEGORIES: Final = frozenset({"Cc", "Cf", "Co", "Cs", "Zl", "Zp"})
_INVISIBLE_RANGES: Final = (
    # Default-ignorable characters that Unicode classifies as letters and marks.
    *((0x034F, 0x034F), (0x115F, 0x1160), (0x17B4, 0x17B5), (0x180B, 0x180F), (0x2065, 0x2065), (0x3164, 0x3164)),
    *((0x2800, 0x2800), (0x1D159, 0x1D159)),  # a pattern of no dots, a note without a head
    *((0xFE00, 0xFE0F), (0xFFA0, 0xFFA0), (0xFFF0, 0xFFF8), (0xE0000, 0xE0FFF)),
    (0xFDD0, 0xFDEF),  # noncharacters; the others end each plane
)
_MEANINGFUL: Final = frozenset("./\\:")
# Only symbols and marks: letters that look like a slash (the Japanese no) are legitimate in names.
_LOOKALIKES: Final = frozenset(
    "\u0337\u0338\u1735\u2041\u2044\u20e5\u2215\u2216\u2236\u2571\u2572\u27cb\u27cd\u29f5\u29f6\u29f8\u29f9"
    "\u2afb\u2afd\u2e4a\u31d3\u31d4\U0001d20f\U0001d23a\U0001d23b"
)
# Non-Unicode programs on Japanese and Korean Windows receive these as a backslash.
_BACKSLASHES: Final = frozenset("\u00a5\u20a9")

_FORBIDDEN_CHARS: Final = frozenset('<>:"|?*')
_PORTS: Final = (*"123456789", "\u00b9", "\u00b2", "\u00b3")
_DEVICE_NAMES: Final = frozenset(
    {"CON", "PRN", "AUX", "NUL", "CONIN$", "CONOUT$", "CLOCK$"}
    | {f"{device}{port}" for device in ("COM", "LPT") for port in _PORTS}
)
_RAW_PREFIXES: Final = ("\\\\?\\", "\\\\.\\", "\\??\\")
"""Prefixes with which Windows skips its path normalisation."""

_RETYPE_HINT: Final = "Retype the path with ordinary characters."
_RENAME_HINT: Final = "A file with such a name cannot be requested."
_FULL_PATH_HINT: Final = "Write it in full, such as C:\\project\\src, or relative to the project."


class ParsedPath(NamedTuple):
    """A path, split into anchor and names.

    `anchor` is "/", a drive, a share, or "" for a relative path. `names` contains neither "." nor empty names; ".."
    remains until `resolve_parents` has resolved it.
    """

    anchor: str
    names: tuple[str, ...]


class PathSyntax(Protocol):
    """The path syntax of one kind of system."""

    def parse(self, path: object) -> ParsedPath:
        """Parses a path. Raises ValidationError if it is invalid, PathRefusedError if it is deceptive."""
        ...

    def spell(self, place: ParsedPath) -> str:
        """Returns the normal spelling; "." for a relative path without names."""
        ...

    def fold_case(self, place: ParsedPath) -> ParsedPath:
        """Returns a form that is equal for all spellings that the system treats as the same path."""
        ...


class _Posix:
    def parse(self, path: object) -> ParsedPath:
        text = _check_text(path)
        if "\\" in text:
            _refuse(text, "has a backslash", hint="Use / between names.")
        return ParsedPath("/" if text.startswith("/") else "", _check_names(text.split("/")))

    def spell(self, place: ParsedPath) -> str:
        return place.anchor + "/".join(place.names) or "."

    def fold_case(self, place: ParsedPath) -> ParsedPath:
        return place


class _Windows:
    def parse(self, path: object) -> ParsedPath:
        text = _check_text(path)
        anchor, rest = self._split(text, text.replace("/", "\\"))
        names = _check_names(rest.split("\\"))
        for name in names:
            self.check_name(text, name)
        return ParsedPath(anchor, names)

    def spell(self, place: ParsedPath) -> str:
        return place.anchor + "\\".join(place.names) or "."

    def fold_case(self, place: ParsedPath) -> ParsedPath:
        return ParsedPath(_fold_name(place.anchor), tuple(_fold_name(name) for name in place.names))

    def check_name(self, path: str, name: str, *, hint: str = _RENAME_HINT) -> None:
        """Refuses names that Windows would not treat as an ordinary file name."""
        if name == _PARENT:
            return
        if not _FORBIDDEN_CHARS.isdisjoint(name):
            _refuse(path, f"has one of {' '.join(sorted(_FORBIDDEN_CHARS))} in a name", hint=hint)
        if name[-1] in ". ":
            _refuse(path, "has a name that ends in a dot or a blank, which Windows removes", hint=hint)
        if _fold_name(name.partition(".")[0].rstrip(" ")) in _DEVICE_NAMES:
            _refuse(path, "has the name of a device", hint=hint)
        if not _BACKSLASHES.isdisjoint(name):
            why = "has a character that some systems read as a backslash (U+00A5, U+20A9)."
            raise PathRefusedError(path, Violation.UNICODE, why, hint=hint)

    def _split(self, path: str, text: str) -> tuple[str, str]:
        """Splits off the anchor. `text` has backslashes only."""
        if text.startswith(_RAW_PREFIXES):
            _refuse(path, "starts with a prefix that bypasses Windows path rules", hint=_FULL_PATH_HINT)
        if text.startswith("\\\\"):
            server, _, rest = text[2:].partition("\\")
            share, _, rest = rest.partition("\\")
            if {server, share} & {"", ".", _PARENT}:
                _refuse(path, "does not name a share", hint="Write \\\\server\\share\\ and then the path.")
            for name in _check_names((server, share)):
                self.check_name(path, name, hint=_FULL_PATH_HINT)
            return f"\\\\{server}\\{share}\\", rest
        if text.startswith("\\"):
            _refuse(path, "is absolute, but does not name its drive", hint=_FULL_PATH_HINT)
        if _has_drive(text):
            if text[2:3] != "\\":
                _refuse(path, "is relative to the current folder of a drive", hint=_FULL_PATH_HINT)
            return f"{text[0].upper()}:\\", text[3:]
        return "", text


class _Either:
    """For a client on an unknown system: accepts what POSIX and Windows read alike. Comparison is exact."""

    _HINT: Final = "It would mean something else on Windows: the server must know the project's root to decide."

    def parse(self, path: object) -> ParsedPath:
        text = _check_text(path)
        form = syntax_of(text)
        if form is not None:
            return form.parse(text)
        place = POSIX.parse(text)
        for name in place.names:
            WINDOWS.check_name(text, name, hint=self._HINT)
        return place

    def spell(self, place: ParsedPath) -> str:
        return POSIX.spell(place)

    def fold_case(self, place: ParsedPath) -> ParsedPath:
        return place


POSIX: Final = _Posix()
WINDOWS: Final = _Windows()
EITHER: Final = _Either()


def syntax_of(path: str) -> PathSyntax | None:
    """Returns the syntax of an absolute path; None for a relative one."""
    if path.startswith("/"):
        return POSIX
    is_drive = _has_drive(path) and path[2:3] in {"\\", "/"}
    return WINDOWS if is_drive or path.startswith("\\\\") else None


def resolve_parents(start: tuple[str, ...], names: tuple[str, ...]) -> tuple[str, ...] | None:
    """Returns the names below `start` with each ".." resolved; None if they lead above the anchor."""
    if _PARENT not in names:
        return start + names
    reached = list(start)
    for name in names:
        if name != _PARENT:
            reached.append(name)
        elif reached:
            reached.pop()
        else:
            return None
    return tuple(reached)


def lies_in(place: ParsedPath, outer: ParsedPath) -> bool:
    """Whether a path equals `outer` or is beneath it. Both are case-folded and resolved."""
    return place.anchor == outer.anchor and place.names[: len(outer.names)] == outer.names


def _has_drive(text: str) -> bool:
    return text[1:2] == ":" and text[0].isascii() and text[0].isalpha()


def _refuse(path: str, why: str, *, hint: str) -> NoReturn:
    raise PathRefusedError(path, Violation.FORM, f"{why}.", hint=hint)


def _check_text(path: object) -> str:
    """Returns the path if it is a non-empty string of acceptable length and characters."""
    if not isinstance(path, str):
        raise ValidationError.of(_FIELD, "must be a string", hint="Send the path of a file or a folder.")
    if not path.strip():
        raise ValidationError.of(_FIELD, "is empty", hint="Send the path of a file or a folder.")
    check_length(path)
    if not (path.isascii() and path.isprintable()):
        for character in path:
            why = _unicode_problem(character)
            if why:
                shown = f"has a character that {why} (U+{ord(character):04X})."
                raise PathRefusedError(path, Violation.UNICODE, shown, hint=_RETYPE_HINT)
    return path


def check_length(path: str) -> None:
    """Raises ValidationError for a path that is too long for any system."""
    if len(path) * _MAX_UTF8_BYTES > MAX_PATH_BYTES and len(path.encode("utf-8", "surrogatepass")) > MAX_PATH_BYTES:
        raise ValidationError.of(_FIELD, f"is longer than {MAX_PATH_BYTES} bytes", hint="Send a shorter path.")


@lru_cache(maxsize=4_096)
def _unicode_problem(character: str) -> str:
    """Returns what is wrong with the character; empty if nothing."""
    code = ord(character)
    is_hidden = any(first <= code <= last for first, last in _INVISIBLE_RANGES) or code & 0xFFFE == 0xFFFE
    if is_hidden or unicodedata.category(character) in _INVISIBLE_CATEGORIES:
        return "is invisible"
    if character in _LOOKALIKES:
        return "looks like another character"
    plain = unicodedata.normalize("NFKC", character)
    return "some systems read as another" if plain != character and _MEANINGFUL.intersection(plain) else ""


def _check_names(parts: Iterable[str]) -> tuple[str, ...]:
    names = tuple(part for part in parts if part not in _SKIPPED)
    longest = max(map(len, names), default=0) * _MAX_UTF8_BYTES
    if longest > MAX_NAME_BYTES and any(len(name.encode()) > MAX_NAME_BYTES for name in names):
        raise ValidationError.of(
            _FIELD, f"has a name longer than {MAX_NAME_BYTES} bytes", hint="No file can have such a name."
        )
    return names


def _fold_name(name: str) -> str:
    return name.upper() if name.isascii() else "".join(_upper_if_reversible(character) for character in name)


def _upper_if_reversible(character: str) -> str:
    """Returns the upper case if it is reversible: `é` equals `É`, but a dotless i is not `I`, nor `ß` `SS`."""
    upper = character.upper()
    return upper if len(upper) == 1 and upper.lower() == character else character

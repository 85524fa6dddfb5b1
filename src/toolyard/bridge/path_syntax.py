"""How paths are spelled on POSIX and on Windows: from text to an anchor and names, and back. Touches no disk.

A client may be another machine, so that its paths are judged by their spelling alone. What means one thing to a
person, to this module and to the client's system is taken; what could mean two things is refused:

    UNICODE  characters that cannot be seen, or that are taken for a dot, a slash or a colon
    FORM     spellings that a system reads in a way of its own: devices, streams, drives without a folder

`POSIX` and `WINDOWS` are for clients whose root is known, `EITHER` for others: it takes what both would take alike.
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
"""What a character takes in UTF-8: nearly all paths are known to be short without a count."""

_FIELD: Final = "path"
_PARENT: Final = ".."
_SKIPPED: Final = frozenset({"", "."})

_INVISIBLE_CATEGORIES: Final = frozenset({"Cc", "Cf", "Co", "Cs", "Zl", "Zp"})
_INVISIBLE_RANGES: Final = (
    # What Unicode tells programs not to draw, but files under letters and marks.
    *((0x034F, 0x034F), (0x115F, 0x1160), (0x17B4, 0x17B5), (0x180B, 0x180F), (0x2065, 0x2065), (0x3164, 0x3164)),
    *((0x2800, 0x2800), (0x1D159, 0x1D159)),  # a pattern of no dots, a note without a head
    *((0xFE00, 0xFE0F), (0xFFA0, 0xFFA0), (0xFFF0, 0xFFF8), (0xE0000, 0xE0FFF)),
    (0xFDD0, 0xFDEF),  # noncharacters; the others end each plane
)
_MEANINGFUL: Final = frozenset("./\\:")
# Symbols and marks alone: letters that look like a slash (the Japanese no) belong in names.
_LOOKALIKES: Final = frozenset(
    "\u0337\u0338\u1735\u2041\u2044\u20e5\u2215\u2216\u2236\u2571\u2572\u27cb\u27cd\u29f5\u29f6\u29f8\u29f9"
    "\u2afb\u2afd\u2e4a\u31d3\u31d4\U0001d20f\U0001d23a\U0001d23b"
)
# Programs of the Japanese and the Korean Windows that know no Unicode are handed a backslash.
_BACKSLASHES: Final = frozenset("\u00a5\u20a9")

_FORBIDDEN_CHARS: Final = frozenset('<>:"|?*')
_PORTS: Final = (*"123456789", "\u00b9", "\u00b2", "\u00b3")
_DEVICE_NAMES: Final = frozenset(
    {"CON", "PRN", "AUX", "NUL", "CONIN$", "CONOUT$", "CLOCK$"}
    | {f"{device}{port}" for device in ("COM", "LPT") for port in _PORTS}
)
_RAW_PREFIXES: Final = ("\\\\?\\", "\\\\.\\", "\\??\\")
"""Prefixes with which Windows skips its own rules."""

_RETYPE_HINT: Final = "Type the path anew, with ordinary characters."
_RENAME_HINT: Final = "Only a file with another name can be asked for."
_FULL_PATH_HINT: Final = "Write it in full, such as C:\\project\\src, or relative to the project."


class ParsedPath(NamedTuple):
    """Where a path leads by its spelling.

    `anchor` is "/", a drive, a share, or "" for a relative path. `names` has neither "." nor empty ones; ".." stands
    where it was written, until `resolve_parents` has resolved it.
    """

    anchor: str
    names: tuple[str, ...]


class PathSyntax(Protocol):
    """How one kind of system spells its paths."""

    def parse(self, path: object) -> ParsedPath:
        """What a path says. Raises ValidationError for what can be no path, PathRefusedError for a trick."""
        ...

    def spell(self, place: ParsedPath) -> str:
        """The one normal spelling; "." for a relative place without names."""
        ...

    def fold_case(self, place: ParsedPath) -> ParsedPath:
        """The same for every spelling that the system takes for this one."""
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
        """Refuses what Windows would not take for the plain name of a file."""
        if name == _PARENT:
            return
        if not _FORBIDDEN_CHARS.isdisjoint(name):
            _refuse(path, f"has one of {' '.join(sorted(_FORBIDDEN_CHARS))} in a name", hint=hint)
        if name[-1] in ". ":
            _refuse(path, "has a name that ends in a dot or a blank, which Windows leaves out", hint=hint)
        if _fold_name(name.partition(".")[0].rstrip(" ")) in _DEVICE_NAMES:
            _refuse(path, "has the name of a device", hint=hint)
        if not _BACKSLASHES.isdisjoint(name):
            why = "has a character that some systems take for a backslash (U+00A5, U+20A9)."
            raise PathRefusedError(path, Violation.UNICODE, why, hint=hint)

    def _split(self, path: str, text: str) -> tuple[str, str]:
        """The anchor, and what comes after it. `text` has backslashes only."""
        if text.startswith(_RAW_PREFIXES):
            _refuse(path, "starts with a prefix that goes past the rules of Windows", hint=_FULL_PATH_HINT)
        if text.startswith("\\\\"):
            server, _, rest = text[2:].partition("\\")
            share, _, rest = rest.partition("\\")
            if {server, share} & {"", ".", _PARENT}:
                _refuse(path, "names no share", hint="Write \\\\server\\share\\ and then the path.")
            for name in _check_names((server, share)):
                self.check_name(path, name, hint=_FULL_PATH_HINT)
            return f"\\\\{server}\\{share}\\", rest
        if text.startswith("\\"):
            _refuse(path, "starts at a drive that it does not name", hint=_FULL_PATH_HINT)
        if _has_drive(text):
            if text[2:3] != "\\":
                _refuse(path, "is relative to the current folder of a drive", hint=_FULL_PATH_HINT)
            return f"{text[0].upper()}:\\", text[3:]
        return "", text


class _Either:
    """For a client of which nothing is known: what POSIX and Windows take alike. Equality is exact."""

    _HINT: Final = "It would mean something else on Windows: the server has to know the project's root to tell."

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
    """The form that an absolute path is spelled in; None for others."""
    if path.startswith("/"):
        return POSIX
    is_drive = _has_drive(path) and path[2:3] in {"\\", "/"}
    return WINDOWS if is_drive or path.startswith("\\\\") else None


def resolve_parents(start: tuple[str, ...], names: tuple[str, ...]) -> tuple[str, ...] | None:
    """Where names lead from there, each ".." one up; None when that is above everything."""
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
    """Whether a place is another, or beneath it. Both are folded and resolved."""
    return place.anchor == outer.anchor and place.names[: len(outer.names)] == outer.names


def _has_drive(text: str) -> bool:
    return text[1:2] == ":" and text[0].isascii() and text[0].isalpha()


def _refuse(path: str, why: str, *, hint: str) -> NoReturn:
    raise PathRefusedError(path, Violation.FORM, f"{why}.", hint=hint)


def _check_text(path: object) -> str:
    """The text of a path, once it can be one and shows what it is."""
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
    """Raises ValidationError for a path that no system takes."""
    if len(path) * _MAX_UTF8_BYTES > MAX_PATH_BYTES and len(path.encode("utf-8", "surrogatepass")) > MAX_PATH_BYTES:
        raise ValidationError.of(_FIELD, f"is longer than {MAX_PATH_BYTES} bytes", hint="Send a shorter path.")


@lru_cache(maxsize=4_096)
def _unicode_problem(character: str) -> str:
    """What is wrong with it, or nothing."""
    code = ord(character)
    is_hidden = any(first <= code <= last for first, last in _INVISIBLE_RANGES) or code & 0xFFFE == 0xFFFE
    if is_hidden or unicodedata.category(character) in _INVISIBLE_CATEGORIES:
        return "cannot be seen"
    if character in _LOOKALIKES:
        return "looks like another"
    plain = unicodedata.normalize("NFKC", character)
    return "some systems take for another" if plain != character and _MEANINGFUL.intersection(plain) else ""


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
    """Its upper case where that leads back: `é` and `É` are one, a dotless i and `I`, or `ß` and `SS`, are not."""
    upper = character.upper()
    return upper if len(upper) == 1 and upper.lower() == character else character

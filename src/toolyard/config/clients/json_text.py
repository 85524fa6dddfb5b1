"""Sets or removes one member of a JSON text and preserves every other byte, comments and trailing commas included.

The text is scanned token by token and never reserialised. It must be text that `parse_jsonc` accepts; the caller
(`entry_editor`) verifies the result.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, cast

_TOKEN: Final = re.compile(
    r'(?P<string>"[^"\\]*+(?>(?:\\.[^"\\]*+)*)")'
    r"|(?P<comment>//[^\n]*?(?=\r?\n|\Z)|/\*.*?(?:\*/|\Z))"
    r'|(?P<mark>[{}\[\]:,])|(?P<word>[^\s{}\[\]:,"/]+|.)',
    re.DOTALL,
)
_SPACE: Final = re.compile(r"\s*+")
_LINE_END: Final = re.compile(r"[ \t]*+(?:\r?\n|\Z)")
_INDENT: Final = "  "


class LayoutError(ValueError):
    """The text has a layout that cannot be edited here."""


@dataclass(slots=True)
class _Member:
    key: str
    before: int
    """The end of the token or comment before the key."""
    start: int
    follows_line: bool
    """Whether that token is a comment that extends to the end of its line."""
    value: int = -1
    end: int = -1
    comma: int = -1


@dataclass(slots=True)
class _Object:
    start: int
    end: int = -1
    """The position of its closing bracket."""
    tail: int = -1
    """The end of the last token before that bracket."""
    members: list[_Member] = field(default_factory=list[_Member])

    def find_member(self, key: str) -> _Member | None:
        """Returns the member of that name; the last one if there are several, as in other parsers."""
        return next((each for each in reversed(self.members) if each.key == key), None)


def with_member(text: str, path: Sequence[str], value: Any) -> str:
    """Returns `text` with `value` at `path`; missing objects on the way are created."""
    if not text.strip():
        return f"{_dump_json(_nest_value(path, value), _INDENT)}{detect_newline(text)}"
    here, depth, found = _find_deepest_object(text, path)
    if found is not None:
        is_one_line = "\n" not in text[found.value : found.end]
        dumped = json.dumps(value, ensure_ascii=False)
        shown = (
            dumped if is_one_line else _render_value(value, text, _line_indent(text, found.start), _indent_unit(text))
        )
        return f"{text[: found.value]}{shown}{text[found.end :]}"
    return _insert_member(text, here, path[depth], _nest_value(path[depth + 1 :], value))


def without_member(text: str, path: Sequence[str]) -> str:
    """Returns `text` without the member at `path`."""
    here, _, found = _find_deepest_object(text, path)
    if found is None:
        return text
    number = next(at for at, each in enumerate(here.members) if each is found)
    head, rest, close = text[: found.before], text[found.end :], here.end - found.end
    if found.comma >= 0:
        rest, close = text[found.end : found.comma] + text[found.comma + 1 :], close - 1
    elif number:
        # The previous member is now the last one, so its comma is removed.
        comma = here.members[number - 1].comma
        head = head[:comma] + head[comma + 1 :]
    if found.follows_line and not _LINE_END.match(rest):
        head += detect_newline(text)  # otherwise the rest of the line would become part of the comment
    if len(here.members) == 1 and not (head[here.start + 1 :] + rest[:close]).strip():
        return head[: here.start + 1] + rest[close:]
    return head + rest


def detect_newline(text: str) -> str:
    """Returns the line ending that the text uses."""
    return "\r\n" if "\r\n" in text else "\n"


def _insert_member(text: str, here: _Object, key: str, value: Any) -> str:
    unit = _indent_unit(text)
    if here.members:
        last = here.members[-1]
        is_one_line = "\n" not in text[here.start : here.end]
        closing = last.comma >= 0
        if is_one_line:
            spaced = text[last.value - 1].isspace()
            shown = _render_one_line(key, value, spaced=spaced)
            gap = " " if spaced else ""
            if closing:
                return f"{text[: here.tail]}{gap}{shown},{text[here.tail :]}"
            return f"{text[: last.end]},{gap}{shown}{text[last.end :]}"
        indent = _line_indent(text, last.start)
        shown = f"{detect_newline(text)}{indent}{_json_string(key)}: {_render_value(value, text, indent, unit)}"
        if closing:
            return f"{text[: here.tail]}{shown},{text[here.tail :]}"
        return f"{text[: last.end]},{text[last.end : here.tail]}{shown}{text[here.tail :]}"
    if "\n" not in text.strip() and text[: here.start].strip():
        return f"{text[: here.tail]}{_render_one_line(key, value, spaced=': ' in text)}{text[here.end :]}"
    outer = _line_indent(text, here.start)
    shown = (
        f"{detect_newline(text)}{outer}{unit}{_json_string(key)}: {_render_value(value, text, outer + unit, unit)}"
    )
    if text[here.start + 1 : here.end].strip():
        return f"{text[: here.tail]}{shown}{text[here.tail :]}"
    return f"{text[: here.tail]}{shown}{detect_newline(text)}{outer}{text[here.end :]}"


def _find_deepest_object(text: str, path: Sequence[str]) -> tuple[_Object, int, _Member | None]:
    """Returns the innermost existing object on the path, its depth, and the member at the path's end."""
    at = next((each.start() for each in _tokens(text, 0) if each.lastgroup != "comment"), len(text))
    here = _parse_object(text, at)
    for depth, key in enumerate(path):
        member = here.find_member(key)
        if member is None or depth == len(path) - 1:
            return here, depth, member
        here = _parse_object(text, member.value)
    raise LayoutError("no path was given")


def _parse_object(text: str, start: int) -> _Object:
    """Parses the object that begins at `start` with its direct members; nested values are skipped."""
    if text[start : start + 1] != "{":
        raise LayoutError("an object was expected")
    here = _Object(start)
    depth, before, member = 0, None, None
    for found in _tokens(text, start):
        piece, kind = found[0], found.lastgroup
        if piece in ("}", "]") and kind == "mark":
            depth -= 1
            if depth == 0:
                here.end, here.tail = found.start(), before.end() if before else start + 1
                return here
        if depth == 1 and kind != "comment" and before is not None:
            member = _parse_member_token(here, member, found, before)
        if piece in ("{", "[") and kind == "mark":
            depth += 1
        before = found
    raise LayoutError("a bracket is never closed")


def _parse_member_token(
    here: _Object, member: _Member | None, found: re.Match[str], before: re.Match[str]
) -> _Member | None:
    """Processes one token inside the object `here` and returns the member in progress after it."""
    piece = found[0]
    if member is None:
        if found.lastgroup != "string":
            raise LayoutError("a name was expected")
        name = cast("str", json.loads(piece, strict=False))
        member = _Member(name, before.end(), found.start(), follows_line=before[0].startswith("//"))
        here.members.append(member)
    elif piece == "," and found.lastgroup == "mark":
        member.comma = found.start()
        return None
    elif piece != ":" or found.lastgroup != "mark":
        member.value = found.start() if member.value < 0 else member.value
        member.end = found.end()
    return member


def _tokens(text: str, start: int) -> Iterator[re.Match[str]]:
    at = start
    while True:
        space = _SPACE.match(text, at)
        at = space.end() if space else at
        found = _TOKEN.match(text, at)
        if found is None:
            return
        yield found
        at = found.end()


def _nest_value(path: Sequence[str], value: Any) -> Any:
    for key in reversed(path):
        value = {key: value}
    return value


def _indent_unit(text: str) -> str:
    """Returns the text's indentation step, from the first evenly indented line; comment lines only as a fallback."""
    depth, end, beside_comment = 0, 0, ""
    for found in _tokens(text, 0):
        is_mark = found.lastgroup == "mark"
        if is_mark and found[0] in "}]":
            depth -= 1
        _, newline, indent = text[end : found.start()].rpartition("\n")
        if newline and indent and depth > 0 and len(indent) % depth == 0:
            unit = indent[: len(indent) // depth]
            if found.lastgroup != "comment":
                return unit
            beside_comment = beside_comment or unit
        if is_mark and found[0] in "{[":
            depth += 1
        end = found.end()
    return beside_comment or _INDENT


def _line_indent(text: str, at: int) -> str:
    begins = text.rfind("\n", 0, at) + 1
    found = re.match(r"[ \t]*", text[begins:at])
    return found[0] if found else ""


def _render_value(value: Any, text: str, indent: str, unit: str) -> str:
    return _dump_json(value, unit).replace("\n", f"{detect_newline(text)}{indent}")


def _render_one_line(key: str, value: Any, *, spaced: bool) -> str:
    separators = (", ", ": ") if spaced else (",", ":")
    return f"{_json_string(key)}{separators[1]}{json.dumps(value, ensure_ascii=False, separators=separators)}"


def _dump_json(value: Any, unit: str) -> str:
    return json.dumps(value, ensure_ascii=False, indent=unit)


def _json_string(value: str) -> str:
    return json.dumps(value, ensure_ascii=False)

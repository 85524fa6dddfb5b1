"""The values that the words of a command have when it runs, as far as the text tells them.

Tilde, braces, variables and quotes are expanded as bash does it; globs are left as patterns. A word of which some
part is unknown has no value.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from itertools import groupby, islice, pairwise
from typing import TYPE_CHECKING, Final

from toolyard.policy.analysis.tree import Fragment, Word

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from toolyard.policy.analysis.shell import Shell

MAX_VALUES: Final = 64
"""Of one word. What has more (`{a,b}{c,d}{...`) is not followed any further."""
MAX_CHARS: Final = 8_192
"""Of one value: no path is longer."""
_MAX_BRACES: Final = 8
_MAGIC: Final = re.compile(r"([*?\[])")
_VARIABLE: Final = re.compile(r"\$(?:(?P<bare>\w+)|\{(?P<name>\w+)(?P<operation>:?[-=?][^{}$`'\"]*)?\})")
_WORKING_FOLDER: Final = frozenset({"$(pwd)", "`pwd`", "$(pwd -P)", "$(realpath .)", "$(readlink -f .)"})
_TOP_FOLDER: Final = frozenset({"$(git rev-parse --show-toplevel)", "`git rev-parse --show-toplevel`"})
_LISTINGS: Final = {
    spelling.format(command): found
    for command, found in {"ls": "*", "ls .": "*", "ls -A": "* .*", "ls -a": "* .*"}.items()
    for spelling in ("$({})", "`{}`")
}
TOP: Final = "top of the repository"
"""Holds the top folder of the repository around the shell. With blanks, so that no text assigns it."""


@dataclass(frozen=True, slots=True)
class Value:
    text: str
    is_pattern: bool = False
    """Whether `text` is a pattern, in which a bracket stands around each character that only looks like one."""

    def as_word(self) -> Word:
        if not self.is_pattern:
            return Word(self.text)
        # A file that `*` finds may look like an option; here it is read as a file.
        return Word(self.text, literal=False, globs=True, head=_MAGIC.split(self.text, maxsplit=1)[0] or "./")


def values_of(word: Word, shell: Shell) -> tuple[Value, ...]:
    """Every word that this one may become. Empty when it becomes none, or when nothing of it is known."""
    fragments = word.fragments or (Fragment(word.text, quoted=True),)
    found: dict[Value, None] = {}
    for tokens in islice(_without_braces(_tokens(fragments)), MAX_VALUES):
        found.update(dict.fromkeys(_fields(tokens, shell)))
    return tuple(islice(found, MAX_VALUES))


def is_known(word: Word, shell: Shell) -> bool:
    """Whether every expansion in it has a value that is known. `$UNSET` is known to be nothing."""
    return all(_expansion(part, shell) is not None for part in word.fragments if part.expands)


def _tokens(fragments: Iterable[Fragment]) -> list[Fragment]:
    """The same, with one fragment for each unquoted character."""
    found: list[Fragment] = []
    for fragment in fragments:
        if fragment.quoted or fragment.expands:
            found.append(fragment)
        else:
            found.extend(Fragment(char, quoted=False) for char in fragment.text)
    return found


def _without_braces(tokens: Sequence[Fragment]) -> Iterator[list[Fragment]]:
    """`a{b,c}` as `ab` and `ac`. The first pair with a comma is taken apart, then what comes of it."""
    opening = [at for at, token in enumerate(tokens) if _is(token, "{")]
    for start in opening if len(opening) <= _MAX_BRACES else ():
        depth, cuts = 0, [start]
        for at in range(start, len(tokens)):
            depth += _is(tokens[at], "{") - _is(tokens[at], "}")
            if depth == 1 and _is(tokens[at], ","):
                cuts.append(at)
            elif depth == 0:
                if len(cuts) > 1:
                    cuts.append(at)
                    for left, right in pairwise(cuts):
                        yield from _without_braces([*tokens[:start], *tokens[left + 1 : right], *tokens[at + 1 :]])
                    return
                break
    yield list(tokens)


def _is(token: Fragment, char: str) -> bool:
    return token.text == char and not token.quoted and not token.expands


def _fields(tokens: list[Fragment], shell: Shell) -> Iterator[Value]:
    """The words that bash makes of one word: none, one, or several where an unquoted value has blanks."""
    # Each way to expand it: the words that are complete, and the one under way (None: nothing was put in it).
    ways: list[tuple[list[Value], Value | None]] = [([], None)]
    for token in _merged(_without_tilde(tokens)):
        choices = _expansion(token, shell) if token.expands else (token.text,)
        if choices is None:
            return
        ways = [_with(way, text, token) for way in ways for text in choices][:MAX_VALUES]
        if any(last is not None and len(last.text) > MAX_CHARS for _, last in ways):
            return
    for done, last in ways:
        yield from done
        if last is not None:
            yield last


def _merged(tokens: Iterable[Fragment]) -> Iterator[Fragment]:
    """The same, with the unquoted characters that follow one another in one fragment again."""
    for (quoted, expands), run in groupby(tokens, lambda token: (token.quoted, token.expands)):
        if quoted or expands:
            yield from run
        else:
            yield Fragment("".join(token.text for token in run), quoted=False)


def _with(way: tuple[list[Value], Value | None], text: str, token: Fragment) -> tuple[list[Value], Value | None]:
    done, last = way
    if token.quoted:
        return done, _joined(last, text, is_pattern=False)
    if not token.expands:
        return done, _joined(last, text, is_pattern=bool(_MAGIC.search(text)))
    pieces = text.split()
    for number, piece in enumerate(pieces):
        if last is not None and (number or text[:1].isspace()):
            done, last = [*done, last], None
        last = _joined(last, piece, is_pattern=bool(_MAGIC.search(piece)))
    if last is not None and pieces and text[-1:].isspace():
        done, last = [*done, last], None
    return done, last


def _joined(value: Value | None, text: str, *, is_pattern: bool) -> Value:
    before = value or Value("")
    if is_pattern and not before.is_pattern:
        before = Value(_MAGIC.sub(r"[\1]", before.text), is_pattern=True)
    elif before.is_pattern and not is_pattern:
        text = _MAGIC.sub(r"[\1]", text)
    return Value(before.text + text, before.is_pattern)


def _without_tilde(tokens: list[Fragment]) -> list[Fragment]:
    if not tokens or not _is(tokens[0], "~"):
        return tokens
    end = next((at for at, token in enumerate(tokens) if _is(token, "/")), len(tokens))
    name = "".join(token.text for token in tokens[1:end])
    if not all(len(token.text) == 1 and not token.quoted for token in tokens[:end]):
        return tokens
    if name in {"", "+"}:
        return [Fragment("$HOME" if not name else "$PWD", quoted=True, expands=True), *tokens[end:]]
    home = "/root" if name == "root" else f"/home/{name}"
    return [Fragment(home, quoted=True), *tokens[end:]]


def _expansion(fragment: Fragment, shell: Shell) -> tuple[str, ...] | None:
    if fragment.text in _WORKING_FOLDER:
        return shell.value("PWD")
    if fragment.text in _TOP_FOLDER:
        return shell.variables.get(TOP)
    if fragment.text in _LISTINGS and not fragment.quoted:
        return (_LISTINGS[fragment.text],)
    found = _VARIABLE.fullmatch(fragment.text)
    if found is None:
        return None
    known = shell.value(found["bare"] or found["name"])
    operation = (found["operation"] or "").removeprefix(":")
    if known is None or not operation:
        return known
    # `${x:?}` never runs with an empty value.
    instead = () if operation.startswith("?") else (operation[1:],)
    return tuple(dict.fromkeys(choice for value in known for choice in ((value,) if value else instead))) or None

"""The values that the words of a command have when it runs, as far as the text tells them.

Tilde, braces, variables and quotes are expanded as bash does it; globs are left as patterns. A word of which some
part is unknown has no value.
"""

from __future__ import annotations

import re
from dataclasses import replace
from itertools import groupby, islice, pairwise
from typing import TYPE_CHECKING, Final

from toolyard.policy.shell.ast import Fragment, ParseFailure, Word
from toolyard.policy.shell.destruction_targets import printed_by
from toolyard.policy.shell.parser import parse
from toolyard.policy.shell.shell_state import EMPTY, Value

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from toolyard.policy.shell.ast import Simple
    from toolyard.policy.shell.shell_state import Shell, Values

MAX_VALUES: Final = 64
"""Of one word. What has more (`{a,b}{c,d}{...`) is not followed any further."""
MAX_CHARS: Final = 8_192
"""Of one value: no path is longer."""
_MAX_BRACES: Final = 8
_MAGIC: Final = re.compile(r"([*?\[])")
_VARIABLE: Final = re.compile(
    r"\$(?:(?P<bare>\w+|[@*])|\{(?P<name>\w+|[@*])(?::?(?P<operation>[-=?+])(?P<word>.*)|(?P<edit>(?:[%#/^,]|:\d).*))?\})"
)
_EDITS: Final[dict[str, Callable[[str], str]]] = {
    "%/": lambda text: text.removesuffix("/"),
    "%/*": lambda text: text.rpartition("/")[0] if "/" in text else text,
    "##*/": lambda text: text.rpartition("/")[2],
}
"""What `${x%/}` and its like make of a value. Nothing comes of nothing, whatever the edit is."""
_SUBSTITUTION: Final = re.compile(r"\$\((?P<modern>[^()`]*)\)|`(?P<old>[^()`]*)`")
_IN_DEFAULT: Final = re.compile(r"\$\w+|\$\{[^{}]*\}|\A~(?=/|\Z)|[^$`{}\"'\\]+")
_WORKING_FOLDER: Final = frozenset({"$(pwd)", "`pwd`", "$(pwd -P)", "$(realpath .)", "$(readlink -f .)"})
_TOP_FOLDER: Final = frozenset({"$(git rev-parse --show-toplevel)", "`git rev-parse --show-toplevel`"})
TOP: Final = "top of the repository"
"""Holds the top folder of the repository around the shell. With blanks, so that no text assigns it."""


def resolved(simple: Simple, shell: Shell) -> Simple:
    """The command with every word replaced by the values it has, where the text tells them."""
    words = [value for word in simple.words for value in _resolved_word(word, shell)]
    redirections = tuple(
        replace(one, target=(_resolved_word(one.target, shell) or (one.target,))[0]) if one.target else one
        for one in simple.redirections
    )
    if not words:
        return replace(simple, program=None, arguments=(), redirections=redirections)
    return replace(simple, program=words[0], arguments=tuple(words[1:]), redirections=redirections)


def _resolved_word(word: Word, shell: Shell) -> tuple[Word, ...]:
    values = values_of(word, shell)
    if not values and not is_known(word, shell):
        return (word,)
    return tuple(map(_as_word, values))


def _as_word(value: Value) -> Word:
    if not value.is_pattern:
        return Word(value.text, deep=value.is_deep)
    # A file that `*` finds may look like an option; here it is read as a file.
    return Word(value.text, literal=False, globs=True, head=_MAGIC.split(value.text, maxsplit=1)[0] or "./")


def value_of(word: Word) -> Value | None:
    """The value of a word that was resolved; None when it is unknown."""
    return Value(word.text, word.globs, word.deep) if word.literal or word.globs else None


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
        choices = _expansion(token, shell) if token.expands else (Value(token.text),)
        if choices is None:
            return
        ways = [_with(way, value, token) for way in ways for value in choices][:MAX_VALUES]
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


def _with(way: tuple[list[Value], Value | None], value: Value, token: Fragment) -> tuple[list[Value], Value | None]:
    done, last = way
    text = value.text
    if value.is_pattern or value.is_deep:  # names of files that were found, which are not expanded again
        return done, replace(_joined(last, text, is_pattern=value.is_pattern), is_deep=value.is_deep)
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
    before = value or EMPTY
    if is_pattern and not before.is_pattern:
        before = Value(_MAGIC.sub(r"[\1]", before.text), is_pattern=True)
    elif before.is_pattern and not is_pattern:
        text = _MAGIC.sub(r"[\1]", text)
    return Value(before.text + text, before.is_pattern, before.is_deep and not text)


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


def _expansion(fragment: Fragment, shell: Shell) -> Values | None:
    if fragment.text in _WORKING_FOLDER:
        return shell.value("PWD")
    if fragment.text in _TOP_FOLDER:
        return shell.variables.get(TOP)
    if found := _VARIABLE.fullmatch(fragment.text):
        return _variable(found, shell)
    found = _SUBSTITUTION.fullmatch(fragment.text)
    # In quotes, the whole output would be one name.
    return None if found is None or fragment.quoted else _listed(found["modern"] or found["old"] or "", shell)


def _variable(found: re.Match[str], shell: Shell) -> Values | None:
    known = shell.value(found["bare"] or found["name"])
    operation = found["operation"]
    if known is not None and found["edit"]:
        return _edited(known, found["edit"])
    if known is None or not operation:
        return known
    if operation == "+":
        return _default(found["word"], shell) if any(value.text for value in known) else (EMPTY,)
    if all(value.text for value in known):
        return known
    # `${x:?}` never runs with an empty value.
    instead = () if operation == "?" else _default(found["word"], shell)
    if instead is None:
        return None
    return tuple(dict.fromkeys((*(value for value in known if value.text), *instead))) or None


def _edited(values: Values, edit: str) -> Values | None:
    """What is known of the values after an edit; None where that is nothing."""
    if change := _EDITS.get(edit):
        return tuple(replace(value, text=change(value.text)) for value in values)
    return tuple(value for value in values if not value.text) or None


def _default(text: str, shell: Shell) -> Values | None:
    """What stands for an empty variable, as in `${x:-$HOME/y}`."""
    quoteless = text.replace('"', "")
    pieces = _IN_DEFAULT.findall(quoteless)
    if "".join(pieces) != quoteless:
        return None
    found: list[str] = [""]
    for piece in pieces:
        if piece == "~":
            choices: Values | None = shell.value("HOME")
        elif match := _VARIABLE.fullmatch(piece):
            choices = shell.value(match["bare"] or match["name"]) if not match["operation"] else None
        else:
            choices = (Value(piece),)
        if choices is None:
            return None
        found = [before + choice.text for before in found for choice in choices][:MAX_VALUES]
    return tuple(map(Value, found))


def _listed(text: str, shell: Shell) -> Values | None:
    """The files that `ls` or `find` prints."""
    try:
        commands = parse(text).commands
    except ParseFailure:
        return None
    words = printed_by(resolved(commands[0], shell)) if len(commands) == 1 else []
    values = tuple(value for word in words if (value := value_of(word)))
    return values if words and len(values) == len(words) else None

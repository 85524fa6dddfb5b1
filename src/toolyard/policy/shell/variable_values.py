"""Computes the values of a command's words at run time, as far as the text shows them.

Tilde, braces, variables and quotes are expanded as in bash; globs remain patterns. A word with an unknown part has no
value.
"""

from __future__ import annotations

import re
from dataclasses import replace
from itertools import groupby, islice, pairwise
from typing import TYPE_CHECKING, Final

from toolyard.policy.shell.ast import Fragment, ParseFailure, Word
from toolyard.policy.shell.destruction_targets import printed_words
from toolyard.policy.shell.parser import parse_script
from toolyard.policy.shell.shell_state import EMPTY, ShellValue

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from toolyard.policy.shell.ast import SimpleCommand
    from toolyard.policy.shell.shell_state import ShellState, ShellValues

MAX_VALUES: Final = 64
"""Maximum number of values of one word; further ones (`{a,b}{c,d}{...`) are ignored."""
MAX_CHARS: Final = 8_192
"""Maximum length of one value: no path is longer."""
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
"""The supported edits, such as `${x%/}`. Any edit of an empty value is empty."""
_SUBSTITUTION: Final = re.compile(r"\$\((?P<modern>[^()`]*)\)|`(?P<old>[^()`]*)`")
_IN_DEFAULT: Final = re.compile(r"\$\w+|\$\{[^{}]*\}|\A~(?=/|\Z)|[^$`{}\"'\\]+")
_WORKING_FOLDER: Final = frozenset({"$(pwd)", "`pwd`", "$(pwd -P)", "$(realpath .)", "$(readlink -f .)"})
_TOP_FOLDER: Final = frozenset({"$(git rev-parse --show-toplevel)", "`git rev-parse --show-toplevel`"})
REPOSITORY_TOP: Final = "top of the repository"
"""Pseudo-variable with the top folder of the repository. Its name has blanks, so that no script can assign it."""


def resolve_command(simple: SimpleCommand, shell: ShellState) -> SimpleCommand:
    """Returns the command with every word replaced by its values, as far as they are known."""
    words = [value for word in simple.words for value in _resolve_word(word, shell)]
    redirections = tuple(
        replace(one, target=(_resolve_word(one.target, shell) or (one.target,))[0]) if one.target else one
        for one in simple.redirections
    )
    if not words:
        return replace(simple, program=None, arguments=(), redirections=redirections)
    return replace(simple, program=words[0], arguments=tuple(words[1:]), redirections=redirections)


def _resolve_word(word: Word, shell: ShellState) -> tuple[Word, ...]:
    values = word_values(word, shell)
    if not values and not is_known(word, shell):
        return (word,)
    return tuple(map(_as_word, values))


def _as_word(value: ShellValue) -> Word:
    if not value.is_pattern:
        return Word(value.text, deep=value.is_deep)
    # A file that `*` matches may look like an option; here it is treated as a file.
    return Word(value.text, literal=False, globs=True, head=_MAGIC.split(value.text, maxsplit=1)[0] or "./")


def resolved_value(word: Word) -> ShellValue | None:
    """Returns the value of a resolved word; None if it is unknown."""
    return ShellValue(word.text, word.globs, word.deep) if word.literal or word.globs else None


def word_values(word: Word, shell: ShellState) -> tuple[ShellValue, ...]:
    """Returns every word that this one may expand to. Empty if it expands to nothing or is unknown."""
    fragments = word.fragments or (Fragment(word.text, quoted=True),)
    found: dict[ShellValue, None] = {}
    for tokens in islice(_expand_braces(_split_unquoted(fragments)), MAX_VALUES):
        found.update(dict.fromkeys(_split_fields(tokens, shell)))
    return tuple(islice(found, MAX_VALUES))


def is_known(word: Word, shell: ShellState) -> bool:
    """Whether the values of all expansions in the word are known. `$UNSET` is known to be empty."""
    return all(_expansion_values(part, shell) is not None for part in word.fragments if part.expands)


def _split_unquoted(fragments: Iterable[Fragment]) -> list[Fragment]:
    """Splits unquoted fragments into one fragment per character."""
    found: list[Fragment] = []
    for fragment in fragments:
        if fragment.quoted or fragment.expands:
            found.append(fragment)
        else:
            found.extend(Fragment(char, quoted=False) for char in fragment.text)
    return found


def _expand_braces(tokens: Sequence[Fragment]) -> Iterator[list[Fragment]]:
    """Expands `a{b,c}` to `ab` and `ac`: the first pair with a comma, then recursively the results."""
    opening = [at for at, token in enumerate(tokens) if _is_unquoted(token, "{")]
    for start in opening if len(opening) <= _MAX_BRACES else ():
        depth, cuts = 0, [start]
        for at in range(start, len(tokens)):
            depth += _is_unquoted(tokens[at], "{") - _is_unquoted(tokens[at], "}")
            if depth == 1 and _is_unquoted(tokens[at], ","):
                cuts.append(at)
            elif depth == 0:
                if len(cuts) > 1:
                    cuts.append(at)
                    for left, right in pairwise(cuts):
                        yield from _expand_braces([*tokens[:start], *tokens[left + 1 : right], *tokens[at + 1 :]])
                    return
                break
    yield list(tokens)


def _is_unquoted(token: Fragment, char: str) -> bool:
    return token.text == char and not token.quoted and not token.expands


def _split_fields(tokens: list[Fragment], shell: ShellState) -> Iterator[ShellValue]:
    """Yields the words that bash makes of one word: several if an unquoted value contains blanks, or none."""
    # Each way to expand it: the complete words, and the word in progress (None: nothing was added to it).
    ways: list[tuple[list[ShellValue], ShellValue | None]] = [([], None)]
    for token in _merge_unquoted(_expand_tilde(tokens)):
        choices = _expansion_values(token, shell) if token.expands else (ShellValue(token.text),)
        if choices is None:
            return
        ways = [_append_value(way, value, token) for way in ways for value in choices][:MAX_VALUES]
        if any(last is not None and len(last.text) > MAX_CHARS for _, last in ways):
            return
    for done, last in ways:
        yield from done
        if last is not None:
            yield last


def _merge_unquoted(tokens: Iterable[Fragment]) -> Iterator[Fragment]:
    """Joins adjacent unquoted characters into one fragment again."""
    for (quoted, expands), run in groupby(tokens, lambda token: (token.quoted, token.expands)):
        if quoted or expands:
            yield from run
        else:
            yield Fragment("".join(token.text for token in run), quoted=False)


def _append_value(
    way: tuple[list[ShellValue], ShellValue | None], value: ShellValue, token: Fragment
) -> tuple[list[ShellValue], ShellValue | None]:
    done, last = way
    text = value.text
    if value.is_pattern or value.is_deep:  # names of matched files, which are not expanded again
        return done, replace(_append_text(last, text, is_pattern=value.is_pattern), is_deep=value.is_deep)
    if token.quoted:
        return done, _append_text(last, text, is_pattern=False)
    if not token.expands:
        return done, _append_text(last, text, is_pattern=bool(_MAGIC.search(text)))
    pieces = text.split()
    for number, piece in enumerate(pieces):
        if last is not None and (number or text[:1].isspace()):
            done, last = [*done, last], None
        last = _append_text(last, piece, is_pattern=bool(_MAGIC.search(piece)))
    if last is not None and pieces and text[-1:].isspace():
        done, last = [*done, last], None
    return done, last


def _append_text(value: ShellValue | None, text: str, *, is_pattern: bool) -> ShellValue:
    before = value or EMPTY
    if is_pattern and not before.is_pattern:
        before = ShellValue(_MAGIC.sub(r"[\1]", before.text), is_pattern=True)
    elif before.is_pattern and not is_pattern:
        text = _MAGIC.sub(r"[\1]", text)
    return ShellValue(before.text + text, before.is_pattern, before.is_deep and not text)


def _expand_tilde(tokens: list[Fragment]) -> list[Fragment]:
    if not tokens or not _is_unquoted(tokens[0], "~"):
        return tokens
    end = next((at for at, token in enumerate(tokens) if _is_unquoted(token, "/")), len(tokens))
    name = "".join(token.text for token in tokens[1:end])
    if not all(len(token.text) == 1 and not token.quoted for token in tokens[:end]):
        return tokens
    if name in {"", "+"}:
        return [Fragment("$HOME" if not name else "$PWD", quoted=True, expands=True), *tokens[end:]]
    home = "/root" if name == "root" else f"/home/{name}"
    return [Fragment(home, quoted=True), *tokens[end:]]


def _expansion_values(fragment: Fragment, shell: ShellState) -> ShellValues | None:
    if fragment.text in _WORKING_FOLDER:
        return shell.variable_values("PWD")
    if fragment.text in _TOP_FOLDER:
        return shell.variables.get(REPOSITORY_TOP)
    if found := _VARIABLE.fullmatch(fragment.text):
        return _variable_values(found, shell)
    found = _SUBSTITUTION.fullmatch(fragment.text)
    # In quotes, the whole output is one word.
    return None if found is None or fragment.quoted else _listed_files(found["modern"] or found["old"] or "", shell)


def _variable_values(found: re.Match[str], shell: ShellState) -> ShellValues | None:
    known = shell.variable_values(found["bare"] or found["name"])
    operation = found["operation"]
    if known is not None and found["edit"]:
        return _apply_edit(known, found["edit"])
    if known is None or not operation:
        return known
    if operation == "+":
        return _default_values(found["word"], shell) if any(value.text for value in known) else (EMPTY,)
    if all(value.text for value in known):
        return known
    # With `${x:?}` and an empty value the command does not run.
    instead = () if operation == "?" else _default_values(found["word"], shell)
    if instead is None:
        return None
    return tuple(dict.fromkeys((*(value for value in known if value.text), *instead))) or None


def _apply_edit(values: ShellValues, edit: str) -> ShellValues | None:
    """Returns the known values after an edit; None if there are none."""
    if change := _EDITS.get(edit):
        return tuple(replace(value, text=change(value.text)) for value in values)
    return tuple(value for value in values if not value.text) or None


def _default_values(text: str, shell: ShellState) -> ShellValues | None:
    """Returns the values that replace an empty variable, as in `${x:-$HOME/y}`."""
    quoteless = text.replace('"', "")
    pieces = _IN_DEFAULT.findall(quoteless)
    if "".join(pieces) != quoteless:
        return None
    found: list[str] = [""]
    for piece in pieces:
        if piece == "~":
            choices: ShellValues | None = shell.variable_values("HOME")
        elif match := _VARIABLE.fullmatch(piece):
            choices = shell.variable_values(match["bare"] or match["name"]) if not match["operation"] else None
        else:
            choices = (ShellValue(piece),)
        if choices is None:
            return None
        found = [before + choice.text for before in found for choice in choices][:MAX_VALUES]
    return tuple(map(ShellValue, found))


def _listed_files(text: str, shell: ShellState) -> ShellValues | None:
    """Returns the files that an `ls` or `find` command prints; None if they are unknown."""
    try:
        commands = parse_script(text).commands
    except ParseFailure:
        return None
    words = printed_words(resolve_command(commands[0], shell)) if len(commands) == 1 else []
    values = tuple(value for word in words if (value := resolved_value(word)))
    return values if words and len(values) == len(words) else None

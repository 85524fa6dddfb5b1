"""The syntax tree of a command as frozen data, produced by `parser.py`."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Final

_NEEDS_NO_QUOTES: Final = re.compile(r"[\w@%+=:,./~^{}!\[\]-]+")


class ParseFailure(Exception):  # noqa: N818 - named for its meaning; it signals a parse result, not a program error
    """The text cannot be parsed reliably; the message says why in a few words."""


@dataclass(frozen=True, slots=True)
class Fragment:
    """A part of a word: literal text, or an expansion as written (`$x`, `${x:-y}`, `$(pwd)`)."""

    text: str
    quoted: bool
    """Whether quotes or a backslash prevent word splitting and glob and brace expansion."""
    expands: bool = False


@dataclass(frozen=True, slots=True)
class Word:
    """One word of a command, as far as its value is known without running anything."""

    text: str
    """Without quotes and backslashes if literal; otherwise as written."""
    literal: bool = True
    """Whether `text` is exactly what the program receives."""
    head: str = ""
    """The known beginning of a word that is not literal."""
    splits: bool = False
    """Whether it may become several words: an unquoted `$x`, `{a,b}`, `"$@"`."""
    globs: bool = False
    """Whether it is not literal only because of `*`, `?` or `[`."""
    deep: bool = field(default=False, compare=False, repr=False)
    """Whether it means every file below `text`, one by one, as `find` prints them."""
    fragments: tuple[Fragment, ...] = field(default=(), compare=False, repr=False)
    """The fragments of the word, in order; empty if the word was not parsed from text."""

    @property
    def may_be_option(self) -> bool:
        if self.literal:
            return self.text.startswith("-")
        return self.splits or not self.head or self.head.startswith("-")

    @property
    def display_text(self) -> str:
        """The word as it could be typed, quoted if it has blanks or special characters."""
        if not self.literal or _NEEDS_NO_QUOTES.fullmatch(self.text):
            return self.text
        return "'" + self.text.replace("'", "'\"'\"'") + "'"


@dataclass(frozen=True, slots=True)
class Assignment:
    """The assignment of a shell variable, or the variable of a `for` loop."""

    name: str
    value: Word | None
    """None if the value is not a single word, such as an array."""
    choices: tuple[Word, ...] = field(default=(), compare=False, repr=False)
    """The words that a `for` loop iterates over."""


@dataclass(frozen=True, slots=True)
class Redirection:
    """A redirection of a command's input or output."""

    operator: str
    target: Word | None
    """None for a closed descriptor and for a here-document."""
    body: str = field(default="", compare=False, repr=False)
    """The text of a here-document."""

    @property
    def writes(self) -> bool:
        """Whether it opens a file for writing. `2>&1` does not."""
        if ">" not in self.operator or self.target is None:
            return False
        return not (self.operator.endswith("&") and self.target.literal and self.target.text.rstrip("-").isdigit())

    @property
    def gives_input(self) -> bool:
        """Whether it provides the command's input."""
        return self.operator.startswith("<")

    @property
    def display_text(self) -> str:
        return self.operator + (" " + self.target.display_text if self.target else "")


@dataclass(frozen=True, slots=True)
class Scope:
    """A part of the text whose variables and working folder do not simply carry over to what follows."""

    start: int
    """The byte offset at which it begins."""
    is_shell: bool
    """Whether it is a subshell, which changes nothing outside; otherwise it is a branch or loop that may not run."""
    joined: str = ""
    """The operator before it: `&&`, `||`, `|` or nothing. The body of `if ! ...` counts as joined by `||`."""
    tests: bool = False
    """Whether it is a branch of `if` or `case`, which runs only if a test succeeds."""


@dataclass(frozen=True, slots=True)
class CommandPosition:
    """The position of a simple command in a compound one."""

    joined: str = ""
    """The operator before it: `&&`, `||`, `|`, or nothing at the start of a line or after `;`."""
    subshell: bool = False
    substitution: bool = False
    function: bool = False
    conditional: bool = False
    """Whether it is in a branch or a loop, so that it may not run at all."""
    background: bool = False
    fed: bool = False
    """Whether it gets input from a pipe, a file or a here-document."""
    scopes: tuple[Scope, ...] = field(default=(), compare=False, repr=False)
    """The enclosing scopes, outermost first."""


@dataclass(frozen=True, slots=True)
class SimpleCommand:
    """One program with its arguments. Without a program: bare assignments, or redirections around a group."""

    program: Word | None
    arguments: tuple[Word, ...] = ()
    assignments: tuple[Assignment, ...] = ()
    redirections: tuple[Redirection, ...] = ()
    position: CommandPosition = CommandPosition()
    open_ended: bool = False
    """Whether more arguments are appended at run time, as `xargs` does."""

    @property
    def name(self) -> str:
        """The program's base name; empty if the text does not show it."""
        if self.program is None or not self.program.literal:
            return ""
        return self.program.text.rpartition("/")[2]

    @property
    def words(self) -> tuple[Word, ...]:
        return () if self.program is None else (self.program, *self.arguments)

    @property
    def display_text(self) -> str:
        return " ".join(word.display_text for word in self.words)


@dataclass(frozen=True, slots=True)
class Script:
    """Every simple command of a text in source order, including those in substitutions and functions."""

    commands: tuple[SimpleCommand, ...]
    functions: frozenset[str] = frozenset()
    obscure: tuple[str, ...] = ()
    """Constructs through which a shell may run code not in the text: arithmetic, `${x@P}`, a subscript."""
    comments: bool = False
    bodies: tuple[tuple[str, str], ...] = field(default=(), compare=False, repr=False)
    """The name and the text of each function."""

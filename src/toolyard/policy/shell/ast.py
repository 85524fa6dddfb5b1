"""What a command's text says, as plain frozen data. `parser.py` makes it, everything else only looks at it."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Final

_NEEDS_NO_QUOTES: Final = re.compile(r"[\w@%+=:,./~^{}!\[\]-]+")


class ParseFailure(Exception):  # noqa: N818 - named for what it tells; nothing of the program failed
    """The text is not understood; the message says why in a few words."""


@dataclass(frozen=True, slots=True)
class Fragment:
    """A stretch of a word: text as it is, or an expansion as it was spelled (`$x`, `${x:-y}`, `$(pwd)`)."""

    text: str
    quoted: bool
    """Whether quotes or a backslash keep the shell from splitting it and from reading globs and braces in it."""
    expands: bool = False


@dataclass(frozen=True, slots=True)
class Word:
    """One word of a command, as far as its value can be told without running anything."""

    text: str
    """Without quotes and backslashes when it is literal; else as it was spelled."""
    literal: bool = True
    """Whether `text` is exactly what the program will get."""
    head: str = ""
    """What a word that is not literal surely starts with."""
    splits: bool = False
    """Whether it may become several words: an unquoted `$x`, `{a,b}`, `"$@"`."""
    globs: bool = False
    """Not literal, and only because of `*`, `?` or `[`."""
    deep: bool = field(default=False, compare=False, repr=False)
    """Stands for every file below `text`, one after the other, as `find` prints them."""
    fragments: tuple[Fragment, ...] = field(default=(), compare=False, repr=False)
    """What the word is made of, in order; empty when it was not read from a text."""

    @property
    def may_be_option(self) -> bool:
        if self.literal:
            return self.text.startswith("-")
        return self.splits or not self.head or self.head.startswith("-")

    @property
    def display_text(self) -> str:
        """The word as it could be typed: in quotes where blanks or special characters need them."""
        if not self.literal or _NEEDS_NO_QUOTES.fullmatch(self.text):
            return self.text
        return "'" + self.text.replace("'", "'\"'\"'") + "'"


@dataclass(frozen=True, slots=True)
class Assignment:
    name: str
    value: Word | None
    """None for what is no single word, such as an array."""
    choices: tuple[Word, ...] = field(default=(), compare=False, repr=False)
    """The words that a `for` loop goes through."""


@dataclass(frozen=True, slots=True)
class Redirection:
    operator: str
    target: Word | None
    """None when a descriptor is closed, and for a here-document."""
    body: str = field(default="", compare=False, repr=False)
    """The text of a here-document."""

    @property
    def writes(self) -> bool:
        """Whether a file is opened for writing. `2>&1` opens none."""
        if ">" not in self.operator or self.target is None:
            return False
        return not (self.operator.endswith("&") and self.target.literal and self.target.text.rstrip("-").isdigit())

    @property
    def gives_input(self) -> bool:
        """Whether it gives the command its input."""
        return self.operator.startswith("<")

    @property
    def display_text(self) -> str:
        return self.operator + (" " + self.target.display_text if self.target else "")


@dataclass(frozen=True, slots=True)
class Scope:
    """A part of a text whose variables and working folder are not simply those of what follows it."""

    start: int
    """The byte of the text at which it begins."""
    is_shell: bool
    """Whether it is a shell apart, which changes nothing outside; otherwise a branch or loop that may not run."""
    joined: str = ""
    """What stands before it: `&&`, `||`, `|` or nothing. The body of `if ! ...` counts as joined by `||`."""
    tests: bool = False
    """Whether it is a branch of `if` or `case`, which runs only where a test holds."""


@dataclass(frozen=True, slots=True)
class CommandPosition:
    """Where in a compound command a simple one stands."""

    joined: str = ""
    """What stands before it: `&&`, `||`, `|`, or nothing at the start of a line or after `;`."""
    subshell: bool = False
    substitution: bool = False
    function: bool = False
    conditional: bool = False
    """Whether it stands in a branch or a loop, so that it may not run at all."""
    background: bool = False
    fed: bool = False
    """Whether it gets input from a pipe, a file or a here-document."""
    scopes: tuple[Scope, ...] = field(default=(), compare=False, repr=False)
    """The scopes around it, the outermost first."""


@dataclass(frozen=True, slots=True)
class SimpleCommand:
    """One program with its words. Without a program: assignments alone, or redirections around a group."""

    program: Word | None
    arguments: tuple[Word, ...] = ()
    assignments: tuple[Assignment, ...] = ()
    redirections: tuple[Redirection, ...] = ()
    place: CommandPosition = CommandPosition()
    open_ended: bool = False
    """Whether more words are added when it runs, as `xargs` does."""

    @property
    def name(self) -> str:
        """The program's bare name, empty when the text does not tell it."""
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
    """Every simple command of a text in the order it is written, those inside substitutions and functions too."""

    commands: tuple[SimpleCommand, ...]
    functions: frozenset[str] = frozenset()
    obscure: tuple[str, ...] = ()
    """Constructs through which a shell may run what the text does not show: arithmetic, `${x@P}`, a subscript."""
    comments: bool = False
    bodies: tuple[tuple[str, str], ...] = field(default=(), compare=False, repr=False)
    """The name and the text of each function."""

"""What a command deletes or overwrites as a whole, by the paths its text shows.

The walk follows the text as a shell would, without running anything: variables, `cd`, wrappers, `bash -c`, and what
`echo`, `ls` and `find` feed to `xargs`. It says which paths are hit and how; `policy.circuit_breaker` knows which of
them matter. A part that cannot be read is left out: this is a safety catch against careless commands, not a wall.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from enum import Enum, auto
from typing import TYPE_CHECKING, Final

from toolyard.policy.analysis.destruction_targets import DELETERS, found_by, plain_operands
from toolyard.policy.analysis.expand import MAX_WRAPPED
from toolyard.policy.analysis.parse import MAX_COMMANDS, parse
from toolyard.policy.analysis.rules import gives, program_of
from toolyard.policy.analysis.shape import ParseFailure
from toolyard.policy.analysis.shell import Shells, beneath
from toolyard.policy.analysis.tree import Simple, Word
from toolyard.policy.analysis.unwrap import Hidden, inner, reads_script
from toolyard.policy.analysis.values import is_known, values_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from toolyard.policy.analysis.shell import Shell, Values
    from toolyard.policy.analysis.tree import Assignment, Script

_MOVES: Final = frozenset({"cd", "pushd"})
_DECLARATIONS: Final = frozenset({"export", "declare", "typeset", "local", "readonly"})
_READS_INTO: Final = frozenset({"read", "mapfile", "readarray", "getopts"})
_TESTS: Final = frozenset({"[", "[[", "test", "command", "which", "type", "grep", "ls"})
"""What stands before `&&` to find out whether the rest should run."""
OVERWRITES: Final = "overwrites"


class Reach(Enum):
    """Which paths a command harms when it is given them."""

    TREE = auto()
    """A folder with all that is in it, or everything in it by `*`; and a device."""
    ENTRY = auto()
    """The same, but `*` names the things in a folder, which are not lost."""
    MODES = auto()
    """A folder of the system or a home, whose files need the owners and modes they have."""
    FILES = auto()
    """The same as a tree, without the repository in it."""
    TOP = auto()
    """The root alone: what is written there lies over the system's own folders."""
    DEVICE = auto()


@dataclass(frozen=True, slots=True)
class Destruction:
    verb: str
    reach: Reach
    path: str
    """Absolute and lexically normal."""
    is_pattern: bool = False


@dataclass(frozen=True, slots=True)
class DestructionRule:
    """Every condition that is set must hold. The examples are judged in `circuit_breaker.EXAMPLE`."""

    verb: str
    programs: tuple[str, ...]
    matches: tuple[str, ...]
    misses: tuple[str, ...]
    targets: Callable[[Simple], Iterable[Word]]
    """The words that name what is harmed."""
    reach: Reach = Reach.TREE
    options: tuple[str, ...] = ()
    """One of these is given."""
    unless: tuple[str, ...] = ()
    """None of these is given."""

    def fits(self, simple: Simple) -> bool:
        if self.options and not gives(simple, self.options):
            return False
        return not (self.unless and gives(simple, self.unless))


RulesOf = Callable[[str], tuple[DestructionRule, ...]]
"""Gives the rules for a program."""


def destructions(command: str, shell: Shell, rules: RulesOf) -> list[Destruction]:
    """What the command hits, in the order of the text. Raises ParseFailure for what is not surely understood."""
    walk = _Walk(rules)
    walk.script(parse(command), shell, 0)
    return list(walk.found)


class _Walk:
    def __init__(self, rules: RulesOf) -> None:
        self.found: dict[Destruction, None] = {}
        self._rules = rules
        self._left = MAX_COMMANDS
        """Commands still to be looked at: texts that `eval` their own pieces would not end."""

    def script(self, script: Script, shell: Shell, depth: int) -> None:
        shells = Shells(shell)
        before: Simple | None = None
        tested = False
        for written in script.commands:
            here = shells.within(written.place.scopes)
            if not written.place.joined:
                here.break_chain()
                tested = written.name in _TESTS
            simple = _resolved(written, here)
            piped = before if written.place.joined == "|" else None
            if piped is not None and simple.name in {"xargs", "parallel"}:
                if piped.name == "find" and _deletes(simple):
                    self._command(replace(piped, arguments=(*piped.arguments, Word("-delete"))), here, depth)
                simple = replace(simple, arguments=(*simple.arguments, *_printed(piped)))
            self._command(simple, here, depth)
            if reads_script(simple):
                self._text(_script_for(simple, piped), simple, here, depth)
            _follow(simple, here, tested=tested and written.place.joined == "&&")
            before = simple
        shells.close()

    def _command(self, simple: Simple, shell: Shell, depth: int) -> None:
        self._left -= 1
        if depth > MAX_WRAPPED or self._left < 0:
            return
        for redirection in simple.redirections:
            if redirection.writes and redirection.target is not None:
                self._add(OVERWRITES, Reach.DEVICE, redirection.target, shell.folders)
        for rule in self._rules(_program(simple)):
            if rule.fits(simple):
                for word in rule.targets(simple):
                    self._add(rule.verb, rule.reach, word, shell.folders)
        for one in inner(simple):
            if isinstance(one, str):
                self._text(one, simple, shell, depth)
            elif not isinstance(one, Hidden):
                self._command(one, shell, depth + 1)

    def _text(self, text: str, simple: Simple, shell: Shell, depth: int) -> None:
        """`bash -c text` has a shell apart, with the variables that stand before it; `eval text` has this one."""
        inside = shell
        if simple.name != "eval":
            inside = shell.copy()
            _assign(simple.assignments, inside)
        with contextlib.suppress(ParseFailure):
            self.script(parse(text), inside, depth + 1)

    def _add(self, verb: str, reach: Reach, word: Word, folders: Values) -> None:
        if not word.literal and not word.globs:
            return
        for folder in folders or ("",):
            if word.text and (path := beneath(folder, word.text)):
                self.found[Destruction(verb, reach, path, is_pattern=word.globs)] = None


def _program(simple: Simple) -> str:
    """`mkfs.ext4` is `mkfs`."""
    name = program_of(simple)
    return "mkfs" if name.startswith("mkfs.") else name


def _resolved(simple: Simple, shell: Shell) -> Simple:
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
    return tuple(value.as_word() for value in values)


def _deletes(simple: Simple) -> bool:
    """Whether `xargs` deletes what it is given, file by file."""
    return any(isinstance(one, Simple) and one.name in DELETERS for one in inner(simple))


def _script_for(shell: Simple, piped: Simple | None) -> str:
    """What a shell reads as its script: a here-document, a here-string, or what `echo` or `cat` pipes into it."""
    for one in shell.redirections:
        if one.body or one.operator == "<<<":
            return one.body or (one.target.text if one.target and one.target.literal else "")
    if piped is None:
        return ""
    if piped.name == "cat":
        return "".join(one.body for one in piped.redirections)
    return " ".join(word.text for word in plain_operands(piped)) if piped.name in {"echo", "printf"} else ""


def _printed(simple: Simple) -> Iterator[Word]:
    """The words that a command writes for `xargs`, where its own words tell them."""
    if simple.name in {"echo", "printf"}:
        yield from plain_operands(simple)
    elif simple.name == "find":
        yield from found_by(simple)
    elif simple.name == "ls":
        folders = plain_operands(simple) or [Word(".")]
        yield from (Word(f"{word.text}/*", literal=False, globs=True, head="./") for word in folders)


def _follow(simple: Simple, shell: Shell, *, tested: bool) -> None:
    """What a command does to the shell that runs it."""
    words = [word for word in simple.arguments if not word.text.startswith("-") or word.text == "-"]
    if simple.program is None or simple.name in _DECLARATIONS:
        _assign(simple.assignments, shell)
    elif simple.name in _MOVES:
        # Where its complaint is sent away, it is expected that the folder may be missing.
        tested = tested or any(one.writes for one in simple.redirections)
        if not words:
            shell.move(shell.value("HOME") or (), tested=tested)
        elif words[0].literal and words[0].text != "-":
            shell.move((words[0].text,), tested=tested)
        else:
            shell.folders = ()
    elif simple.name == "popd":
        shell.folders = ()
    elif simple.name in _READS_INTO:
        for word in words:
            shell.assign(word.text, None)
    elif simple.name == "unset":
        for word in words:
            shell.assign(word.text, ("",))


def _assign(assignments: Iterable[Assignment], shell: Shell) -> None:
    for one in assignments:
        words = one.choices or ((one.value,) if one.value is not None else ())
        values = [value.text for word in words for value in values_of(word, shell)]
        is_unknown = not words or not (values or all(is_known(word, shell) for word in words))
        shell.assign(one.name, None if is_unknown else tuple(values) or ("",))

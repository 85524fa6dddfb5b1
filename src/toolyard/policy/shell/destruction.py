"""Finds the paths that a command deletes or overwrites as a whole.

The walk follows the text as a shell would, without running anything: variables, `cd`, functions, wrappers, `bash -c`,
and what `echo`, `ls` and `find` pipe into `xargs` or a `read` loop. It reports which paths are affected and how;
`policy.circuit_breaker` decides which of them matter. Parts that cannot be parsed are skipped: this is a safety catch
against careless commands, not a barrier against hostile ones.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from enum import Enum, auto
from typing import TYPE_CHECKING, Final

from toolyard.policy.shell.ast import ParseFailure, SimpleCommand, Word
from toolyard.policy.shell.destruction_targets import exec_command_for, find_results, plain_operands, printed_words
from toolyard.policy.shell.expansion import MAX_WRAPPER_DEPTH
from toolyard.policy.shell.parser import MAX_COMMANDS, parse_script
from toolyard.policy.shell.rules import has_option, unversioned_program
from toolyard.policy.shell.shell_state import EMPTY, ScopedShells, ShellValue, absolute_path
from toolyard.policy.shell.variable_values import is_known, resolve_command, resolved_value, word_values
from toolyard.policy.shell.wrappers import HiddenCode, inner_commands, reads_script

if TYPE_CHECKING:
    from toolyard.policy.shell.ast import Assignment, Scope, Script
    from toolyard.policy.shell.shell_state import ShellState

_CD_COMMANDS: Final = frozenset({"cd", "pushd"})
_DECLARATIONS: Final = frozenset({"export", "declare", "typeset", "local", "readonly"})
_READS_INTO: Final = frozenset({"read", "mapfile", "readarray", "getopts"})
_TESTS: Final = frozenset({"[", "[[", "test", "command", "which", "type", "grep", "ls"})
"""Commands used before `&&` to test whether the rest should run."""
_FILTERS: Final = frozenset({"sort", "uniq", "tac", "cat"})
"""Programs that pass on their whole input."""
_EXIT_COMMANDS: Final = frozenset({"exit", "return", "continue", "break"})
_ERREXIT: Final = re.compile(r"-[a-z]*e[a-z]*")
OVERWRITES: Final = "overwrites"


class Reach(Enum):
    """What a command harms when it is given a path."""

    TREE = auto()
    """A folder with its content, or all its content by `*`; also a device."""
    ENTRY = auto()
    """Like TREE, but `*` names the entries of a folder, which are not lost."""
    MODES = auto()
    """A system or home folder, whose files depend on their owners and modes."""
    FILES = auto()
    """Like TREE, without the repository in it."""
    ALL_EXCEPT_MATCHING = auto()
    """All files except those with a matching name, which may be an ordinary clean-up of a workspace."""
    ROOT_ONLY = auto()
    """Only the file system root: what is written there overlays the system's folders."""
    DEVICE = auto()


@dataclass(frozen=True, slots=True)
class Destruction:
    """A path that a command deletes or overwrites."""

    verb: str
    reach: Reach
    path: str
    """Absolute and lexically normalised."""
    is_pattern: bool = False
    into: str = ""
    """The destination of a move, if known."""
    if_cd_fails: bool = False
    """Whether it is affected only if a `cd` fails."""


@dataclass(frozen=True, slots=True)
class DestructionRule:
    """A destructive use of a program; all conditions that are set must hold.

    The examples are checked in the environment of `circuit_breaker.EXAMPLE_BREAKER`.
    """

    verb: str
    programs: tuple[str, ...]
    matches: tuple[str, ...]
    misses: tuple[str, ...]
    targets: Callable[[SimpleCommand], Iterable[Word]]
    """Selects the words that name what is harmed."""
    into: Callable[[SimpleCommand], Iterable[Word]] | None = None
    """Selects the word that names the destination of a move."""
    reach: Reach = Reach.TREE
    options: tuple[str, ...] = ()
    """One of these must be present."""
    unless: tuple[str, ...] = ()
    """None of these may be present."""

    def fits(self, simple: SimpleCommand) -> bool:
        if self.options and not has_option(simple, self.options):
            return False
        return not (self.unless and has_option(simple, self.unless))


RuleLookup = Callable[[str], tuple[DestructionRule, ...]]
"""Returns the rules for a program."""


def find_destructions(command: str, shell: ShellState, rules: RuleLookup) -> list[Destruction]:
    """Returns what the command destroys, in source order. Raises ParseFailure for text that cannot be parsed."""
    walk = _DestructionWalk(rules)
    walk.walk_script(parse_script(command), shell, 0)
    return list(walk.found)


class _PipedInput:
    """Tracks which earlier command provides the input of each command."""

    def __init__(self) -> None:
        self._last: dict[tuple[Scope, ...], SimpleCommand] = {}
        """The last command by its scopes."""
        self._feeds: dict[Scope, SimpleCommand | None] = {}

    def piped_command(self, written: SimpleCommand) -> SimpleCommand | None:
        return self._last.get(written.position.scopes) if written.position.joined == "|" else None

    def group_input(self, written: SimpleCommand, shell: ShellState) -> SimpleCommand | None:
        """Returns the input of the enclosing loop or group: `find | while read ...`, `done < <(find)`."""
        scopes = written.position.scopes
        for at, scope in enumerate(scopes):
            if scope not in self._feeds:
                before = self._last.get(scopes[:at])
                self._feeds[scope] = before if scope.joined == "|" else _process_substitution(before, shell)
        return next((feed for scope in reversed(scopes) if (feed := self._feeds[scope])), None)

    def record_command(self, simple: SimpleCommand, piped: SimpleCommand | None) -> None:
        passes_on = piped is not None and simple.name in _FILTERS and not plain_operands(simple)
        self._last[simple.position.scopes] = piped if piped is not None and passes_on else simple


class _DestructionWalk:
    def __init__(self, rules: RuleLookup) -> None:
        self.found: dict[Destruction, None] = {}
        self._rules = rules
        self._functions: dict[str, str] = {}
        self._parsed: dict[str, Script] = {}
        self._aliases: dict[str, str] = {}
        self._remaining_commands = MAX_COMMANDS
        """Remaining budget of commands: text that evaluates parts of itself would never end."""

    def walk_script(self, script: Script, shell: ShellState, depth: int) -> None:
        shells, fed = ScopedShells(shell), _PipedInput()
        tested = False
        self._functions.update(script.bodies)
        for written in script.commands:
            here, joined = shells.shell_within(written.position.scopes), written.position.joined
            if not joined:
                tested = written.name in _TESTS
            if not joined or (joined == "||" and written.name not in _EXIT_COMMANDS):
                here.break_chain()
            behind_test = tested and joined == "&&"
            seen = here
            if behind_test:
                seen = here.copy()
                seen.narrow_variables()
            simple = resolve_command(written, seen)
            piped = fed.piped_command(written)
            if piped is not None and simple.name in {"xargs", "parallel"}:
                simple = replace(simple, arguments=(*simple.arguments, *printed_words(piped)))
            self._walk_command(simple, here, depth)
            if reads_script(simple):
                self._walk_text(_piped_script(simple, piped), simple, here, depth)
            feed = fed.group_input(written, here)
            if not written.position.background:
                _update_shell(simple, here, feed, tested=behind_test)
            fed.record_command(simple, piped)
        shells.close()

    def _walk_command(self, simple: SimpleCommand, shell: ShellState, depth: int) -> None:
        self._remaining_commands -= 1
        if depth > MAX_WRAPPER_DEPTH or self._remaining_commands < 0:
            return
        for redirection in simple.redirections:
            if redirection.writes and (target := redirection.target) is not None:
                self._add_destruction(OVERWRITES, Reach.TREE if target.globs else Reach.DEVICE, target, shell)
        for rule in self._rules(_program_name(simple)):
            if rule.fits(simple):
                into = next(iter(rule.into(simple)), None) if rule.into else None
                for word in rule.targets(simple):
                    self._add_destruction(rule.verb, rule.reach, word, shell, into)
        for one in inner_commands(simple):
            if isinstance(one, str):
                self._walk_text(one, simple, shell, depth)
            elif not isinstance(one, HiddenCode):
                found = find_results(simple) if simple.name == "find" else []
                for command in [exec_command_for(one, word) for word in found] or [one]:
                    self._walk_command(command, shell, depth + 1)
        self._walk_function_or_alias(simple, shell, depth)

    def _walk_function_or_alias(self, simple: SimpleCommand, shell: ShellState, depth: int) -> None:
        """Walks a call of a function or alias that the text itself defines."""
        if simple.name == "alias":
            self._aliases.update(
                (name, text) for word in simple.arguments for name, _, text in [word.text.partition("=")]
            )
        elif simple.name in self._functions:
            self._call_function(simple, shell, depth)
        elif simple.name in self._aliases:
            words = " ".join(word.display_text for word in simple.arguments)
            self._walk_parsed_text(f"{self._aliases[simple.name]} {words}", shell, depth)

    def _call_function(self, simple: SimpleCommand, shell: ShellState, depth: int) -> None:
        before = {name: value for name, value in shell.variables.items() if name.isdigit() or name in {"@", "*"}}
        shell.set_parameters([resolved_value(word) for word in simple.arguments])
        self._walk_parsed_text(self._functions[simple.name], shell, depth)
        shell.variables = {
            name: v for name, v in shell.variables.items() if not name.isdigit() and name not in {"@", "*"}
        }
        shell.variables.update(before)

    def _walk_text(self, text: str, simple: SimpleCommand, shell: ShellState, depth: int) -> None:
        """Walks the text of `bash -c` in a new shell with its variables, and that of `eval` in the current shell."""
        inside = shell
        if simple.name not in {"eval", "trap"}:
            inside = shell.copy()
            _assign_variables(simple.assignments, inside)
            texts = [word.text for word in simple.arguments]
            at = texts.index(text) if text in texts else len(texts)
            inside.stops_on_error = any(_ERREXIT.fullmatch(option) for option in texts[:at])
            inside.set_parameters(
                [resolved_value(word) for word in simple.arguments[at + 2 :]]
            )  # the first one is `$0`
        self._walk_parsed_text(text, inside, depth)

    def _walk_parsed_text(self, text: str, shell: ShellState, depth: int) -> None:
        with contextlib.suppress(ParseFailure):
            if text not in self._parsed:
                self._parsed[text] = parse_script(text)
            self.walk_script(self._parsed[text], shell, depth + 1)

    def _add_destruction(
        self, verb: str, reach: Reach, word: Word, shell: ShellState, into: Word | None = None
    ) -> None:
        if not word.literal and not word.globs:
            return
        for folder in shell.folders or ("",):
            if word.text and (path := absolute_path(folder, word.text)):
                known = into is not None and (into.literal or into.globs)
                destination = absolute_path(folder, into.text) if into is not None and known else ""
                unmoved = folder in shell.folders_if_cd_failed and not word.text.startswith("/")
                self.found[Destruction(verb, reach, path, word.globs, destination, unmoved)] = None


def _program_name(simple: SimpleCommand) -> str:
    """Returns the program's name without version or file system type: `mkfs` for `mkfs.ext4`."""
    name = unversioned_program(simple)
    return "mkfs" if name.startswith("mkfs.") else name


def _process_substitution(simple: SimpleCommand | None, shell: ShellState) -> SimpleCommand | None:
    """Returns the command in `< <(command)`."""
    for one in simple.redirections if simple is not None and simple.program is None else ():
        text = one.target.text if one.target else ""
        if one.gives_input and text.startswith("<("):
            with contextlib.suppress(ParseFailure):
                commands = parse_script(text[2:-1]).commands
                return resolve_command(commands[0], shell) if len(commands) == 1 else None
    return None


def _piped_script(shell: SimpleCommand, piped: SimpleCommand | None) -> str:
    """Returns the script that a shell reads from a here-document, a here-string, or a piped `echo` or `cat`."""
    for one in shell.redirections:
        if one.body or one.operator == "<<<":
            return one.body or (one.target.text if one.target and one.target.literal else "")
    if piped is None:
        return ""
    if piped.name == "cat":
        return "".join(one.body for one in piped.redirections)
    return " ".join(word.text for word in plain_operands(piped)) if piped.name in {"echo", "printf"} else ""


def _update_shell(simple: SimpleCommand, shell: ShellState, feed: SimpleCommand | None, *, tested: bool) -> None:
    """Applies a command's effect on the shell that runs it. `feed` is the command that provides its input."""
    words = [word for word in simple.arguments if not word.text.startswith("-") or word.text == "-"]
    name = simple.name
    if simple.program is None or name in _DECLARATIONS:
        _assign_variables(simple.assignments, shell)
    elif name in _CD_COMMANDS:
        shell.change_folder(_cd_targets(words, shell), tested=tested)
    elif name == "popd":
        shell.change_folder(shell.previous, tested=tested)
    elif name in _EXIT_COMMANDS:
        _exit_shell(simple, shell)
    elif name in _READS_INTO:
        for word in words:
            shell.assign(word.text, None)
        if name == "read" and feed is not None:
            values = [value for word in printed_words(feed) if (value := resolved_value(word))]
            shell.assign(words[-1].text if words else "REPLY", tuple(values) or None)
    else:
        _apply_builtin(simple, words, shell)


def _apply_builtin(simple: SimpleCommand, words: list[Word], shell: ShellState) -> None:
    if simple.name == "unset":
        for word in words:
            shell.assign(word.text, (EMPTY,))
    elif simple.name == "mkdir":
        for word in words:
            shell.make_folder(word.text)
    elif simple.name == "set":
        options = [word.text for word in simple.arguments]
        shell.stops_on_error = shell.stops_on_error or "errexit" in options or any(map(_ERREXIT.fullmatch, options))
        shell.stops_on_error = shell.stops_on_error and "+e" not in options


def _cd_targets(words: list[Word], shell: ShellState) -> tuple[str, ...]:
    """Returns the targets of `cd`; empty if unknown."""
    if not words:
        return tuple(value.text for value in shell.variable_values("HOME") or ())
    if words[0].text == "-":
        return shell.previous
    return (words[0].text,) if words[0].literal and not words[0].deep else ()


def _exit_shell(simple: SimpleCommand, shell: ShellState) -> None:
    if simple.position.joined == "||":
        # What follows runs only if the command before it succeeded.
        shell.fallback_folders = ()
        shell.narrow_variables()
    elif not simple.position.joined and simple.name in {"exit", "return"}:
        shell.has_exited = True


def _assign_variables(assignments: Iterable[Assignment], shell: ShellState) -> None:
    for one in assignments:
        words = one.choices or ((one.value,) if one.value is not None else ())
        values = [value for word in words for value in word_values(word, shell)]
        if not one.choices:  # the shell expands globs only where the variable is used
            values = [ShellValue(value.text, is_deep=value.is_deep) for value in values]
        is_unknown = not words or not (values or all(is_known(word, shell) for word in words))
        shell.assign(one.name, None if is_unknown else tuple(values) or (EMPTY,))

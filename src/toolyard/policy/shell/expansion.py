"""Expands a script into a flat list of commands: wrappers are unwrapped and `-c` text is parsed."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Final

from toolyard.policy.shell.ast import ParseFailure
from toolyard.policy.shell.grammar_guards import RESERVED
from toolyard.policy.shell.parser import MAX_COMMANDS, parse_script
from toolyard.policy.shell.wrappers import HiddenCode, inner_commands

if TYPE_CHECKING:
    from toolyard.policy.shell.ast import Script, SimpleCommand

MAX_WRAPPER_DEPTH: Final = 8
"""Maximum nesting depth of commands: `env nice timeout 5 bash -c ...`."""


@dataclass(frozen=True, slots=True)
class ExpandedCommand:
    """A simple command of a script, at any nesting depth."""

    simple: SimpleCommand
    wraps: bool = False
    """Whether it runs another command, which follows in the list."""
    opaque: bool = False
    """Whether it runs code that is not in the text."""
    top: int = 0
    """The index of the top-level command it belongs to."""


@dataclass(slots=True)
class ExpandedScript:
    """All commands of a script, with its functions and obscure constructs."""

    parts: list[ExpandedCommand] = field(default_factory=list[ExpandedCommand])
    functions: set[str] = field(default_factory=set[str])
    obscure: list[str] = field(default_factory=list[str])


def expand_script(script: Script) -> ExpandedScript:
    """Returns all commands of the script, nested ones included. Raises ParseFailure for excessive nesting."""
    found = ExpandedScript()
    _add_script(script, found, 0)
    return found


def _add_script(
    script: Script, found: ExpandedScript, depth: int, outer: SimpleCommand | None = None, top: int = 0
) -> None:
    found.functions |= script.functions
    found.obscure.extend(script.obscure)
    for at, simple in enumerate(script.commands):
        placed = simple
        if outer is not None:
            own, around = simple.position, outer.position
            position = replace(
                own,
                background=own.background or around.background,
                function=own.function or around.function,
                conditional=own.conditional or around.conditional,
                fed=own.fed or around.fed,
                substitution=own.substitution or around.substitution,
            )
            placed = replace(simple, position=position)
        _add_command(placed, found, depth, at if outer is None else top)


def _add_command(simple: SimpleCommand, found: ExpandedScript, depth: int, top: int) -> None:
    if depth > MAX_WRAPPER_DEPTH or len(found.parts) > MAX_COMMANDS:
        raise ParseFailure("it nests too deep")
    if simple.program is not None and simple.program.text in RESERVED:
        raise ParseFailure(f'"{simple.program.text}" is in the place of a program')
    inside = inner_commands(simple)
    opaque = HiddenCode.OPAQUE in inside
    at = len(found.parts)
    found.parts.append(ExpandedCommand(simple, wraps=bool(inside), opaque=opaque, top=top))
    for one in inside:
        if isinstance(one, str):
            try:
                _add_script(parse_script(one), found, depth + 1, simple, top)
            except ParseFailure:
                found.parts[at] = ExpandedCommand(simple, wraps=True, opaque=True, top=top)
        elif not isinstance(one, HiddenCode):
            _add_command(one, found, depth + 1, top)

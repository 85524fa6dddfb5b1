"""Rules about commands, matched on what a parse of the text shows. Advice, never the wall: that is the sandbox.

Permission is narrow and refusal wide. An allow rule covers one plain command, or a text spelled out exactly. A deny
or ask rule catches a command anywhere in the text, also inside wrappers, substitutions and `bash -c`; where the parse
does not show everything, the text is cut at whatever may separate commands, so that no rule is weakened by what is
not understood.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from toolyard.core.errors import ConfigError

if TYPE_CHECKING:
    from toolyard.policy.shell import Analysis

READ_ONLY_CLASS: Final = "@read-only"

_BETWEEN_COMMANDS: Final = re.compile(r"[;|&(){}<>`$!\n\r]+")
_BETWEEN_BRACES: Final = re.compile(r"\{([^{}\n]*,[^{}\n]*)\}")
_ASSIGNMENT: Final = re.compile(r"^[A-Za-z_][A-Za-z0-9_]*\+?=")
_BLANKS: Final = re.compile(r"\s+")


def analyse_command(command: str) -> Analysis:
    """What its text shows of a command. The parser is loaded with the first command, not with every start."""
    from toolyard.policy.shell import analyse

    return analyse(command)


def is_read_only(command: str | None) -> bool:
    return command is not None and analyse_command(command).read_only


@dataclass(frozen=True, slots=True)
class CommandPattern:
    """`git status:*` (these words and any after), `npm run test` (exactly), `npm run *`, or `@read-only`."""

    text: str

    def matches_whole(self, command: str) -> bool:
        """For allow rules: a command with shell syntax must be spelled out whole, a prefix does not cover it."""
        if self.text == READ_ONLY_CLASS:
            return is_read_only(command)
        if self.text in {command, "*"}:
            return True
        found = analyse_command(command)
        return found.plain and (self._matches(_collapse_blanks(command)) or self._matches(found.commands[0]))

    def matches_any_part(self, command: str) -> bool:
        """For deny and ask rules: any part of a compound command is enough."""
        if self.text == READ_ONLY_CLASS:
            return is_read_only(command)
        if self._matches(_collapse_blanks(command)):
            return True
        found = analyse_command(command)
        if any(self._matches(text) for text in found.commands):
            return True
        return not found.shows_all and any(self._matches(part) for part in _possible_commands(command))

    def _matches(self, command: str) -> bool:
        if self.text.endswith(":*"):
            prefix = _collapse_blanks(self.text[:-2])
            return command == prefix or command.startswith(prefix + " ")
        return _matches_wildcard(_collapse_blanks(self.text), command)


def parse_command_pattern(text: str) -> CommandPattern:
    if not text.strip() or text.strip() == ":*":
        raise ConfigError("a Bash rule names no command.", hint="Example: Bash(git status:*)")
    if text.startswith("@") and text != READ_ONLY_CLASS:
        raise ConfigError(f'unknown class of commands "{text}".', hint=f"The one class is {READ_ONLY_CLASS}.")
    return CommandPattern(text)


def _collapse_blanks(command: str) -> str:
    return _BLANKS.sub(" ", command).strip()


def _possible_commands(command: str) -> set[str]:
    """What may be the simple commands of a text nobody understands, also with the programs' bare names."""
    from toolyard.policy.shell import MAX_COMMAND_CHARS

    found: set[str] = set()
    text = command[:MAX_COMMAND_CHARS].replace("\\\n", "")
    text = _BETWEEN_BRACES.sub(lambda braces: f";{braces[1].replace(',', ' ')};", text)
    for piece in _BETWEEN_COMMANDS.split(text):
        words = piece.replace("\\", "").replace('"', "").replace("'", "").split()
        while words and _ASSIGNMENT.match(words[0]):
            words.pop(0)
        if words:
            found.add(" ".join(words))
            found.add(" ".join([words[0].rpartition("/")[2], *words[1:]]))
    return found


def _matches_wildcard(pattern: str, text: str) -> bool:
    """`*` stands for anything. Each piece is looked for once, from left to right."""
    first, *rest = pattern.split("*")
    if not rest:
        return text == first
    *middle, last = rest
    if not text.startswith(first) or len(text) < len(first) + len(last):
        return False
    at, end = len(first), len(text) - len(last)
    for piece in middle:
        found = text.find(piece, at, end)
        if found < 0:
            return False
        at = found + len(piece)
    return at <= end and text.endswith(last)

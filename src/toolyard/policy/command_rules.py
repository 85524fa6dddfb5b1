"""Command patterns of rules, matched against the parsed command text.

These rules are advisory: the sandbox is what enforces isolation. Allow rules match narrowly: one plain command, or
exactly the given text. Deny and ask rules match widely: a command anywhere in the text, also inside wrappers,
substitutions and `bash -c`. If the parser does not understand the whole text, the text is also split at everything
that may separate commands, so that syntax the parser does not know cannot weaken a rule.
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
    """Returns the analysis of a command. The parser is imported on first use, to keep start-up fast."""
    from toolyard.policy.shell import analyse

    return analyse(command)


def is_read_only(command: str | None) -> bool:
    """Whether the command is known to only read; False for None."""
    return command is not None and analyse_command(command).read_only


@dataclass(frozen=True, slots=True)
class CommandPattern:
    """`git status:*` (a prefix of words), `npm run test` (exactly), `npm run *`, or `@read-only`."""

    text: str

    def matches_whole(self, command: str) -> bool:
        """For allow rules. A command with shell syntax must match exactly; a prefix does not cover it."""
        if self.text == READ_ONLY_CLASS:
            return is_read_only(command)
        if self.text in {command, "*"}:
            return True
        found = analyse_command(command)
        return found.plain and (self._matches(_collapse_blanks(command)) or self._matches(found.commands[0]))

    def matches_any_part(self, command: str) -> bool:
        """For deny and ask rules. A match on any part of a compound command is enough."""
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
    """Parses the argument of a Bash rule. Raises ConfigError for an empty or unknown pattern."""
    if not text.strip() or text.strip() == ":*":
        raise ConfigError("a Bash rule has an empty command.", hint="Example: Bash(git status:*)")
    if text.startswith("@") and text != READ_ONLY_CLASS:
        raise ConfigError(f'unknown command class "{text}".', hint=f"The only class is {READ_ONLY_CLASS}.")
    return CommandPattern(text)


def _collapse_blanks(command: str) -> str:
    return _BLANKS.sub(" ", command).strip()


def _possible_commands(command: str) -> set[str]:
    """Returns what may be the simple commands of a text that cannot be parsed, also by their programs' bare names."""
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
    """Whether the text matches; `*` matches anything. Linear: each piece is searched once, from left to right."""
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

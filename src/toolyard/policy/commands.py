"""What can be told from a command's text. Advice for asking and refusing early, never the wall: that is the sandbox.

A command counts as read-only when it is one plain word list (nothing that a shell would expand into a second
command or a file), its program is known to only read, and no option is among those that write or run something.
What is not understood is not read-only.
"""

from __future__ import annotations

import re
import shlex
from dataclasses import dataclass
from typing import Final

from toolyard.core.errors import ConfigError

MAX_COMMAND_CHARS: Final = 20_000
READ_ONLY_CLASS: Final = "@read-only"

_SHELL_SYNTAX: Final = re.compile(r"[;|&<>$`(){}!\\#\x00-\x1f\x7f]")
_BETWEEN_COMMANDS: Final = re.compile(r"[;|&(){}<>`$!\n\r]+")
_ASSIGNMENT: Final = re.compile(r"^[A-Za-z_][A-Za-z0-9_]*\+?=")
_BLANKS: Final = re.compile(r"\s+")


@dataclass(frozen=True, slots=True)
class Reader:
    """A program that only reads, unless one of these options is given. Long ones may come abbreviated."""

    subcommands: frozenset[str] = frozenset()
    """When there are any, the first argument must be one of them."""
    unsafe: tuple[str, ...] = ()


_HARMLESS: Final = Reader()
_GIT: Final = Reader(
    frozenset(("status", "log", "diff", "show", "blame", "ls-files", "ls-tree", "rev-parse", "describe", "shortlog")),
    ("--output", "--ext-diff", "--textconv", "--paginate", "-O"),
)
READERS: Final[dict[str, Reader]] = {
    **dict.fromkeys(
        (
            *("ls", "cat", "head", "tail", "wc", "pwd", "stat", "du", "df", "echo", "true", "false", "basename"),
            *(
                "dirname",
                "realpath",
                "readlink",
                "cut",
                "nl",
                "cmp",
                "diff",
                "cksum",
                "md5sum",
                "sha1sum",
                "sha256sum",
            ),
            *("uname", "whoami", "id", "which", "printf", "tac", "od", "strings", "grep", "egrep", "fgrep"),
        ),
        _HARMLESS,
    ),
    "rg": Reader(unsafe=("--pre", "--hostname-bin", "--search-zip", "-z")),
    "git": _GIT,
}


def is_read_only(command: str | None) -> bool:
    if command is None or len(command) > MAX_COMMAND_CHARS or _SHELL_SYNTAX.search(command):
        return False
    try:
        words = shlex.split(command)
    except ValueError:
        return False
    reader = READERS.get(words[0]) if words else None
    if reader is None:
        return False
    arguments = words[1:]
    if reader.subcommands and (not arguments or arguments[0] not in reader.subcommands):
        return False
    return not any(_gives(argument, option) for argument in arguments for option in reader.unsafe)


def _gives(argument: str, option: str) -> bool:
    """Whether `argument` may be `option`: itself, abbreviated, with a value, or in a bundle of short ones."""
    if option.startswith("--"):
        name = argument.partition("=")[0]
        return len(name) > 2 and name.startswith("--") and option.startswith(name)
    return argument.startswith("-") and not argument.startswith("--") and option[1] in argument[1:]


@dataclass(frozen=True, slots=True)
class CommandPattern:
    """`git status:*` (these words and any after), `npm run test` (exactly), `npm run *`, or `@read-only`."""

    text: str

    def allows(self, command: str) -> bool:
        """For allow rules: a command with shell syntax must be spelled out whole, a prefix does not cover it."""
        if self.text == READ_ONLY_CLASS:
            return is_read_only(command)
        if self.text in {command, "*"}:
            return True
        return not _SHELL_SYNTAX.search(command) and self._matches(_words(command))

    def catches(self, command: str) -> bool:
        """For deny and ask rules: any part of a compound command is enough."""
        if self.text == READ_ONLY_CLASS:
            return is_read_only(command)
        if self._matches(_words(command)):
            return True
        return any(self._matches(part) for part in _parts(command))

    def _matches(self, command: str) -> bool:
        if self.text.endswith(":*"):
            prefix = _words(self.text[:-2])
            return command == prefix or command.startswith(prefix + " ")
        return _wildcard(_words(self.text), command)


def parse_command_pattern(text: str) -> CommandPattern:
    if not text.strip() or text.strip() == ":*":
        raise ConfigError("a Bash rule names no command.", hint="Example: Bash(git status:*)")
    if text.startswith("@") and text != READ_ONLY_CLASS:
        raise ConfigError(f'unknown class of commands "{text}".', hint=f"The one class is {READ_ONLY_CLASS}.")
    return CommandPattern(text)


def _words(command: str) -> str:
    return _BLANKS.sub(" ", command).strip()


def _parts(command: str) -> set[str]:
    """The simple commands in a compound one, without assignments, also with the program's bare name."""
    found: set[str] = set()
    for piece in _BETWEEN_COMMANDS.split(command[:MAX_COMMAND_CHARS]):
        words = piece.replace("\\", "").replace('"', "").replace("'", "").split()
        while words and _ASSIGNMENT.match(words[0]):
            words.pop(0)
        if words:
            found.add(" ".join(words))
            found.add(" ".join([words[0].rpartition("/")[2], *words[1:]]))
    return found


def _wildcard(pattern: str, text: str) -> bool:
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

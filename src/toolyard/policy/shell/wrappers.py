"""Finds the command inside a command: `timeout 5 rm x`, `bash -c 'rm x'`, `find . -exec rm {} +`.

Wrappers are described as data. If the inner command is not visible (an option missing from the table, text produced
by an expansion), the result is `OPAQUE` and counts as unknown code.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from enum import Enum
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from toolyard.policy.shell.ast import SimpleCommand, Word

_ASSIGNMENT: Final = re.compile(r"[A-Za-z_]\w*=")
_SHELLS: Final = frozenset({"bash", "sh", "dash", "zsh", "ksh", "ash", "rbash"})
_SHELL_OPTIONS: Final = frozenset({"norc", "rcfile", "init-file", "restricted"})
"""Long options that bash also accepts with one dash: a `c` in them does not mean `-c`."""
_EXEC_OPTIONS: Final = {
    "find": frozenset({"-exec", "-execdir", "-ok", "-okdir"}),
    "fd": frozenset({"-x", "--exec", "-X", "--exec-batch"}),
    "fdfind": frozenset({"-x", "--exec", "-X", "--exec-batch"}),
}
_PLACEHOLDERS: Final = frozenset({"{}", "%", "@"})
"""Placeholders; as a program's name, the input decides which program runs."""
_EXEC_ENDS: Final = frozenset({";", "+"})


class HiddenCode(Enum):
    """Marks an inner command that is not visible in the text."""

    OPAQUE = "code that the text does not show"


@dataclass(frozen=True, slots=True)
class Wrapper:
    """How a program's arguments lead to the command that it runs."""

    value_options: tuple[str, ...] = ()
    """Options whose value is the next word."""
    operands: int = 0
    """Number of the wrapper's own words before the command."""
    takes_assignments: bool = False
    appends_words: bool = False
    """Whether it appends words to the command."""
    lookup_options: tuple[str, ...] = ()
    """Options with which it only looks up a program."""
    opaque_options: tuple[str, ...] = ()
    """Options with which it runs something other than the words that follow."""


WRAPPERS: Final[dict[str, Wrapper]] = {
    **dict.fromkeys(("nohup", "setsid", "builtin", "unbuffer", "chronic", "fakeroot", "coproc"), Wrapper()),
    **dict.fromkeys(("busybox", "toybox"), Wrapper(lookup_options=("--help", "--list"))),
    "env": Wrapper(
        ("-u", "--unset", "-C", "--chdir"), takes_assignments=True, opaque_options=("-S", "--split-string")
    ),
    "command": Wrapper(lookup_options=("-v", "-V")),
    "exec": Wrapper(("-a",)),
    "nice": Wrapper(("-n", "--adjustment")),
    "ionice": Wrapper(("-c", "-n", "--class", "--classdata"), opaque_options=("-p", "--pid")),
    "timeout": Wrapper(("-k", "-s", "--kill-after", "--signal"), operands=1),
    "time": Wrapper(("-f", "-o", "--format", "--output")),
    "stdbuf": Wrapper(("-i", "-o", "-e")),
    "chrt": Wrapper(operands=1),
    "taskset": Wrapper(operands=1),
    "flock": Wrapper(("-w", "-E"), operands=1, opaque_options=("-c", "--command")),
    "watch": Wrapper(("-n", "--interval")),
    "strace": Wrapper(("-o", "-e", "-p", "-s", "-u")),
    "xargs": Wrapper(
        ("-I", "-n", "-P", "-L", "-d", "-a", "-E", "-s", "--max-args", "--max-procs", "--arg-file", "--delimiter"),
        appends_words=True,
    ),
    "parallel": Wrapper(("-j", "--jobs", "-a"), appends_words=True),
    "sudo": Wrapper(
        ("-u", "-g", "-h", "-p", "-C", "-r", "-t", "-T", "-U", "-D", "--user", "--group"), takes_assignments=True
    ),
    "doas": Wrapper(("-u", "-C")),
    "chroot": Wrapper(operands=1),
}


def inner_commands(simple: SimpleCommand) -> tuple[SimpleCommand | str | HiddenCode, ...]:
    """Returns the commands that a command runs: as parsed words, or as text still to be parsed."""
    name = simple.name
    if name in WRAPPERS:
        found = _wrapped_command(simple, WRAPPERS[name])
        return () if found is None else (found,)
    if name in _SHELLS:
        return _commands_of_shell(simple)
    if name in {"eval", "trap"}:
        words = simple.arguments if name == "eval" else simple.arguments[:1]
        if not all(word.literal for word in words):
            return (HiddenCode.OPAQUE,)
        return (" ".join(word.text for word in words),) if words else ()
    if name in _EXEC_OPTIONS:
        return tuple(_exec_commands(simple, _EXEC_OPTIONS[name]))
    return ()


def _wrapped_command(simple: SimpleCommand, wrapper: Wrapper) -> SimpleCommand | HiddenCode | None:
    words = simple.arguments
    at, operands, options = 0, wrapper.operands, True
    while at < len(words):
        word = words[at]
        if options and word.literal and word.text == "--":
            options = False
        elif options and word.may_be_option:
            if not word.literal or _is_option(word.text, wrapper.opaque_options):
                return HiddenCode.OPAQUE
            if _is_option(word.text, wrapper.lookup_options):
                return None
            at += word.text in wrapper.value_options
        elif wrapper.takes_assignments and _ASSIGNMENT.match(word.text):
            pass
        elif operands:
            operands -= 1
        elif wrapper.appends_words and word.text in _PLACEHOLDERS:
            return HiddenCode.OPAQUE
        else:
            return _command_from_words(simple, words[at:], opens=wrapper.appends_words)
        at += 1
    return None


def _is_option(text: str, options: tuple[str, ...]) -> bool:
    """Whether the text is one of these options, also with its value attached."""
    return any(
        text == option or text.startswith(option + "=") or (len(option) == 2 and text.startswith(option))
        for option in options
    )


def _commands_of_shell(simple: SimpleCommand) -> tuple[SimpleCommand | str | HiddenCode, ...]:
    """Returns the text of `bash -c text`. Script files and piped text are opaque."""
    words, takes_text, values = simple.arguments, False, 0
    for word in words:
        if not word.literal or word.text.lstrip("-") in _SHELL_OPTIONS:
            return (HiddenCode.OPAQUE,)
        if word.text in {"--version", "--help"}:
            return ()
        if word.text[:1] in {"-", "+"}:
            letters = "" if word.text.startswith("--") else word.text
            takes_text = takes_text or (letters.startswith("-") and "c" in letters)
            values += sum(map(letters.count, "oO"))
        elif values:
            values -= 1  # `-o pipefail`
        else:
            return (word.text if takes_text else HiddenCode.OPAQUE,)
    return (HiddenCode.OPAQUE,) if simple.position.fed or words else ()


def reads_script(simple: SimpleCommand) -> bool:
    """Whether it is a shell that executes its standard input."""
    words = simple.arguments
    return simple.name in _SHELLS and all(
        word.literal and re.fullmatch(r"-[abd-z]+|--\w+", word.text) for word in words
    )


def _exec_commands(simple: SimpleCommand, options: frozenset[str]) -> list[SimpleCommand | HiddenCode]:
    """Returns the commands after `-exec`, each up to its `;` or `+`."""
    found: list[SimpleCommand | HiddenCode] = []
    words: list[Word] | None = None
    for word in simple.arguments:
        if words is None:
            words = [] if word.literal and word.text in options else None
        elif word.literal and word.text in _EXEC_ENDS:
            found.append(_command_from_words(simple, tuple(words), opens=True) if words else HiddenCode.OPAQUE)
            words = None
        else:
            words.append(word)
    if words:
        found.append(_command_from_words(simple, tuple(words), opens=True))
    return found


def _command_from_words(outer: SimpleCommand, words: tuple[Word, ...], *, opens: bool) -> SimpleCommand:
    return replace(
        outer,
        program=words[0],
        arguments=words[1:],
        assignments=(),
        redirections=(),
        open_ended=outer.open_ended or opens,
    )

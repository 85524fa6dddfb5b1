"""The command inside a command: `timeout 5 rm x`, `bash -c 'rm x'`, `find . -exec rm {} +`.

Wrappers are data. What a wrapper's words do not tell (an option this table does not know, text made by an expansion)
is `OPAQUE`, and counts as code nobody has seen.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from enum import Enum
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from toolyard.policy.shell.ast import Simple, Word

_ASSIGNMENT: Final = re.compile(r"[A-Za-z_]\w*=")
_SHELLS: Final = frozenset({"bash", "sh", "dash", "zsh", "ksh", "ash", "rbash"})
_SHELL_OPTIONS: Final = frozenset({"norc", "rcfile", "init-file", "restricted"})
"""Which bash takes with one dash as well: no `-c` is among their letters."""
_EXEC_OPTIONS: Final = {
    "find": frozenset({"-exec", "-execdir", "-ok", "-okdir"}),
    "fd": frozenset({"-x", "--exec", "-X", "--exec-batch"}),
    "fdfind": frozenset({"-x", "--exec", "-X", "--exec-batch"}),
}
_PLACEHOLDERS: Final = frozenset({"{}", "%", "@"})
"""As a program's name: the input says which program runs."""
_EXEC_ENDS: Final = frozenset({";", "+"})


class Hidden(Enum):
    OPAQUE = "code that the text does not show"


@dataclass(frozen=True, slots=True)
class Wrapper:
    values: tuple[str, ...] = ()
    """Options whose value is the next word."""
    operands: int = 0
    """Words of the wrapper's own before the command."""
    assigns: bool = False
    opens: bool = False
    """Whether it adds words to the command."""
    looks: tuple[str, ...] = ()
    """Options with which it only looks a program up."""
    hides: tuple[str, ...] = ()
    """Options with which it runs something else than the words that follow."""


WRAPPERS: Final[dict[str, Wrapper]] = {
    **dict.fromkeys(("nohup", "setsid", "builtin", "unbuffer", "chronic", "fakeroot", "coproc"), Wrapper()),
    **dict.fromkeys(("busybox", "toybox"), Wrapper(looks=("--help", "--list"))),
    "env": Wrapper(("-u", "--unset", "-C", "--chdir"), assigns=True, hides=("-S", "--split-string")),
    "command": Wrapper(looks=("-v", "-V")),
    "exec": Wrapper(("-a",)),
    "nice": Wrapper(("-n", "--adjustment")),
    "ionice": Wrapper(("-c", "-n", "--class", "--classdata"), hides=("-p", "--pid")),
    "timeout": Wrapper(("-k", "-s", "--kill-after", "--signal"), operands=1),
    "time": Wrapper(("-f", "-o", "--format", "--output")),
    "stdbuf": Wrapper(("-i", "-o", "-e")),
    "chrt": Wrapper(operands=1),
    "taskset": Wrapper(operands=1),
    "flock": Wrapper(("-w", "-E"), operands=1, hides=("-c", "--command")),
    "watch": Wrapper(("-n", "--interval")),
    "strace": Wrapper(("-o", "-e", "-p", "-s", "-u")),
    "xargs": Wrapper(
        ("-I", "-n", "-P", "-L", "-d", "-a", "-E", "-s", "--max-args", "--max-procs", "--arg-file", "--delimiter"),
        opens=True,
    ),
    "parallel": Wrapper(("-j", "--jobs", "-a"), opens=True),
    "sudo": Wrapper(("-u", "-g", "-h", "-p", "-C", "-r", "-t", "-T", "-U", "-D", "--user", "--group"), assigns=True),
    "doas": Wrapper(("-u", "-C")),
    "chroot": Wrapper(operands=1),
}


def inner(simple: Simple) -> tuple[Simple | str | Hidden, ...]:
    """The commands a command runs: words of its own, or text that is still to be parsed."""
    name = simple.name
    if name in WRAPPERS:
        found = _wrapped(simple, WRAPPERS[name])
        return () if found is None else (found,)
    if name in _SHELLS:
        return _shell(simple)
    if name in {"eval", "trap"}:
        words = simple.arguments if name == "eval" else simple.arguments[:1]
        if not all(word.literal for word in words):
            return (Hidden.OPAQUE,)
        return (" ".join(word.text for word in words),) if words else ()
    if name in _EXEC_OPTIONS:
        return tuple(_executed(simple, _EXEC_OPTIONS[name]))
    return ()


def _wrapped(simple: Simple, wrapper: Wrapper) -> Simple | Hidden | None:
    words = simple.arguments
    at, operands, options = 0, wrapper.operands, True
    while at < len(words):
        word = words[at]
        if options and word.literal and word.text == "--":
            options = False
        elif options and word.may_be_option:
            if not word.literal or _given(word.text, wrapper.hides):
                return Hidden.OPAQUE
            if _given(word.text, wrapper.looks):
                return None
            at += word.text in wrapper.values
        elif wrapper.assigns and _ASSIGNMENT.match(word.text):
            pass
        elif operands:
            operands -= 1
        elif wrapper.opens and word.text in _PLACEHOLDERS:
            return Hidden.OPAQUE
        else:
            return _simple(simple, words[at:], opens=wrapper.opens)
        at += 1
    return None


def _given(text: str, options: tuple[str, ...]) -> bool:
    """Whether it is one of these options, also with its value attached."""
    return any(
        text == option or text.startswith(option + "=") or (len(option) == 2 and text.startswith(option))
        for option in options
    )


def _shell(simple: Simple) -> tuple[Simple | str | Hidden, ...]:
    """`bash -c text`. A script's file, and text from a pipe, are not seen."""
    words, takes_text, values = simple.arguments, False, 0
    for word in words:
        if not word.literal or word.text.lstrip("-") in _SHELL_OPTIONS:
            return (Hidden.OPAQUE,)
        if word.text in {"--version", "--help"}:
            return ()
        if word.text[:1] in {"-", "+"}:
            letters = "" if word.text.startswith("--") else word.text
            takes_text = takes_text or (letters.startswith("-") and "c" in letters)
            values += sum(map(letters.count, "oO"))
        elif values:
            values -= 1  # `-o pipefail`
        else:
            return (word.text if takes_text else Hidden.OPAQUE,)
    return (Hidden.OPAQUE,) if simple.place.fed or words else ()


def reads_script(simple: Simple) -> bool:
    """Whether it is a shell that runs what it is fed."""
    words = simple.arguments
    return simple.name in _SHELLS and all(
        word.literal and re.fullmatch(r"-[abd-z]+|--\w+", word.text) for word in words
    )


def _executed(simple: Simple, options: frozenset[str]) -> list[Simple | Hidden]:
    """The commands after `-exec`, each up to its `;` or `+`."""
    found: list[Simple | Hidden] = []
    words: list[Word] | None = None
    for word in simple.arguments:
        if words is None:
            words = [] if word.literal and word.text in options else None
        elif word.literal and word.text in _EXEC_ENDS:
            found.append(_simple(simple, tuple(words), opens=True) if words else Hidden.OPAQUE)
            words = None
        else:
            words.append(word)
    if words:
        found.append(_simple(simple, tuple(words), opens=True))
    return found


def _simple(outer: Simple, words: tuple[Word, ...], *, opens: bool) -> Simple:
    return replace(
        outer,
        program=words[0],
        arguments=words[1:],
        assignments=(),
        redirections=(),
        open_ended=outer.open_ended or opens,
    )

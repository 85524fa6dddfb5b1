"""The programs that only read, and with which words they no longer do. What is not listed here is not read-only."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from toolyard.policy.shell.rules import operands

if TYPE_CHECKING:
    from toolyard.policy.shell.ast import Assignment, Redirection, SimpleCommand, Word

_PLAIN_VARIABLE: Final = re.compile(r"[a-z_][a-z0-9_]*")
_PRESENTATION: Final = re.compile(r"LC_[A-Z]+|LANG|TZ|COLUMNS|LINES|NO_COLOR|FORCE_COLOR|CLICOLOR")
_NULL_DEVICE: Final = "/dev/null"
# bash opens a connection for these names.
_DEVICES: Final = "/dev/"


@dataclass(frozen=True, slots=True)
class ReadOnlyProgram:
    """A program that only reads, unless one of these options is given. Long ones may come abbreviated."""

    unsafe_options: tuple[str, ...] = ()
    subcommands: frozenset[str] = frozenset()
    """When there are any, the first argument must be one of them."""
    listing_subcommands: frozenset[str] = frozenset()
    """Subcommands that only read when no other word than an option among `listing_options` follows."""
    listing_options: frozenset[str] = frozenset()
    leading: frozenset[str] = frozenset()
    """Options that may stand before the subcommand."""
    max_operands: int | None = None
    """More words than these would name a file to write."""
    word_pattern: re.Pattern[str] | None = None
    """When set, every argument must look so."""
    options_first: bool = False
    """Whether only the first argument can be an option."""
    only_in_start_folder: bool = False
    """Whether it reads as it should only in the folder the command starts in."""


_HARMLESS: Final = ReadOnlyProgram()
_GIT: Final = ReadOnlyProgram(
    ("--output", "--ext-diff", "--textconv", "--paginate", "-O", "--open-files-in-pager", "--filters"),
    frozenset(
        {
            *("status", "log", "diff", "show", "blame", "ls-files", "ls-tree", "rev-parse", "describe", "shortlog"),
            *("grep", "rev-list", "merge-base", "cat-file", "show-ref", "name-rev"),
        }
    ),
    listing_subcommands=frozenset({"branch", "remote", "tag"}),
    listing_options=frozenset(
        {"-a", "-r", "-v", "-vv", "--all", "--remotes", "--list", "-l", "--show-current", "--verbose"}
    ),
    leading=frozenset({"--no-pager", "--no-optional-locks"}),
    # In another folder it may find a repository whose configuration an agent wrote, and run what that names.
    only_in_start_folder=True,
)
UNREPORTED_PROGRAMS: Final = frozenset(
    {
        *(
            "echo",
            "printf",
            "true",
            "false",
            ":",
            "pwd",
            "cd",
            "test",
            "[",
            "[[",
            "exit",
            "break",
            "continue",
            "return",
        ),
        *("set", "read", "sleep", "wait", "seq", "date", "basename", "dirname", "whoami", "id", "uname", "nproc"),
        *("export", "declare", "typeset", "local", "readonly", "unset", "shift", "shopt", "pushd", "popd", "jobs"),
    }
)
"""Programs of which nothing needs to be told."""
READ_ONLY_PROGRAMS: Final[dict[str, ReadOnlyProgram]] = {
    **dict.fromkeys(
        (
            *("ls", "cat", "head", "tail", "wc", "pwd", "stat", "du", "df", "echo", "true", "false", ":", "basename"),
            *("dirname", "realpath", "readlink", "cut", "nl", "cmp", "diff", "cksum", "md5sum", "sha1sum"),
            *("sha256sum", "sha512sum", "b2sum", "uname", "whoami", "id", "which", "tac", "od", "strings", "grep"),
            *("egrep", "fgrep", "tr", "rev", "comm", "join", "paste", "fold", "fmt", "expand", "column", "seq"),
            *("nproc", "free", "uptime", "ps", "pgrep", "jq", "hexdump", "sleep", "cd", "exit", "break", "continue"),
            *("[[", "type", "groups", "zcat", "base64", "numfmt", "getconf", "locale"),
        ),
        _HARMLESS,
    ),
    "printf": ReadOnlyProgram(("-v",), options_first=True),
    # `-v` and `-R` evaluate what they are given as a subscript.
    **dict.fromkeys(("test", "["), ReadOnlyProgram(("-v", "-R"))),
    "rg": ReadOnlyProgram(("--pre", "--hostname-bin", "--search-zip", "-z")),
    "sort": ReadOnlyProgram(("-o", "--output", "--compress-program", "-T", "--temporary-directory")),
    "uniq": ReadOnlyProgram(max_operands=1),
    "find": ReadOnlyProgram(
        ("-exec", "-execdir", "-ok", "-okdir", "-delete", "-fprint", "-fprint0", "-fprintf", "-fls", "-files0-from")
    ),
    "fd": ReadOnlyProgram(("-x", "-X", "--exec", "--exec-batch")),
    "tree": ReadOnlyProgram(("-o", "-R", "--output")),
    "file": ReadOnlyProgram(("-C", "--compile", "-m", "--magic-file", "-z", "-Z", "--uncompress")),
    "date": ReadOnlyProgram(
        ("-s", "--set"), word_pattern=re.compile(r"\+.*|-[uR]|-I\w*|--\w[\w=-]*|-d|@?\d+|[\w: ]+ago|yesterday")
    ),
    "set": ReadOnlyProgram(word_pattern=re.compile(r"[-+][euxfo]+|pipefail")),
    "read": ReadOnlyProgram(word_pattern=re.compile(r"-r|[a-z_][a-z0-9_]*")),
    "sed": ReadOnlyProgram(word_pattern=re.compile(r"-n|[^-].*"), subcommands=frozenset({"-n"})),
    "git": _GIT,
}
_SED_PRINT: Final = re.compile(r"(?:\d+|\$)(?:,(?:\d+|\$))?p")
# Their inner command is judged by itself; `env` is not here: it may set what changes how a reader reads.
TRANSPARENT_WRAPPERS: Final[dict[str, tuple[str, ...]]] = {
    **dict.fromkeys(("timeout", "nice", "command", "stdbuf"), ()),
    "time": ("-o", "--o"),
    "xargs": ("-I", "-i", "-J", "--r", "--p"),
}
"""Wrappers that only read if what they wrap does, unless a word starts like this."""


def is_read_only_command(simple: SimpleCommand, *, folder_changed: bool) -> bool:
    """Whether one simple command surely changes nothing. `folder_changed`: the folder may be another than at the start."""
    if not all(_is_harmless_assignment(one, prefix=simple.program is not None) for one in simple.assignments):
        return False
    if not all(is_harmless_redirection(one) for one in simple.redirections) or simple.place.background:
        return False
    if simple.program is None:
        return True
    # A path may lead to another program of the same name.
    if not simple.program.literal or "/" in simple.program.text:
        return False
    if simple.name in TRANSPARENT_WRAPPERS:
        return not any(word.text.startswith(TRANSPARENT_WRAPPERS[simple.name]) for word in simple.arguments)
    reader = READ_ONLY_PROGRAMS.get(simple.name)
    if reader is None or (reader.only_in_start_folder and folder_changed):
        return False
    return _words_are_safe(simple, reader)


def is_known_reader(simple: SimpleCommand) -> bool:
    """Whether it is a reader by its name and subcommand, whatever its options. For telling, not for allowing."""
    reader = READ_ONLY_PROGRAMS.get(simple.name)
    if reader is None or not reader.subcommands:
        return reader is not None or simple.name in TRANSPARENT_WRAPPERS
    return simple.name == "sed" or bool(set(operands(simple)[:1]) & (reader.subcommands | reader.listing_subcommands))


def changes_folder(simple: SimpleCommand) -> bool:
    return simple.name in {"cd", "pushd", "popd"}


def _words_are_safe(simple: SimpleCommand, reader: ReadOnlyProgram) -> bool:
    if reader.word_pattern is not None and not all(
        word.literal and reader.word_pattern.fullmatch(word.text) for word in simple.arguments
    ):
        return False
    if simple.name == "sed" and not _prints_lines(simple):
        return False
    if reader.subcommands and not _subcommand_reads(simple, reader):
        return False
    if reader.max_operands is not None:
        if simple.open_ended or not all(word.literal for word in simple.arguments):
            return False
        if len(operands(simple)) > reader.max_operands:
            return False
    if not reader.unsafe_options:
        return True
    return not simple.open_ended and not any(
        _may_be_option(word, option) for word in _possible_options(simple) for option in reader.unsafe_options
    )


def _possible_options(simple: SimpleCommand) -> tuple[Word, ...]:
    """What a program may take for options. `find` and `test` know no `--`."""
    texts = [word.text if word.literal else "" for word in simple.arguments]
    if READ_ONLY_PROGRAMS[simple.name].options_first:
        return simple.arguments[:1]
    if "--" not in texts or simple.name in {"find", "test", "["}:
        return simple.arguments
    return simple.arguments[: texts.index("--")]


def _subcommand_reads(simple: SimpleCommand, reader: ReadOnlyProgram) -> bool:
    words = list(simple.arguments)
    while words and words[0].literal and words[0].text in reader.leading:
        words.pop(0)
    if not words or not words[0].literal:
        return False
    if words[0].text in reader.listing_subcommands:
        return not simple.open_ended and all(
            word.literal and word.text in reader.listing_options for word in words[1:]
        )
    return words[0].text in reader.subcommands


def _prints_lines(simple: SimpleCommand) -> bool:
    """`sed -n 10,20p file`: a script that can only print."""
    words = [word.text for word in simple.arguments]
    return len(words) >= 2 and _SED_PRINT.fullmatch(words[1]) is not None and not simple.open_ended


def _may_be_option(word: Word, option: str) -> bool:
    """Whether the word may be the option: itself, abbreviated, with a value, or in a bundle of short ones."""
    if not word.literal:
        return word.may_be_option
    text = word.text
    if option.startswith("--"):
        name = text.partition("=")[0]
        return len(name) > 2 and name.startswith("--") and option.startswith(name)
    if len(option) > 2:
        return text == option
    return text.startswith("-") and not text.startswith("--") and option[1] in text[1:]


def _is_harmless_assignment(assignment: Assignment, *, prefix: bool) -> bool:
    """Names in lower case belong to the script; of the others only those that change how output looks."""
    if _PRESENTATION.fullmatch(assignment.name):
        return True
    return not prefix and _PLAIN_VARIABLE.fullmatch(assignment.name) is not None


def is_harmless_redirection(redirection: Redirection) -> bool:
    """To nowhere, to another descriptor, or from a file. A here-document's end is easily misread, so none counts."""
    target = redirection.target
    if redirection.operator == "<<":
        return False
    if not redirection.writes:
        if redirection.operator == "<" and target is not None:
            return target.text == _NULL_DEVICE or not (
                target.text if target.literal else target.head or _DEVICES
            ).startswith(_DEVICES)
        return redirection.operator in {"<<<", ">&", "<&", ">&-", "<&-"}
    return target is not None and target.literal and target.text == _NULL_DEVICE

"""The programs that only read, and the arguments with which they may write. Other programs are not read-only."""

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
    """A program that only reads unless one of the unsafe options is given. Long options may be abbreviated."""

    unsafe_options: tuple[str, ...] = ()
    subcommands: frozenset[str] = frozenset()
    """If set, the first argument must be one of these."""
    listing_subcommands: frozenset[str] = frozenset()
    """Subcommands that only read when no other word than an option among `listing_options` follows."""
    listing_options: frozenset[str] = frozenset()
    leading: frozenset[str] = frozenset()
    """Options that may stand before the subcommand."""
    max_operands: int | None = None
    """More operands than this would name an output file."""
    word_pattern: re.Pattern[str] | None = None
    """If set, every argument must match."""
    options_first: bool = False
    """Whether only the first argument can be an option."""
    only_in_start_folder: bool = False
    """Whether it is safe only in the folder the command starts in."""


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
    # In another folder, git may find a repository with a configuration that an agent wrote, and run what it names.
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
"""Programs whose effects need no mention in a summary."""
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
    # `-v` and `-R` evaluate subscripts in their argument.
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
# The inner command is checked separately. `env` is not listed: its variables may change what a program does.
TRANSPARENT_WRAPPERS: Final[dict[str, tuple[str, ...]]] = {
    **dict.fromkeys(("timeout", "nice", "command", "stdbuf"), ()),
    "time": ("-o", "--o"),
    "xargs": ("-I", "-i", "-J", "--r", "--p"),
}
"""Wrappers that only read if the wrapped command does, unless a word starts with one of these prefixes."""


def is_read_only_command(simple: SimpleCommand, *, folder_changed: bool) -> bool:
    """Whether a simple command certainly changes nothing. `folder_changed`: a `cd` may have run before it."""
    if not all(_is_harmless_assignment(one, prefix=simple.program is not None) for one in simple.assignments):
        return False
    if not all(is_harmless_redirection(one) for one in simple.redirections) or simple.position.background:
        return False
    if simple.program is None:
        return True
    # A path may name a different program with the same base name.
    if not simple.program.literal or "/" in simple.program.text:
        return False
    if simple.name in TRANSPARENT_WRAPPERS:
        return not any(word.text.startswith(TRANSPARENT_WRAPPERS[simple.name]) for word in simple.arguments)
    reader = READ_ONLY_PROGRAMS.get(simple.name)
    if reader is None or (reader.only_in_start_folder and folder_changed):
        return False
    return _words_are_safe(simple, reader)


def is_known_reader(simple: SimpleCommand) -> bool:
    """Whether program and subcommand normally only read, with any options. For summaries, not for permission."""
    reader = READ_ONLY_PROGRAMS.get(simple.name)
    if reader is None or not reader.subcommands:
        return reader is not None or simple.name in TRANSPARENT_WRAPPERS
    return simple.name == "sed" or bool(set(operands(simple)[:1]) & (reader.subcommands | reader.listing_subcommands))


def changes_folder(simple: SimpleCommand) -> bool:
    """Whether the command changes the working folder."""
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
    """Returns the arguments that the program may read as options. `find` and `test` have no `--`."""
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
    """Whether a `sed` script can only print lines, as in `sed -n 10,20p file`."""
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
    """Whether it sets a lower-case variable, which belongs to the script, or one that only changes output format."""
    if _PRESENTATION.fullmatch(assignment.name):
        return True
    return not prefix and _PLAIN_VARIABLE.fullmatch(assignment.name) is not None


def is_harmless_redirection(redirection: Redirection) -> bool:
    """Whether it redirects to /dev/null, to another descriptor, or from a file.

    Here-documents never count: their end is easily misparsed.
    """
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

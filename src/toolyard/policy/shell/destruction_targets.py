"""Selects the words of a command that name what it deletes or overwrites. The words are already resolved."""

from __future__ import annotations

import posixpath
import re
from dataclasses import replace
from itertools import pairwise
from typing import TYPE_CHECKING, Final

from toolyard.policy.shell.ast import Word
from toolyard.policy.shell.rules import has_option

if TYPE_CHECKING:
    from collections.abc import Callable

    from toolyard.policy.shell.ast import SimpleCommand

_WORKING_FOLDER: Final = Word(".")
_MAGIC: Final = re.compile(r"[*?\[]")
_GROWING_SIZES: Final = ("+", ">", "/", "%")
"""Prefixes of `truncate` sizes with which a file loses little or nothing."""
_DRY_FORMATS: Final = frozenset({"mkfs.ext2", "mkfs.ext3", "mkfs.ext4", "mkfs.ntfs", "mke2fs"})
"""Programs whose `-n` is a dry run. For others it is a label or a size."""
_DRY_TYPES: Final = frozenset({"ext2", "ext3", "ext4", "ntfs"})
_VALUE_OPTIONS: Final[dict[str, frozenset[str]]] = {
    "cp": frozenset({"-t", "--target-directory", "-S", "--suffix"}),
    "mv": frozenset({"-t", "--target-directory", "-S", "--suffix"}),
    "install": frozenset({"-t", "--target-directory", "-m", "--mode", "-o", "--owner", "-g", "--group"}),
    "rsync": frozenset({"-e", "--rsh", "--exclude", "--include", "-f", "--filter", "--exclude-from", "--files-from"}),
    "shred": frozenset({"-n", "--iterations", "-s", "--size"}),
    "truncate": frozenset({"-s", "--size", "-r", "--reference"}),
    "tar": frozenset({"-f", "--file", "-C", "--directory", "--exclude"}),
    "unzip": frozenset({"-d", "-x"}),
    "wipefs": frozenset({"-o", "--offset", "-t", "--types"}),
    "mkfs": frozenset({"-t", "-L", "-U", "-b", "-N", "-O", "-E"}),
    "git": frozenset({"-C", "-c", "-e", "--exclude", "--git-dir", "--work-tree"}),
    "sfdisk": frozenset({"-N", "-X"}),
    "sgdisk": frozenset({"-n", "-t", "-c", "-d"}),
    "badblocks": frozenset({"-b", "-c", "-o"}),
}
"""Options whose value is the next word."""
_FIND_GLOBAL: Final = frozenset({"-H", "-L", "-P"})
_FIND_EXEC_OPTIONS: Final = frozenset({"-exec", "-execdir", "-ok", "-okdir"})
_FIND_TEST_PROGRAMS: Final = frozenset({"test", "[", "grep", "egrep", "fgrep", "rg"})
"""Programs that `-exec` runs to test whether a file is selected."""
_FIND_WHOLE_TYPES: Final = frozenset("fd")
_DELETERS: Final = frozenset({"rm", "shred", "unlink", "srm", "trash"})
_FIND_TAKES_ALL: Final = frozenset(
    {"-depth", "-d", "-xdev", "-mount", "-print", "-print0", "-delete", "-ls", "-a", "-and", "-noleaf", "-prune"}
)
_FIND_NEGATES: Final = frozenset({"!", "-not"})
_FIND_TAKES_ALL_WITH_VALUE: Final = frozenset({"-mindepth", "-maxdepth", "-type", "-regextype"})


def plain_operands(simple: SimpleCommand) -> list[Word]:
    """Returns the words that are neither options nor option values."""
    program = "mkfs" if simple.name.startswith("mkfs.") else simple.name
    values = _VALUE_OPTIONS.get(program, frozenset[str]())
    found: list[Word] = []
    skip, options = False, True
    for word in simple.arguments:
        if skip:
            skip = False
        elif options and word.literal and word.text == "--":
            options = False
        elif options and word.may_be_option and word.text != "-":
            skip = word.text in values
        else:
            found.append(word)
    return found


def rm_targets(simple: SimpleCommand) -> list[Word]:
    """Returns the operands of `rm`, unless it prompts: without a terminal the answer is no."""
    asks = False
    for word in simple.arguments:
        if word.text.startswith("--interactive"):
            asks = word.text != "--interactive=never"
        elif word.literal and re.fullmatch(r"-[A-Za-z]+|--force", word.text):
            letters = re.sub(r"[^fiI]", "", "f" if word.text == "--force" else word.text)
            asks = letters[-1] != "f" if letters else asks
    return [] if asks and not simple.position.fed else plain_operands(simple)


def rm_tree_targets(simple: SimpleCommand) -> list[Word]:
    """Returns the operands that mean every file of a tree."""
    return [word for word in rm_targets(simple) if word.deep]


def glob_operands(simple: SimpleCommand) -> list[Word]:
    """Returns the operands of a program that expands `*` itself."""
    return [
        Word(word.text, literal=False, globs=True, head="./") if word.literal and _MAGIC.search(word.text) else word
        for word in plain_operands(simple)
    ]


def truncate_targets(simple: SimpleCommand) -> list[Word]:
    """Returns the operands of `truncate`, unless it only extends files."""
    sizes = [word.text for word in option_values(simple, "-s", "--size")]
    return [] if any(size.startswith(_GROWING_SIZES) for size in sizes) else plain_operands(simple)


def mkfs_targets(simple: SimpleCommand) -> list[Word]:
    """Returns the operands of `mkfs`, unless it is a dry run."""
    of_type = [word.text for word in option_values(simple, "-t", "--type")] or ["ext2"]
    dry = simple.name in _DRY_FORMATS or (simple.name == "mkfs" and of_type[-1] in _DRY_TYPES)
    if has_option(simple, ("-n",) if dry else ("-N",) if simple.name == "mkfs.xfs" else ()):
        return []
    return plain_operands(simple)


def option_values(simple: SimpleCommand, *options: str) -> list[Word]:
    """Returns the values of these options: the next word, after `=`, or attached to a short option."""
    found: list[Word] = []
    words = simple.arguments
    for at, word in enumerate(words):
        for option in options:
            if word.text == option:
                found.extend(words[at + 1 : at + 2])
            elif option.startswith("--") and word.text.startswith(f"{option}="):
                found.append(Word(word.text.partition("=")[2]))
            elif not option.startswith("--") and word.literal and word.text.startswith(option):
                found.append(Word(word.text[len(option) :]))
    return found


def source_operands(simple: SimpleCommand) -> list[Word]:
    """Returns the sources of `cp`, `mv` and similar commands."""
    words = plain_operands(simple)
    return words if option_values(simple, "-t", "--target-directory") else words[:-1]


def destination_operand(simple: SimpleCommand) -> list[Word]:
    """Returns the destination of `cp`, `mv` and similar commands."""
    return option_values(simple, "-t", "--target-directory") or plain_operands(simple)[1:][-1:]


def operands_after_first(simple: SimpleCommand) -> list[Word]:
    """Returns the files of `chmod MODE FILE ...` and `chown OWNER FILE ...`."""
    named = any(word.text.startswith("--reference") for word in simple.arguments)
    return plain_operands(simple)[0 if named else 1 :]


def dd_output_file(simple: SimpleCommand) -> list[Word]:
    """Returns the file of `dd of=FILE`."""
    return [Word(word.text[3:]) for word in simple.arguments if word.literal and word.text.startswith("of=")]


def unpack_folder(*options: str) -> Callable[[SimpleCommand], list[Word]]:
    """Returns a selector of the folder an archive is unpacked into: the option's value or the working folder."""
    return lambda simple: option_values(simple, *options) or [_WORKING_FOLDER]


def tar_extract_folder(simple: SimpleCommand) -> list[Word]:
    """Returns the folder that `tar` extracts into; empty if it does not extract."""
    first = simple.arguments[0].text if simple.arguments else ""
    bundles = [first.lstrip("-")] if not first.startswith("--") else []
    bundles += [word.text[1:] for word in simple.arguments if word.text.startswith("-") and word.text[1:2] != "-"]
    extracts = any("x" in bundle for bundle in bundles) or any(
        word.text in {"--extract", "--get"} for word in simple.arguments
    )
    return (option_values(simple, "-C", "--directory") or [_WORKING_FOLDER]) if extracts else []


def operands_with(
    *words: str, operands_of: Callable[[SimpleCommand], list[Word]] = plain_operands
) -> Callable[[SimpleCommand], list[Word]]:
    """Returns a selector of the operands if one of these words is among them: `npx rimraf FOLDER`."""

    def operands(simple: SimpleCommand) -> list[Word]:
        found = operands_of(simple)
        return found if any(word.text in words for word in found) else []

    return operands


def git_paths(subcommand: str, *, everything: bool) -> Callable[[SimpleCommand], list[Word]]:
    """Returns a selector of a git subcommand's paths. `everything`: without paths it means the working folder."""

    def paths(simple: SimpleCommand) -> list[Word]:
        words = plain_operands(simple)
        if not words or words[0].text != subcommand:
            return []
        folder = option_values(simple, "-C")
        named = words[1:] or ([_WORKING_FOLDER] if everything else [])
        if not folder:
            return named
        return [
            Word(posixpath.join(folder[-1].text, word.text), literal=word.literal, globs=word.globs, head="./")
            for word in named
        ]

    return paths


def printed_words(simple: SimpleCommand) -> list[Word]:
    """Returns the words that a command prints for `xargs` or `read`, as far as its arguments show them."""
    if simple.name in {"echo", "printf"}:
        return plain_operands(simple)
    if simple.name == "find":
        return find_results(simple)
    if simple.name != "ls":
        return []
    names = ("*", ".*") if has_option(simple, ("-a", "-A", "--all", "--almost-all")) else ("*",)
    folders = plain_operands(simple) or [_WORKING_FOLDER]
    return [Word(f"{word.text}/{name}", literal=False, globs=True, head="./") for word in folders for name in names]


def find_results(simple: SimpleCommand) -> list[Word]:
    """Returns the folders that `find` prints entirely, or nothing if a test such as `-name` selects only some files.

    If it prints all files except some by name, that includes at least the repository.
    """
    folders, tests = _split_find(simple)
    if _is_selective(tests):
        return []
    if not _excludes_by_name(tests):
        return [replace(word, deep=True) for word in folders]
    if any(".git" in value for _, value in _negated_tests(tests)):
        return []
    return [Word(f"{word.text}/.git", deep=True) for word in folders if word.literal]


def _split_find(simple: SimpleCommand) -> tuple[list[Word], list[Word]]:
    """Splits the arguments of `find` into folders and tests."""
    words = list(simple.arguments)
    while words and words[0].text in _FIND_GLOBAL:
        words.pop(0)
    at = next((n for n, word in enumerate(words) if word.text.startswith(("-", "(", "!"))), len(words))
    return words[:at] or [_WORKING_FOLDER], words[at:]


def _negated_tests(tests: list[Word]) -> list[tuple[str, str]]:
    """Returns the tests after `!`, with their values."""
    texts = [word.text for word in tests]
    return [(texts[n + 1], texts[n + 2]) for n in range(len(texts) - 2) if texts[n] in _FIND_NEGATES]


def _excludes_by_name(tests: list[Word]) -> bool:
    return any(test in {"-name", "-iname"} and _MAGIC.search(value) for test, value in _negated_tests(tests))


def _is_selective(tests: list[Word]) -> bool:
    at, negated, of_type, shallow = 0, False, False, False
    while at < len(tests):
        text = tests[at].text
        value = tests[at + 1].text if at + 1 < len(tests) else ""
        if text in _FIND_EXEC_OPTIONS:
            if value.rpartition("/")[2] in _FIND_TEST_PROGRAMS:
                return not negated
            at = next((n for n in range(at, len(tests)) if tests[n].text in {";", "+"}), len(tests))
        elif text == "-type" and not _FIND_WHOLE_TYPES & set(value):
            return not negated
        elif text in _FIND_TAKES_ALL_WITH_VALUE:
            of_type = of_type or (text == "-type" and value != "d")
            shallow = shallow or text == "-maxdepth"
            at += 1
        elif text in {"-name", "-iname", "-path", "-wholename"} and (negated or value.strip("*./") == ""):
            at += 1
        elif text not in _FIND_TAKES_ALL and text not in _FIND_NEGATES and text not in {"(", ")"}:
            return not negated
        negated = text in _FIND_NEGATES
        at += 1
    return of_type and shallow  # only the files of one folder, not those below it


def find_delete_targets(simple: SimpleCommand) -> list[Word]:
    """Returns what `find -delete` deletes. Commands after `-exec` are checked separately."""
    return find_results(simple) if any(word.text == "-delete" for word in simple.arguments) else []


def find_delete_targets_except(simple: SimpleCommand) -> list[Word]:
    """Returns the folders of a `find` that deletes all files except some by name."""
    folders, tests = _split_find(simple)
    words = [word.text for word in tests]
    runs = [after.rpartition("/")[2] for word, after in pairwise(words) if word in _FIND_EXEC_OPTIONS]
    deletes = "-delete" in words or any(program in _DELETERS for program in runs)
    return folders if deletes and _excludes_by_name(tests) and not _is_selective(tests) else []


def exec_command_for(executed: SimpleCommand, found: Word) -> SimpleCommand:
    """Returns the command of `find -exec` with a found path in place of `{}`."""
    arguments = tuple(
        found if word.text == "{}" else replace(word, text=word.text.replace("{}", found.text), fragments=())
        for word in executed.arguments
    )
    return replace(executed, arguments=arguments)

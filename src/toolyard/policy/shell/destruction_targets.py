"""Which words of a command name what it deletes or overwrites. They have been replaced by their values before."""

from __future__ import annotations

import posixpath
import re
from dataclasses import replace
from itertools import pairwise
from typing import TYPE_CHECKING, Final

from toolyard.policy.shell.ast import Word
from toolyard.policy.shell.rules import gives

if TYPE_CHECKING:
    from collections.abc import Callable

    from toolyard.policy.shell.ast import Simple

_HERE: Final = Word(".")
_MAGIC: Final = re.compile(r"[*?\[]")
_GROWS: Final = ("+", ">", "/", "%")
"""Sizes of `truncate` with which no file loses anything, or next to nothing."""
_DRY_FORMATS: Final = frozenset({"mkfs.ext2", "mkfs.ext3", "mkfs.ext4", "mkfs.ntfs", "mke2fs"})
"""Programs whose `-n` writes nothing. For others it is a label or a size."""
_DRY_TYPES: Final = frozenset({"ext2", "ext3", "ext4", "ntfs"})
_VALUES: Final[dict[str, frozenset[str]]] = {
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
_FIND_RUNS: Final = frozenset({"-exec", "-execdir", "-ok", "-okdir"})
_FIND_ASKS: Final = frozenset({"test", "[", "grep", "egrep", "fgrep", "rg"})
"""What `-exec` runs to find out whether a file is meant."""
_FIND_WHOLE_TYPES: Final = frozenset("fd")
_DELETERS: Final = frozenset({"rm", "shred", "unlink", "srm", "trash"})
_FIND_TAKES_ALL: Final = frozenset(
    {"-depth", "-d", "-xdev", "-mount", "-print", "-print0", "-delete", "-ls", "-a", "-and", "-noleaf", "-prune"}
)
_FIND_NEGATES: Final = frozenset({"!", "-not"})
_FIND_TAKES_ALL_WITH_VALUE: Final = frozenset({"-mindepth", "-maxdepth", "-type", "-regextype"})


def plain_operands(simple: Simple) -> list[Word]:
    """The words that are neither options nor values of them."""
    program = "mkfs" if simple.name.startswith("mkfs.") else simple.name
    values = _VALUES.get(program, frozenset[str]())
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


def removed(simple: Simple) -> list[Word]:
    """The operands of `rm`, unless it asks: a command has no terminal, so that the answer is no."""
    asks = False
    for word in simple.arguments:
        if word.text.startswith("--interactive"):
            asks = word.text != "--interactive=never"
        elif word.literal and re.fullmatch(r"-[A-Za-z]+|--force", word.text):
            letters = re.sub(r"[^fiI]", "", "f" if word.text == "--force" else word.text)
            asks = letters[-1] != "f" if letters else asks
    return [] if asks and not simple.place.fed else plain_operands(simple)


def removed_one_by_one(simple: Simple) -> list[Word]:
    """The operands that stand for every file of a tree."""
    return [word for word in removed(simple) if word.deep]


def patterns(simple: Simple) -> list[Word]:
    """The operands of a program that reads `*` in them itself."""
    return [
        Word(word.text, literal=False, globs=True, head="./") if word.literal and _MAGIC.search(word.text) else word
        for word in plain_operands(simple)
    ]


def emptied(simple: Simple) -> list[Word]:
    """The operands of `truncate`, unless it only makes files longer."""
    sizes = [word.text for word in option_values(simple, "-s", "--size")]
    return [] if any(size.startswith(_GROWS) for size in sizes) else plain_operands(simple)


def formatted(simple: Simple) -> list[Word]:
    """The operands of `mkfs`, unless it only says what it would do."""
    of_type = [word.text for word in option_values(simple, "-t", "--type")] or ["ext2"]
    dry = simple.name in _DRY_FORMATS or (simple.name == "mkfs" and of_type[-1] in _DRY_TYPES)
    if gives(simple, ("-n",) if dry else ("-N",) if simple.name == "mkfs.xfs" else ()):
        return []
    return plain_operands(simple)


def option_values(simple: Simple, *options: str) -> list[Word]:
    """The values of these options: the next word, after `=`, or attached to a short one."""
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


def sources(simple: Simple) -> list[Word]:
    words = plain_operands(simple)
    return words if option_values(simple, "-t", "--target-directory") else words[:-1]


def destination(simple: Simple) -> list[Word]:
    return option_values(simple, "-t", "--target-directory") or plain_operands(simple)[1:][-1:]


def after_first(simple: Simple) -> list[Word]:
    """Of `chmod MODE FILE ...` and `chown OWNER FILE ...`."""
    named = any(word.text.startswith("--reference") for word in simple.arguments)
    return plain_operands(simple)[0 if named else 1 :]


def output_file(simple: Simple) -> list[Word]:
    """`dd of=FILE`."""
    return [Word(word.text[3:]) for word in simple.arguments if word.literal and word.text.startswith("of=")]


def unpacked_into(*options: str) -> Callable[[Simple], list[Word]]:
    """Where an archive is unpacked: the option's value, else the working folder."""
    return lambda simple: option_values(simple, *options) or [_HERE]


def extracted_by_tar(simple: Simple) -> list[Word]:
    first = simple.arguments[0].text if simple.arguments else ""
    bundles = [first.lstrip("-")] if not first.startswith("--") else []
    bundles += [word.text[1:] for word in simple.arguments if word.text.startswith("-") and word.text[1:2] != "-"]
    extracts = any("x" in bundle for bundle in bundles) or any(
        word.text in {"--extract", "--get"} for word in simple.arguments
    )
    return (option_values(simple, "-C", "--directory") or [_HERE]) if extracts else []


def operands_with(
    *words: str, operands_of: Callable[[Simple], list[Word]] = plain_operands
) -> Callable[[Simple], list[Word]]:
    """The operands where one of these is among them: `npx rimraf FOLDER`, `parted DEVICE mklabel`."""

    def operands(simple: Simple) -> list[Word]:
        found = operands_of(simple)
        return found if any(word.text in words for word in found) else []

    return operands


def git_paths(subcommand: str, *, everything: bool) -> Callable[[Simple], list[Word]]:
    """The paths of a git subcommand. `everything`: without any, it means the folder it runs in."""

    def paths(simple: Simple) -> list[Word]:
        words = plain_operands(simple)
        if not words or words[0].text != subcommand:
            return []
        folder = option_values(simple, "-C")
        named = words[1:] or ([_HERE] if everything else [])
        if not folder:
            return named
        return [
            Word(posixpath.join(folder[-1].text, word.text), literal=word.literal, globs=word.globs, head="./")
            for word in named
        ]

    return paths


def printed_by(simple: Simple) -> list[Word]:
    """The words that a command writes for `xargs` or `read`, where its own words tell them."""
    if simple.name in {"echo", "printf"}:
        return plain_operands(simple)
    if simple.name == "find":
        return found_by(simple)
    if simple.name != "ls":
        return []
    names = ("*", ".*") if gives(simple, ("-a", "-A", "--all", "--almost-all")) else ("*",)
    folders = plain_operands(simple) or [_HERE]
    return [Word(f"{word.text}/{name}", literal=False, globs=True, head="./") for word in folders for name in names]


def found_by(simple: Simple) -> list[Word]:
    """The folders of `find`, unless a test like `-name` leaves only some of what is in them.

    Where all files but those of a kind are left, that is at least the repository.
    """
    folders, tests = _parts_of_find(simple)
    if _narrows(tests):
        return []
    if not _spares_a_kind(tests):
        return [replace(word, deep=True) for word in folders]
    if any(".git" in value for _, value in _negated(tests)):
        return []
    return [Word(f"{word.text}/.git", deep=True) for word in folders if word.literal]


def _parts_of_find(simple: Simple) -> tuple[list[Word], list[Word]]:
    """Its folders and its tests."""
    words = list(simple.arguments)
    while words and words[0].text in _FIND_GLOBAL:
        words.pop(0)
    at = next((n for n, word in enumerate(words) if word.text.startswith(("-", "(", "!"))), len(words))
    return words[:at] or [_HERE], words[at:]


def _negated(tests: list[Word]) -> list[tuple[str, str]]:
    """The tests after `!`, with their values."""
    texts = [word.text for word in tests]
    return [(texts[n + 1], texts[n + 2]) for n in range(len(texts) - 2) if texts[n] in _FIND_NEGATES]


def _spares_a_kind(tests: list[Word]) -> bool:
    return any(test in {"-name", "-iname"} and _MAGIC.search(value) for test, value in _negated(tests))


def _narrows(tests: list[Word]) -> bool:
    at, negated, of_type, shallow = 0, False, False, False
    while at < len(tests):
        text = tests[at].text
        value = tests[at + 1].text if at + 1 < len(tests) else ""
        if text in _FIND_RUNS:
            if value.rpartition("/")[2] in _FIND_ASKS:
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
    return of_type and shallow  # the files of one folder, not those below it


def deleted_by_find(simple: Simple) -> list[Word]:
    """What `-delete` deletes. What `-exec` runs is judged as a command."""
    return found_by(simple) if any(word.text == "-delete" for word in simple.arguments) else []


def deleted_but_for_a_kind(simple: Simple) -> list[Word]:
    folders, tests = _parts_of_find(simple)
    words = [word.text for word in tests]
    runs = [after.rpartition("/")[2] for word, after in pairwise(words) if word in _FIND_RUNS]
    deletes = "-delete" in words or any(program in _DELETERS for program in runs)
    return folders if deletes and _spares_a_kind(tests) and not _narrows(tests) else []


def run_on(executed: Simple, found: Word) -> Simple:
    """What `find -exec` runs, with a thing that it found in the place of `{}`."""
    arguments = tuple(
        found if word.text == "{}" else replace(word, text=word.text.replace("{}", found.text), fragments=())
        for word in executed.arguments
    )
    return replace(executed, arguments=arguments)

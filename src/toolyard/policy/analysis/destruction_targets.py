"""Which words of a command name what it deletes or overwrites. They have been replaced by their values before."""

from __future__ import annotations

import posixpath
from itertools import pairwise
from typing import TYPE_CHECKING, Final

from toolyard.policy.analysis.tree import Word

if TYPE_CHECKING:
    from collections.abc import Callable

    from toolyard.policy.analysis.tree import Simple

_HERE: Final = Word(".")
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
DELETERS: Final = frozenset({"rm", "shred", "unlink", "srm", "trash"})
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


def operands_with(*words: str) -> Callable[[Simple], list[Word]]:
    """The operands where one of these is among them: `npx rimraf FOLDER`, `parted DEVICE mklabel`."""

    def operands(simple: Simple) -> list[Word]:
        found = plain_operands(simple)
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


def found_by(simple: Simple) -> list[Word]:
    """The folders of `find`, unless a test like `-name` leaves only some of what is in them."""
    words = list(simple.arguments)
    while words and words[0].text in _FIND_GLOBAL:
        words.pop(0)
    at = next((n for n, word in enumerate(words) if word.text.startswith(("-", "(", "!"))), len(words))
    return [] if _narrows(words[at:]) else words[:at] or [_HERE]


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
    words = [word.text for word in simple.arguments]
    runs = [after.rpartition("/")[2] for word, after in pairwise(words) if word in _FIND_RUNS]
    deletes = "-delete" in words or any(program in DELETERS for program in runs)
    return found_by(simple) if deletes else []

"""The circuit breaker: commands that would delete or overwrite unrecoverable data need explicit approval.

It applies in addition to the sandbox and in every mode, including `bypassPermissions`; no allow rule overrides it. It
analyses the parsed command text (`policy.shell.destruction`), so it is a safety catch for careless commands, not a
barrier against hostile ones. If the whole text cannot be parsed, each of its commands that can be parsed is checked
separately. Script files and Python code are not checked.
"""

from __future__ import annotations

import contextlib
import functools
import os
import re
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from fnmatch import fnmatchcase
from itertools import takewhile
from typing import TYPE_CHECKING, Final

from toolyard.core.errors import SystemFault
from toolyard.core.limits import KIB
from toolyard.core.paths import is_beneath

if TYPE_CHECKING:
    from toolyard.policy.shell.destruction import Destruction, DestructionRule, Reach, RuleLookup

REPOSITORY: Final = ".git"
_EVERYTHING_GLOBS: Final = frozenset({"*", "**", "?*", "*?"})
"""Globs that match everything in a folder, except hidden files."""
_HIDDEN_FILES_GLOBS: Final = frozenset({".*", ".??*", ".[!.]*", ".[^.]*", ".[a-z]*", ".[A-Za-z]*"})
"""Globs that match all hidden files: in a home folder, the settings and keys of every program."""
_SYSTEM_FOLDERS: Final = (
    *("/bin", "/boot", "/dev", "/etc", "/home", "/lib", "/lib32", "/lib64", "/opt", "/proc", "/run"),
    *("/sbin", "/srv", "/sys", "/usr", "/usr/bin", "/usr/lib", "/usr/local", "/usr/share", "/var", "/var/lib"),
    *("/Applications", "/Library", "/System", "/Users"),
)
_HARMLESS_DEVICES: Final = frozenset(
    {
        *("null", "zero", "full", "random", "urandom", "tty", "stdin", "stdout", "stderr", "ptmx"),
        *("fd", "shm", "pts", "mqueue", "tcp", "udp"),
    }
)
"""Entries of /dev that can be written without harm to a disk."""
_MAX_NAMED_ASSETS: Final = 4
_SEPARATOR: Final = re.compile(r"[;\n]|&&|\|\|")
_HERE_STRING: Final = re.compile(r"<<<\s*(?:'[^']*'|\"[^\"]*\"|\S+)")
"""The parser accepts a here-string only before all other redirections."""
_PARTS_SECONDS: Final = 1.0
_MAX_CHARS: Final = 64 * KIB


class Asset(StrEnum):
    """Something that must not be lost as a whole. The value is its description in the approval question."""

    ROOT = "the root of the file system ({path})"
    DEVICE = "the device {path}"
    SYSTEM = "the system folder {path}"
    HOME = "the home folder {path}"
    MOUNT = "the mount point {path}"
    WORKSPACE = "the whole workspace {path}"
    CONTEXT = "the context path {path}"
    TEMPORARY = "the temp folder {path}, which other programs use"
    REPOSITORY = "the Git repository {path}"


_MODE_SENSITIVE_ASSETS: Final = frozenset({Asset.ROOT, Asset.SYSTEM, Asset.HOME})
_SNAPSHOT_NOTES: Final = {
    Asset.WORKSPACE: "Automatic snapshots contain it, except for caches and files the user excluded.",
    Asset.REPOSITORY: "Automatic snapshots contain it.",
    Asset.CONTEXT: "",
}
_NO_SNAPSHOT_NOTE: Final = "No snapshot contains it."
_CONTENT_PREFIX: Final = "everything in"


def _no_mounts() -> frozenset[str]:
    return frozenset()


@dataclass(frozen=True, slots=True)
class CircuitBreaker:
    """Finds the assets around one workspace that a command would destroy. Paths are absolute and clean."""

    workspace: str
    home: str
    """What `~` expands to in a command."""
    homes: tuple[str, ...] = ()
    """Further home folders."""
    context: tuple[str, ...] = ()
    temporary: tuple[str, ...] = ()
    """Temp folders shared with other programs."""
    environment: Mapping[str, str] = field(default_factory=dict[str, str], repr=False)
    mount_points: Callable[[], frozenset[str]] = field(default=_no_mounts, compare=False, repr=False)
    """Returns the current mount points."""
    exists: Callable[[str], bool] = field(default=os.path.lexists, compare=False, repr=False)
    """Whether a path exists: only an existing repository can be lost."""
    is_sandboxed: bool = True
    """Whether commands run in a sandbox, where they see only the host's mounts below the visible roots."""

    def describe_loss(self, command: str, folder: str | None = None) -> str | None:
        """Returns what the command would destroy, as a predicate: `deletes the home folder /home/me. ...`.

        Returns None if it destroys no asset, or if its text cannot be parsed. `folder` is where the command starts.
        """
        from toolyard.policy.shell.ast import ParseFailure

        try:
            return self.describe_loss_by_rules(command, folder, _checked_rules_for)
        except ParseFailure:
            return self._describe_loss_by_parts(command, folder)

    def _describe_loss_by_parts(self, command: str, folder: str | None) -> str | None:
        """Checks the commands of an unparsable text one by one and returns the first loss found."""
        from toolyard.policy.shell.ast import ParseFailure

        parts = dict.fromkeys(map(str.strip, _SEPARATOR.split(_HERE_STRING.sub("", command[:_MAX_CHARS]))))
        until = time.monotonic() + _PARTS_SECONDS
        for part in takewhile(lambda _: time.monotonic() < until, parts):
            with contextlib.suppress(ParseFailure):
                if found := self.describe_loss_by_rules(part, folder, _checked_rules_for):
                    return found
        return None

    def describe_move_loss(self, path: str) -> str | None:
        """Like `describe_loss`, for a tool that moves a folder away."""
        from toolyard.policy.shell.destruction import Destruction, Reach

        return self._describe_hit(Destruction("moves away", Reach.ENTRY, path), self._assets())

    def describe_loss_by_rules(self, command: str, folder: str | None, rules: RuleLookup) -> str | None:
        """Like `describe_loss`, with the given rules. Raises ParseFailure."""
        from toolyard.policy.shell.destruction import find_destructions
        from toolyard.policy.shell.shell_state import ShellState, ShellValue
        from toolyard.policy.shell.variable_values import REPOSITORY_TOP

        known = {**self.environment, REPOSITORY_TOP: self.workspace}
        start = folder or self.workspace
        shell = ShellState(
            (start,),
            self.home,
            {name: (ShellValue(value),) for name, value in known.items()},
            existing=frozenset((start, self.workspace, self.home, *self.context, *self.temporary, *_SYSTEM_FOLDERS)),
        )
        hits = find_destructions(command, shell, rules)
        assets = self._assets() if hits else ()
        for hit in hits:
            if found := self._describe_hit(hit, assets):
                return found
        return None

    @staticmethod
    def _describe_hit(hit: Destruction, assets: tuple[tuple[Asset, str], ...]) -> str | None:
        lost = sorted(set(_lost_assets(hit, assets)), key=_outermost_first_key)
        return _loss_sentence(hit, lost) if lost else None

    def _assets(self) -> tuple[tuple[Asset, str], ...]:
        shown = (self.workspace, *self.context)
        mounts = self.mount_points()
        if self.is_sandboxed:
            mounts = frozenset(path for path in mounts if any(is_beneath(path, root) for root in shown))
        found = {
            Asset.ROOT: ("/",),
            Asset.SYSTEM: _SYSTEM_FOLDERS,
            Asset.HOME: (self.home, *self.homes, "/root"),
            Asset.MOUNT: tuple(mounts),
            Asset.WORKSPACE: (self.workspace,),
            Asset.CONTEXT: self.context,
            Asset.TEMPORARY: self.temporary,
            Asset.REPOSITORY: tuple(filter(self.exists, (f"{path.rstrip('/')}/{REPOSITORY}" for path in shown))),
        }
        return tuple((asset, path) for asset, paths in found.items() for path in paths)


def _lost_assets(hit: Destruction, assets: tuple[tuple[Asset, str], ...]) -> Iterator[tuple[Asset, str]]:
    """Yields the assets that the command's target is or contains."""
    from toolyard.policy.shell.destruction import Reach

    names = _path_names(hit.path)
    if (
        hit.reach is not Reach.ROOT_ONLY
        and names[:1] == ["dev"]
        and len(names) > 1
        and names[1] not in _HARMLESS_DEVICES
    ):
        yield Asset.DEVICE, hit.path
    if hit.reach is Reach.DEVICE:
        return
    whole = hit.is_pattern and names[-1:] != [] and names[-1] in _EVERYTHING_GLOBS
    hidden = hit.is_pattern and names[-1:] != [] and names[-1] in _HIDDEN_FILES_GLOBS
    for asset, path in assets:
        if asset is not Asset.ROOT and hit.into and is_beneath(hit.into, path):
            continue  # what is moved stays inside the asset
        own = _path_names(path)
        empties = (
            (whole or (hidden and asset is Asset.HOME))
            and len(own) == len(names) - 1
            and (hit.reach is not Reach.ENTRY or asset is Asset.ROOT or _moves_out(hit.into, path))
        )
        exactly = own == names or empties
        if _is_harmed(hit.reach, asset, exactly=exactly) and _contains_path(
            names[:-1] if empties else names, own, is_pattern=hit.is_pattern
        ):
            yield asset, path


def _is_harmed(reach: Reach, asset: Asset, *, exactly: bool) -> bool:
    from toolyard.policy.shell.destruction import Reach

    if reach is Reach.ROOT_ONLY:
        return asset is Asset.ROOT
    if reach is Reach.FILES:
        return asset is not Asset.REPOSITORY
    if reach is Reach.ALL_EXCEPT_MATCHING:
        return asset not in {Asset.REPOSITORY, Asset.WORKSPACE, Asset.CONTEXT}
    return reach is not Reach.MODES or asset in _MODE_SENSITIVE_ASSETS or (asset is Asset.MOUNT and exactly)


def _moves_out(into: str, folder: str) -> bool:
    """Whether the content of the folder is moved out of it."""
    return bool(into) and not is_beneath(into, folder)


def _path_names(path: str) -> list[str]:
    return [name for name in path.split("/") if name]


def _contains_path(target: list[str], path: list[str], *, is_pattern: bool) -> bool:
    """Whether the target is the path or one of its parent folders."""
    if len(target) > len(path):
        return False
    if not is_pattern:
        return target == path[: len(target)]
    return all(_glob_matches(name, own) for name, own in zip(target, path, strict=False))


def _glob_matches(pattern: str, name: str) -> bool:
    # A glob matches hidden files only if it begins with a dot itself.
    return fnmatchcase(name, pattern.replace("[^", "[!")) and (not name.startswith(".") or pattern.startswith("."))


def _outermost_first_key(lost: tuple[Asset, str]) -> tuple[int, int, str]:
    asset, path = lost
    return len(_path_names(path)), list(Asset).index(asset), path


def _loss_sentence(hit: Destruction, lost: list[tuple[Asset, str]]) -> str:
    outermost, path = lost[0]
    text = outermost.value.format(path=path)
    if len(_path_names(hit.path)) > len(_path_names(path)):
        text = text.replace("the whole ", "the ")
        text = text if hit.verb.endswith(_CONTENT_PREFIX) else f"{_CONTENT_PREFIX} {text}"
    left_out = {outermost, Asset.SYSTEM, Asset.REPOSITORY}
    others = [] if outermost is Asset.ROOT else [one for one in lost[1:] if one[0] not in left_out]
    for asset, other in others[:_MAX_NAMED_ASSETS]:
        text += f"{' with' if is_beneath(other, path) else ' and'} {asset.value.format(path=other)}"
    if hit.if_cd_fails:
        text += " if a `cd` before it fails (join them with `&&`)"
    return f"{hit.verb} {text}. {_SNAPSHOT_NOTES.get(outermost, _NO_SNAPSHOT_NOTE)}".rstrip()


EXAMPLE_BREAKER: Final = CircuitBreaker(
    "/srv/project",
    "/home/me",
    context=("/data",),
    mount_points=lambda: frozenset({"/mnt/disk"}),
    exists=lambda _: True,
    is_sandboxed=False,
)
"""The environment in which the rules' examples are checked."""


@functools.cache
def _checked_rules_for(program: str) -> tuple[DestructionRule, ...]:
    """Returns the rules for a program, checked against their examples on first use."""
    from toolyard.policy.shell.rules_destruction import DESTRUCTION_RULES

    found = tuple(rule for rule in DESTRUCTION_RULES if program in rule.programs)
    for rule in found:
        check_examples(rule)
    return found


def check_examples(rule: DestructionRule) -> None:
    """Raises SystemFault if the rule has no examples or fails one of them."""
    name = f'the rule "{rule.verb}" for {", ".join(rule.programs[:3])}'

    def only_this_rule(program: str) -> tuple[DestructionRule, ...]:
        return (rule,) if program in rule.programs else ()

    def reports_loss(text: str) -> bool:
        return EXAMPLE_BREAKER.describe_loss_by_rules(text, None, only_this_rule) is not None

    wrong = [text for text in rule.matches if not reports_loss(text)] + [
        text for text in rule.misses if reports_loss(text)
    ]
    if wrong:
        raise SystemFault(f'{name} fails its own example "{wrong[0]}".', hint="Report this as a bug in Toolyard.")
    if not rule.matches or not rule.misses:
        raise SystemFault(f"{name} has no examples.", hint="Report this as a bug in Toolyard.")

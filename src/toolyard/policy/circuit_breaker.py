"""The circuit breaker: commands that would delete or overwrite what cannot be got back need an explicit yes.

It stands on top of the walls and holds in every mode, `bypassPermissions` included; no allow rule lifts it. It judges
what the parsed text of a command shows (`policy.analysis.destruction`): a safety catch for careless commands, not a
wall against hostile ones. Of a text that cannot be parsed, each command is judged alone, where it can be parsed. A
script's file and Python code are not judged here.
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
"""Patterns that stand for everything in a folder, except what is hidden."""
_HIDDEN_FILES_GLOBS: Final = frozenset({".*", ".??*", ".[!.]*", ".[^.]*", ".[a-z]*", ".[A-Za-z]*"})
"""Patterns that stand for all that is hidden: in a home, the settings and keys of every program."""
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
"""What may be written below /dev without any harm to a disk."""
_MAX_NAMED_ASSETS: Final = 4
_SEPARATOR: Final = re.compile(r"[;\n]|&&|\|\|")
_HERE_STRING: Final = re.compile(r"<<<\s*(?:'[^']*'|\"[^\"]*\"|\S+)")
"""The parser knows one only before all other redirections."""
_PARTS_SECONDS: Final = 1.0
_MAX_CHARS: Final = 64 * KIB


class Asset(StrEnum):
    """What must not be lost as a whole. The value is how a question names it."""

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
    Asset.WORKSPACE: "Automatic snapshots hold it, but for caches and what the user had left out.",
    Asset.REPOSITORY: "Automatic snapshots hold it.",
    Asset.CONTEXT: "",
}
_NO_SNAPSHOT_NOTE: Final = "No snapshot holds that."
_CONTENT_PREFIX: Final = "everything in"


def _no_mounts() -> frozenset[str]:
    return frozenset()


@dataclass(frozen=True, slots=True)
class CircuitBreaker:
    """What is at stake around one workspace. Paths are absolute and clean."""

    workspace: str
    home: str
    """What `~` is for a command."""
    homes: tuple[str, ...] = ()
    """Further home folders."""
    context: tuple[str, ...] = ()
    temporary: tuple[str, ...] = ()
    """Temp folders that commands share with other programs."""
    environment: Mapping[str, str] = field(default_factory=dict[str, str], repr=False)
    mount_points: Callable[[], frozenset[str]] = field(default=_no_mounts, compare=False, repr=False)
    """Gives the mount points of the moment."""
    exists: Callable[[str], bool] = field(default=os.path.lexists, compare=False, repr=False)
    """Tells whether there is a repository that can be lost."""
    is_sandboxed: bool = True
    """Whether commands see the mounts of a sandbox, and of the host's only those below what is shown to them."""

    def describe_loss(self, command: str, folder: str | None = None) -> str | None:
        """What the command would destroy, to follow a subject: `deletes the home folder /home/me. ...`.

        None when it destroys nothing of this kind, or when its text is not understood. `folder` is where it starts.
        """
        from toolyard.policy.shell.ast import ParseFailure

        try:
            return self.describe_loss_by_rules(command, folder, _checked_rules_for)
        except ParseFailure:
            return self._describe_loss_by_parts(command, folder)

    def _describe_loss_by_parts(self, command: str, folder: str | None) -> str | None:
        """Of a text that is not understood as a whole: what one of its commands would destroy, taken alone."""
        from toolyard.policy.shell.ast import ParseFailure

        parts = dict.fromkeys(map(str.strip, _SEPARATOR.split(_HERE_STRING.sub("", command[:_MAX_CHARS]))))
        until = time.monotonic() + _PARTS_SECONDS
        for part in takewhile(lambda _: time.monotonic() < until, parts):
            with contextlib.suppress(ParseFailure):
                if found := self.describe_loss_by_rules(part, folder, _checked_rules_for):
                    return found
        return None

    def describe_move_loss(self, path: str) -> str | None:
        """As `describe_loss`, for a tool that moves a folder away."""
        from toolyard.policy.shell.destruction import Destruction, Reach

        return self._describe_hit(Destruction("moves away", Reach.ENTRY, path), self._assets())

    def describe_loss_by_rules(self, command: str, folder: str | None, rules: RuleLookup) -> str | None:
        """As `describe_loss`, by other rules than ours. Raises ParseFailure."""
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
    """Which of the assets a command's target is, or is around."""
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
            continue  # what is moved stays in there
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
    """Whether what is in the folder is moved out of it."""
    return bool(into) and not is_beneath(into, folder)


def _path_names(path: str) -> list[str]:
    return [name for name in path.split("/") if name]


def _contains_path(target: list[str], path: list[str], *, is_pattern: bool) -> bool:
    """Whether the target is the path or a folder around it."""
    if len(target) > len(path):
        return False
    if not is_pattern:
        return target == path[: len(target)]
    return all(_glob_matches(name, own) for name, own in zip(target, path, strict=False))


def _glob_matches(pattern: str, name: str) -> bool:
    # A pattern finds hidden files only when it begins with a dot itself.
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
"""Where the examples of the rules are judged."""


@functools.cache
def _checked_rules_for(program: str) -> tuple[DestructionRule, ...]:
    """The rules for a program. They are held to their examples when that program is first met."""
    from toolyard.policy.shell.rules_destruction import DESTRUCTION_RULES

    found = tuple(rule for rule in DESTRUCTION_RULES if program in rule.programs)
    for rule in found:
        check_examples(rule)
    return found


def check_examples(rule: DestructionRule) -> None:
    """Raises SystemFault for a rule that has no examples or fails one of them."""
    name = f'the rule "{rule.verb}" for {", ".join(rule.programs[:3])}'

    def only_this_rule(program: str) -> tuple[DestructionRule, ...]:
        return (rule,) if program in rule.programs else ()

    def reports_loss(text: str) -> bool:
        return EXAMPLE_BREAKER.describe_loss_by_rules(text, None, only_this_rule) is not None

    wrong = [text for text in rule.matches if not reports_loss(text)] + [
        text for text in rule.misses if reports_loss(text)
    ]
    if wrong:
        raise SystemFault(f'{name} fails its own example "{wrong[0]}".', hint="Report this as a bug of Toolyard.")
    if not rule.matches or not rule.misses:
        raise SystemFault(f"{name} has no examples.", hint="Report this as a bug of Toolyard.")

"""The known state of the shell at one point of a text: its variables, and the folders it may be in.

Nothing is run. A variable has the values that the text assigns, or is unknown. An unset variable is empty, as in
bash, so `rm -rf "$UNSET/"*` is recognised as `rm -rf /*`. That also applies after `source file`: the file may set the
variable, but if it does not, the command deletes the whole file system.
"""

from __future__ import annotations

import posixpath
import re
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Final, TypeVar

from toolyard.core.paths import is_beneath

if TYPE_CHECKING:
    from toolyard.policy.shell.ast import Scope

_T = TypeVar("_T")
MAX_CHOICES: Final = 64
"""Maximum number of values of one variable and of folders of one shell; more are ignored."""
_NAME: Final = re.compile(r"[A-Za-z_]\w*")
_SET_ELSEWHERE: Final = re.compile(
    r"BASH\w*|PATH|IFS|E?UID|GROUPS|PPID|RANDOM|SECONDS|LINENO|HOST\w*|OS\w*|MACHTYPE|SHELL|SHLVL|OPT\w+|REPLY"
    r"|FUNCNAME|PIPESTATUS|DIRSTACK|USER|LOGNAME|LANG|LC_\w+|TERM|OLDPWD|PYTHON\w*|VIRTUAL_ENV|TOOLYARD\w*"
)
"""Variables that the shell or its environment sets to a value not in the text."""


@dataclass(frozen=True, slots=True)
class ShellValue:
    """One value of a variable or a word."""

    text: str
    is_pattern: bool = False
    """Whether `text` is a glob. Literal special characters in it are enclosed in brackets."""
    is_deep: bool = False
    """Whether it means every file below `text`, one by one."""


ShellValues = tuple[ShellValue, ...]
Folders = tuple[str, ...]
EMPTY: Final = ShellValue("")


@dataclass(slots=True)
class ShellState:
    """The possible working folders and variables of a shell."""

    folders: Folders = ()
    """The possible working folders; empty if unknown."""
    home: str = "/"
    variables: dict[str, ShellValues | None] = field(default_factory=dict[str, ShellValues | None])
    """None for a variable with an unknown value. `1`, `2` and `@` are the parameters."""
    existing: frozenset[str] = frozenset()
    """Folders that exist, so that a `cd` to them or to a parent does not fail."""
    fallback_folders: Folders = ()
    """The working folders if the `&&` chain with the last `cd` was interrupted, or that `cd` failed."""
    folders_if_cd_failed: frozenset[str] = frozenset()
    """The subset of `folders` in which the shell is only if a `cd` failed."""
    previous: Folders = ()
    """The working folders before the last `cd`."""
    narrowed_variables: frozenset[str] = frozenset()
    """Variables with many files as values, of which an enclosing test leaves only some."""
    stops_on_error: bool = False
    """Whether the shell exits at the first command that fails (`set -e`)."""
    has_exited: bool = False
    """Whether `exit`, `return` or a similar command was reached."""

    def copy(self) -> ShellState:
        return replace(self, variables=dict(self.variables))

    def narrow_variables(self) -> None:
        """Marks variables with glob values as narrowed: after a test, they may mean only some of the files."""
        self.narrowed_variables = self.narrowed_variables.union(
            name
            for name, values in self.variables.items()
            if any(value.is_pattern or value.is_deep for value in values or ())
        )

    def variable_values(self, name: str) -> ShellValues | None:
        """Returns the possible values of the variable; None if they are unknown."""
        if name == "PWD":
            return tuple(map(ShellValue, self.folders)) or None
        if name == "OLDPWD":
            return tuple(map(ShellValue, self.previous)) or None
        if name in self.narrowed_variables:
            return None
        return self._stored_values(name)

    def _stored_values(self, name: str) -> ShellValues | None:
        if name in self.variables:
            return self.variables[name]
        if name == "HOME":
            return (ShellValue(self.home),)
        if name.isdigit():
            return (EMPTY,) if self.variables.get("@") is not None else None
        return None if not _NAME.fullmatch(name) or _SET_ELSEWHERE.fullmatch(name) else (EMPTY,)

    def assign(self, name: str, values: ShellValues | None) -> None:
        self.variables[name] = None if values is None else values[:MAX_CHOICES]
        self.narrowed_variables -= {name}

    def change_folder(self, targets: Folders, *, tested: bool) -> None:
        """Applies `cd` to each target, or to an unknown folder; `tested`: a test before it may have skipped it."""
        moved = [absolute_path(folder, target) for folder in self.folders or ("",) for target in targets]
        before = self.folders
        self.folders = tuple(dict.fromkeys(folder for folder in moved if folder))[:MAX_CHOICES]
        surely = self.stops_on_error or (bool(targets) and all(self._exists(folder) for folder in moved))
        self.fallback_folders = before if tested or not surely else ()
        self.folders_if_cd_failed -= frozenset(self.folders)
        self.previous = before

    def _exists(self, folder: str) -> bool:
        return any(is_beneath(one, folder) for one in self.existing)

    def make_folder(self, folder: str) -> None:
        """Applies `mkdir`."""
        self.existing |= {path for here in self.folders or ("",) if (path := absolute_path(here, folder))}

    def set_parameters(self, values: list[ShellValue | None]) -> None:
        """Sets `$1`, `$2` and so on. A glob becomes unknown: it matches several files, a parameter is only one."""
        self.variables = {name: value for name, value in self.variables.items() if not name.isdigit()}
        for at, value in enumerate(values, 1):
            self.variables[str(at)] = None if value is None or value.is_pattern else (value,)
        known = tuple(value for value in values if value is not None)
        for name in ("@", "*"):
            self.variables[name] = known if len(known) == len(values) else None

    def break_chain(self) -> None:
        self.folders_if_cd_failed |= frozenset(self.fallback_folders) - frozenset(self.folders)
        self.folders, self.fallback_folders = _union(self.folders, self.fallback_folders), ()

    def merge(self, other: ShellState) -> None:
        """Merges the possible state of this shell after a branch or loop."""
        self.folders_if_cd_failed = (self.folders_if_cd_failed | other.folders_if_cd_failed) - (
            frozenset(self.folders) - self.folders_if_cd_failed
            | frozenset(other.folders) - other.folders_if_cd_failed
        )
        self.folders = _union(self.folders, other.folders) if self.folders and other.folders else ()
        self.existing |= other.existing
        for name in self.variables.keys() | other.variables.keys():
            mine, theirs = self._stored_values(name), other._stored_values(name)
            self.variables[name] = None if mine is None or theirs is None else _union(mine, theirs)


class ScopedShells:
    """Tracks the shell state of each command by its enclosing scopes."""

    def __init__(self, shell: ShellState) -> None:
        self._stack: list[tuple[Scope | None, ShellState]] = [(None, shell)]

    def shell_within(self, scopes: tuple[Scope, ...]) -> ShellState:
        """Returns the shell state within the scopes. Must be called in source order."""
        open_scopes = [scope for scope, _ in self._stack[1:]]
        same = 0
        while same < min(len(open_scopes), len(scopes)) and open_scopes[same] == scopes[same]:
            same += 1
        self._close_to(same)
        for scope in scopes[same:]:
            self._stack.append((scope, _shell_for_scope(scope, self._stack[-1][1])))
        return self._stack[-1][1]

    def close(self) -> None:
        self._close_to(0)

    def _close_to(self, depth: int) -> None:
        while len(self._stack) > depth + 1:
            scope, inner = self._stack.pop()
            outer = self._stack[-1][1]
            if scope is None or scope.is_shell:
                continue
            if not inner.has_exited:
                outer.merge(inner)
            elif scope.joined == "||":
                outer.fallback_folders = ()  # `cd x || { ...; exit; }`


def _shell_for_scope(scope: Scope, outer: ShellState) -> ShellState:
    """Returns the shell state at the start of a scope, given the operator that leads into it."""
    shell = outer.copy()
    if scope.tests:
        shell.narrow_variables()
    if scope.joined == "||":
        shell.break_chain()
    elif scope.joined == "&&":
        shell.fallback_folders = ()
    return shell


def absolute_path(folder: str, path: str) -> str:
    """Returns the absolute, lexically normalised path; empty if it is relative to an unknown folder."""
    if not path.startswith("/") and not folder:
        return ""
    return "/" + posixpath.normpath(posixpath.join(folder or "/", path)).lstrip("/")


def _union(first: tuple[_T, ...], second: tuple[_T, ...]) -> tuple[_T, ...]:
    return tuple(dict.fromkeys((*first, *second)))[:MAX_CHOICES]

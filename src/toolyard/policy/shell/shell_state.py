"""What is known of the shell at one point of a text: its variables, and the folders it may be in.

Nothing is run. A variable has the values that the text gives it, or is unknown; one that nothing has set is empty, as
bash takes it, so that `rm -rf "$UNSET/"*` is read as what it does. That holds behind `source file` too: whether the
file sets the variable is not seen, and where it does not, the loss is the whole file system.
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
"""Values of one variable and folders of one shell. More than these are not followed."""
_NAME: Final = re.compile(r"[A-Za-z_]\w*")
_SET_ELSEWHERE: Final = re.compile(
    r"BASH\w*|PATH|IFS|E?UID|GROUPS|PPID|RANDOM|SECONDS|LINENO|HOST\w*|OS\w*|MACHTYPE|SHELL|SHLVL|OPT\w+|REPLY"
    r"|FUNCNAME|PIPESTATUS|DIRSTACK|USER|LOGNAME|LANG|LC_\w+|TERM|OLDPWD|PYTHON\w*|VIRTUAL_ENV|TOOLYARD\w*"
)
"""What the shell or its surroundings set to a value that the text does not show."""


@dataclass(frozen=True, slots=True)
class Value:
    """One value of a variable or a word."""

    text: str
    is_pattern: bool = False
    """Whether the files that `text` finds are meant. A bracket is around each character that only looks special."""
    is_deep: bool = False
    """Whether every file below `text` is meant, one by one."""


Values = tuple[Value, ...]
Folders = tuple[str, ...]
EMPTY: Final = Value("")


@dataclass(slots=True)
class Shell:
    folders: Folders = ()
    """Where it may be; empty when the text does not tell."""
    home: str = "/"
    variables: dict[str, Values | None] = field(default_factory=dict[str, Values | None])
    """None where a variable is set to something unknown. `1`, `2` and `@` are the parameters."""
    existing: frozenset[str] = frozenset()
    """Folders that exist, so that a `cd` to them or to what is around them does not fail."""
    left: Folders = ()
    """Where it is instead if the chain of `&&` that moved it was broken off, or its last `cd` failed."""
    unmoved: frozenset[str] = frozenset()
    """Of `folders`, those in which it is only if a `cd` failed."""
    previous: Folders = ()
    """Where it was before the last `cd`."""
    narrowed: frozenset[str] = frozenset()
    """Variables that stand for many files, of which a test around this place leaves only some."""
    stops: bool = False
    """Whether it ends at the first command that fails (`set -e`)."""
    ended: bool = False
    """Whether it was left by `exit`, `return` or the like."""

    def copy(self) -> Shell:
        return replace(self, variables=dict(self.variables))

    def narrow(self) -> None:
        """Behind a test, what stood for all files of a folder may stand for a few of them."""
        self.narrowed = self.narrowed.union(
            name
            for name, values in self.variables.items()
            if any(value.is_pattern or value.is_deep for value in values or ())
        )

    def value(self, name: str) -> Values | None:
        """The values that the variable may have; None when they are unknown."""
        if name == "PWD":
            return tuple(map(Value, self.folders)) or None
        if name == "OLDPWD":
            return tuple(map(Value, self.previous)) or None
        if name in self.narrowed:
            return None
        return self._held(name)

    def _held(self, name: str) -> Values | None:
        if name in self.variables:
            return self.variables[name]
        if name == "HOME":
            return (Value(self.home),)
        if name.isdigit():
            return (EMPTY,) if self.variables.get("@") is not None else None
        return None if not _NAME.fullmatch(name) or _SET_ELSEWHERE.fullmatch(name) else (EMPTY,)

    def assign(self, name: str, values: Values | None) -> None:
        self.variables[name] = None if values is None else values[:MAX_CHOICES]
        self.narrowed -= {name}

    def move(self, targets: Folders, *, tested: bool) -> None:
        """`cd` to each of these, or to somewhere unknown; `tested`: a test before it may have kept it here."""
        moved = [beneath(folder, target) for folder in self.folders or ("",) for target in targets]
        before = self.folders
        self.folders = tuple(dict.fromkeys(folder for folder in moved if folder))[:MAX_CHOICES]
        surely = self.stops or (bool(targets) and all(self._exists(folder) for folder in moved))
        self.left = before if tested or not surely else ()
        self.unmoved -= frozenset(self.folders)
        self.previous = before

    def _exists(self, folder: str) -> bool:
        return any(is_beneath(one, folder) for one in self.existing)

    def make(self, folder: str) -> None:
        """`mkdir`."""
        self.existing |= {path for here in self.folders or ("",) if (path := beneath(here, folder))}

    def set_parameters(self, values: list[Value | None]) -> None:
        """`$1` and the following. A pattern finds several files, of which a single parameter is only one."""
        self.variables = {name: value for name, value in self.variables.items() if not name.isdigit()}
        for at, value in enumerate(values, 1):
            self.variables[str(at)] = None if value is None or value.is_pattern else (value,)
        known = tuple(value for value in values if value is not None)
        for name in ("@", "*"):
            self.variables[name] = known if len(known) == len(values) else None

    def break_chain(self) -> None:
        self.unmoved |= frozenset(self.left) - frozenset(self.folders)
        self.folders, self.left = _union(self.folders, self.left), ()

    def merge(self, other: Shell) -> None:
        """Take over what may have become of this shell in a branch or loop."""
        self.unmoved = (self.unmoved | other.unmoved) - (
            frozenset(self.folders) - self.unmoved | frozenset(other.folders) - other.unmoved
        )
        self.folders = _union(self.folders, other.folders) if self.folders and other.folders else ()
        self.existing |= other.existing
        for name in self.variables.keys() | other.variables.keys():
            mine, theirs = self._held(name), other._held(name)
            self.variables[name] = None if mine is None or theirs is None else _union(mine, theirs)


class Shells:
    """The shell for each command of a text, by the scopes around the command."""

    def __init__(self, shell: Shell) -> None:
        self._stack: list[tuple[Scope | None, Shell]] = [(None, shell)]

    def within(self, scopes: tuple[Scope, ...]) -> Shell:
        """Commands are asked about in the order they are written."""
        open_scopes = [scope for scope, _ in self._stack[1:]]
        same = 0
        while same < min(len(open_scopes), len(scopes)) and open_scopes[same] == scopes[same]:
            same += 1
        self._close_to(same)
        for scope in scopes[same:]:
            self._stack.append((scope, _opened(scope, self._stack[-1][1])))
        return self._stack[-1][1]

    def close(self) -> None:
        self._close_to(0)

    def _close_to(self, depth: int) -> None:
        while len(self._stack) > depth + 1:
            scope, inner = self._stack.pop()
            outer = self._stack[-1][1]
            if scope is None or scope.is_shell:
                continue
            if not inner.ended:
                outer.merge(inner)
            elif scope.joined == "||":
                outer.left = ()  # `cd x || { ...; exit; }`


def _opened(scope: Scope, outer: Shell) -> Shell:
    """The shell at the start of a scope, of which is known whether the command before it failed."""
    shell = outer.copy()
    if scope.tests:
        shell.narrow()
    if scope.joined == "||":
        shell.break_chain()
    elif scope.joined == "&&":
        shell.left = ()
    return shell


def beneath(folder: str, path: str) -> str:
    """The absolute, lexically normal path; empty when it is relative to a folder that is unknown."""
    if not path.startswith("/") and not folder:
        return ""
    return "/" + posixpath.normpath(posixpath.join(folder or "/", path)).lstrip("/")


def _union(first: tuple[_T, ...], second: tuple[_T, ...]) -> tuple[_T, ...]:
    return tuple(dict.fromkeys((*first, *second)))[:MAX_CHOICES]

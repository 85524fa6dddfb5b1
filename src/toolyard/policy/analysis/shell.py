"""What is known of the shell at one point of a text: its variables, and the folders it may be in.

Nothing is run. A variable has the values that the text gives it, or is unknown; one that nothing has set is empty, as
bash takes it, so that `rm -rf "$UNSET/"*` is read as what it does.
"""

from __future__ import annotations

import posixpath
import re
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from toolyard.policy.analysis.tree import Scope

MAX_CHOICES: Final = 64
"""Values of one variable and folders of one shell. More than these are not followed."""
_NAME: Final = re.compile(r"[A-Za-z_]\w*")
_SET_ELSEWHERE: Final = re.compile(
    r"BASH\w*|PATH|IFS|E?UID|GROUPS|PPID|RANDOM|SECONDS|LINENO|HOST\w*|OS\w*|MACHTYPE|SHELL|SHLVL|OPT\w+|REPLY"
    r"|FUNCNAME|PIPESTATUS|DIRSTACK|USER|LOGNAME|LANG|LC_\w+|TERM|OLDPWD|PYTHON\w*|VIRTUAL_ENV|TOOLYARD\w*"
)
"""What the shell or its surroundings set to a value that the text does not show."""

Values = tuple[str, ...]


@dataclass(slots=True)
class Shell:
    folders: Values = ()
    """Where it may be; empty when the text does not tell."""
    home: str = "/"
    variables: dict[str, Values | None] = field(default_factory=dict[str, Values | None])
    """None where a variable is set to something unknown."""
    left: Values = ()
    """Where it is instead if the chain of `&&` that moved it was broken off."""

    def copy(self) -> Shell:
        return replace(self, variables=dict(self.variables))

    def value(self, name: str) -> Values | None:
        """The values that the variable may have; None when they are unknown."""
        if name == "PWD":
            return self.folders or None
        if name in self.variables:
            return self.variables[name]
        if name == "HOME":
            return (self.home,)
        return None if not _NAME.fullmatch(name) or _SET_ELSEWHERE.fullmatch(name) else ("",)

    def assign(self, name: str, values: Values | None) -> None:
        self.variables[name] = None if values is None else values[:MAX_CHOICES]

    def move(self, targets: Values, *, tested: bool) -> None:
        """`cd` to each of these, from each folder it may be in. `tested`: a test before it may have kept it here."""
        moved = [beneath(folder, target) for folder in self.folders or ("",) for target in targets]
        before = self.folders
        self.folders = tuple(dict.fromkeys(folder for folder in moved if folder))[:MAX_CHOICES]
        self.left = before if tested else ()

    def break_chain(self) -> None:
        self.folders, self.left = _union(self.folders, self.left), ()

    def merge(self, other: Shell) -> None:
        """Take over what may have become of this shell in a branch or loop."""
        self.folders = _union(self.folders, other.folders) if self.folders and other.folders else ()
        for name in self.variables.keys() | other.variables.keys():
            mine, theirs = self.value(name), other.value(name)
            self.assign(name, None if mine is None or theirs is None else _union(mine, theirs))


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
            self._stack.append((scope, self._stack[-1][1].copy()))
        return self._stack[-1][1]

    def close(self) -> None:
        self._close_to(0)

    def _close_to(self, depth: int) -> None:
        while len(self._stack) > depth + 1:
            scope, inner = self._stack.pop()
            if scope is not None and not scope.is_shell:
                self._stack[-1][1].merge(inner)


def beneath(folder: str, path: str) -> str:
    """The absolute, lexically normal path; empty when it is relative to a folder that is unknown."""
    if not path.startswith("/") and not folder:
        return ""
    return "/" + posixpath.normpath(posixpath.join(folder or "/", path)).lstrip("/")


def _union(first: Values, second: Values) -> Values:
    return tuple(dict.fromkeys((*first, *second)))[:MAX_CHOICES]

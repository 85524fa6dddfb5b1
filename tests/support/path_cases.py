"""What every way of opening a path beneath a folder must do: one list of cases, one oracle.

A Tree is described as data (folders, files and links by name) and built on disk; a Case says what a path in it must
give. `expected` is the oracle for any other tree: it follows a path one name at a time, with plain paths, which is
right as long as nobody changes the tree meanwhile.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

OUTSIDE_NAME: Final = "outside"
ROOT_NAME: Final = "root"
_MOST_LINKS: Final = 40

FOLDER: Final = "<folder>"
"""In a Tree: a folder."""
FILE: Final = ""
"""In a Tree: a file. Anything else is a link with that text; `{root}` and `{outside}` stand for the folders."""

Tree = Mapping[str, str]

TRAPS: Final[Tree] = {
    "file": FILE,
    "folder": FOLDER,
    "folder/inner": FILE,
    "folder/deep": FOLDER,
    "folder/deep/leaf": FILE,
    "to-file": "file",
    "to-folder": "folder",
    "to-inner": "folder/inner",
    "chain": "to-to",
    "to-to": "to-inner",
    "up-and-down": "folder/deep/../inner",
    "folder/up": "../file",
    "folder/deep/home": "../..",
    "absolute": "{root}/folder/inner",
    "absolute-doubled": "/{root}//folder/./inner",
    "absolute-root": "{root}",
    "absolute-through": "{root}/to-folder/inner",
    "absolute-dots": "{root}/to-deep/../inner",
    "to-deep": "folder/deep",
    "file-as-folder": "file/../file",
    "file-with-slash": "file/",
    "file-with-dot": "file/.",
    "folder-with-slash": "folder/",
    "out": "{outside}",
    "out-file": "{outside}/secret",
    "out-up": "../outside/secret",
    "out-and-back": "../root/file",
    "absolute-out-and-back": "{root}/../root/file",
    "out-sibling": "{root}-evil/secret",
    "out-root": "/",
    "out-etc": "/etc/passwd",
    "out-chain": "out-up",
    "folder/out": "../../outside",
    "dangling": "nowhere",
    "dangling-out": "{outside}/nowhere",
    "loop": "loop",
    "loop-a": "loop-b",
    "loop-b": "loop-a",
    "magic": "/proc/self/root",
    "magic-cwd": "/proc/self/cwd",
}


@dataclass(frozen=True, slots=True)
class Case:
    """`path` must give the object at `gives`, or fail with the error number `refused`."""

    path: str
    gives: str = ""
    refused: int = 0
    links: bool = True

    def __str__(self) -> str:
        ending = self.gives or errno.errorcode[self.refused]
        return f"{self.path or '(empty)'} {'gives' if self.gives else 'fails with'} {ending}" + (
            "" if self.links else " when links are refused"
        )


CASES: Final = (
    Case(".", gives="."),
    Case("file", gives="file"),
    Case("folder/inner", gives="folder/inner"),
    Case("folder//inner", gives="folder/inner"),
    Case("folder/./inner", gives="folder/inner"),
    Case("folder/../file", gives="file"),
    Case("folder/", gives="folder"),
    Case("folder/.", gives="folder"),
    Case("to-file", gives="file"),
    Case("to-folder/deep/leaf", gives="folder/deep/leaf"),
    Case("to-folder/", gives="folder"),
    Case("chain", gives="folder/inner"),
    Case("up-and-down", gives="folder/inner"),
    Case("folder/up", gives="file"),
    Case("folder/deep/home/file", gives="file"),
    Case("to-deep/../inner", gives="folder/inner"),
    Case("folder-with-slash", gives="folder"),
    Case("folder/deep/leaf", gives="folder/deep/leaf", links=False),
    Case("nothing", refused=errno.ENOENT),
    Case("nothing/below", refused=errno.ENOENT),
    Case("folder/nothing", refused=errno.ENOENT),
    Case("dangling", refused=errno.ENOENT),
    Case("file/below", refused=errno.ENOTDIR),
    Case("file/", refused=errno.ENOTDIR),
    Case("file/.", refused=errno.ENOTDIR),
    Case("file/..", refused=errno.ENOTDIR),
    Case("file-as-folder", refused=errno.ENOTDIR),
    Case("file-with-slash", refused=errno.ENOTDIR),
    Case("file-with-dot", refused=errno.ENOTDIR),
    Case("..", refused=errno.EXDEV),
    Case("../root/file", refused=errno.EXDEV),
    Case("folder/../..", refused=errno.EXDEV),
    Case("/etc/passwd", refused=errno.EXDEV),
    Case("/", refused=errno.EXDEV),
    Case("out", refused=errno.EXDEV),
    Case("out/secret", refused=errno.EXDEV),
    Case("out-file", refused=errno.EXDEV),
    Case("out-up", refused=errno.EXDEV),
    Case("out-and-back", refused=errno.EXDEV),
    Case("absolute-out-and-back", refused=errno.EXDEV),
    Case("out-sibling", refused=errno.EXDEV),
    Case("out-root", refused=errno.EXDEV),
    Case("out-etc", refused=errno.EXDEV),
    Case("out-chain", refused=errno.EXDEV),
    Case("folder/out/secret", refused=errno.EXDEV),
    Case("dangling-out", refused=errno.EXDEV),
    Case("loop", refused=errno.ELOOP),
    Case("loop-a", refused=errno.ELOOP),
    Case("magic/etc/passwd", refused=errno.EXDEV),
    Case("magic-cwd", refused=errno.EXDEV),
    Case("to-file", refused=errno.ELOOP, links=False),
    Case("to-folder/inner", refused=errno.ELOOP, links=False),
    Case("out/secret", refused=errno.ELOOP, links=False),
    Case("n" * 300, refused=errno.ENAMETOOLONG),
)

ABSOLUTE_CASES: Final = (
    Case("absolute", gives="folder/inner"),
    Case("absolute-doubled", gives="folder/inner"),
    Case("absolute-root", gives="."),
    Case("absolute-root/folder/inner", gives="folder/inner"),
    Case("absolute-through", gives="folder/inner"),
    Case("absolute-dots", gives="folder/inner"),
)
"""Absolute links that point back inside: openat2 alone refuses them, `open_beneath` and the walk follow."""


def build(base: str, tree: Tree) -> str:
    """Make `tree` in `base/root`, beside `base/outside` which holds a secret; the path of the root."""
    root, outside = os.path.join(base, ROOT_NAME), os.path.join(base, OUTSIDE_NAME)
    for folder in (root, outside, root + "-evil"):
        os.makedirs(folder)
    for folder in (outside, root + "-evil"):
        _write(os.path.join(folder, "secret"))
    for name, what in tree.items():
        path = os.path.join(root, name)
        if what == FOLDER:
            os.mkdir(path)
        elif what == FILE:
            _write(path)
        else:
            os.symlink(what.replace("{root}", root).replace("{outside}", outside), path)
    return root


def _write(path: str) -> None:
    with open(path, "x", encoding="utf-8") as file:
        file.write(path)


def expected(root: str, relative: str) -> str | int:
    """Where a lookup of `relative` that never steps out of `root` ends, or the error number it fails with."""
    here, left, followed = root, _names(relative), 0
    while left:
        name = left.pop(0)
        if not os.path.isdir(here):
            return errno.ENOTDIR
        if name == "..":
            if here == root:
                return errno.EXDEV
            here = os.path.dirname(here)
            continue
        step = here if name == "." else f"{here}/{name}"
        try:
            status = os.lstat(step)
        except OSError as error:
            return error.errno or errno.EIO
        if not stat.S_ISLNK(status.st_mode):
            here = step
            continue
        followed += 1
        if followed > _MOST_LINKS:
            return errno.ELOOP
        text = os.readlink(step)
        if text.startswith("/"):
            if text != root and not text.startswith(root + "/"):
                return errno.EXDEV
            here, text = root, text[len(root) :]
        left = _names(text) + left
    return here


def _names(path: str) -> list[str]:
    names = [name for name in path.split("/") if name]
    return [*names, "."] if path.endswith("/") else names

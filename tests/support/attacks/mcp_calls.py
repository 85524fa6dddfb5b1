"""Attacks on a workspace, as data, and the world they are tried in. Every tool and every surface gets the same ones.

A World is a workspace full of traps beside a canary: a folder outside that holds a marker no answer may ever contain
and that no call may ever change. An Attack is a path (a template over the World) and the error code that must come
back. `arguments_for` puts a path where a tool takes it.
"""

from __future__ import annotations

import hashlib
import os
import socket
import stat
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import quote

SECURITY: Final = -32001
VALIDATION: Final = -32602
TOOL: Final = -32603

MARKER: Final = "CANARY-7f3a91"
"""Stands in every file outside, and in no request."""
HIDDEN_NAME: Final = "only-outside-51c2"
"""The name of a file outside that no attack spells, so an answer with it has listed the folder."""
_LONG_NAME, _LONG_PATH = 10_000, 5_000
_TREE_MODE: Final = 0o755


@dataclass(frozen=True, slots=True)
class World:
    """Where an attack takes place. `state` is the audit log's home; the rest is what paths may name."""

    base: str
    workspace: str
    outside: str
    evil: str
    """A sibling whose name begins like the workspace's."""
    context: str
    """Declared read-only."""
    writable: str
    """Declared writable."""
    state: str

    def spell(self, template: str) -> str:
        return template.format(
            ws=self.workspace, base=self.base, outside=self.outside, evil=self.evil, context=self.context
        )

    def fingerprint(self) -> str:
        """A digest of everything but the state folder: names, kinds, modes, times and contents."""
        return fingerprint(self.base, leave_out=self.state)

    def fingerprint_outside(self) -> tuple[str, ...]:
        """A digest of everything that no call may change."""
        return tuple(fingerprint(path) for path in (self.outside, self.evil, self.context))


def build_world(base: str) -> World:
    """Make the folders, the canary and the traps beneath `base`, which must exist."""
    base = os.path.realpath(base)
    world = World(base, *(f"{base}/{name}" for name in ("ws", "outside", "ws-evil", "context", "writable", "state")))
    for folder in (world.outside, world.evil):
        _write(f"{folder}/secret.txt", f"{MARKER}\n")
        _write(f"{folder}/sub/secret.txt", f"{MARKER}\n")
        _write(f"{folder}/{HIDDEN_NAME}.txt", f"{MARKER}\n")
    _write(f"{world.context}/notes.txt", "context notes\n")
    _write(f"{world.writable}/notes.txt", "writable notes\n")
    os.mkdir(world.state)
    _fill(world.workspace)
    for name, target in _LINKS.items():
        os.symlink(world.spell(target), f"{world.workspace}/{name}")
    os.mkfifo(f"{world.workspace}/pipe")
    _bind_socket(f"{world.workspace}/socket")
    return world


def _fill(ws: str) -> None:
    _write(f"{ws}/a.txt", "alpha\nbeta\n")
    _write(f"{ws}/sub/b.txt", "beta\n")
    _write(f"{ws}/sub/deep/c.txt", "gamma\n")
    _write(f"{ws}/hidden/key.pem", "key material\n")
    _write(f"{ws}/.git/config", "[core]\n")
    _write(f"{ws}/.git/hooks/pre-commit", "#!/bin/sh\n")
    _write(f"{ws}/.git/HEAD", "ref: refs/heads/main\n")
    _write(f"{ws}/sub/.git/config", "[core]\n")
    _write(f"{ws}/toolyard.yaml", "permissions: {mode: strict}\n")
    os.mkdir(f"{ws}/empty")


# Name in the workspace: where it points. `{...}` are the World's own paths.
_LINKS: Final[dict[str, str]] = {
    "out-file": "{outside}/secret.txt",
    "out-folder": "{outside}",
    "out-relative": "../outside/secret.txt",
    "out-relative-folder": "../outside",
    "out-climbing": "sub/../../outside/secret.txt",
    "out-chain": "chain-1",
    "chain-1": "chain-2",
    "chain-2": "{outside}/secret.txt",
    "out-through-folder": "out-folder/secret.txt",
    "sub/out-deep": "../../outside/secret.txt",
    "out-evil": "{evil}/secret.txt",
    "out-and-back": "../outside/../ws/../outside/secret.txt",
    "out-root": "/",
    "out-parent": "..",
    "out-dangling": "{outside}/not-there.txt",
    "out-dangling-folder": "{outside}/not-there/deeper",
    "out-dangling-relative": "../outside/not-there.txt",
    "loop": "loop",
    "loop-1": "loop-2",
    "loop-2": "loop-1",
    "magic-root": "/proc/self/root",
    "magic-cwd": "/proc/self/cwd",
    "magic-fd": "/proc/self/fd/0",
    "magic-exe": "/proc/self/exe",
    "device": "/dev/null",
    "endless": "/dev/zero",
    "standard-in": "/dev/stdin",
    "in-file": "a.txt",
    "in-folder": "sub",
    "in-absolute": "{ws}/a.txt",
    "in-absolute-folder": "{ws}/sub",
    "in-climbing": "sub/../a.txt",
    "in-chain": "in-file",
    "git-link": ".git",
    "hook-link": ".git/hooks/pre-commit",
    "git-config-link": ".git/config",
    "yaml-link": "toolyard.yaml",
    "hidden-link": "hidden",
    "key-link": "hidden/key.pem",
    "key-absolute": "{ws}/hidden/key.pem",
}


def _write(path: str, text: str) -> None:
    os.makedirs(os.path.dirname(path), mode=_TREE_MODE, exist_ok=True)
    with open(path, "w", encoding="utf-8") as file:
        file.write(text)


def _bind_socket(path: str) -> None:
    # By a short name: a socket's address holds a hundred bytes, and temporary folders have long ones.
    folder = os.open(os.path.dirname(path), os.O_PATH | os.O_DIRECTORY)
    try:
        with socket.socket(socket.AF_UNIX) as listener:
            listener.bind(f"/proc/self/fd/{folder}/{os.path.basename(path)}")
    finally:
        os.close(folder)


def fingerprint(top: str, leave_out: str = "") -> str:
    """A digest of a tree by lstat: nothing is followed, special files are not opened."""
    digest = hashlib.blake2b()
    for folder, folders, names in os.walk(top):
        folders[:] = sorted(name for name in folders if f"{folder}/{name}" != leave_out)
        for name in (".", *sorted([*names, *folders])):
            path = f"{folder}/{name}"
            status = os.lstat(path)
            # A folder's own time counts: it tells of a name that came and went.
            digest.update(f"{path}\0{status.st_mode:o}\0{status.st_mtime_ns}\0{status.st_nlink}\0".encode())
            if stat.S_ISLNK(status.st_mode):
                digest.update(os.fsencode(os.readlink(path)))
            elif stat.S_ISREG(status.st_mode):
                digest.update(_content(path))
    return digest.hexdigest()


def _content(path: str) -> bytes:
    try:
        with open(path, "rb") as file:
            return file.read()
    except PermissionError:  # closed to its owner as well; its time and size still tell of a change
        return f"{os.lstat(path).st_size} bytes".encode()


@dataclass(frozen=True, slots=True)
class Attack:
    """A path that must be refused with `code`, whatever the tool."""

    name: str
    path: str
    code: int = SECURITY


PATHS_OUT: Final = (
    Attack("parent", "../outside/secret.txt"),
    Attack("parent after a folder", "sub/../../outside/secret.txt"),
    Attack("parent after a missing folder", "nothing/../../outside/secret.txt"),
    Attack("parent with dots", "./././../outside/./secret.txt"),
    Attack("parent with doubled slashes", "..//outside//secret.txt"),
    Attack("parent twice", "sub/deep/../../../outside/secret.txt"),
    Attack("parent from the workspace's own path", "{ws}/../outside/secret.txt"),
    Attack("parent and back in again, and out", "../ws/../outside/secret.txt"),
    Attack("more parents than there are", "../" * 60 + "etc/passwd"),
    Attack("absolute", "{outside}/secret.txt"),
    Attack("absolute with doubled slashes", "//{outside}//secret.txt"),
    Attack("absolute with three slashes", "///{outside}/secret.txt"),
    Attack("absolute with a slash at the end", "{outside}/secret.txt/"),
    Attack("absolute with a dot at the end", "{outside}/secret.txt/."),
    Attack("absolute folder", "{outside}"),
    Attack("absolute, of the system", "/etc/passwd"),
    Attack("sibling with the same beginning", "{evil}/secret.txt"),
    Attack("sibling by its relative name", "../ws-evil/secret.txt"),
    Attack("the parent itself", ".."),
    Attack("the parent with a slash", "../"),
    Attack("the root", "/"),
    Attack("not there, outside", "{outside}/not-there.txt"),
    Attack("below a folder that is not there, outside", "{outside}/not/there.txt"),
    Attack("proc root", "/proc/self/root{outside}/secret.txt"),
    Attack("proc root of init", "/proc/1/root{outside}/secret.txt"),
    Attack("proc cwd", "/proc/self/cwd/../outside/secret.txt"),
    Attack("proc descriptor", "/proc/self/fd/0"),
    Attack("proc environment", "/proc/self/environ"),
    Attack("proc of a thread", "/proc/thread-self/root{outside}/secret.txt"),
    Attack("device standard in", "/dev/stdin"),
    Attack("device descriptor", "/dev/fd/0"),
    Attack("device zero", "/dev/zero"),
)

LINKS_OUT: Final = (
    *(Attack(f"link {name}", name) for name in _LINKS if name.startswith(("out-", "loop", "magic-"))),
    *(Attack(f"link {name}", name) for name in ("sub/out-deep", "device", "endless", "standard-in")),
    Attack("through a link to a folder", "out-folder/secret.txt"),
    Attack("through a link to a folder, deeper", "out-folder/sub/secret.txt"),
    Attack("through a link to a folder, not there", "out-folder/not-there.txt"),
    Attack("through a relative link", "out-relative-folder/secret.txt"),
    Attack("through a link to the root", "out-root/etc/passwd"),
    Attack("through a link to the parent", "out-parent/outside/secret.txt"),
    Attack("through a magic link", "magic-root{outside}/secret.txt"),
    Attack("through a loop", "loop/a.txt"),
    Attack("below a dangling link", "out-dangling/a.txt"),
    Attack("below a dangling link to a folder", "out-dangling-folder/a.txt"),
    Attack("absolute spelling of a link", "{ws}/out-file"),
    Attack("a link with a slash at the end", "out-folder/"),
)

NOT_NAMES: Final[tuple[tuple[str, object], ...]] = (
    ("empty", ""),
    ("a space", " "),
    ("white space", "\t\n \r"),
    ("NUL", "a.txt\0"),
    ("NUL before the ending", "../outside/secret.txt\0.png"),
    ("NUL alone", "\0"),
    ("long name", "n" * _LONG_NAME),
    ("long name in a folder", "sub/" + "n" * 256),
    ("long path", "d/" * (_LONG_PATH // 2) + "f"),
    ("long path that is short when cleaned", "./" * _LONG_PATH + "a.txt"),
    ("long path out", "../" * _LONG_PATH + "etc/passwd"),
    ("lone surrogate", "a\ud800.txt"),
    ("lone low surrogate", "\udc80"),
    ("number", 7),
    ("float", 1.5),
    ("true", True),
    ("null", None),
    ("list", ["a.txt"]),
    ("object", {"path": "a.txt"}),
)
"""What cannot be a path; the answer is VALIDATION."""

LITERAL_NAMES: Final = (
    "%2e%2e/outside/secret.txt",
    "..%2foutside%2fsecret.txt",
    "%2e%2e%2foutside",
    "..%c0%af..%c0%afoutside",
    "\uff0e\uff0e/outside/secret.txt",
    "\u2025/outside/secret.txt",
    "..\u2215outside\u2215secret.txt",
    "..\\outside\\secret.txt",
    " ../outside/secret.txt",
    ".. /outside/secret.txt",
    "..\u200b/outside/secret.txt",
    ".../outside/secret.txt",
    "..;/outside/secret.txt",
    "~/secret.txt",
    "~root/secret.txt",
    "$HOME/secret.txt",
    "${{HOME}}/secret.txt",
    "`id`",
    "$(id)",
    "file:///etc/passwd",
    "file://{outside}/secret.txt",
    "C:\\Windows\\win.ini",
    "\\\\host\\share",
    "http://localhost/x",
    "a.txt:stream",
    "CON",
)
"""Ordinary, if odd, names: a file of that name inside the workspace is meant, and nothing else."""


def arguments_for(tool: str, path: object) -> dict[str, Any]:
    """A call of `tool` on `path` that would show or change what stands there."""
    if tool == "resources/read":
        return {"uri": f"file://{quote(path, errors='surrogatepass')}" if isinstance(path, str) else path}
    return {key: path if value is _PATH else value for key, value in _ARGUMENTS[tool].items()}


_PATH: Final = object()
_EDIT: Final = {"old_string": "a", "new_string": "owned"}
_ARGUMENTS: Final[dict[str, dict[str, Any]]] = {
    "Read": {"file_path": _PATH},
    "Write": {"file_path": _PATH, "content": "owned\n"},
    "Edit": {"file_path": _PATH, **_EDIT, "replace_all": True},
    "MultiEdit": {"file_path": _PATH, "edits": [{**_EDIT, "replace_all": True}]},
    "NotebookEdit": {"notebook_path": _PATH, "cell_id": "cell-0", "new_source": "owned\n"},
    "Grep": {"pattern": ".", "path": _PATH, "output_mode": "content"},
    "Glob": {"pattern": "**", "path": _PATH},
    "LS": {"path": _PATH},
    "read_file": {"path": _PATH},
    "read_text_file": {"path": _PATH},
    "read_media_file": {"path": _PATH},
    "write_file": {"path": _PATH, "content": "owned\n"},
    "edit_file": {"path": _PATH, "edits": [{"oldText": "a", "newText": "owned"}]},
    "create_directory": {"path": _PATH},
    "list_directory": {"path": _PATH},
    "list_directory_with_sizes": {"path": _PATH},
    "directory_tree": {"path": _PATH},
    "search_files": {"path": _PATH, "pattern": "**"},
    "get_file_info": {"path": _PATH},
}
FILE_TOOLS: Final = ("Read", "Write", "Edit", "MultiEdit", "NotebookEdit", "Grep", "Glob", "LS", "resources/read")
WRITING_TOOLS: Final = ("Write", "Edit", "MultiEdit", "NotebookEdit")
REFERENCE_TOOLS: Final = tuple(name for name in _ARGUMENTS if name.islower())
"""Those of the reference server that take one path."""

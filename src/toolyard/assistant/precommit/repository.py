"""Finds the repository that a path names, and what git has to read of it. Nothing is run here.

The work tree lies in the workspace. So does its git folder, except for a linked worktree, whose `.git` is a file that
names a folder of the main repository. Anyone who can write to the workspace can write that file, so it alone is no
reason to expose another repository: the main repository must itself list this worktree. It is then visible,
read-only, to our git; the file tools gain no access.
"""

from __future__ import annotations

import os
import stat
from dataclasses import dataclass

from toolyard.assistant.files.not_readable import refusal_error
from toolyard.core.actions import Kind
from toolyard.core.errors import SecurityError, ToolyardError, ValidationError
from toolyard.core.limits import KIB
from toolyard.core.paths import is_beneath
from toolyard.dispatch.call_context import CallContext
from toolyard.files.mounts import Target
from toolyard.sandbox.spec import Mount

_POINTER_BYTES = 8 * KIB
_POINTER = b"gitdir:"
_WORKTREES = "worktrees"
_HINT = (
    "Send the root of a git repository inside the project; if the project is only a part of one, the user has to "
    "start the assistant in its root."
)


@dataclass(frozen=True, slots=True)
class Repository:
    """A work tree and its git folder."""

    root: str
    """Real path of the work tree."""
    git_dir: str
    extra_mounts: tuple[Mount, ...] = ()
    """Folders outside the workspace that git has to read."""


def find_repository(ctx: CallContext, path: str) -> Repository:
    """Returns the repository whose root is `path`.

    Raises SecurityError outside the workspace, ValidationError otherwise.
    """
    with _open_named(ctx, path) as target:
        if not target.exists:
            raise ValidationError.of("path", f"{path} does not exist", hint=_HINT)
        if not target.handle.is_folder:
            raise ValidationError.of("path", f"{path} is not a folder", hint=_HINT)
        root = target.real
    with ctx.open(f"{root}/.git", Kind.READ) as found:
        if not found.exists:
            raise _not_a_root_error(ctx, path, root)
        if found.handle.is_folder:
            return Repository(root, found.real)
        pointer = _read_pointer(found) if found.handle.is_file else None
        at = found.real
    named = os.fsdecode(pointer.removeprefix(_POINTER).strip()) if pointer and pointer.startswith(_POINTER) else ""
    if not named or "\0" in named:
        raise ValidationError.of("path", f"{path}/.git is neither a repository nor a link to one", hint=_HINT)
    git_dir = os.path.realpath(os.path.join(os.path.dirname(at), named))
    if any(is_beneath(git_dir, declared) for declared in ctx.mounts.declared_roots):
        return Repository(root, git_dir)
    return Repository(root, git_dir, (Mount(_main_repository(at, git_dir)),))


def _open_named(ctx: CallContext, path: str) -> Target:
    try:
        return ctx.open(path, Kind.READ)
    except SecurityError as error:
        raise refusal_error(ctx, path, "path", error) from None


def _not_a_root_error(ctx: CallContext, path: str, root: str) -> ToolyardError:
    """Names the repository's root if it lies in the workspace; folders above it are not examined."""
    folder = root
    while folder != ctx.mounts.workspace.path and is_beneath(folder, ctx.mounts.workspace.path):
        folder = os.path.dirname(folder)
        if os.path.lexists(f"{folder}/.git"):
            shown = ctx.mounts.display_path(folder)
            what = f"{path} lies inside a repository whose root is {shown}"
            return ValidationError.of("path", what, hint=f'Send "{shown}".')
    return ValidationError.of("path", f"{path} is not a git repository", hint=_HINT)


def _read_pointer(target: Target) -> bytes:
    fd = target.handle.reopen_fd(os.O_RDONLY)
    try:
        return os.read(fd, _POINTER_BYTES)
    finally:
        os.close(fd)


def _main_repository(pointer: str, git_dir: str) -> str:
    """Returns the repository outside that `git_dir` belongs to, if it lists `pointer` as its worktree."""
    entries = os.path.dirname(git_dir)
    common = os.path.dirname(entries)
    back = _read_outside(f"{git_dir}/gitdir")
    shared = _read_outside(f"{git_dir}/commondir")
    is_entry = os.path.basename(entries) == _WORKTREES and bool(back) and bool(shared)
    if (
        not is_entry
        or _resolve_parent(git_dir, back) != pointer
        or os.path.realpath(os.path.join(git_dir, shared)) != common
        or not os.path.isdir(f"{common}/objects")
    ):
        raise SecurityError(
            "Its .git leads to a repository outside the workspace that does not list this folder as its worktree.",
            hint="Open the main repository as the workspace, or run `git worktree repair` there.",
        )
    return common


def _resolve_parent(folder: str, path: str) -> str:
    """Resolves links in all but the last component, which is the `.git` itself."""
    joined = os.path.join(folder, path)
    return os.path.join(os.path.realpath(os.path.dirname(joined)), os.path.basename(joined))


def _read_outside(path: str) -> str:
    """Returns one line of a regular file; empty if it cannot be read."""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK)
    except OSError:
        return ""
    try:
        if not stat.S_ISREG(os.fstat(fd).st_mode):
            return ""
        line = os.read(fd, _POINTER_BYTES).rstrip(b"\r\n")
        return "" if b"\0" in line else os.fsdecode(line)
    except OSError:
        return ""
    finally:
        os.close(fd)

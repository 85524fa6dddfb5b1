"""Stages the files of a skill while its example runs, before the skill is saved.

They lie in the owner's versions folder, which the owner's sandbox can read, and are removed when the block ends. The
next staging removes leftovers of killed processes.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import time
from collections.abc import Generator

from toolyard.core.agent_folder_names import folder_name
from toolyard.files.roots import Root
from toolyard.files.safe_paths import make_folder
from toolyard.skills.skill_files import SkillTree, remove_tree, write_tree
from toolyard.skills.versions import VERSIONS
from toolyard.workspace.layout import skills_folder

_STAGING_FOLDER = ".trying"
_STALE_SECONDS = 3_600.0
"""No example runs this long: older folders are leftovers."""


@contextlib.contextmanager
def staged_skill(root: Root, owner: str, name: str, tree: SkillTree) -> Generator[str]:
    """Yields the Python prelude that makes code import the skill `name` of `owner` from
    these files. Raises OSError.
    """
    place = f"{skills_folder(owner)}/{VERSIONS}/{_STAGING_FOLDER}"
    folder = make_folder(root, place)
    token = secrets.token_hex(8)
    try:
        _remove_stale(folder)
        write_tree(folder, token, tree)
        path = os.path.join(root.path, place, token)
        try:
            yield (
                "from toolyard_runtime.importer import try_out as _try_out\n"
                f"_try_out({folder_name(owner)!r}, {name!r}, {path!r})\n"
            )
        finally:
            remove_tree(folder, token)
    finally:
        os.close(folder)


def _remove_stale(folder: int) -> None:
    before = time.time() - _STALE_SECONDS
    for name in os.listdir(folder):
        with contextlib.suppress(OSError):
            if os.stat(name, dir_fd=folder, follow_symlinks=False).st_mtime < before:
                remove_tree(folder, name)

"""Stores skills in `skills/<owner>/<name>/`, where the owner is an agent or `community`.

A new version replaces the old one in a single step: an import sees either the old files or the new ones. The old
version moves to `skills/<owner>/.versions/<name>/<number>/`; the newest few are kept. A writer holds the lock of the
owner's folder. The next writer archives leftovers of killed ones as versions, so nothing is lost. Links are never
followed. An agent may change its own skills and the community's; the user (an empty name) may change all of them.
Mounts enforce the same inside the sandbox.
"""

from __future__ import annotations

import contextlib
import errno
import os
import re
import secrets
import stat
from collections.abc import Generator
from dataclasses import dataclass

from toolyard.core.agent_folder_names import COMMUNITY, folder_name
from toolyard.core.errors import SecurityError, SystemFault, ToolError, ToolyardError, ValidationError
from toolyard.core.limits import DEFAULT_LIMITS
from toolyard.files import file_io
from toolyard.files.roots import OPEN_FOLDER, Root
from toolyard.files.safe_paths import make_folder, open_folder, path_error
from toolyard.files.temp_names import TEMPORARY_PREFIX
from toolyard.linux.renameat2 import exchange, rename_without_replacing
from toolyard.skills.skill import Skill, check_name, import_line
from toolyard.skills.skill_files import (
    SkillFile,
    SkillTree,
    read_tree,
    remove_tree,
    tree_digest,
    tree_from_bytes,
    write_tree,
)
from toolyard.skills.skill_md import PAGE
from toolyard.skills.staging import staged_skill
from toolyard.skills.validation import SkillChecks, check_skill, refusal_error
from toolyard.skills.versions import VERSIONS, Version, VersionManifest, new_version
from toolyard.workspace.layout import SKILLS, skills_folder

KEPT_VERSIONS = 20
_LEFTOVER = re.compile(re.escape(TEMPORARY_PREFIX) + r"([A-Za-z_][A-Za-z0-9_]*)\.[0-9a-f]+")
_NOT_A_FOLDER = {errno.ENOTDIR, errno.ELOOP, errno.EEXIST}
_CANNOT_EXCHANGE = {errno.EINVAL, errno.ENOSYS, errno.EOPNOTSUPP}


def save(root: Root, agent: str, skill: Skill, checks: SkillChecks | None = None) -> str:
    """Saves a skill of an agent, replacing one of the same name. Returns its folder, relative to the workspace.

    Other files of the previous version stay. With `checks`, a skill that fails them is refused and nothing changes;
    if they have a runner, the example runs before the skill is saved.
    """
    made = tree_from_bytes(skill.files(folder_name(agent)))
    if checks is not None:
        with _locked_skill_folder(root, agent, skill.name) as place:
            whole = {**place.current_files(), **made}
        # Not under the lock: an example may take long, and may itself save a skill.
        _require_valid(root, agent, skill.name, whole, checks)
    with _locked_skill_folder(root, agent, skill.name) as place:
        place.replace_files({**place.current_files(), **made}, agent)
        return place.path


def _require_valid(root: Root, agent: str, name: str, tree: SkillTree, checks: SkillChecks) -> None:
    owner = folder_name(agent)
    if checks.runner is None:
        report = check_skill(checks, name, tree, owner)
    else:
        try:
            with staged_skill(root, agent, name, tree) as prelude:
                report = check_skill(checks, name, tree, owner, prelude)
        except OSError as error:
            raise path_error(error, f"{skills_folder(agent)}/{name}") from error
    if not report.ok:
        raise refusal_error(report)


def save_tree(
    root: Root, owner: str, name: str, tree: SkillTree, *, by: str, promoted_from: str = "", note: str = ""
) -> str:
    """Saves a complete folder as the skill. Files of the previous version are dropped."""
    _require_ownership(by, owner)
    with _locked_skill_folder(root, owner, name) as place:
        place.replace_files(tree, by, promoted_from, note)
        return place.path


def load_skill_files(root: Root, owner: str, name: str, version: int | None = None) -> dict[str, SkillFile]:
    """Returns all files of a skill, or of a former version. Raises ToolError if there is none."""
    check_name(name)
    if version is None:
        return _read_folder(root, f"{skills_folder(owner)}/{name}", f"There is no skill {owner}/{name}.")
    known = versions(root, owner, name)
    if known and known[-1].number == version and known[-1].hash:
        return load_skill_files(root, owner, name)
    path = f"{skills_folder(owner)}/{VERSIONS}/{name}/{version}"
    return _read_folder(root, path, f"Version {version} of {owner}/{name} is no longer stored.")


def is_unchanged(root: Root, owner: str, name: str, tree: SkillTree) -> bool:
    """Whether the saved skill has exactly these files."""
    try:
        return tree_digest(load_skill_files(root, owner, name)) == tree_digest(tree)
    except ToolyardError:
        return False


def promote(
    root: Root,
    agent: str,
    name: str,
    *,
    replace: bool = False,
    checks: SkillChecks | None = None,
    by: str | None = None,
) -> str:
    """Copies an agent's skill to the community. One of another origin is replaced only with `replace`.

    With `checks`, a skill that fails them is refused: it may have been edited since it was saved. Promoting an
    unchanged skill again creates no new version. `by` names who promotes it, if not the agent itself.
    """
    tree = load_skill_files(root, agent, name)
    if checks is not None and not (report := check_skill(checks, name, tree, folder_name(agent))).ok:
        raise refusal_error(report)
    source = f"{agent}/{name}"
    known: tuple[Version, ...] = ()
    with contextlib.suppress(ToolyardError):
        known = versions(root, COMMUNITY, name)
    is_there = (folder := open_folder(root, f"{skills_folder(COMMUNITY)}/{name}")) is not None
    if folder is not None:
        os.close(folder)
    if is_there and not replace and not (known and known[-1].promoted_from.partition("@")[0] == source):
        raise ToolError(
            f"The community has a skill {name} that is not from {agent}.",
            hint="Save yours under another name, or replace it on purpose.",
        )
    own = import_line(folder_name(agent), name)
    page = tree[PAGE].data.replace(own.encode(), import_line(COMMUNITY, name).encode()) if PAGE in tree else b""
    changed = {**tree, PAGE: SkillFile(page)} if page else tree
    origin = f"{source}@{tree_digest(tree)}"
    if known and known[-1].promoted_from == origin and is_unchanged(root, COMMUNITY, name, changed):
        return f"{skills_folder(COMMUNITY)}/{name}"
    return save_tree(root, COMMUNITY, name, changed, by=agent if by is None else by, promoted_from=origin)


def remove(root: Root, owner: str, name: str, *, by: str) -> None:
    """Removes a skill. It stays among its versions and can be restored."""
    _require_ownership(by, owner)
    with _locked_skill_folder(root, owner, name) as place:
        if not place.exists:
            raise ToolError(f"There is no skill {owner}/{name}.", hint="List the skills to see which exist.")
        place.retire(by)


def versions(root: Root, owner: str, name: str) -> tuple[Version, ...]:
    """Returns the recorded versions of a skill, the oldest first. The last one is in use, unless it was removed."""
    check_name(name)
    return VersionManifest(root, skills_folder(owner), name).read()


def restore(root: Root, owner: str, name: str, number: int, *, by: str) -> str:
    """Saves a former version as a new one."""
    tree = load_skill_files(root, owner, name, number)
    return save_tree(root, owner, name, tree, by=by, note=f"restored version {number}")


def _read_folder(root: Root, path: str, missing: str) -> dict[str, SkillFile]:
    folder = open_folder(root, path)
    if folder is None:
        raise ToolError(missing, hint="List the skills to see which exist.")
    try:
        return read_tree(folder, path)
    except OSError as error:
        raise path_error(error, path) from error
    finally:
        os.close(folder)


def _require_ownership(by: str, owner: str) -> None:
    if by and owner not in {by, COMMUNITY}:
        raise SecurityError(
            f"Agent '{by}' may not change the skills of '{owner}'.",
            hint="Save it under your own name, or promote it.",
        )


@dataclass(frozen=True, slots=True)
class _SkillFolder:
    """The folder of one skill. `fd` is its owner's skills folder, whose lock is held."""

    root: Root
    fd: int
    skills: str
    name: str

    @property
    def path(self) -> str:
        return f"{self.skills}/{self.name}"

    @property
    def manifest(self) -> VersionManifest:
        return VersionManifest(self.root, self.skills, self.name)

    @property
    def exists(self) -> bool:
        try:
            status = os.stat(self.name, dir_fd=self.fd, follow_symlinks=False)
        except FileNotFoundError:
            return False
        if not stat.S_ISDIR(status.st_mode):
            raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR))
        return True

    def current_files(self) -> dict[str, SkillFile]:
        """Returns the current files, without links and special files."""
        if not self.exists:
            return {}
        fd = os.open(self.name, OPEN_FOLDER, dir_fd=self.fd)
        try:
            return read_tree(fd, self.path, strict=False)
        finally:
            os.close(fd)

    def replace_files(self, tree: SkillTree, by: str, promoted_from: str = "", note: str = "") -> int | None:
        """Replaces the files of the skill. Returns the number of the replaced version."""
        self._require_free_name()
        self._archive_leftovers()
        replaced: int | None = None
        new = f"{TEMPORARY_PREFIX}{self.name}.{secrets.token_hex(6)}"
        entries: list[Version] = []
        if self.exists:
            former = self._version_in_use()
            if former not in self._recorded_versions:
                entries.append(former)
            write_tree(self.fd, new, tree)
            self._swap_in(new, former.number)
            replaced = former.number
            number = max(former.number, self._last_number) + 1
        else:
            write_tree(self.fd, new, tree)
            rename_without_replacing(new, self.fd, self.name, self.fd)
            number = self._last_number + 1
        os.fsync(self.fd)
        self.manifest.add(*entries, new_version(number, by, tree_digest(tree), promoted_from, note))
        self._prune_versions()
        return replaced

    def _require_free_name(self) -> None:
        """Raises ValidationError if an agent's folder has the name: `skills.<name>` would be ambiguous."""
        taken = open_folder(self.root, f"{SKILLS}/{self.name}")
        if taken is not None:
            os.close(taken)
            raise ValidationError.of(
                "name", f"is taken: there is a folder {SKILLS}/{self.name}", hint="Give the skill another name."
            )

    def retire(self, by: str) -> None:
        self._archive_leftovers()
        former = self._version_in_use()
        entries = [] if former in self._recorded_versions else [former]
        self._archive_folder(self.name, former.number)
        number = max(former.number, self._last_number) + 1
        self.manifest.add(*entries, new_version(number, by, "", note="removed"))

    @property
    def _recorded_versions(self) -> tuple[Version, ...]:
        """The recorded versions. An unreadable record counts as empty; the next write moves it aside."""
        with contextlib.suppress(ToolyardError):
            return self.manifest.read()
        return ()

    @property
    def _last_number(self) -> int:
        """The highest version number so far."""
        versions_folder = make_folder(self.root, self.manifest.folder)
        try:
            numbers = [int(name) for name in os.listdir(versions_folder) if name.isascii() and name.isdigit()]
        finally:
            os.close(versions_folder)
        return max([*numbers, *(version.number for version in self._recorded_versions)], default=0)

    def _version_in_use(self) -> Version:
        """Returns the version in use: the last saved one, or an edited one."""
        try:
            digest = tree_digest(self.current_files())
        except ToolError:  # beyond the limits of a skill: it is moved unread
            digest = ""
        known = self._recorded_versions
        if digest and known and known[-1].hash == digest:
            return known[-1]
        return new_version(self._last_number + 1, "", digest, note="edited by hand")

    def _swap_in(self, new: str, number: int) -> None:
        try:
            exchange(new, self.name, self.fd)
        except OSError as error:
            if error.errno not in _CANNOT_EXCHANGE:
                remove_tree(self.fd, new)
                raise
            self._archive_folder(self.name, number)
            rename_without_replacing(new, self.fd, self.name, self.fd)
        else:
            self._archive_folder(new, number)

    def _archive_folder(self, name: str, number: int) -> None:
        versions_folder = make_folder(self.root, self.manifest.folder)
        try:
            remove_tree(versions_folder, str(number))
            os.rename(name, str(number), src_dir_fd=self.fd, dst_dir_fd=versions_folder)
        finally:
            os.close(versions_folder)

    def _archive_leftovers(self) -> None:
        """Archives folders that a killed writer left: a former version, or part of a new one."""
        for entry in os.listdir(self.fd):
            found = _LEFTOVER.fullmatch(entry)
            if found is not None:
                other = _SkillFolder(self.root, self.fd, self.skills, found[1])
                number = other._last_number + 1
                other._archive_folder(entry, number)
                other.manifest.add(new_version(number, "", "", note="left by an interrupted save"))

    def _prune_versions(self) -> None:
        versions_folder = make_folder(self.root, self.manifest.folder)
        try:
            numbers = sorted(int(name) for name in os.listdir(versions_folder) if name.isascii() and name.isdigit())
            for number in numbers[:-KEPT_VERSIONS]:
                remove_tree(versions_folder, str(number))
        finally:
            os.close(versions_folder)


@contextlib.contextmanager
def _locked_skill_folder(root: Root, owner: str, name: str) -> Generator[_SkillFolder]:
    check_name(name)
    skills = skills_folder(owner)
    path = f"{skills}/{name}"
    try:
        folder = make_folder(root, skills)
    except SystemFault as error:
        raise SystemFault(f"The skill cannot be saved. {error.message}", hint=error.hint) from error
    try:
        with file_io.lock_folders((folder,), path, DEFAULT_LIMITS):
            yield _SkillFolder(root, folder, skills, name)
    except OSError as error:
        if error.errno not in _NOT_A_FOLDER:
            raise path_error(error, path) from error
        raise SystemFault(
            f"The skill cannot be saved in {path}: {error.strerror}.",
            hint="It has to be a plain folder in the workspace.",
        ) from error
    finally:
        os.close(folder)

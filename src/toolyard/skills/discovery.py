"""Lists skills: those of every agent, the community's, and those of attached folders, which are read-only.

A skill that cannot be read is listed with the reason. Invalid skills never raise.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from toolyard.core.agent_folder_names import COMMUNITY, folder_name
from toolyard.core.errors import ToolyardError, ValidationError
from toolyard.files.roots import Root
from toolyard.files.safe_paths import open_folder, read_file
from toolyard.skills.skill import MODULE, check_name, module_of
from toolyard.skills.skill_files import read_tree, tree_digest
from toolyard.skills.skill_md import PAGE, module_name, parse_page
from toolyard.skills.versions import Version, VersionManifest
from toolyard.workspace.layout import SKILLS

_MAX_PAGE_BYTES = 1 << 20
_MAX_OWNERS = 200
_MAX_SKILLS = 1_000
"""Per owner, so that an owner with a million folders cannot hide other owners' skills."""


@dataclass(frozen=True, slots=True)
class SkillEntry:
    """One skill as it is listed."""

    owner: str
    """The folder name of an agent or `community`; for an attached folder, its path."""
    name: str
    """The name of its folder."""
    path: str
    """Relative to the workspace; absolute for attached skills."""
    title: str = ""
    """The name in its SKILL.md."""
    description: str = ""
    fault: str = ""
    """Why it cannot be used."""
    remarks: tuple[str, ...] = ()
    importable: bool = False
    attached: bool = False
    version: Version | None = None
    """The newest saved version, with its author."""
    edited: bool = False
    """Whether its files were edited by hand since that version."""

    @property
    def module(self) -> str:
        """The module to import; empty if it has no Python, or a name that Python cannot import."""
        if not self.importable:
            return ""
        name = module_name(self.name)
        return module_of("" if self.attached else self.owner, name) if name.isidentifier() else ""


def list_skills(
    root: Root, agent: str = "", attached: Iterable[str] = (), *, history: bool = True
) -> tuple[SkillEntry, ...]:
    """Returns all skills in the order in which `skills.<name>` is resolved: the agent's own, the community's,
    others'.

    Without `history` no versions are included, which saves reading every file of every skill.
    """
    own = folder_name(agent) if agent else ""
    # A folder with its own SKILL.md is a skill in the place of an owner; such folders can be attached instead.
    folders = [folder for folder in _folder_names(root, SKILLS) if not _has_file(root, f"{SKILLS}/{folder}/{PAGE}")]
    owners = sorted(folders, key=lambda owner: ({own: 0, COMMUNITY: 1}.get(owner, 2), owner))[:_MAX_OWNERS]
    entries = [
        _read_entry(root, owner, name, f"{SKILLS}/{owner}/{name}", history=history)
        for owner in owners
        for name in sorted(_folder_names(root, f"{SKILLS}/{owner}"))[:_MAX_SKILLS]
    ]
    for folder in attached:
        entries += _attached_entries(folder)
    return tuple(entries)


def find_skill(
    root: Root, name: str, agent: str = "", attached: Iterable[str] = (), *, history: bool = True
) -> SkillEntry | None:
    """Returns the nearest skill called `name` or `owner/name`, or None."""
    return pick_skill(list_skills(root, agent, attached, history=history), name)


def pick_skill(
    entries: Iterable[SkillEntry], name: str, labels: Mapping[str, str] | None = None, *, titles: bool = True
) -> SkillEntry | None:
    """Returns the first entry whose folder is `name` or `owner/name`; `labels` are further names of owners.

    If no folder matches, the title in SKILL.md counts, unless `titles` is false. Raises ValidationError if folders
    with different names share that title: titles are free text, and one author must not impersonate another.
    """
    owner, _, last = name.rpartition("/")
    labels = labels or {}
    there = [entry for entry in entries if owner in {"", entry.owner, labels.get(entry.owner)}]
    named = [entry for entry in there if entry.name == last]
    if named or not titles:
        return named[0] if named else None
    titled = [entry for entry in there if last and entry.title == last]
    if len({entry.name for entry in titled}) > 1:
        forms = [f"{labels.get(entry.owner, entry.owner)}/{entry.name}" for entry in titled]
        raise ValidationError.of(
            "name", f"{name!r} is the title of several skills: {', '.join(forms)}", hint="Use one of these names."
        )
    return titled[0] if titled else None


def _attached_entries(folder: str) -> Iterator[SkillEntry]:
    """Yields the skills of another program. The user chose the folder; links inside it are not followed."""
    path = os.path.abspath(os.path.expanduser(folder))
    try:
        there = Root(path)
    except ToolyardError as error:
        yield SkillEntry(path, "", path, fault=str(error), attached=True)
        return
    try:
        for name in sorted(_folder_names(there, "."))[:_MAX_SKILLS]:
            yield _read_entry(there, path, name, name, shown=os.path.join(path, name))
    finally:
        there.close()


def _folder_names(root: Root, folder: str) -> list[str]:
    """Returns the visible folders in a folder; none if it is missing or unreadable."""
    try:
        fd = open_folder(root, folder)
    except ToolyardError:
        return []
    if fd is None:
        return []
    try:
        with os.scandir(fd) as entries:
            return [
                entry.name
                for entry in entries
                if entry.is_dir(follow_symlinks=False) and not entry.name.startswith((".", "__"))
            ]
    finally:
        os.close(fd)


def _read_entry(
    root: Root, owner: str, name: str, path: str, shown: str = "", *, history: bool = False
) -> SkillEntry:
    is_attached = bool(shown)
    version, edited = _newest_version(root, owner, name, path) if history else (None, False)
    title = description = fault = ""
    remarks: tuple[str, ...] = ()
    try:
        data = read_file(root, f"{path}/{PAGE}", _MAX_PAGE_BYTES)
        if data is None:
            fault = f"it has no {PAGE}"
        else:
            page = parse_page(data.decode())
            title, description, remarks = page.name, page.description, page.faults
        if not is_attached:
            check_name(name)
    except UnicodeDecodeError:
        fault = f"{PAGE} is not UTF-8 text"
    except ValidationError as error:
        fault = error.message
    except ToolyardError as error:
        fault = str(error)
    return SkillEntry(
        owner=owner,
        name=name,
        path=shown or path,
        title=title,
        description=" ".join(description.split()),
        fault=fault,
        remarks=remarks,
        importable=not fault and _has_file(root, f"{path}/{MODULE}"),
        attached=is_attached,
        version=version,
        edited=edited,
    )


def _has_file(root: Root, path: str) -> bool:
    try:
        with root.open(path, links=False) as handle:
            return handle.is_file
    except OSError:
        return False


def _newest_version(root: Root, owner: str, name: str, path: str) -> tuple[Version | None, bool]:
    try:
        known = VersionManifest(root, f"{SKILLS}/{owner}", name).read()
        folder = open_folder(root, path) if known else None
        if folder is None:
            return None, False
        try:
            return known[-1], tree_digest(read_tree(folder, path, strict=False)) != known[-1].hash
        finally:
            os.close(folder)
    except (ToolyardError, OSError):
        return None, True

"""Which skills there are: every agent's, the community's, and those of other programs' folders, which are only read.

A skill that cannot be read is listed with the reason. Nothing here raises for what is in a skill.
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
"""Of one owner. Each has a share of its own: whoever makes a million folders hides nobody else's skills by that."""


@dataclass(frozen=True, slots=True)
class SkillEntry:
    owner: str
    """The folder of an agent or `community`; of an attached folder, its path."""
    name: str
    """Its folder's name."""
    path: str
    """Relative to the workspace, absolute for one that is attached."""
    title: str = ""
    """Its name as its page gives it."""
    description: str = ""
    fault: str = ""
    """Why it cannot be used as it is."""
    remarks: tuple[str, ...] = ()
    importable: bool = False
    attached: bool = False
    version: Version | None = None
    """The newest that was saved here, with who saved it."""
    edited: bool = False
    """Whether somebody changed it by hand since."""

    @property
    def module(self) -> str:
        """How it is imported; empty where it has no Python, or none that is found by a name."""
        if not self.importable:
            return ""
        name = module_name(self.name)
        return module_of("" if self.attached else self.owner, name) if name.isidentifier() else ""


def list_skills(
    root: Root, agent: str = "", attached: Iterable[str] = (), *, history: bool = True
) -> tuple[SkillEntry, ...]:
    """All of them in the order in which `skills.<name>` is looked for: the agent's own, the community's, others'.

    Without `history` nothing is told of versions, for which every file of every skill is read.
    """
    own = folder_name(agent) if agent else ""
    # A folder with a page of its own is a skill that somebody put among the owners: it can be attached.
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
    """The nearest of that name: `name`, or `owner/name`."""
    return pick_skill(list_skills(root, agent, attached, history=history), name)


def pick_skill(
    entries: Iterable[SkillEntry], name: str, labels: Mapping[str, str] | None = None, *, titles: bool = True
) -> SkillEntry | None:
    """Of `entries` the first whose folder is `name`, or `owner/name`; `labels` are further names of owners.

    Where no folder is called so, the title of a page counts, with `titles`. Raises ValidationError when folders of
    different names have that title: a title is free text, and whoever writes one is not to stand in for another.
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
            "name", f"{name!r} is the title of several skills: {', '.join(forms)}", hint="Name one of them so."
        )
    return titled[0] if titled else None


def _attached_entries(folder: str) -> Iterator[SkillEntry]:
    """Skills of another program. The folder is the user's choice; what is in it is reached without links."""
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
    """The folders in a folder, without hidden ones. One that is not there, or cannot be read, has none."""
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

"""The skills available to one agent: its own, the community's, other agents', and those of attached folders.

A `SkillLibrary` only knows folders and names. Its entries are not authorised: callers that show or read a skill have
to check its path against the policy. The caller owns the Root.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

from toolyard.files.roots import Root
from toolyard.skills.discovery import SkillEntry, list_skills, pick_skill
from toolyard.skills.skill_md import is_page_name
from toolyard.workspace.layout import SKILLS

SCHEME = "skill"
_DISALLOWED_RUN = re.compile(r"[^a-z0-9]+")
_GENERIC_NAMES = frozenset({"skills", "skill"})


@dataclass(frozen=True)
class SkillLibrary:
    """The skills of one agent."""

    root: Root
    """Contains `skills/`."""
    agent: str
    attached: tuple[str, ...] = ()

    def entries(self, *, history: bool = False) -> tuple[SkillEntry, ...]:
        """Returns all skills, the nearest first. `history` adds versions, for which every file is read."""
        return list_skills(self.root, self.agent, self.attached, history=history)

    def find(self, name: str, *, titles: bool = True, history: bool = False) -> SkillEntry | None:
        """Returns the nearest skill called `name` or `owner/name`. Attached folders also have short names."""
        return pick_skill(self.entries(history=history), name, self._labels, titles=titles)

    def name_of(self, entry: SkillEntry) -> str:
        """Returns an unambiguous name of an entry for `find`."""
        return f"{self._labels.get(entry.owner, entry.owner)}/{entry.name}"

    def path_of(self, entry: SkillEntry) -> str:
        """Returns the absolute path of an entry's folder."""
        return entry.path if entry.attached else os.path.join(self.root.path, entry.path)

    def addressable_skills(self) -> Iterator[tuple[str, SkillEntry]]:
        """Yields the skills with an address `skill://<owner>/<name>`.

        The last part is the name in SKILL.md. If two folders have the same name, the first one gets the address.
        """
        seen: set[str] = set()
        for entry in self.entries():
            if entry.fault or not is_page_name(entry.title):
                continue
            owner = self._labels[entry.owner] if entry.attached else entry.owner
            address = f"{SCHEME}://{owner}/{entry.title}"
            if address not in seen:
                seen.add(address)
                yield address, entry

    @cached_property
    def _labels(self) -> dict[str, str]:
        """A unique short name for each attached folder: `~/.claude/skills` is `claude`."""
        taken = set(self._owners)
        labels: dict[str, str] = {}
        for folder in self.attached:
            parts = [part for part in folder.split("/") if part.lower() not in _GENERIC_NAMES]
            stem = _DISALLOWED_RUN.sub("-", (parts[-1] if parts else "").lower()).strip("-") or "attached"
            label, number = stem, 1
            while label in taken:
                number += 1
                label = f"{stem}-{number}"
            taken.add(label)
            labels[folder] = label
        return labels

    @property
    def _owners(self) -> list[str]:
        try:
            return os.listdir(os.path.join(self.root.path, SKILLS))
        except OSError:
            return []

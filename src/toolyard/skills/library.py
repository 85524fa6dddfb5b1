"""The skills that one agent has: its own, the community's, other agents', those of folders that the user attached.

A Shelf knows folders and names. What it lists has not been judged: whoever shows or reads a skill asks the policy
about its path. The Root is its owner's.
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
    root: Root
    """Beneath it lies `skills/`."""
    agent: str
    attached: tuple[str, ...] = ()

    def entries(self, *, history: bool = False) -> tuple[SkillEntry, ...]:
        """All of them, the nearest first. `history` tells of versions too, for which every file is read."""
        return list_skills(self.root, self.agent, self.attached, history=history)

    def find(self, name: str, *, titles: bool = True, history: bool = False) -> SkillEntry | None:
        """The nearest skill called `name` or `owner/name`; an attached folder is called by its short name too."""
        return pick_skill(self.entries(history=history), name, self._labels, titles=titles)

    def name_of(self, entry: SkillEntry) -> str:
        """A name that `find` knows it by, and no other."""
        return f"{self._labels.get(entry.owner, entry.owner)}/{entry.name}"

    def path_of(self, entry: SkillEntry) -> str:
        """Where its folder is."""
        return entry.path if entry.attached else os.path.join(self.root.path, entry.path)

    def addressable_skills(self) -> Iterator[tuple[str, SkillEntry]]:
        """The skills that have an address of their own, `skill://<owner>/<name>`, with it.

        The last part is the name that the page gives, which may be that of two folders: the first has the address.
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
        """A short name for each attached folder that is nobody's: `~/.claude/skills` is `claude`."""
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

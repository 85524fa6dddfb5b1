"""Usage statistics of skills: `skill_uses.json` in the state folder, which no agent can write.

A list of `{"skill": "<owner>/<name>", "agent", "count", "last"}`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, cast

from toolyard.files.locked_document import LockedDocument, parse_list, write_list
from toolyard.files.roots import Root
from toolyard.files.timestamps import utc_timestamp

FILE = "skill_uses.json"
_MAX_ROWS = 10_000


@dataclass(frozen=True, slots=True)
class SkillUsage:
    """How often an agent used a skill."""

    skill: str
    agent: str
    count: int
    last: str


class UsageStats:
    """Reads and updates the statistics. The caller owns the Root of the state folder."""

    def __init__(self, state: Root) -> None:
        self._file = LockedDocument(state, ".", FILE, parse_list, write_list)

    def read(self) -> tuple[SkillUsage, ...]:
        """Returns all rows."""
        return tuple(use for row in self._file.read() if (use := _parse_usage(row)) is not None)

    def count_for(self, skill: str) -> int:
        """Returns how often a skill (`<owner>/<name>`) was used, by any agent."""
        return sum(use.count for use in self.read() if use.skill == skill)

    def add(self, skill: str, agent: str, count: int = 1) -> None:
        self.add_all({(skill, agent): count})

    def add_all(self, counts: Mapping[tuple[str, str], int]) -> None:
        """Adds counts by skill and agent. The least recently used rows are dropped beyond the limit."""

        def change(rows: list[Any]) -> list[Any]:
            known = {(use.skill, use.agent): use for row in rows if (use := _parse_usage(row)) is not None}
            for (skill, agent), count in counts.items():
                before = known.pop((skill, agent), SkillUsage(skill, agent, 0, ""))
                known[skill, agent] = SkillUsage(skill, agent, before.count + count, utc_timestamp())
            return [
                {"skill": use.skill, "agent": use.agent, "count": use.count, "last": use.last}
                for use in list(known.values())[-_MAX_ROWS:]
            ]

        self._file.set_aside()
        self._file.change(change)


def _parse_usage(row: Any) -> SkillUsage | None:
    if not isinstance(row, dict):
        return None
    known = cast("dict[str, Any]", row)
    skill, agent, count, last = (known.get(key) for key in ("skill", "agent", "count", "last"))
    if not isinstance(skill, str) or not isinstance(agent, str) or not isinstance(count, int):
        return None
    return SkillUsage(skill, agent, count, last if isinstance(last, str) else "")

"""Uses of skills are counted in the state folder, whatever code says of itself."""

from __future__ import annotations

from pathlib import Path

import pytest

from toolyard.files.roots import Root
from toolyard.skills import Skill, save
from toolyard.skills.library import SkillLibrary
from toolyard.skills.usage_counter import SkillUsageCounter
from toolyard.skills.usage_stats import UsageStats

from .conftest import Place, told


def counts(state: str) -> dict[tuple[str, str], int]:
    root = Root(state)
    try:
        return {(use.skill, use.agent): use.count for use in UsageStats(root).read()}
    finally:
        root.close()


async def test_each_run_that_imports_a_skill_counts_once(place: Place) -> None:
    yard = place.open()
    for owner in ("a", "community"):
        (place.workspace / f"skills/{owner}/greet").mkdir(parents=True)
        (place.workspace / f"skills/{owner}/greet/__init__.py").write_text("from . import more\n")
        (place.workspace / f"skills/{owner}/greet/more.py").write_text("")
    for _ in range(2):
        await told(yard, "import skills.greet, skills.greet.more, skills.a.greet\nfrom skills.community import greet")
    await told(yard, "print(1)")
    yard.close()
    assert counts(yard.home.state) == {("a/greet", "a"): 2, ("community/greet", "a"): 2}


@pytest.fixture
def shelf(tmp_path: Path):
    root = Root(str(tmp_path))
    (tmp_path / "state").mkdir()
    (tmp_path / "attached/pdf-forms").mkdir(parents=True)
    save(root, "a", Skill("greet", "x = 1", "Greets."))
    yield SkillLibrary(root, "a", (str(tmp_path / "attached"),))
    root.close()


def test_only_skills_that_are_there_are_counted(shelf: SkillLibrary, tmp_path: Path) -> None:
    counter = SkillUsageCounter(shelf, str(tmp_path / "state"))
    skills = f"{tmp_path}/skills"
    counter.record_imports([f"{skills}/a/greet", f"{skills}/a/greet/deep", f"{skills}/a/none", f"{skills}/a", skills])
    counter.record_imports(
        [f"{skills}/a/../a/greet", f"{skills}/a/.versions", "/etc", 3, None, "", [f"{skills}/a/greet"]]
    )
    counter.record_imports([f"{tmp_path}/attached/pdf-forms/scripts", f"{tmp_path}/attached/gone"])
    counter.close()
    assert counts(str(tmp_path / "state")) == {("a/greet", "a"): 1, (f"{tmp_path}/attached/pdf-forms", "a"): 1}


def test_a_flood_is_cut_off(shelf: SkillLibrary, tmp_path: Path) -> None:
    for number in range(100):
        (tmp_path / f"skills/a/s{number}").mkdir()
    counter = SkillUsageCounter(shelf, str(tmp_path / "state"))
    counter.record_imports([f"{tmp_path}/skills/a/s{number}" for number in range(100)])
    counter.close()
    counter.record_use("a/greet")  # after the end it says nothing
    assert len(counts(str(tmp_path / "state"))) == 64


def test_a_state_folder_that_is_gone_fails_nobody(shelf: SkillLibrary, tmp_path: Path) -> None:
    counter = SkillUsageCounter(shelf, str(tmp_path / "nowhere"))
    counter.record_use("a/greet")
    counter.close()

"""`fresh: true`: a folder is emptied once, after a snapshot, and never where that would be dangerous."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest

from toolyard.app.toolsets import Toolset
from toolyard.app.yard import Yard
from toolyard.app.yard_options import YardOptions
from toolyard.cli.common.resolve_workspace import resolve_workspace
from toolyard.config.settings import Settings
from toolyard.core.errors import ConfigError, SystemFault
from toolyard.snapshots import SnapshotStore

ONE = "agents: [{id: a, backend: {cwd: work, fresh: true}}]\n"


@dataclass
class Start:
    base: Path
    told: list[str] = field(default_factory=list)
    yards: list[Yard] = field(default_factory=list)

    @property
    def work(self) -> Path:
        return self.base / "work"

    def configure(self, text: str) -> None:
        (self.base / "team.yaml").write_text(text)

    def open(self, workspace: str | None = None, **options: object) -> Yard:
        place = resolve_workspace(workspace, str(self.base / "team.yaml"), "a")
        base = self.base.parent
        chosen = YardOptions(
            workspace=place.workspace,
            config=place.config,
            settings=Settings(*(str(base / name) for name in ("home", "state", "temp", "documents"))),
            agent="a",
            toolset=Toolset.CODE,
            begins_session=True,
            notify=self.told.append,
        )
        yard = Yard.open(replace(chosen, **options))
        self.yards.append(yard)
        return yard


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    made = Start(tmp_path.resolve() / "project")
    made.base.mkdir()
    made.configure(ONE)
    yield made
    for yard in made.yards:
        yard.close()


def fill(folder: Path) -> None:
    (folder / "deep/er").mkdir(parents=True)
    (folder / "deep/er/file.txt").write_text("kept")
    (folder / "empty").mkdir()
    (folder / "link").symlink_to("deep")
    (folder / ".hidden").write_text("too")


def test_the_folder_is_emptied_and_everything_comes_back_from_the_snapshot(start: Start) -> None:
    fill(start.work)
    yard = start.open()
    assert os.listdir(start.work) == []
    (told,) = start.told
    with SnapshotStore(yard.home.snapshots_folder) as store:
        (taken,) = store.list()
        assert (taken.agent, taken.reason, taken.root) == ("a", "before a fresh start", str(start.work))
        assert f"toolyard snapshot restore {taken.id}" in told
        store.restore(taken.id)
    assert sorted(os.listdir(start.work)) == [".hidden", "deep", "empty", "link"]
    assert (start.work / "deep/er/file.txt").read_text() == "kept"
    assert os.readlink(start.work / "link") == "deep"


def test_an_empty_folder_needs_nothing(start: Start) -> None:
    yard = start.open()
    assert start.told == []
    assert not os.path.exists(yard.home.snapshots_folder)


def test_what_only_looks_or_runs_once_empties_nothing(start: Start) -> None:
    fill(start.work)
    start.open(begins_session=False)
    assert (start.work / "deep/er/file.txt").exists()


def test_another_agents_wish_is_not_ones_own(start: Start) -> None:
    start.configure("agents: [{id: a, backend: {cwd: work}}, {id: b, backend: {cwd: work, fresh: true}}]\n")
    fill(start.work)
    start.open()
    assert (start.work / "deep/er/file.txt").exists()


def test_a_folder_the_user_names_instead_is_used_as_it_is(start: Start) -> None:
    other = start.base / "other"
    fill(other)
    start.open(str(other))
    assert (other / "deep/er/file.txt").exists()
    assert "not emptied" in start.told[0]


def test_a_second_process_joins_the_one_at_work(start: Start) -> None:
    start.open()
    fill(start.work)
    start.open().close()
    assert (start.work / "deep/er/file.txt").exists()
    assert "another session of a is using it" in start.told[0]
    start.yards[0].close()
    start.open()
    assert os.listdir(start.work) == []


def test_what_no_snapshot_holds_stays_and_is_told(start: Start) -> None:
    fill(start.work)
    (start.work / "big").mkdir()
    (start.work / "big/data").write_text("mine")
    os.mkfifo(start.work / "pipe\x1b[2J")
    start.configure(ONE + "snapshots: {ignore: [big/]}\n")
    start.open()
    assert sorted(os.listdir(start.work)) == ["big", "pipe\x1b[2J"]
    assert (start.work / "big/data").read_text() == "mine"
    assert r"pipe\x1b[2J" in start.told[1]


def test_nothing_is_emptied_when_no_snapshot_can_be_taken(start: Start, monkeypatch: pytest.MonkeyPatch) -> None:
    fill(start.work)

    def fails(*_: object, **__: object) -> None:
        raise SystemFault("The disk is full.")

    monkeypatch.setattr(SnapshotStore, "create_with_index", fails)
    with pytest.raises(SystemFault, match="disk is full"):
        start.open()
    assert (start.work / "deep/er/file.txt").read_text() == "kept"


def test_an_agent_of_a_layout_starts_fresh_in_its_folder_and_keeps_what_is_beside_it(start: Start) -> None:
    start.configure("toolyard: {workspace: root}\nagents: [{id: a, backend: {fresh: true}}, {id: b}]\n")
    start.open().close()
    own = start.base / "root/agents/a/workspace"
    (own / "old.txt").write_text("old")
    (start.base / "root/agents/a/memory/note.md").write_text("remembered")
    start.open()
    assert sorted(os.listdir(own)) == ["memory", "servers", "shared", "skills", "tasks", "tools"]
    assert (start.base / "root/agents/a/memory/note.md").read_text() == "remembered"
    assert len(start.told) == 1


def test_a_single_folder_keeps_what_the_agent_remembers_and_has_learned(start: Start) -> None:
    fill(start.work)
    for kept in ("agents/a/memory/note.md", "skills/a/pdf/SKILL.md"):
        (start.work / kept).parent.mkdir(parents=True)
        (start.work / kept).write_text("kept")
    (start.work / "agents/readme.txt").write_text("not kept")
    start.open()
    left = [str(path.relative_to(start.work)) for path in start.work.rglob("*") if path.is_file()]
    assert sorted(left) == ["agents/a/memory/note.md", "skills/a/pdf/SKILL.md"]


DANGEROUS = {
    "it contains the configuration": ("cwd: .", {}),
    "it contains your home": ("cwd: shelf", {"home": "shelf/me"}),
    "it contains your documents": ("cwd: shelf", {"documents": "shelf"}),
    "it contains the folder for temporary files": ("cwd: shelf", {"temp_dir": "shelf/temp"}),
    "it contains what all agents share": ("cwd: shelf", {}),
}


@pytest.mark.parametrize("why", DANGEROUS)
def test_a_dangerous_folder_is_refused(start: Start, why: str) -> None:
    folder, places = DANGEROUS[why]
    (start.base / "shelf").mkdir()
    (start.base / "shelf/file.txt").write_text("mine")
    start.configure(f"toolyard: {{workspace: shelf/root}}\nagents: [{{id: a, backend: {{{folder}, fresh: true}}}}]\n")
    base = str(start.base.parent)
    settings = Settings(f"{base}/home", f"{base}/state", f"{base}/temp", f"{base}/documents")
    settings = replace(settings, **{name: str(start.base / place) for name, place in places.items()})
    with pytest.raises(ConfigError, match="cannot be emptied") as caught:
        start.open(settings=settings)
    assert why in caught.value.message
    assert (start.base / "shelf/file.txt").read_text() == "mine"

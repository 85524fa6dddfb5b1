"""An agent of a team in its folder: what it reaches beside its files, by file tools and from the sandbox, and not."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from toolyard.app.toolsets import Toolset
from toolyard.app.yard import Yard
from toolyard.app.yard_options import YardOptions
from toolyard.cli.common.resolve_workspace import resolve_workspace
from toolyard.config.models import Config
from toolyard.config.settings import Settings
from toolyard.core.calls import Call
from toolyard.core.errors import ConfigError, SecurityError, SystemFault
from toolyard.core.permission_modes import PermissionMode
from toolyard.snapshots import SnapshotStore
from toolyard.storage.audit_reader import read

TEAM = """
toolyard: {workspace: root}
agents:
  - {id: agent_a, memory: {allow_read_from: [agent_b], allow_write_to: [agent_c]}}
  - {id: agent_b}
  - {id: agent_c}
  - {id: agent_d}
snapshots: {automatic: false}
"""
LINKS = ["memory", "servers", "shared", "skills", "tasks", "tools"]


@dataclass
class Team:
    base: Path
    yards: list[Yard]

    @property
    def root(self) -> Path:
        return self.base / "root"

    def configure(self, text: str) -> None:
        (self.base / "team.yaml").write_text(text)

    def open(self, agent: str | None = "agent_a", **options: object) -> Yard:
        if "config" not in options:
            place = resolve_workspace(None, str(self.base / "team.yaml"), agent)
            options = {"workspace": place.workspace, "config": place.config, **options}
        chosen = YardOptions(
            workspace="",
            config=Config(),
            settings=_settings(self),
            agent=agent,
            toolset=Toolset.ALL,
        )
        yard = Yard.open(replace(chosen, **options))
        self.yards.append(yard)
        return yard


@pytest.fixture
def team(tmp_path: Path) -> Iterator[Team]:
    made = Team(tmp_path.resolve() / "project", [])
    made.base.mkdir()
    made.configure(TEAM)
    yield made
    for yard in made.yards:
        yard.close()


async def use(yard: Yard, tool: str, **arguments: object) -> str:
    return (await yard.dispatch(Call(tool, arguments, "test", agent=yard.agent))).text


def fill(team: Team) -> None:
    """Something to find in every folder."""
    for agent in ("agent_a", "agent_b", "agent_c", "agent_d"):
        (team.root / f"agents/{agent}/memory/learned_patterns.md").write_text(f"learned by {agent}")
        (team.root / f"agents/{agent}/memory/core_memories.json").write_text(f'["{agent}"]')
        (team.root / f"agents/{agent}/workspace/work.txt").write_text(f"work of {agent}")
        (team.root / f"agents/{agent}/tasks/current_task.yaml").write_text(f"task of {agent}")
        (team.root / f"skills/{agent}/SKILL.md").write_text(f"skill of {agent}")
    for generated in ("servers", "tools"):
        (team.root / generated / ".toolyard").touch()  # as a sync leaves it
    (team.root / "servers/here.py").write_text("from toolyard_runtime.tool import tool  # a tool file")
    (team.root / "tools/here.py").write_text("from toolyard_runtime.tool import tool  # a custom tool")
    (team.root / "shared/agent_b").mkdir()
    (team.root / "shared/agent_b/work.txt").write_text("published")


def test_the_folders_of_a_fresh_team_are_made_and_linked(team: Team) -> None:
    yard = team.open()
    own = team.root / "agents/agent_a/workspace"
    assert yard.mounts.workspace.path == str(own)
    assert sorted(os.listdir(own)) == LINKS
    assert {name: os.readlink(own / name) for name in LINKS} == {
        "memory": f"{team.root}/agents/agent_a/memory",
        "servers": f"{team.root}/servers",
        "shared": f"{team.root}/shared",
        "skills": f"{team.root}/skills",
        "tasks": f"{team.root}/agents/agent_a/tasks",
        "tools": f"{team.root}/tools",
    }
    assert sorted(os.listdir(team.root / "agents")) == ["agent_a", "agent_b", "agent_c", "agent_d"]


def test_nothing_of_the_users_is_covered_and_a_missing_link_comes_back(team: Team) -> None:
    own = team.root / "agents/agent_a/workspace"
    (own / "memory").mkdir(parents=True)
    (own / "tasks").write_text("mine")
    (own / "skills").symlink_to("/nowhere")
    team.open().close()
    (own / "shared").unlink()
    team.open()
    assert sorted(os.listdir(own)) == LINKS
    assert (own / "memory").is_dir()
    assert not (own / "memory").is_symlink()
    assert (own / "tasks").read_text() == "mine"
    assert os.readlink(own / "skills") == "/nowhere"
    assert os.readlink(own / "shared") == f"{team.root}/shared"


async def test_links_follow_a_root_that_was_moved(team: Team) -> None:
    team.open().close()
    (team.root / "agents/agent_a/workspace/tools").unlink()
    (team.root / "agents/agent_a/workspace/tools").symlink_to("/nowhere/of/mine")
    team.base = team.base.rename(team.base.with_name("moved"))
    fill(team)
    yard = team.open()
    assert "task of agent_a" in await use(yard, "Bash", command="cat tasks/current_task.yaml")
    assert sorted(os.listdir(yard.home.workspace)) == [*LINKS, "work.txt"]
    assert os.readlink(f"{yard.home.workspace}/tools") == "/nowhere/of/mine"


async def test_a_name_of_the_users_own_stays_theirs_for_the_file_tools(team: Team) -> None:
    own = team.root / "agents/agent_a/workspace"
    (own / "memory").mkdir(parents=True)
    yard = team.open()
    await use(yard, "Write", file_path="memory/note.txt", content="x")
    assert (own / "memory/note.txt").read_text() == "x"
    assert not (team.root / "agents/agent_a/memory/note.txt").exists()


def test_a_folder_of_the_users_gets_links_for_code_mode_alone(team: Team) -> None:
    team.configure("toolyard: {workspace: root}\nagents: [{id: agent_a, backend: {cwd: project}}]\n")
    team.open(toolset=Toolset.CLAUDE).close()
    assert os.listdir(team.base / "project") == []
    yard = team.open(toolset=Toolset.CODE)
    assert sorted(os.listdir(team.base / "project")) == LINKS
    assert yard.home.memory == f"{team.root}/agents/agent_a/memory"


def test_a_single_folder_gets_nothing(team: Team) -> None:
    (team.base / "ws").mkdir()
    yard = team.open(
        None, workspace=str(team.base / "ws"), config=resolve_workspace(str(team.base / "ws"), None).config
    )
    assert os.listdir(team.base / "ws") == []
    assert (yard.home.has_layout, yard.home.peers, yard.home.shared_folder) == (False, (), "")
    assert yard.home.memory == f"{team.base}/ws/agents/agent/memory"


@pytest.mark.parametrize("generated", ["servers", "tools"])
async def test_tool_files_in_a_single_folder_are_not_the_agents_to_write(team: Team, generated: str) -> None:
    workspace = team.base / "ws"
    (workspace / generated).mkdir(parents=True)
    (workspace / generated / ".toolyard").touch()  # as a sync leaves it
    yard = team.open(None, workspace=str(workspace), config=resolve_workspace(str(workspace), None).config)
    with pytest.raises(SecurityError):
        await use(yard, "Write", file_path=f"{generated}/planted.py", content="x")
    await use(yard, "Bash", command=f"echo x > {generated}/planted.py")
    assert not (workspace / generated / "planted.py").exists()


REACHED = [
    ("memory/core_memories.json", "agent_a"),
    ("memory/../memory/core_memories.json", "agent_a"),
    ("{root}/agents/agent_a/memory/core_memories.json", "agent_a"),
    ("{root}/agents/agent_b/memory/learned_patterns.md", "learned by agent_b"),
    ("{root}/agents/agent_c/memory/learned_patterns.md", "learned by agent_c"),
    ("tasks/current_task.yaml", "task of agent_a"),
    ("skills/agent_b/SKILL.md", "skill of agent_b"),
    ("servers/here.py", "a tool file"),
    ("tools/here.py", "a custom tool"),
    ("shared/agent_b/work.txt", "published"),
]
UNREADABLE = [
    "{root}/agents/agent_d/memory/learned_patterns.md",
    "{root}/agents/agent_b/workspace/work.txt",
    "{root}/agents/agent_c/tasks/current_task.yaml",
    "../../agent_b/workspace/work.txt",
    "memory/../../../agent_d/memory/core_memories.json",
]
WRITABLE = [
    "new.txt",
    "memory/new.txt",
    "tasks/new.txt",
    "skills/agent_a/new.txt",
    "skills/community/new.txt",
    "{root}/agents/agent_c/memory/new.txt",
]
UNWRITABLE = [
    "servers/new.txt",
    "tools/new.txt",
    "skills/new.txt",
    "skills/agent_b/new.txt",
    "shared/new.txt",
    "shared/agent_b/work.txt",
    "{root}/agents/agent_b/memory/new.txt",
    "{root}/agents/agent_d/memory/new.txt",
    "{root}/agents/agent_b/workspace/new.txt",
    "{root}/agents/agent_d/tasks/new.txt",
]
BETWEEN = ["{root}/new.txt", "{root}/agents/new.txt", "{root}/agents/agent_a/new.txt"]
"""Where a sandbox may have a folder of its own, which is gone with it."""


async def test_file_tools_reach_what_is_beside_the_files(team: Team) -> None:
    yard = team.open()
    fill(team)
    for path, content in REACHED:
        assert content in await use(yard, "Read", file_path=path.format(root=team.root)), path
    for path in WRITABLE:
        await use(yard, "Write", file_path=path.format(root=team.root), content="new")
    own = team.root / "agents/agent_a"
    assert (own / "memory/new.txt").read_text() == "new"
    assert (team.root / "skills/community/new.txt").read_text() == "new"
    await use(yard, "Edit", file_path="memory/learned_patterns.md", old_string="learned", new_string="known")
    assert (own / "memory/learned_patterns.md").read_text() == "known by agent_a"
    assert "core_memories.json" in await use(yard, "LS", path="memory")
    assert "learned_patterns.md" in await use(yard, "Glob", pattern="*.md", path="memory")
    assert "learned_patterns.md" in await use(yard, "Glob", pattern="memory/*.md")
    absolute = f"{own}/workspace/memory/**/*.md"
    assert "learned_patterns.md" in await use(yard, "Glob", pattern=absolute)
    assert "learned_patterns.md" in await use(yard, "Grep", pattern="known by", path="memory")
    assert "work.txt" in await use(yard, "Grep", pattern="published", path="shared")


async def test_a_link_to_another_root_is_listed_as_the_folder_it_is_for_file_tools(team: Team) -> None:
    yard = team.open()
    fill(team)
    own = team.root / "agents/agent_a/workspace"
    (own / "elsewhere").symlink_to("/etc")
    listed = (await use(yard, "list_directory", path=".")).splitlines()
    assert listed == ["[FILE] elsewhere", *(f"[DIR] {name}" for name in LINKS), "[FILE] work.txt"]
    tree_ = {node["name"]: node["type"] for node in json.loads(await use(yard, "directory_tree", path="."))}
    assert tree_ == {"elsewhere": "file", "work.txt": "file", **dict.fromkeys(LINKS, "directory")}
    assert "memory -> " in await use(yard, "LS")


@pytest.mark.parametrize("path", UNREADABLE)
async def test_file_tools_read_nothing_of_others(team: Team, path: str) -> None:
    yard = team.open()
    fill(team)
    with pytest.raises(SecurityError):
        await use(yard, "Read", file_path=path.format(root=team.root))


@pytest.mark.parametrize("path", UNWRITABLE + BETWEEN)
async def test_file_tools_write_nothing_of_others(team: Team, path: str) -> None:
    yard = team.open()
    fill(team)
    before = tree(team.root)
    with pytest.raises(SecurityError):
        await use(yard, "Write", file_path=path.format(root=team.root), content="new")
    assert tree(team.root) == before


def tree(folder: Path) -> dict[str, str]:
    return {str(path): path.read_text() for path in folder.rglob("*") if path.is_file() and not path.is_symlink()}


TRYING = """
import json
def tried(act):
    try:
        return act()
    except OSError as error:
        return type(error).__name__
reads = {{path: tried(lambda: open(path).read()) for path in {reads!r}}}
writes = {{path: tried(lambda: open(path, "w").write("new")) for path in {writes!r}}}
print(json.dumps([reads, writes]))
"""


def spelled(team: Team, paths: list[str]) -> list[str]:
    return [path.format(root=team.root) for path in paths]


@pytest.mark.usefixtures("walls")
async def test_code_reaches_the_same_and_no_more(team: Team) -> None:
    yard = team.open()
    fill(team)
    reads = spelled(team, [path for path, _ in REACHED] + UNREADABLE)
    writes = spelled(team, WRITABLE + UNWRITABLE + BETWEEN)
    await use(yard, "execute_python", code="pass")  # the first run writes the tool files of our own tools
    before = tree(team.root)
    shown = await use(yard, "execute_python", code=TRYING.format(reads=reads, writes=writes))
    read, written = json.loads(shown.strip().splitlines()[-1])
    refused = {"FileNotFoundError", "PermissionError", "OSError"}
    for path, content in REACHED:
        assert content in read[path.format(root=team.root)], path
    assert {path for path in spelled(team, UNREADABLE) if read[path] not in refused} == set()
    assert {path for path in spelled(team, WRITABLE) if written[path] != 3} == set()
    assert {path for path in spelled(team, UNWRITABLE) if written[path] not in refused} == set()
    after = tree(team.root)
    assert {path for path in after if after[path] != before.get(path)} == {
        str(team.root / path)
        for path in (
            "agents/agent_a/workspace/new.txt",
            "agents/agent_a/memory/new.txt",
            "agents/agent_a/tasks/new.txt",
            "skills/agent_a/new.txt",
            "skills/community/new.txt",
            "agents/agent_c/memory/new.txt",
        )
    }


@pytest.mark.usefixtures("walls")
async def test_commands_use_the_links_as_the_folders_they_are(team: Team) -> None:
    yard = team.open()
    fill(team)
    shown = await use(yard, "Bash", command="ls servers/ memory/ shared/; rg -l published shared/; cat tasks/*.yaml")
    for expected in ("here.py", "core_memories.json", "shared/agent_b/work.txt", "task of agent_a"):
        assert expected in shown
    forbidden = f"cat {team.root}/agents/agent_d/memory/learned_patterns.md; echo x > shared/x"
    denied = await use(yard, "Bash", command=forbidden)
    assert "learned by" not in denied
    assert not (team.root / "shared/x").exists()


async def test_a_root_inside_the_workspace_keeps_the_others_to_themselves(team: Team) -> None:
    team.configure(TEAM.replace("{id: agent_a, ", "{id: agent_a, backend: {cwd: .}, "))
    yard = team.open()
    fill(team)
    assert yard.mounts.workspace.path == str(team.base)
    for path in (
        "agent_d/memory/learned_patterns.md",
        "agent_b/workspace/work.txt",
        "agent_c/tasks/current_task.yaml",
    ):
        with pytest.raises(SecurityError):
            await use(yard, "Read", file_path=f"root/agents/{path}")
        shown = await use(yard, "Bash", command=f"cat root/agents/{path}; echo x >> root/agents/{path}")
        assert " agent_" not in shown.replace(f"root/agents/{path}", "")
    for path in ("servers/new.txt", "skills/agent_b/new.txt", "agents/agent_b/memory/new.txt", "shared/new.txt"):
        with pytest.raises(SecurityError):
            await use(yard, "Write", file_path=f"root/{path}", content="x")
        await use(yard, "Bash", command=f"echo x > root/{path}")
        assert not (team.root / path).exists()
    assert "learned by agent_b" in await use(yard, "Bash", command="cat root/agents/agent_b/memory/*.md")
    assert "learned by agent_c" in await use(yard, "Read", file_path="root/agents/agent_c/memory/learned_patterns.md")
    assert "agent_d" not in await use(yard, "Grep", pattern="learned by", output_mode="content")
    assert (team.root / "agents/agent_d/memory/learned_patterns.md").read_text() == "learned by agent_d"


@pytest.mark.parametrize("folder", [".", "root"])
async def test_who_works_around_the_root_changes_nothing_that_others_will_be_shown(team: Team, folder: str) -> None:
    """Former trees become the next ones: what is put into them would be a peer's own words."""
    team.configure(TEAM.replace("{id: agent_a, ", f"{{id: agent_a, backend: {{cwd: {folder}}}, "))
    yard = team.open()
    for place in (team.root / ".shared.trees", team.root / "agents/agent_d"):
        with pytest.raises(SecurityError):
            await use(yard, "Write", file_path=str(place / "planted"), content="x")
        with pytest.raises(SecurityError):
            await use(yard, "move_file", source=str(place), destination=str(team.base / folder / "mine"))
        await use(yard, "Bash", command=f"echo x > {place}/planted; mv {place} {team.base / folder}/mine")
        assert place.is_dir()
        assert not (place / "planted").exists()


@pytest.mark.parametrize("folder", [".", "root"])
async def test_a_workspace_around_the_root_publishes_nothing_of_the_others(team: Team, folder: str) -> None:
    team.configure(TEAM.replace("{id: agent_a, ", f"{{id: agent_a, backend: {{cwd: {folder}}}, "))
    yard = team.open()
    fill(team)
    workspace = team.base / folder
    (workspace / "own.txt").write_text("own")
    taken = yard.snapshots.create(reason="test")
    with SnapshotStore(yard.home.snapshots_folder) as store:
        held = {os.fsdecode(entry.name) for entry in store.show(taken.snapshot.id)}
    assert "own.txt" in held
    assert not {"root", "agents", "skills", "servers", "tools", "shared", ".shared.trees"} & held
    asked = "!/root\n!/agents\n!/skills\n!/shared\n!/.shared.trees\n"  # an agent may ask for it
    (workspace / ".toolyardignore").write_text(asked)
    yard.snapshots.create(reason="test")
    assert yard.sharing is not None
    assert yard.sharing.flush(30)
    published = {path.name for path in (team.root / "shared/agent_a").iterdir()}
    assert "own.txt" in published
    assert not {"root", "agents", "skills", "servers", "tools", "shared", ".shared.trees"} & published


async def test_a_further_root_does_not_open_what_is_the_others(team: Team) -> None:
    yard = team.open(mode=PermissionMode.MODERATE, settings=_settings(team, documents=str(team.base.parent)))
    fill(team)
    (team.base / "letter.txt").write_text("dear")
    assert "dear" in await use(yard, "Read", file_path=str(team.base / "letter.txt"))
    for path in UNREADABLE:
        with pytest.raises(SecurityError):
            await use(yard, "Read", file_path=path.format(root=team.root))
    audit_log = f"{yard.state}/audit.jsonl"
    assert os.path.getsize(audit_log) > 0
    with pytest.raises(SecurityError):
        await use(yard, "Read", file_path=audit_log)
    command = f"cat {team.root}/agents/agent_d/memory/learned_patterns.md; ls -R {team.base.parent}; cat {audit_log}"
    shown = await use(yard, "Bash", command=command)
    assert "letter.txt" in shown
    assert "learned by" not in shown
    assert "audit.head" not in shown
    assert '"tool"' not in shown


def _settings(team: Team, documents: str = "") -> Settings:
    base = str(team.base.parent)
    return Settings(f"{base}/home", f"{base}/state", f"{base}/temp", documents or f"{base}/documents")


async def test_skills_of_other_programs_are_seen_and_never_written(team: Team) -> None:
    mine = team.base.parent / "home/.claude/skills/pdf"
    mine.mkdir(parents=True)
    (mine / "SKILL.md").write_text("about PDF")
    (team.base / "elsewhere").mkdir()
    folders = "[~/.claude/skills, elsewhere, missing/skills]"
    team.configure(TEAM.replace("{workspace: root}", f"{{workspace: root, skill_folders: {folders}}}"))
    yard = team.open()
    assert yard.home.attached_skills == (str(mine.parent), str(team.base / "elsewhere"))
    assert "about PDF" in await use(yard, "Read", file_path=str(mine / "SKILL.md"))
    shown = await use(yard, "Bash", command=f"cat {mine}/SKILL.md; echo x > {mine}/SKILL.md")
    assert "about PDF" in shown
    with pytest.raises(SecurityError):
        await use(yard, "Write", file_path=str(mine / "SKILL.md"), content="x")
    assert (mine / "SKILL.md").read_text() == "about PDF"


def test_a_folder_of_skills_in_the_workspace_leads_nowhere_else(team: Team) -> None:
    (team.base / "secrets").mkdir()
    (team.base / "project/.claude").mkdir(parents=True)
    (team.base / "project/.claude/skills").symlink_to(team.base / "secrets")
    team.configure(
        "toolyard: {workspace: root, skill_folders: [project/.claude/skills]}\n"
        "agents: [{id: agent_a, backend: {cwd: project}}]\n"
    )
    assert team.open().home.attached_skills == ()


async def test_work_is_shared_and_kept_where_the_configuration_says(team: Team) -> None:
    team.configure(TEAM + "orchestrator: {agent_temporary_workspace: temporary, snapshot_storage: kept}\n")
    yard = team.open()
    assert (yard.home.shared_folder, yard.home.snapshots_folder) == (f"{team.base}/temporary", f"{team.base}/kept")
    (team.base / "temporary/x.txt").write_text("published")
    assert "published" in await use(yard, "Read", file_path="shared/x.txt")
    assert "published" in await use(yard, "Bash", command="cat shared/x.txt; echo x > shared/y.txt")
    assert os.listdir(team.base / "temporary") == ["x.txt"]


def test_snapshots_are_not_kept_where_agents_could_write_them(team: Team) -> None:
    team.configure(TEAM + "orchestrator: {snapshot_storage: root/agents/agent_a/workspace/kept}\n")
    with pytest.raises(ConfigError, match="inside the workspace"):
        team.open()


def test_a_link_in_the_place_of_an_agents_folder_is_refused(team: Team) -> None:
    (team.base / "elsewhere").mkdir()
    (team.root / "agents/agent_a").mkdir(parents=True)
    (team.root / "agents/agent_a/memory").symlink_to(team.base / "elsewhere")
    with pytest.raises(SystemFault, match="is a link"):
        team.open()


async def test_the_agents_have_one_log(team: Team) -> None:
    team.configure(TEAM.replace("{id: agent_b}", "{id: agent_b, backend: {cwd: elsewhere}}"))
    for agent in ("agent_a", "agent_b"):
        await use(team.open(agent), "LS")
    (state,) = {yard.state for yard in team.yards}
    assert [(line.event.agent, line.event.tool) for line in read(state)] == [("agent_a", "LS"), ("agent_b", "LS")]


def test_a_found_file_makes_a_root_inside_its_folder_and_all_that_belongs_into_it(
    team: Team, monkeypatch: pytest.MonkeyPatch
) -> None:
    (team.base / "toolyard.yaml").write_text("toolyard: {workspace: root}\nagents: [{id: agent_a}, {id: agent_b}]\n")
    monkeypatch.chdir(team.base)
    place = resolve_workspace(None, None, "agent_a")
    assert team.root.is_dir()
    yard = team.open(workspace=place.workspace, config=place.config)
    assert sorted(os.listdir(yard.home.workspace)) == LINKS


def test_a_command_for_all_agents_sees_the_root_and_no_links(team: Team) -> None:
    yard = team.open(None)
    assert (yard.home.is_member, yard.mounts.workspace.path) == (False, str(team.root))
    assert not (team.root / "memory").exists()

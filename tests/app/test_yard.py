"""A Yard opens a workspace with everything that belongs to it, or nothing."""

import contextlib
import os

import pytest

from toolyard.app.toolsets import Toolset
from toolyard.app.yard import Yard
from toolyard.app.yard_options import YardOptions
from toolyard.config.models import Agent, Backend, Config
from toolyard.config.settings import Settings
from toolyard.core.actions import Action, Effect, Kind
from toolyard.core.calls import Call
from toolyard.core.errors import ConfigError, SecurityError, SystemFault, ToolyardError, ValidationError
from toolyard.core.permission_modes import PermissionMode
from toolyard.storage.audit_reader import read
from toolyard.storage.state_folder import state_dir


@pytest.fixture
def options(tmp_path):
    def make(config=None, **chosen):
        base = tmp_path.resolve()
        (base / "ws").mkdir(exist_ok=True)
        settings = Settings(str(base / "home"), str(base / "state"), str(base), str(base / "documents"))
        return YardOptions(
            **{"workspace": str(base / "ws"), "config": config or Config(), "settings": settings, **chosen}
        )

    return make


def agent(**backend):
    return Config(agents=(Agent(id="a", backend=Backend(**backend)),))


def descriptors():
    """What is open, by number. A watcher of another test may still be letting go of its own, so none is counted."""
    found = set()
    for number in os.listdir("/proc/self/fd"):
        with contextlib.suppress(FileNotFoundError):  # the one that the list was read with
            found.add((number, os.readlink(f"/proc/self/fd/{number}")))
    return found


async def test_a_yard_runs_tools_and_keeps_the_record_outside_the_workspace(options):
    chosen = options()
    with Yard.open(chosen) as yard:
        await yard.dispatch(Call("Write", {"file_path": "a.txt", "content": "x"}, "test"))

    state = state_dir(chosen.settings.state_home, chosen.workspace)
    assert (yard.state, os.listdir(chosen.workspace)) == (state, ["a.txt"])
    assert [record.event.tool for record in read(state)] == ["Write"]


def test_closing_gives_everything_back(options):
    before = descriptors()
    yard = Yard.open(options())

    yard.close()

    assert descriptors() <= before


def test_what_cannot_be_closed_does_not_keep_the_rest_open(options, monkeypatch):
    yard = Yard.open(options())
    monkeypatch.setattr(yard.dispatch, "close", lambda: (_ for _ in ()).throw(SystemFault("stuck")))

    with pytest.raises(SystemFault, match="stuck"):
        yard.close()

    assert yard.mounts.workspace.fd == -1
    monkeypatch.undo()
    yard.dispatch.close()


@pytest.mark.parametrize(("name", "said"), [("missing", "is not a folder"), ("file", "is a file, not a folder")])
def test_a_workspace_must_be_a_folder(options, tmp_path, name, said):
    (tmp_path / "file").write_text("x")

    with pytest.raises(ConfigError, match=said):
        Yard.open(options(workspace=str(tmp_path / name)))


@pytest.mark.parametrize("place", ["ws", "ws/deep/er", "link"])
def test_the_state_never_lies_inside_the_workspace(options, tmp_path, place):
    chosen = options(state_home=str(tmp_path / place))
    (tmp_path / "link").symlink_to("ws")

    with pytest.raises(ConfigError, match="inside the workspace"):
        Yard.open(chosen)


def test_an_opening_that_fails_leaves_nothing_open(options, tmp_path):
    (tmp_path / "state").write_text("in the way")
    chosen = options()
    before = descriptors()

    with pytest.raises(SystemFault, match="state folder"):
        Yard.open(chosen)

    assert descriptors() <= before


async def test_no_tool_writes_the_record_even_where_the_mode_opens_its_folder(options):
    with Yard.open(options(mode=PermissionMode.MODERATE)) as yard:
        for path in (f"{yard.state}/audit.jsonl", f"{yard.state}/new"):
            with pytest.raises(SecurityError):
                await yard.dispatch(Call("Write", {"file_path": path, "content": "x"}, "test"))
        beside = Action(Kind.WRITE, "Write", f"{os.path.dirname(yard.mounts.workspace.path)}/free")
        assert yard.policy.decide(beside).effect is Effect.ALLOW


@pytest.mark.parametrize(
    ("allowed", "excluded", "served"),
    [
        (
            (),
            (),
            [
                *("Read", "Write", "Edit", "MultiEdit", "NotebookEdit"),
                *("Bash", "BashOutput", "KillShell", "Grep", "Glob", "LS"),
            ],
        ),
        (("Read", "G*"), (), ["Read", "Grep", "Glob"]),
        ((), ("*Edit", "Bash*", "KillShell"), ["Read", "Write", "Grep", "Glob", "LS"]),
        (("Read", "Write"), ("Write",), ["Read"]),
        (("read",), (), []),
    ],
)
def test_the_agents_configuration_chooses_among_the_tools(options, allowed, excluded, served):
    with Yard.open(options(agent(allowed_tools=allowed, exclude_tools=excluded))) as yard:
        assert list(yard.dispatch.tools) == served


def test_the_mode_of_the_command_line_goes_before_the_agents(options):
    config = agent(permission_mode=PermissionMode.PLAN)

    with Yard.open(options(config)) as of_agent, Yard.open(options(config, mode=PermissionMode.DEFAULT)) as of_line:
        assert (of_agent.policy.mode, of_line.policy.mode) == (PermissionMode.PLAN, PermissionMode.DEFAULT)


def test_an_agent_that_is_not_configured_is_an_error(options):
    with pytest.raises(ConfigError, match="no agent"):
        Yard.open(options(agent(), agent="b"))


def test_a_yard_serves_the_set_it_is_asked_for(options):
    with Yard.open(options(toolset=Toolset.REFERENCE)) as yard:
        assert "read_file" in yard.dispatch.tools
        assert "Read" not in yard.dispatch.tools


async def test_resources_are_no_tools_and_go_with_the_reading_tools(tmp_path):
    (tmp_path / "ws").mkdir()
    (tmp_path / "ws" / "a.txt").write_text("x")
    reader = Config()
    writer = Config(agents=({"id": "w", "backend": {"exclude_tools": ("Read",)}},))  # pyright: ignore[reportArgumentType]

    async def ask(config: Config, *, hidden: bool) -> str:
        options = YardOptions(str(tmp_path / "ws"), config, state_home=str(tmp_path / "state"))
        with Yard.open(options) as yard:
            try:
                listed = await yard.dispatch(Call("resources/list", {}, "test", hidden=hidden))
            except ValidationError:
                return "unknown"
        return "the file" if "a.txt" in str(listed) else "no file"

    assert [await ask(reader, hidden=True), await ask(reader, hidden=False), await ask(writer, hidden=True)] == [
        "the file",
        "unknown",
        "no file",
    ]


async def test_who_is_served_no_reading_tool_reads_no_file_as_a_resource(options):
    for config, expected in ((Config(), "x"), (agent(exclude_tools=("Read",)), "refused")):
        chosen = options(config)
        path = os.path.join(chosen.workspace, "a.txt")
        with open(path, "w") as file:
            file.write("x")
        with Yard.open(chosen) as yard:
            try:
                found = await yard.dispatch(Call("resources/read", {"uri": f"file://{path}"}, "test", hidden=True))
                answer = found.structured["text"] if found.structured else ""
            except ToolyardError:
                answer = "refused"
        assert answer == expected


@pytest.mark.parametrize("name", ["../up", "a/b", "", ".hidden", "a\n"])
def test_a_name_that_could_lead_elsewhere_is_no_agents(options, name):
    with pytest.raises(ConfigError, match="cannot be an agent's name"):
        Yard.open(options(agent=name))

"""What each execution mode puts into a model's context."""

import json
import os

import pytest

from tests.support.universe import universe
from toolyard.app.execution_mode import (
    ESSENTIAL_CODE_TOOLS,
    ESSENTIAL_FILE_TOOLS,
    MAX_ESSENTIAL_TOKENS,
    tool_injection_for,
)
from toolyard.app.yard import Yard
from toolyard.app.yard_options import YardOptions
from toolyard.codemode.catalog import Catalog
from toolyard.config.models import Config
from toolyard.config.settings import Settings
from toolyard.core.calls import Call
from toolyard.core.errors import ConfigError, ValidationError
from toolyard.core.tokens import count_tokens
from toolyard.core.upstream import ServerListing, ToolSchema
from toolyard.storage.state_folder import ensure_state_dir, state_dir

EIGHT = {"Read", "Write", "Edit", "MultiEdit", "Bash", "Grep", "Glob", "LS"}
NAMES = [listing.server for listing in universe()]
OBJECT = {"type": "object", "properties": {}}


def cost(tools):
    """As a model sees them."""
    return sum(
        count_tokens(json.dumps({"name": name, "description": tool.description, "input_schema": tool.input_schema}))
        for name, tool in tools.items()
    )


def entries(names):
    return [{"name": name, "command": "/nowhere"} for name in names]


@pytest.fixture
def opened(tmp_path):
    yards = []
    base = tmp_path.resolve()
    workspace, state = base / "ws", str(base / "state")
    workspace.mkdir()

    def open_(agent=None, listings=(), *, one=True, **toolyard):
        section = {"available_mcp_servers": entries(listing.server for listing in listings), **toolyard}
        agents = {"agents": [{"id": "a", **(agent or {})}]} if one else {}
        config = Config.model_validate({"toolyard": section, **agents})
        with Catalog.open(ensure_state_dir(state_dir(ensure_state_dir(state), str(workspace)))) as catalog:
            for listing in listings:
                catalog.record_listing(listing, "")
        settings = Settings(str(base / "home"), state, str(base), str(base / "documents"))
        injected = tool_injection_for(config, "a" if one else None)
        yard = Yard.open(YardOptions(str(workspace), config, settings, injection=injected))
        yards.append(yard)
        return yard

    yield open_
    for yard in yards:
        yard.close()


def listing(server, *tools):
    return ServerListing(server, tuple(ToolSchema(tool, f"Does {tool}.", OBJECT) for tool in tools))


def files_first(opened, listings=(), agent=None, **toolyard):
    return opened(agent, listings, execution_mode="filesystem_first", **toolyard)


def context_based(opened, listings=(), backend=None, **toolyard):
    return opened({"backend": {"cwd": "ws"} if backend is None else backend}, listings, **toolyard)


def test_files_first_gives_the_essential_tools_within_their_budget(opened):
    tools = files_first(opened).dispatch.tools

    assert set(tools) == {*ESSENTIAL_FILE_TOOLS, *ESSENTIAL_CODE_TOOLS, "search_tools"}
    assert cost(tools) <= MAX_ESSENTIAL_TOKENS


def test_files_first_costs_the_same_with_no_server_and_with_hundreds(opened):
    none = files_first(opened)
    hundreds = files_first(opened, universe())

    assert none.dispatch.tools == hundreds.dispatch.tools
    assert [tool.input_schema for tool in none.dispatch.tools.values()] == [
        tool.input_schema for tool in hundreds.dispatch.tools.values()
    ]


async def test_files_first_offers_no_background_that_nobody_could_read(opened):
    yard = files_first(opened)

    assert "run_in_background" not in yard.dispatch.tools["execute_bash"].input_schema["properties"]
    with pytest.raises(ValidationError, match="run_in_background"):
        await yard.dispatch(Call("execute_bash", {"command": "true", "run_in_background": True}, "test"))


def test_files_first_has_code_mode(opened):
    assert files_first(opened).options.has_code_mode
    assert not context_based(opened).options.has_code_mode


def test_in_context_tools_take_the_place_of_the_essential_ones(opened):
    chosen = {"filesystem": ["read_file"], "code_execution": "*", "mail": ["send"]}

    tools = files_first(opened, [listing("mail", "send", "delete")], in_context_tools=chosen).dispatch.tools

    code = {"execute_python", "execute_bash", "BashOutput", "KillShell"}
    assert set(tools) == {"search_tools", "read_file", *code, "mail__send"}
    assert "run_in_background" in tools["execute_bash"].input_schema["properties"]


def test_an_agents_lists_hold_in_both_modes(opened):
    mail = [listing("mail", "send", "delete")]
    groups = {"filesystem": ["read_file", "write_file"], "mail": "*"}
    lists = {"allowed_tools": ["read_file", "Read", "send"], "exclude_tools": ["mail.delete"]}

    first = files_first(opened, mail, {"backend": lists}, in_context_tools=groups)
    based = context_based(opened, mail, {"cwd": "ws", **lists})

    assert list(first.dispatch.tools) == ["read_file", "mail__send"]
    assert list(based.dispatch.tools) == ["Read", "mail__send"]


def test_files_first_without_code_execution_is_refused_with_the_way_out(opened):
    with pytest.raises(ConfigError, match="needs code execution") as refused:
        files_first(opened, code_execution={"enabled": False})

    assert "context_based" in refused.value.hint


@pytest.mark.parametrize(
    "backend", [{"cwd": "ws"}, {"permission_mode": "plan"}, {"type": "claude_code"}, {"type": "codex"}]
)
def test_an_agent_with_files_has_the_eight_tools(opened, backend):
    assert set(context_based(opened, backend=backend).dispatch.tools) >= EIGHT


def test_an_agent_without_a_word_about_files_has_its_servers_tools_alone(opened):
    yard = context_based(opened, [listing("weather", "forecast")], {"type": "gemini"})

    assert list(yard.dispatch.tools) == ["weather__forecast"]


def test_a_named_workspace_gives_every_agent_files():
    config = Config.model_validate({"toolyard": {"workspace": "team"}, "agents": [{"id": "a"}]})

    assert tool_injection_for(config, "a").has_files


def test_context_based_puts_every_tool_of_every_server_in_by_a_name_of_its_own(opened):
    yard = context_based(opened, universe())

    count = sum(len({tool.name for tool in each.tools}) for each in universe())
    others = [tool for name, tool in yard.dispatch.tools.items() if "__" in name]
    assert len(others) == count
    assert all(tool.name == name for name, tool in yard.dispatch.tools.items())
    assert all(len(name) <= 64 and (name[0].isalpha() or name[0] == "_") for name in yard.dispatch.tools)


def test_what_is_another_agents_alone_is_not_put_in(tmp_path):
    config = Config.model_validate(
        {
            "agents": [
                {"id": "a", "backend": {"mcp_servers": entries(["mail"])}},
                {"id": "b", "backend": {"mcp_servers": entries(["bank"])}},
            ]
        }
    )
    state = str(tmp_path / "state")
    (tmp_path / "ws").mkdir()
    workspace = os.path.realpath(tmp_path / "ws")
    with Catalog.open(ensure_state_dir(state_dir(ensure_state_dir(state), workspace))) as catalog:
        catalog.record_listing(listing("mail", "send"), "")
        catalog.record_listing(listing("bank", "pay"), "")
    settings = Settings(str(tmp_path), state, str(tmp_path), str(tmp_path))

    def names(agent):
        options = YardOptions(workspace, config, settings, agent=agent, injection=tool_injection_for(config, agent))
        with Yard.open(options) as yard:
            return list(yard.dispatch.tools)

    assert (names("a"), names("b")) == (["mail__send"], ["bank__pay"])


def test_custom_tools_are_put_in_and_told_apart_from_a_server_of_the_same_name(opened, tmp_path):
    (tmp_path / "shop.py").write_text("def order(what: str) -> str:\n    '''Order it.'''\n    return what\n")
    source = [{"group": "shop", "path": str(tmp_path / "shop.py")}]

    yard = context_based(opened, [listing("shop", "order")], available_custom_tools=source)

    ours = [name for name in yard.dispatch.tools if name.startswith("shop__order")]
    assert len(ours) == 2
    assert [yard.dispatch.tools[name].is_custom for name in ours] == [False, True]


def test_groups_that_change_nothing_are_told(opened):
    section = {"in_context_tools": {"filesystem": "*"}}
    both = Config.model_validate({"toolyard": {"execution_mode": "context_based", **section}})
    first = Config.model_validate({"toolyard": {"execution_mode": "filesystem_first", **section}})

    assert "in_context_tools" in tool_injection_for(both, None).notices[0]
    assert tool_injection_for(first, None).notices == ()


def test_without_agents_there_are_files(opened):
    assert set(opened(one=False).dispatch.tools) >= EIGHT

"""What a run would do is told without doing any of it."""

import json
import os

import pytest

from tests.support.universe import universe
from toolyard.app.execution_mode import tool_injection_for
from toolyard.app.yard import Yard
from toolyard.app.yard_options import YardOptions
from toolyard.cli.run.check_view import verdict
from toolyard.codemode.catalog import Catalog
from toolyard.config.loader import load_config
from toolyard.config.models import TeamLimits
from toolyard.config.settings import Settings
from toolyard.core.tokens import count_tokens
from toolyard.core.upstream import ServerListing, ToolSchema
from toolyard.mcp_client.errors import ServerUnavailable
from toolyard.sandbox import probe
from toolyard.sandbox.probe import TierReport
from toolyard.storage.state_folder import ensure_state_dir, state_dir
from toolyard.team.check.check import check_run
from toolyard.team.check.report import ServerState
from toolyard.team.paths import make_folders, with_layout, workspace_of
from toolyard.team.prompts import system_prompt

KEY = {"GEMINI_API_KEY": "a-secret-key"}
GEMINI = {"type": "gemini", "model": "gemini-2.5-flash"}


@pytest.fixture
def checked(tmp_path):
    """Check a configuration. The keys and the catalog are those that are given."""
    home = tmp_path / "home"
    home.mkdir()

    def check(document, access=KEY, listings=(), variables=None, limits=None, failed=()):
        file = tmp_path / "team.yaml"
        file.write_text(json.dumps(document))
        folders = (str(home), str(tmp_path / "state"), str(tmp_path / "temp"), str(home / "Documents"))
        settings = Settings(*folders, config_home=str(home / ".config"), model_access=access)
        config = load_config(str(file))
        if listings or failed:
            root = os.path.realpath(tmp_path / config.toolyard.workspace)
            state = ensure_state_dir(state_dir(ensure_state_dir(settings.state_home), root))
            with Catalog.open(state) as catalog:
                for listing in listings:
                    catalog.record_listing(listing, "")
                for server, error in failed:
                    catalog.record_failure(server, error)
        variables = {"PATH": str(tmp_path / "bin")} if variables is None else variables
        return check_run(config, settings, None, variables, limits)

    return check


def one(**backend):
    return {"agents": [{"id": "a", "backend": {**GEMINI, **backend}}]}


def listing(server, *tools):
    return ServerListing(server, tuple(ToolSchema(tool, f"Does {tool}.", {"type": "object"}) for tool in tools))


def texts(findings):
    return " ".join(f"{finding.agent} {finding.text} {finding.hint}" for finding in findings)


def test_a_configuration_that_would_run_has_no_problems(checked):
    report = checked(one(cwd="work"))
    (agent,) = report.agents

    assert report.is_ready
    assert (agent.backend, agent.model, agent.access) == ("Gemini API", "gemini-2.5-flash", "key from GEMINI_API_KEY")
    assert (agent.mode, agent.folder) == ("strict", "is created")
    assert report.limits == {"rounds": 4, "seconds": 3600.0, "turns": 100}


def test_looking_changes_nothing(checked, tmp_path):
    checked({**one(cwd="work", fresh=True), "toolyard": {"execution_mode": "filesystem_first"}})

    assert sorted(os.listdir(tmp_path)) == ["home", "team.yaml"]


def test_a_missing_key_is_a_problem_that_names_its_variable(checked):
    report = checked(one(), access={})

    assert not report.is_ready
    assert (report.problems[0].agent, "GEMINI_API_KEY" in report.problems[0].hint) == ("a", True)


def test_no_key_is_ever_in_a_report(checked):
    report = checked({"agents": [{"id": "a", "backend": {**GEMINI, "api_key": "another-secret"}}]})

    told = json.dumps(report.as_json()) + repr(report)
    assert report.agents[0].access == "key from `backend.api_key`"
    assert "another-secret" not in told
    assert KEY["GEMINI_API_KEY"] not in told


def test_a_cli_that_is_not_installed_is_a_problem_that_says_how_to_get_it(checked):
    report = checked({"agents": [{"id": "a", "backend": {"type": "codex"}}]})

    assert "Codex is not installed" in report.problems[0].text
    assert "npm install" in report.problems[0].hint


def test_a_team_starts_without_an_agent_whose_cli_is_missing(checked):
    report = checked({"agents": [{"id": "a", "backend": GEMINI}, {"id": "b", "backend": {"type": "codex"}}]})

    assert (report.is_ready, report.without) == (True, ("b",))
    (notice,) = (each for each in report.notices if each.agent == "b")
    assert "Codex is not installed" in notice.text
    assert notice.text.endswith("The run starts without agent b.")
    assert "npm install" in notice.hint
    assert verdict(report) == "Ready, but the run starts without agent b."


def test_a_cli_without_a_key_is_a_problem_and_with_one_it_is_told(checked, tmp_path):
    (tmp_path / "bin").mkdir()
    program = tmp_path / "bin/claude"
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    document = {"agents": [{"id": "a", "backend": {"type": "claude_code"}}]}
    path = {"PATH": str(tmp_path / "bin")}

    without, with_key = checked(document), checked(document, variables={**path, "ANTHROPIC_API_KEY": "k"})

    assert "no key and no login" in without.problems[0].text
    assert with_key.is_ready
    assert with_key.agents[0].access == f"{program}, key from ANTHROPIC_API_KEY"
    assert with_key.agents[0].model == "its own default"


def test_no_agents_and_no_backend_are_problems(checked):
    assert "no agent" in checked({"toolyard": {"workspace": "team"}}).problems[0].text
    assert "has no backend" in checked({"agents": [{"id": "a", "backend": {"cwd": "w"}}]}).problems[0].text


def test_what_happens_to_each_folder_is_told(checked, tmp_path):
    (tmp_path / "used").mkdir()
    (tmp_path / "used/notes").write_text("x")
    (tmp_path / "empty").mkdir()
    (tmp_path / "file").write_text("x")
    wanted = {"new": {}, "used": {}, "empty": {}, "file": {}, "fresh": {"cwd": "used", "fresh": True}}
    agents = [{"id": name, "backend": {**GEMINI, "cwd": name, **more}} for name, more in wanted.items()]

    report = checked({"agents": agents})

    told = {agent.id: agent.folder for agent in report.agents}
    assert told["new"] == "is created"
    assert told["used"] == "is used unchanged"
    assert told["empty"] == "exists and is empty"
    assert "snapshot keeps" in told["fresh"]
    assert [(problem.agent, "is a file" in problem.text) for problem in report.problems] == [("file", True)]
    assert "used, fresh work in one folder" in texts(report.notices)
    assert (tmp_path / "used/notes").read_text() == "x"


def test_a_folder_that_may_not_be_emptied_is_a_problem(checked, tmp_path):
    (tmp_path / "project").mkdir()

    report = checked({**one(cwd="project", fresh=True), "toolyard": {"workspace": "project/team"}})

    assert "cannot be emptied" in texts(report.problems)


def test_a_folder_that_holds_the_state_is_a_problem(checked):
    assert "state folder" in texts(checked(one(cwd=".")).problems)


def test_a_root_that_is_a_file_is_a_problem(checked, tmp_path):
    (tmp_path / "team").write_text("x")

    report = checked({**one(cwd="work"), "toolyard": {"workspace": "team"}})

    assert "team is a file" in texts(report.problems)


def test_an_agent_without_files_has_its_servers_tools_alone(checked):
    entry = {"name": "weather", "command": "/nowhere"}

    report = checked(one(mcp_servers=[entry]), listings=[listing("weather", "today", "tomorrow")])
    (agent,) = report.agents

    assert (agent.workspace, agent.walls) == ("", "")
    assert agent.tools == ("weather__today", "weather__tomorrow")
    assert [(each.name, each.state, each.tools) for each in agent.servers] == [("weather", ServerState.KNOWN, 2)]


def test_an_agent_without_files_and_without_tools_is_told_how_to_get_some(checked):
    entry = {"name": "weather", "command": "/bin/sh"}
    told = "agent a has no tools: set `cwd` or `permission_mode` to give it files."

    assert told in [notice.text for notice in checked(one()).notices]
    for backend in ({"cwd": "w"}, {"permission_mode": "plan"}, {"mcp_servers": [entry]}):
        assert "has no tools" not in texts(checked(one(**backend)).notices)


def test_servers_that_are_not_known_or_cannot_be_had_stop_nothing(checked):
    report = checked(one(cwd="w", mcp_servers=[{"name": "new", "command": "/nowhere"}, "ghost"]))
    (agent,) = report.agents

    assert report.is_ready
    assert {each.name: each.state for each in agent.servers} == {
        "new": ServerState.UNKNOWN,
        "ghost": ServerState.UNUSABLE,
    }
    assert "server ghost: is only a name" in texts(report.notices)
    assert "1 server was never asked" in texts(report.notices)


def test_variables_of_a_server_that_are_not_set_are_told_in_one_notice(checked):
    env = {"TOKEN": "${GITHUB_TOKEN}", "HOST": "${GITHUB_HOST}", "SET": "${SET}", "MAY": "${MAY:-default}"}
    document = one(cwd="w", mcp_servers=[{"name": "github", "command": "/bin/sh", "env": env}])

    told = [notice.text for notice in checked(document, variables={"PATH": "/bin", "SET": ""}).notices]
    fine = checked(document, variables={"PATH": "/bin", "SET": "", "GITHUB_TOKEN": "t", "GITHUB_HOST": "h"})

    expected = "server github: the variables GITHUB_TOKEN, GITHUB_HOST are not set, so it cannot be started."
    assert expected in told
    assert "server github" not in texts(fine.notices)


def test_a_servers_command_that_is_not_there_is_told_and_nothing_is_started(checked, tmp_path):
    (tmp_path / "bin").mkdir()
    program = tmp_path / "bin/found"
    program.write_text(f"#!/bin/sh\ntouch {tmp_path}/started\n")
    program.chmod(0o755)
    commands = {"one": "found", "two": "not-found", "three": "./tool", "four": str(program), "five": "${SECRET}"}
    servers = [{"name": name, "command": command} for name, command in commands.items()]

    report = checked(
        one(cwd="w", mcp_servers=[*servers, {"name": "far", "url": "https://example.org/mcp"}]),
        variables={"PATH": str(tmp_path / "bin"), "SECRET": "hush-hush"},
    )

    told = [notice.text for notice in report.notices if notice.text.startswith("server ")]
    assert told == [
        "server two: there is no program 'not-found' on the PATH.",
        "server three: there is no program './tool'.",
        "server five: there is no program '${SECRET}' on the PATH.",
    ]
    assert report.is_ready
    assert not (tmp_path / "started").exists()


def test_a_server_that_failed_when_it_was_asked_is_told_with_the_reason(checked):
    document = one(cwd="w", mcp_servers=[{"name": "mail", "command": "/nowhere"}])

    report = checked(document, failed=[("mail", ServerUnavailable("mail", "did not answer").message)])
    (server,) = report.agents[0].servers

    assert server.state is ServerState.FAILED
    assert server.note == "did not answer"
    assert "never asked" not in texts(report.notices)
    assert "1 server was asked and never answered" in texts(report.notices)


def test_a_servers_name_that_is_nobodys_is_told_with_what_was_meant(checked):
    servers = ["githb", {"name": "github", "command": "/bin/sh"}]

    report = checked(one(cwd="w", mcp_servers=servers))

    assert "server githb: is not the name of a server" in texts(report.notices)
    assert 'Did you mean "github"?' in texts(report.notices)


def test_only_what_the_agent_may_call_is_counted(checked):
    entry = {"name": "mail", "command": "/nowhere"}

    report = checked(
        one(mcp_servers=[entry], exclude_tools=["mail.delete"]), listings=[listing("mail", "send", "delete")]
    )

    assert report.agents[0].tools == ("mail__send",)
    assert report.agents[0].servers[0].tools == 1


def test_a_server_of_another_agents_alone_is_not_told_of(checked):
    agents = [
        {"id": name, "backend": {**GEMINI, "mcp_servers": [{"name": f"of-{name}", "command": "/nowhere"}]}}
        for name in "ab"
    ]

    report = checked({"agents": agents})

    assert [[server.name for server in agent.servers] for agent in report.agents] == [["of-a"], ["of-b"]]


def test_both_modes_are_priced_and_files_cost_the_same_for_no_server_and_for_many(checked):
    some = universe()[::8]  # pricing all of them takes seconds
    servers = [{"name": each.server, "command": "/nowhere"} for each in some]

    def document(mode, names):
        return {**one(cwd="w"), "toolyard": {"execution_mode": mode, "available_mcp_servers": names}}

    none = checked(document("filesystem_first", [])).agents[0]
    files = checked(document("filesystem_first", servers), listings=some).agents[0]
    context = checked(document("context_based", servers)).agents[0]

    assert none.tokens == files.tokens <= 3_500 + 800
    assert none.tools == files.tools
    assert (files.file_tools, none.file_tools) == (len(context.tools) - 11, 0)
    assert context.tool_tokens > 20 * files.tool_tokens
    assert 0 < files.file_tokens < context.tool_tokens
    assert context.file_tools == 0


def test_groups_that_name_nobody_are_a_problem_unless_a_server_has_yet_to_be_asked(checked):
    groups = {"execution_mode": "filesystem_first", "in_context_tools": {"mail": ["send"]}}
    unknown = {"available_mcp_servers": [{"name": "mail", "command": "/nowhere"}]}

    nobody = checked({**one(), "toolyard": groups})
    later = checked({**one(), "toolyard": {**groups, **unknown}})

    assert "not a group of tools" in texts(nobody.problems)
    assert later.is_ready
    assert "tools of mail, which cannot be counted before the first sync" in texts(later.notices)


def test_the_other_tools_are_counted_although_a_server_was_never_asked(checked):
    groups = {"mail": ["send"], "filesystem": ["read_file"]}
    section = {"execution_mode": "filesystem_first", "in_context_tools": groups}
    servers = {"available_mcp_servers": [{"name": "mail", "command": "/nowhere"}]}

    (agent,) = checked({**one(), "toolyard": {**section, **servers}}).agents

    assert set(agent.tools) == {"search_tools", "read_file"}
    assert agent.tool_tokens > 0


def test_a_server_with_the_name_of_our_file_tools_is_announced_and_replaces_nothing(checked):
    section = {
        "execution_mode": "filesystem_first",
        "available_mcp_servers": [{"name": "filesystem", "command": "/nowhere"}],
    }

    report = checked({**one(), "toolyard": section})

    assert "servers.filesystem_server" in texts(report.notices)
    assert "write_file" in report.agents[0].tools


def test_walls_and_rights_are_told_in_words(checked):
    modes = {"strict": "nothing outside", "plan": "changes nothing", "bypassPermissions": "anything that you may do"}
    for mode, words in modes.items():
        (agent,) = checked(one(cwd="w", permission_mode=mode)).agents
        assert words in agent.rights
        assert ("no sandbox" in agent.walls) == (mode == "bypassPermissions")


def test_hosts_that_code_may_reach_are_told(checked):
    document = {**one(cwd="w"), "toolyard": {"code_execution": {"allowed_hosts": ["packages.example.com"]}}}

    assert "network only to packages.example.com" in checked(document).agents[0].walls


def test_code_that_is_switched_off_is_told(checked):
    document = {**one(cwd="w"), "toolyard": {"code_execution": {"enabled": False}}}

    assert checked(document).agents[0].walls == "commands and code are switched off"


def test_want_of_a_sandbox_that_is_not_asked_for_by_name_stops_files_first_alone(checked, monkeypatch):
    monkeypatch.setattr(
        probe, "probe_tier", lambda tier, means: TierReport(tier, is_available=False, reason="It is broken.")
    )

    context = checked(one(cwd="w"))
    files = checked({**one(cwd="w"), "toolyard": {"execution_mode": "filesystem_first"}})

    assert (context.is_ready, files.is_ready) == (True, False)
    assert "It is broken" in texts(context.notices)
    assert verdict(context) == "Ready, but commands and code of a will be refused."
    (problem,) = files.problems
    assert "It is broken" in problem.text
    assert problem.hint.endswith("Or set `execution_mode: context_based`, which gives agents every tool directly.")


@pytest.mark.parametrize("execution_mode", ["context_based", "filesystem_first"])
def test_want_of_a_sandbox_that_is_asked_for_by_name_stops_both_modes(checked, monkeypatch, execution_mode):
    monkeypatch.setattr("toolyard.sandbox.backends.docker_engine.find_engine", lambda: None)
    section = {"code_execution": {"mode": "docker"}, "execution_mode": execution_mode}

    report = checked({**one(cwd="w"), "toolyard": section})

    (problem,) = report.problems
    assert problem.text == "The configuration asks for the docker sandbox, but neither docker nor podman was found."
    assert problem.hint == (
        "Install one of them, or set `code_execution: {mode: bubblewrap}`. To continue without commands and code, "
        "set `code_execution: {enabled: false}` with `execution_mode: context_based`."
    )
    assert verdict(report) == "Not ready: 1 problem stops the run."


def test_modes_that_ask_or_run_no_code_are_told(checked):
    asking = checked(one(cwd="w", permission_mode="acceptEdits"))
    plan = checked({**one(cwd="w", permission_mode="plan"), "toolyard": {"execution_mode": "filesystem_first"}})

    assert "asks you on the terminal" in texts(asking.notices)
    assert "runs no code" in texts(plan.notices)


def test_what_is_true_of_every_agent_is_told_once(checked):
    agents = [{"id": name, "backend": GEMINI} for name in "abc"]

    problems = checked({"agents": agents}, access={}).problems

    assert [(problem.agent, "There is no key" in problem.text) for problem in problems] == [("", True)]


def test_limits_that_are_set_are_told(checked):
    limits = {"rounds": 2, "seconds": 60, "tokens": 1000, "cost": 0.5, "turns": 7}

    report = checked({**one(), "orchestrator": {"limits": limits}})

    assert report.limits == {"rounds": 2, "seconds": 60.0, "tokens": 1000, "cost": 0.5, "turns": 7}


KEYS = {f"{name}_API_KEY": "a-secret-key" for name in ("GEMINI", "OPENAI", "ANTHROPIC", "OPENROUTER")}
COSTS = {"orchestrator": {"limits": {"cost": 0.5}}}


@pytest.mark.parametrize("kind", ["gemini", "openai", "claude", "openrouter"])
def test_a_limit_of_cost_on_a_model_without_a_price_is_told(checked, kind):
    document = {**one(type=kind, model="no-such-model"), **COSTS}

    told = [notice.text for notice in checked(document, access=KEYS).notices]

    assert "the price of no-such-model is unknown, so `cost` does not limit it; check the model's name" in told, told


@pytest.mark.parametrize(
    "backend",
    [
        {"type": "gemini", "model": "gemini-2.5-flash"},
        {"type": "openai", "model": "gpt-5"},
        {"type": "claude", "model": "claude-sonnet-5"},
        {"type": "openrouter", "model": "anthropic/claude-sonnet-4"},
        {"type": "openrouter", "model": None},
        {"type": "ollama", "model": "no-such-model"},
        {"type": "openai", "model": "no-such-model", "base_url": "http://localhost:9/v1"},
    ],
)
def test_a_limit_of_cost_on_a_model_with_a_price_or_of_ones_own_is_not_talked_about(checked, backend):
    assert "price" not in texts(checked({**one(**backend), **COSTS}, access=KEYS).notices)


def test_a_limit_of_the_command_line_counts_for_prices_as_that_of_the_file_does(checked):
    document = one(model="no-such-model")

    assert "price" not in texts(checked(document).notices)
    report = checked(document, limits=TeamLimits(cost=0.25))
    assert "the price of no-such-model is unknown" in texts(report.notices)
    assert report.limits["cost"] == 0.25


@pytest.mark.parametrize("mode", ["filesystem_first", "context_based"])
def test_what_is_told_is_what_a_run_gives_its_agents(checked, tmp_path, mode):
    entry = {"name": "mail", "command": "/nowhere"}
    document = {
        "toolyard": {"execution_mode": mode, "available_mcp_servers": [entry]},
        "agents": [
            {"id": "a", "backend": {**GEMINI, "cwd": "work"}, "system_message": "Be kind."},
            {"id": "b", "backend": {**GEMINI, "permission_mode": "plan"}},
            {"id": "c", "backend": GEMINI},
        ],
    }
    report = checked(document, listings=[listing("mail", "send")])
    written = load_config(str(tmp_path / "team.yaml"))
    config = with_layout(written)
    make_folders(config)
    settings = Settings(*(str(tmp_path / name) for name in ("home", "state", "temp", "documents")))

    for agent, told in zip(config.agents, report.agents, strict=True):
        injected = tool_injection_for(written, agent.id)
        folder = workspace_of(config, agent)
        with Yard.open(YardOptions(folder, config, settings, agent=agent.id, injection=injected)) as yard:
            assert told.tools == tuple(yard.dispatch.tools)
            assert told.prompt_tokens == count_tokens(system_prompt(config, agent, yard))
            assert told.workspace == (yard.home.workspace if injected.has_files else "")
            assert told.mode == yard.policy.mode.value

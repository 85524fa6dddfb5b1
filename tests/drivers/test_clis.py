"""How each CLI is started: what it is told, what it sees of the user, and where nothing secret may stand."""

from __future__ import annotations

import json
import tomllib
from dataclasses import replace

import pytest

from toolyard.drivers.clis.cli import TOOL_PREFIX
from toolyard.drivers.driver import SERVER, TOKEN_VARIABLE, LaunchSpec, RunSpec
from toolyard.drivers.registry import DRIVERS, driver_of

RUN = RunSpec("-p do @it", "http://127.0.0.1:4000/mcp", "/run/x", "/run/x/here", tools=("Read", "write_file"))
KEY = "secret-of-the-user"


def recipe(cli: str, **changed) -> LaunchSpec:
    return driver_of(cli).launch_spec(replace(RUN, **changed))


def settings(found: LaunchSpec, name: str):
    return json.loads(found.files[name])


@pytest.mark.parametrize("cli", DRIVERS)
def test_every_driver_says_what_it_needs(cli):
    driver = driver_of(cli)

    assert driver.name == cli
    assert all((driver.title, driver.program, driver.package, driver.minimum_version, driver.keys, driver.logins))
    assert not set(driver.keys) & set(driver.passed_variables)


@pytest.mark.parametrize("cli", DRIVERS)
def test_the_settings_name_the_variable_of_the_token_and_our_address(cli):
    files = "\n".join(recipe(cli).files.values())

    assert TOKEN_VARIABLE in files
    assert RUN.url in files
    assert SERVER in files


@pytest.mark.parametrize("cli", DRIVERS)
def test_no_key_of_the_user_is_in_a_file_or_a_word(cli):
    found = recipe(cli, variables=dict.fromkeys(driver_of(cli).keys, KEY))

    assert KEY not in json.dumps([found.arguments, dict(found.files)])


@pytest.mark.parametrize("cli", DRIVERS)
def test_a_prompt_is_read_as_input_and_is_no_word_that_others_could_see(cli):
    found = recipe(cli)

    assert found.stdin == RUN.prompt
    assert RUN.prompt not in " ".join(found.arguments)


@pytest.mark.parametrize("cli", DRIVERS)
def test_files_stay_below_the_folder_of_the_run(cli):
    assert all(not path.startswith(("/", "..")) for path in recipe(cli, instructions="x").files)


@pytest.mark.parametrize("cli", DRIVERS)
def test_a_login_is_put_where_the_cli_of_the_run_looks_for_it(cli):
    found = recipe(cli, has_login=True)
    folders = [*found.variables.values(), f"{RUN.folder}/.local/share", RUN.folder]

    for login in driver_of(cli).logins:
        assert any(f"{RUN.folder}/{login.copy_path}".startswith(folder) for folder in folders)
        assert login.copy_path.endswith(login.name)
        assert login.copy_path not in found.files


@pytest.mark.parametrize("cli", DRIVERS)
def test_a_model_and_instructions_reach_the_cli(cli):
    found = recipe(cli, model="some-model", instructions="Be brief.")
    told = json.dumps([found.arguments, dict(found.files)])

    assert "some-model" in told
    assert "Be brief." in told
    assert "Be brief." not in json.dumps([recipe(cli).arguments, dict(recipe(cli).files)])


def test_gemini_is_told_to_allow_our_tools_and_no_other():
    found = recipe("gemini")

    rules = tomllib.loads(found.files["policy.toml"])["rule"]
    assert [(rule.get("mcpName"), rule["toolName"], rule["decision"]) for rule in rules] == [
        (None, "*", "deny"),
        (SERVER, "*", "allow"),
    ]
    assert rules[1]["priority"] > rules[0]["priority"]
    assert found.files["here/.env"] == ""
    assert found.variables["GEMINI_CLI_HOME"] == RUN.folder


@pytest.mark.parametrize(
    ("changed", "way"),
    [
        ({}, "gemini-api-key"),
        ({"has_login": True}, "oauth-personal"),
        ({"variables": {"GOOGLE_GENAI_USE_VERTEXAI": "true"}}, "vertex-ai"),
    ],
)
def test_gemini_comes_in_by_the_way_the_user_has(changed, way):
    auth = settings(recipe("gemini", **changed), ".gemini/settings.json")["security"]["auth"]

    assert auth == {"selectedType": way}


def test_claude_has_no_tools_of_its_own_and_reads_no_settings():
    words = recipe("claude").arguments

    for option, value in {
        "--tools": "",
        "--setting-sources": "",
        "--permission-mode": "dontAsk",
        "--allowedTools": f"mcp__{SERVER}__*",
    }.items():
        assert words[words.index(option) + 1] == value
    assert "--strict-mcp-config" in words


def test_claude_asks_our_tool_for_permission_where_there_is_one():
    words = recipe("claude", approve_tool="approve").arguments

    assert words[words.index("--permission-prompt-tool") + 1] == f"mcp__{SERVER}__approve"
    assert "--allowedTools" not in words
    assert "dontAsk" not in words


def test_codex_gets_settings_it_can_read_whatever_is_in_them():
    odd = 'a "quoted"\nline \x7f\x00 with é and 😀'

    found = tomllib.loads(recipe("codex", instructions=odd).files["codex/config.toml"])

    assert found["developer_instructions"] == odd
    assert found["sandbox_mode"] == "read-only"
    assert found["mcp_servers"][SERVER]["required"] is True
    assert found["mcp_servers"][SERVER]["default_tools_approval_mode"] == "approve"
    assert "model_provider" not in found


@pytest.mark.parametrize(
    ("cli", "variable"),
    [
        *(("gemini", "GEMINI_CLI_HOME"), ("claude", "CLAUDE_CONFIG_DIR"), ("codex", "CODEX_HOME")),
        *(("qwen", "QWEN_HOME"), ("opencode", "OPENCODE_CONFIG")),
    ],
)
def test_the_settings_it_reads_are_those_of_the_run_and_never_the_users(cli, variable):
    found = recipe(cli)
    named = found.variables[variable]

    assert named == RUN.folder or named.startswith(f"{RUN.folder}/")
    assert variable not in (*driver_of(cli).passed_variables, *driver_of(cli).keys)
    paths = [value for value in (*found.arguments, *found.variables.values()) if value.startswith("/")]
    assert all(path == RUN.folder or path.startswith(f"{RUN.folder}/") for path in paths)


def test_codex_is_asked_for_no_approval_and_has_no_tools_of_its_own():
    found = recipe("codex")
    config = tomllib.loads(found.files["codex/config.toml"])

    assert (config["approval_policy"], config["sandbox_mode"], config["web_search"]) == (
        *("never", "read-only"),
        "disabled",
    )
    off = {word for option, word in zip(found.arguments, found.arguments[1:], strict=False) if option == "--disable"}
    assert off >= {"shell_tool", "unified_exec", "multi_agent", "apps", "plugins", "view_image", "image_generation"}


@pytest.mark.parametrize("model", ["", "gpt-6.1-sol"])
def test_codex_knows_no_model_that_brings_tools_with_it(model):
    found = recipe("codex", model=model)

    (known,) = settings(found, "codex/models.json")["models"]
    assert known["slug"] == tomllib.loads(found.files["codex/config.toml"])["model"]
    assert (known["shell_type"], known["apply_patch_tool_type"], known["tool_mode"]) == ("disabled", None, None)
    assert known["supports_search_tool"] is False
    assert known["multi_agent_version"] is None


def test_codex_uses_the_key_that_is_set_and_the_address_beside_it():
    variables = {"CODEX_API_KEY": KEY, "OPENAI_BASE_URL": "http://127.0.0.1:1/v1"}

    found = tomllib.loads(recipe("codex", variables=variables).files["codex/config.toml"])

    provider = found["model_providers"][found["model_provider"]]
    assert (provider["env_key"], provider["base_url"]) == ("CODEX_API_KEY", "http://127.0.0.1:1/v1")


def test_codex_keeps_the_variables_out_of_files():
    assert "shell_snapshot" in recipe("codex").arguments


def test_qwen_denies_its_own_tools_and_the_search_that_hides_ours():
    found = settings(recipe("qwen"), ".qwen/settings.json")

    assert "tool_search" in found["permissions"]["deny"]
    assert set(found["permissions"]["deny"]) == driver_of("qwen").builtins
    assert found["permissions"]["allow"] == [f"mcp__{SERVER}__*"]


def test_opencode_denies_all_but_ours():
    found = settings(recipe("opencode"), "opencode.json")

    assert list(found["permission"].items()) == [("*", "deny"), (f"{SERVER}_*", "allow")]


@pytest.mark.parametrize(
    ("model", "used"),
    [("m", "endpoint/m"), ("openai/m", "endpoint/m"), ("", "endpoint/default"), ("anthropic/m", "anthropic/m")],
)
def test_opencode_uses_the_endpoint_of_the_user_for_models_of_no_other_provider(model, used):
    words = recipe("opencode", model=model, variables={"OPENAI_BASE_URL": "http://127.0.0.1:1/v1"}).arguments

    assert words[words.index("--model") + 1] == used


def test_other_names_are_no_builtins_either():
    for driver in DRIVERS.values():
        assert not any(name.startswith(TOOL_PREFIX) for name in driver.builtins)


DENIED = {"write_file": 'No "writing" in plan mode.'}


def test_what_the_policy_refuses_anyway_is_refused_by_each_cli_in_its_own_way():
    rules = tomllib.loads(recipe("gemini", denied=DENIED).files["policy.toml"])["rule"]
    assert rules[-1]["toolName"] == f"{TOOL_PREFIX}write_file"
    assert rules[-1]["decision"] == "deny"
    assert rules[-1]["deny_message"] == DENIED["write_file"]
    assert rules[-1]["priority"] > rules[1]["priority"]

    server = tomllib.loads(recipe("codex", denied=DENIED).files["codex/config.toml"])["mcp_servers"][SERVER]
    assert server["disabled_tools"] == ["write_file"]

    deny = settings(recipe("qwen", denied=DENIED), ".qwen/settings.json")["permissions"]["deny"]
    assert f"mcp__{SERVER}__{TOOL_PREFIX}write_file" in deny

    permission = settings(recipe("opencode", denied=DENIED), "opencode.json")["permission"]
    assert list(permission.items())[-1] == (f"{SERVER}_write_file", "deny")

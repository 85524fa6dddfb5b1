"""Variables get their values when a server is started, and only then."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolyard.config.client_variables import input_variable, variable_translator
from toolyard.config.expansion import expand_entry, expand_text, read_env_file, unset_variables
from toolyard.config.loader import load_config
from toolyard.config.server_entry import OAuth, ServerEntry
from toolyard.core.errors import ConfigError


def test_every_text_of_an_entry_is_expanded():
    entry = ServerEntry(
        name="a", command=("${BIN}", "x"), args=("${env:A}", "$${A}", "$A"), env={"K": "${MISSING:-d}"}
    )
    remote = ServerEntry(
        name="b",
        url="https://${HOST}/mcp",
        headers={"Authorization": "Bearer ${T}"},
        oauth=OAuth(client_id="${A}", client_secret="${T}"),
    )
    env = {"BIN": "run", "A": "1", "HOST": "example.org", "T": "s3cret", "HOME": "/h"}

    local, other = expand_entry(entry, env), expand_entry(remote, env)

    assert (local.command_line, local.env) == (("run", "x", "1", "${A}", "$A"), {"K": "d"})
    assert (other.url, other.headers) == ("https://example.org/mcp", {"Authorization": "Bearer s3cret"})
    assert other.oauth == OAuth(client_id="1", client_secret="s3cret")
    assert entry.args[0] == "${env:A}"  # the entry itself is as it was


def test_a_missing_variable_is_named_with_its_server_and_no_value_is_shown():
    entry = ServerEntry(name="gh", command="run", args=("${SECRET}", "${GITHUB_TOKEN}"))
    with pytest.raises(ConfigError) as caught:
        expand_entry(entry, {"SECRET": "hunter2"})
    assert str(caught.value) == (
        'server "gh": the variable GITHUB_TOKEN is not set. Set it, or give a default: ${GITHUB_TOKEN:-value}.'
    )


def test_every_variable_that_is_not_set_is_told_before_a_start_and_no_other():
    local = ServerEntry(name="a", command="${A}", args=("$${NOT} ${B:-b}",), env={"K": "${env:C}${A}"}, cwd="${D}")
    remote = ServerEntry(name="b", url="https://${H}", headers={"X": "${T}"}, oauth=OAuth(client_secret="${S}"))

    assert unset_variables(local, {"D": ""}) == ("A", "C")
    assert unset_variables(remote, {}) == ("T", "H", "S")


def test_what_an_editor_would_ask_for_is_told_as_the_variable_to_set():
    text = variable_translator("editor", {"gh-token": None}, "/p", "/h")("Bearer ${input:gh-token}")
    with pytest.raises(ConfigError) as caught:
        expand_entry(ServerEntry(name="gh", url="https://x", headers={"A": text}), {})
    assert "would prompt for the input 'gh_token'" in str(caught.value)
    assert "Set the variable TOOLYARD_INPUT_GH_TOKEN" in str(caught.value)
    assert input_variable("gh-token") == "TOOLYARD_INPUT_GH_TOKEN"


def test_a_missing_variable_of_a_server_does_not_keep_the_file_from_loading(tmp_path):
    path = tmp_path / "toolyard.yaml"
    path.write_text(
        "available_mcp_servers: {a: {command: run, args: ['${NOPE}']}}\n"
        "agents: [{id: a, backend: {mcp_servers: {b: {url: 'https://x/${NOPE}'}}, model: '${M}'}}]\n"
    )
    config = load_config(str(path), env={"M": "m"})
    assert config.agents[0].backend.model == "m"
    assert [s.command_line for s in config.servers if isinstance(s, ServerEntry)] == [("run", "${NOPE}")]


def test_paths_start_at_the_folder_of_the_file():
    def at(cwd: str | None) -> str | None:
        entry = ServerEntry(name="a", command="x", cwd=cwd).model_copy(update={"base": "/p"})
        return expand_entry(entry, {"HOME": "/h", "SUB": "s"}).cwd

    assert [at(None), at("sub"), at("/abs"), at("~/x"), at("${SUB}/..")] == ["/p", "/p/sub", "/abs", "/h/x", "/p"]
    assert expand_entry(ServerEntry(name="a", command="x"), {}).cwd is None


def test_a_file_of_variables_is_read_beneath_the_entrys_own(tmp_path):
    (tmp_path / ".env").write_text(
        "# comment\n\nexport A=1\nB = 'two # words' # said\nC=\"x\\ny\"\nD=plain # gone\nE=a#b\nF=\nG=${A}\n"
    )
    entry = ServerEntry(name="a", command="x", env={"A": "own"}, env_file=".env")
    found = expand_entry(entry.model_copy(update={"base": str(tmp_path)}), {})
    assert (found.env, found.env_file) == (
        {"A": "own", "B": "two # words", "C": "x\ny", "D": "plain", "E": "a#b", "F": "", "G": "${A}"},
        None,
    )


def test_a_file_of_variables_that_is_none_is_an_error_without_its_content(tmp_path):
    (tmp_path / ".env").write_text("A=1\nhunter2\n")
    with pytest.raises(ConfigError, match=r"\.env:2: is not NAME=value") as caught:
        read_env_file(str(tmp_path / ".env"))
    assert "hunter2" not in str(caught.value)
    with pytest.raises(ConfigError, match="cannot be read"):
        read_env_file(str(tmp_path / "none"))


def test_a_value_can_come_from_a_file(tmp_path):
    (tmp_path / "key").write_text("s3cret\n")
    entry = ServerEntry(name="a", url="https://x", headers={"A": "Bearer ${file:key}"})
    entry = entry.model_copy(update={"base": str(tmp_path)})
    assert expand_entry(entry, {}).headers == {"A": "Bearer s3cret"}
    with pytest.raises(ConfigError, match="cannot be read"):
        expand_entry(entry.model_copy(update={"headers": {"A": "${file:gone}"}}), {})


def test_files_are_no_variables_of_the_configuration_itself():
    with pytest.raises(ConfigError, match=r"neither \$\{VAR\}"):
        expand_text("${file:/etc/passwd}", {}, where="x")


@given(st.text())
def test_a_dialect_without_variables_keeps_every_text(text):
    assert expand_text(variable_translator("none", {}, "/p", "/h")(text), {}, where="x") == text


@given(st.text(alphabet="${}:-ab/ ", max_size=20))
def test_no_text_of_another_program_is_an_error_for_its_spelling_alone(text):
    translated = variable_translator("editor", {}, "/p", "/h")(text)
    assert isinstance(expand_text(translated, {"a": "1", "b": "2", "ab": "3", **_names()}, where="x"), str)


def _names() -> dict[str, str]:
    letters = "ab"
    found = [""]
    for _ in range(6):
        found += [name + letter for name in found for letter in letters]
    return {name: "v" for name in set(found) if name}

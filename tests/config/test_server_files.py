"""Server files of other programs, in every dialect, become entries of one kind."""

from __future__ import annotations

import json
import time
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolyard.config.jsonc import parse_jsonc
from toolyard.config.loader import load_config
from toolyard.config.server_entry import OAuth, ServerEntry
from toolyard.config.server_files import read_server_file
from toolyard.core.errors import ConfigError

from .conftest import HOME, plain


def test_a_list_of_entries_is_a_server_file_too(read):
    assert plain(read("list.json", [{"name": "a", "command": "x"}])) == {"a": {"command": "x"}}


def test_the_old_settings_of_vs_code_are_told_from_those_of_opencode(read):
    settings = {"mcp": {"inputs": [], "servers": {"a": {"command": "x", "args": ["${env:X}"]}}}}
    assert (read("settings.json", settings).dialect, plain(read("settings.json", settings))) == (
        "VS Code",
        {"a": {"command": "x", "args": ("${env:X}",)}},
    )


def test_an_entry_knows_its_file_and_the_folder_it_speaks_for(read, tmp_path):
    (entry,) = read(".cursor/mcp.json", {"mcpServers": {"a": {"command": "x"}}}).entries
    assert (entry.base, entry.origin) == (str(tmp_path), f"{tmp_path}/.cursor/mcp.json")


def test_claude_codes_servers_of_one_folder_are_read_for_that_folder(read):
    content = {"mcpServers": {"a": {"command": "x"}}, "projects": {"/p": {"mcpServers": {"b": {"command": "y"}}}}}
    assert list(plain(read(".claude.json", content, project="/p"))) == ["a", "b"]
    assert list(plain(read(".claude.json", content, project="/other"))) == ["a"]


def test_what_another_program_approves_in_advance_is_ignored_and_told(read):
    file = read("mcp.json", {"mcpServers": {"a": {"command": "x", "alwaysAllow": ["y"], "autoApprove": ["z"]}}})
    (problem,) = file.problems
    assert (len(file.entries), problem.severity) == (1, "note")
    assert "`alwaysAllow`, `autoApprove` are ignored. Use `permissions`" in str(problem)


def test_an_unknown_key_is_told_with_a_guess_and_the_entry_kept(read):
    file = read("mcp.json", {"mcpServers": {"a": {"command": "x", "hedaers": {}}}})
    assert len(file.entries) == 1
    assert 'the unknown key `hedaers` is ignored. Did you mean "headers"?' in str(file.problems[0])


@pytest.mark.parametrize(
    ("entry", "said"),
    [
        ({}, "expected either `command`"),
        ({"command": "x", "url": "https://x"}, "expected either `command`"),
        ({"type": "websocket", "url": "wss://x"}, "`type`: input should be 'stdio'"),
        ({"type": "stdio", "url": "https://x"}, "a `type` that goes with `url`"),
        ({"command": "x", "args": "--secret=hunter2"}, "`args`"),
        ({"command": "x", "timeout": -1}, "`timeout`"),
        ({"command": "x", "env": {}, "environment": {}}, "only one of `env` and `environment`"),
        ({"command": "x", "enabled": "hunter2"}, "true or false as `enabled`"),
        ({"command": "x", "headers": "hunter2", "env": {}}, "`headers`"),
        ({"command": "x", "env": "hunter2"}, "`env`"),
        ("hunter2", "is not a mapping"),
        ({"source": "extension", "settings": {"token": "hunter2"}}, "expected either `command`"),
    ],
)
def test_a_broken_entry_costs_itself_alone_and_shows_no_value(read, entry, said):
    file = read("mcp.json", {"mcpServers": {"bad": entry, "good": {"command": "x"}}})

    errors = [str(problem) for problem in file.problems if problem.severity == "error"]
    assert [e.name for e in file.entries] == ["good"]
    assert len(errors) == 1
    assert 'server "bad"' in errors[0]
    assert said in errors[0]
    assert "hunter2" not in "".join(map(str, file.problems))


@pytest.mark.parametrize(
    ("name", "text", "said"),
    [
        ("a.json", '{"mcpServers": {\n  "a": }', "a.json:2: is not valid JSON"),
        ("a.json", "[" * 100_000, "is nested too deeply"),
        ("a.json", '{"x": 1' + "0" * 5_000 + "}", "number that cannot be read"),
        ("a.json", "{}", "holds no MCP servers"),
        ("a.json", "", "holds no MCP servers"),
        ("a.json", '"text"', "holds no MCP servers"),
        ("a.toml", "a = ", "is not valid TOML"),
        ("a.yaml", "a: [", "is not valid YAML"),
        ("a.json", '{"toolyard": {"workspace": "x"}}', "holds no MCP servers"),
    ],
)
def test_a_file_that_cannot_be_read_is_one_clear_error(read, name, text, said):
    with pytest.raises(ConfigError) as caught:
        read(name, text)
    assert said in str(caught.value)


def test_keys_of_codex_with_values_of_the_wrong_kind_do_no_harm(read):
    entry = {"command": "x", "env": [], "env_vars": ["A", 1], "http_headers": 5, "env_http_headers": {"X": "Y"}}
    (found,) = read("mcp.json", {"mcpServers": {"a": entry}}).entries
    assert (found.env, found.headers) == ({"A": "${A:-}"}, {"X": "${Y}"})


def test_no_value_of_an_entry_is_in_its_repr():
    entry = ServerEntry(
        name="a",
        url="https://user:hunter2@example.org/mcp?key=hunter2",
        headers={"A": "hunter2"},
        env={"B": "hunter2"},
        oauth=OAuth(client_secret="hunter2"),
    )
    local = ServerEntry(name="b", command="run", args=("--token", "hunter2"))
    assert "hunter2" not in repr((entry, local)) + str(entry) + repr(entry.oauth)
    assert "example.org" in repr(entry)
    assert dict(ServerEntry(name="c", url="http://[oops").__repr_args__())["host"] == ""


@pytest.mark.parametrize(
    ("url", "transport"),
    [
        ("https://x/sse", "sse"),
        ("https://x/sse/?a=1", "sse"),
        ("https://x/mcp?next=/sse", "streamable-http"),
        ("https://x/sse/mcp", "streamable-http"),
    ],
)
def test_an_address_that_ends_in_sse_means_the_older_transport(url, transport):
    assert ServerEntry(name="a", url=url).transport == transport
    assert ServerEntry(name="a", url=url, type="streamable-http").transport == "streamable-http"


def test_entries_in_our_own_file_may_use_the_spellings_of_others(tmp_path):
    path = tmp_path / "toolyard.yaml"
    path.write_text("available_mcp_servers: {a: {httpUrl: 'https://x', includeTools: [t], enabled: false}}\n")
    assert load_config(str(path)).servers == (
        ServerEntry(name="a", type="streamable-http", url="https://x", allowed_tools=("t",), disabled=True),
    )


def test_a_server_file_can_be_named_as_the_configuration(tmp_path):
    path = tmp_path / ".mcp.json"
    path.write_text('{"mcpServers": {"a": {"command": "x"}}}')
    config = load_config(str(path))
    assert (config.toolyard.server_files, config.source) == ((str(path),), str(path))
    (tmp_path / "ours.json").write_text('{"toolyard": {"workspace": "w"}}')
    assert load_config(str(tmp_path / "ours.json")).toolyard.workspace == "w"


@given(
    st.recursive(
        st.none() | st.booleans() | st.text(max_size=8),
        lambda x: st.lists(x) | st.dictionaries(st.text(max_size=6), x),
    )
)
def test_whatever_is_json_is_read_the_same_with_comments_and_trailing_commas(value):
    text = json.dumps(value, indent=1)
    commented = '// a "quote\n' + text + "\n/* the end, ] */"
    assert parse_jsonc(commented, name="x") == value


def test_trailing_commas_go_and_those_in_text_stay():
    assert parse_jsonc('{"a": [1, 2, /* x */ ], "b": ",]", "c": "// no", }', name="x") == {
        "a": [1, 2],
        "b": ",]",
        "c": "// no",
    }


@pytest.mark.parametrize("piece", ['\\"', '"', "/*", "//", ",", ", ", "\\"])
def test_text_without_end_is_refused_in_linear_time(piece):
    started = time.process_time()
    with pytest.raises(ConfigError):
        parse_jsonc('{"a": "' + piece * 200_000, name="x")
    assert time.process_time() - started < 5


ANY = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=6),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(
                [
                    "command",
                    "args",
                    "env",
                    "url",
                    "oauth",
                    "type",
                    "timeout",
                    "enabled",
                    "inputs",
                    "servers",
                    "mcp",
                    "headers",
                ]
            )
            | st.text(max_size=3),
            inner,
            max_size=4,
        )
    ),
    max_leaves=12,
)


@given(ANY, st.sampled_from(["mcpServers", "servers", "context_servers", "mcp", "mcp_servers"]))
def test_no_document_makes_the_reader_fail(tmp_path_factory, value, key):
    path = Path(tmp_path_factory.getbasetemp()) / "fuzz.json"
    path.write_text(json.dumps({key: value, "inputs": value}))
    try:
        file = read_server_file(str(path), home=HOME)
    except ConfigError:
        return
    assert all(isinstance(entry, ServerEntry) for entry in file.entries)


@pytest.mark.parametrize("name", ["a__b", "_a", "a_", "__"])
def test_a_name_that_hides_where_a_server_ends_costs_that_server_alone(read, name):
    file = read(".mcp.json", {"mcpServers": {name: {"command": "x"}, "a_b": {"command": "y"}}})
    assert [entry.name for entry in file.entries] == ["a_b"]
    (problem,) = file.problems
    assert (problem.server, problem.severity) == (name, "error")
    assert "must not contain `__`, nor start or end with `_`" in problem.message
    assert problem.hint == (
        "Give it another name." if name == "__" else f"Call it `{name.strip('_').replace('__', '_')}`."
    )


@pytest.mark.parametrize(
    ("name", "text", "key", "line"),
    [
        (".mcp.json", '{"mcpServers": {\n "a": {"command": "x"},\n "a": {"command": "y"}}}', "a", 3),
        ("mcp.json", '{"servers": {"a": {"command": "x",\n\n"command": "y"}}}', "command", 3),
        ("settings.json", '{"mcpServers": {},\n "other": 1, "mcpServers": {}}', "mcpServers", 2),
        ("claude.jsonc", '{"mcpServers": { // one\n "a": {"command": "x"},\n "\\u0061": {"url": "y"},}}', "a", 3),
        ("mcp.json", '{"x": {"a": 1}, "y": [{"a": 1}, {"a": 2,\n"a": "{"}]}', "a", 2),
    ],
)
def test_a_key_that_is_there_twice_is_an_error_with_its_line(tmp_path, name, text, key, line):
    file = tmp_path / name
    file.write_text(text)
    with pytest.raises(ConfigError, match=f'the key "{key}" appears twice') as caught:
        read_server_file(str(file), home=str(tmp_path))
    assert caught.value.where == f"{file}:{line}"


def test_a_table_that_is_there_twice_in_toml_is_an_error_with_its_line(tmp_path):
    file = tmp_path / "config.toml"
    file.write_text('[mcp_servers.a]\ncommand = "x"\n[mcp_servers.a]\ncommand = "y"\n')
    with pytest.raises(ConfigError) as caught:
        read_server_file(str(file), home=str(tmp_path))
    assert "3" in str(caught.value)

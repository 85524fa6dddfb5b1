"""A server file of each program becomes the entries it means."""

from __future__ import annotations

import json

import pytest

from .conftest import HOME, plain

DIALECTS = {
    "Claude Code": (
        ".mcp.json",
        """{"mcpServers": {
             "files": {"type": "stdio", "command": "npx", "args": ["-y", "files", "${HOME}"],
                       "env": {"K": "${KEY:-none}"}},
             "web": {"type": "http", "url": "https://x/mcp", "headers": {"Authorization": "Bearer ${TOKEN}"},
                     "timeout": 600000}}}""",
        {
            "files": {
                "type": "stdio",
                "command": "npx",
                "args": ("-y", "files", "${HOME}"),
                "env": {"K": "${KEY:-none}"},
            },
            "web": {
                "type": "streamable-http",
                "url": "https://x/mcp",
                "headers": {"Authorization": "Bearer ${TOKEN}"},
                "timeout": 600.0,
            },
        },
    ),
    "Claude Desktop": (
        "claude_desktop_config.json",
        '{"mcpServers": {"a": {"command": "sh", "args": ["-c", "echo ${HOME}"]}}}',
        {"a": {"command": "sh", "args": ("-c", "echo $${HOME}")}},
    ),
    "Cursor": (
        ".cursor/mcp.json",
        """{"mcpServers": {"a": {"command": "${workspaceFolder}/run", "args": ["${userHome}"], "envFile": ".env",
                                 "env": {"T": "${env:T}"}},
                           "b": {"url": "https://x/sse", "auth": {"CLIENT_ID": "me", "scopes": ["x"]}}}}""",
        {
            "a": {"command": "PROJECT/run", "args": (HOME,), "env_file": ".env", "env": {"T": "${env:T}"}},
            "b": {"url": "https://x/sse", "oauth": {"client_id": "me", "scopes": ("x",)}},
        },
    ),
    "Windsurf": (
        ".codeium/windsurf/mcp_config.json",
        (
            '{"mcpServers": {"a": {"serverUrl": "https://x/mcp", "headers": {"K": "${file:~/key}"},'
            ' "disabledTools": ["x"]}}}'
        ),
        {"a": {"url": "https://x/mcp", "headers": {"K": "${file:~/key}"}, "exclude_tools": ("x",)}},
    ),
    "Cline": (
        "cline_mcp_settings.json",
        '{"mcpServers": {"a": {"type": "streamableHttp", "url": "https://x", "timeout": 1800, "disabled": true}}}',
        {"a": {"type": "streamable-http", "url": "https://x", "timeout": 1800.0, "disabled": True}},
    ),
    "VS Code": (
        ".vscode/mcp.json",
        """{
          // comments are usual here
          "inputs": [{"id": "gh-token", "type": "promptString", "password": true},
                     {"id": "level", "type": "pickString", "default": "info"},],
          "servers": {
            "gh": {"type": "http", "url": "https://x", "headers": {"A": "Bearer ${input:gh-token}"}},
            "log": {"type": "stdio", "command": "log", "args": ["${input:level}", "${workspaceFolder}"],
                    "dev": {"watch": "x"}},
          }, /* and trailing commas */
        }""",
        {
            "gh": {
                "type": "streamable-http",
                "url": "https://x",
                "headers": {"A": "Bearer ${TOOLYARD_INPUT_GH_TOKEN}"},
            },
            "log": {"type": "stdio", "command": "log", "args": ("${TOOLYARD_INPUT_LEVEL:-info}", "PROJECT")},
        },
    ),
    "Zed": (
        "settings.json",
        """{"context_servers": {"old": {"command": {"path": "run", "args": ["$X"], "env": null}},
                                "new": {"source": "custom", "enabled": false, "command": "run",
                                        "args": ["${X}"]}}}""",
        {"old": {"command": "run", "args": ("$X",)}, "new": {"disabled": True, "command": "run", "args": ("$${X}",)}},
    ),
    "Codex": (
        "config.toml",
        """
        model = "x"
        [mcp_servers.a]
        command = "npx"
        args = ["-y", "${literal}"]
        env = { K = "v" }
        env_vars = ["PASSED"]
        startup_timeout_sec = 20
        tool_timeout_sec = 45.5
        enabled_tools = ["one"]
        disabled_tools = ["two"]
        [mcp_servers.b]
        url = "https://x/mcp"
        bearer_token_env_var = "TOKEN"
        http_headers = { "X-A" = "1" }
        env_http_headers = { "X-B" = "B" }
        startup_timeout_ms = 1500
        enabled = false
        """,
        {
            "a": {
                "command": "npx",
                "args": ("-y", "$${literal}"),
                "env": {"PASSED": "${PASSED:-}", "K": "v"},
                "startup_timeout": 20.0,
                "timeout": 45.5,
                "allowed_tools": ("one",),
                "exclude_tools": ("two",),
            },
            "b": {
                "url": "https://x/mcp",
                "headers": {"X-A": "1", "Authorization": "Bearer ${TOKEN}", "X-B": "${B}"},
                "startup_timeout": 1.5,
                "disabled": True,
            },
        },
    ),
    "Gemini": (
        ".gemini/settings.json",
        """{"theme": "x", "mcp": {"allowed": ["a"]}, "mcpServers": {
              "a": {"command": "run", "env": {"K": "$KEY", "L": "${LEFT}"}, "timeout": 500, "trust": true,
                    "includeTools": ["x"], "excludeTools": ["y"]},
              "b": {"httpUrl": "https://x/mcp",
                    "oauth": {"enabled": true, "clientId": "c", "scopes": ["s"], "tokenUrl": "t"}}}}""",
        {
            "a": {
                "command": "run",
                "env": {"K": "${KEY}", "L": "${LEFT}"},
                "timeout": 0.5,
                "allowed_tools": ("x",),
                "exclude_tools": ("y",),
            },
            "b": {
                "type": "streamable-http",
                "url": "https://x/mcp",
                "oauth": {"client_id": "c", "scopes": ("s",)},
            },
        },
    ),
    "opencode": (
        "opencode.json",
        """{"$schema": "s", "mcp": {
              "a": {"type": "local", "command": ["bun", "x"], "environment": {"K": "{env:KEY}", "L": "${X}"},
                    "timeout": 5000},
              "b": {"type": "remote", "url": "https://x", "headers": {"A": "{file:./token}"}, "oauth": false,
                    "enabled": false}}}""",
        {
            "a": {
                "type": "stdio",
                "command": ("bun", "x"),
                "env": {"K": "${KEY:-}", "L": "$${X}"},
                "startup_timeout": 5.0,
            },
            "b": {
                "type": "streamable-http",
                "url": "https://x",
                "headers": {"A": "${file:./token}"},
                "oauth": {"enabled": False},
                "disabled": True,
            },
        },
    ),
    "plain": (
        "servers.yaml",
        "a: {command: run, env: {PORT: 80, DEBUG: true}, timeout: 2000}\nb: {url: 'https://x'}\n",
        {
            "a": {"command": "run", "env": {"PORT": "80", "DEBUG": "true"}, "timeout": 2000.0},
            "b": {"url": "https://x"},
        },
    ),
    "mcpServers": (
        "anything.json",
        (
            '{"mcpServers": {"a": {"command": "x", "timeout": 30}, "b": {"command": "x", "timeout": 30000},'
            ' "c": {"command": "x", "tools": ["*"]}}}'
        ),
        {
            "a": {"command": "x", "timeout": 30.0},
            "b": {"command": "x", "timeout": 30.0},
            "c": {"command": "x", "allowed_tools": ("*",)},
        },
    ),
}


@pytest.mark.parametrize("dialect", DIALECTS)
def test_every_dialect_is_read(read, tmp_path, dialect):
    name, text, wanted = DIALECTS[dialect]

    file = read(name, text)

    assert file.dialect == dialect
    assert json.loads(json.dumps(plain(file)).replace(str(tmp_path), "PROJECT")) == json.loads(json.dumps(wanted))
    assert [problem for problem in file.problems if problem.severity == "error"] == []

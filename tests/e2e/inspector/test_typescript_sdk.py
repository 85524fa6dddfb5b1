"""Clients of both versions of the TypeScript SDK accept our errors, although the tools have output schemas.

They are installed as dependencies of the Inspector and of the conformance suites.
"""

from __future__ import annotations

import json
import pathlib

import pytest

PROGRAM = pathlib.Path(__file__).with_name("typescript_client.mjs")


@pytest.mark.parametrize("version", ["1", "2"])
@pytest.mark.parametrize(
    ("tool", "arguments", "code"),
    [
        ("Read", {"file_path": "missing.txt"}, -32603),
        ("Write", {"file_path": "/etc/new", "content": "x"}, -32001),
        ("execute_python", {"code": 7}, -32602),
    ],
)
def test_a_failed_call_is_a_result_that_satisfies_the_sdk(npm, yard, version, tool, arguments, code):
    client = [str(npm.node), str(PROGRAM), str(npm.folder), version, tool, json.dumps(arguments)]
    called = yard.run([*client, *yard.command("--tools", "all")], yard.environment(npm))
    assert called.returncode == 0, called.stderr
    result = json.loads(called.stdout)
    assert (result["isError"], result["structuredContent"]["error"]["code"]) == (True, code)


@pytest.mark.parametrize("version", ["1", "2"])
def test_a_command_that_fails_is_a_result_that_satisfies_the_sdk(npm, yard, version):
    client = [str(npm.node), str(PROGRAM), str(npm.folder), version, "Bash", json.dumps({"command": "exit 3"})]
    called = yard.run([*client, *yard.command()], yard.environment(npm))
    assert called.returncode == 0, called.stderr
    result = json.loads(called.stdout)
    assert (result["isError"], result["structuredContent"]["exit_code"]) == (True, 3)

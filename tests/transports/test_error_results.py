"""Calls that fail are results that a model can read; misuse of the protocol is a JSON-RPC error."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from typing import Any

import jsonschema
import pytest

from tests.transports.conftest import HttpSession, Place, place_in
from toolyard.core.errors import ConfigError, ErrorForm, ProviderError, SystemFault, ToolError
from toolyard.testing.mcp_client import StdioClient, error_in, expect_error
from toolyard.transports.mcp.error_results import result_of_failure
from toolyard.transports.output_schema import schema_admitting_errors

SURFACES = ("stdio", "stdio through the SDK", "http")


class ThroughTheSdk(StdioClient):
    """Sends a parameter that only the SDK knows what to do with."""

    def call(self, tool: str, /, **arguments: Any) -> dict[str, Any]:
        return self.request("tools/call", {"name": tool, "arguments": arguments, "unknown": 1})


Client = StdioClient | HttpSession


@contextlib.contextmanager
def serving(place: Place, surface: str, *options: str, modern: bool) -> Iterator[Client]:
    if surface == "http":
        with place.http(*options) as server:
            yield HttpSession(server, modern=modern).open()
    else:
        kind = StdioClient if surface == "stdio" else ThroughTheSdk
        with kind(place.command(*options), modern=modern, env=place.env) as client:
            yield client


@pytest.fixture(scope="module", params=SURFACES)
def surface(request) -> str:
    return request.param


@pytest.fixture(scope="module", params=[False, True], ids=["2025-11-25", "2026-07-28"])
def client(request, surface, tmp_path_factory) -> Iterator[Client]:
    """One server for the tests of a surface and an era: nothing here changes its workspace."""
    place = place_in(tmp_path_factory.mktemp("served"))
    with serving(place, surface, "--tools", "all", modern=request.param) as client:
        yield client


def request(client: Client, method: str, params: dict[str, Any] | None = None) -> dict[str, Any]:
    return client.request(method, params) if isinstance(client, StdioClient) else client.send(method, params).message


def test_a_missing_file_is_a_result_with_the_message_the_hint_and_the_code(client):
    result = client.call("Read", file_path="missing.txt")["result"]
    error = result["structuredContent"]["error"]
    path = error["message"].removeprefix("No such file or folder: ").removesuffix("/missing.txt.")
    assert os.path.isdir(path)
    assert error == {
        "code": -32603,
        "kind": "tool",
        "message": error["message"],
        "hint": "List the folder to see what is there.",
        "retryable": False,
        "validation_errors": [],
    }
    assert result["isError"] is True
    assert result["content"] == [{"type": "text", "text": f"{error['message']} {error['hint']}"}]


def test_a_refusal_says_what_to_do_instead_in_its_hint_alone(client):
    result = client.call("Write", file_path=".git/hooks/pre-commit", content="x")["result"]
    error = result["structuredContent"]["error"]
    assert error["hint"] == "Leave it as it is, or ask the user to change it."
    assert error["hint"] not in error["message"]
    assert result["content"] == [{"type": "text", "text": f"{error['message']} {error['hint']}"}]


def test_a_message_is_not_repeated_as_the_hint():
    error = result_of_failure(ToolError("boom"), ErrorForm.RESULT).structured["error"]
    assert (error["message"], error["hint"]) == ("boom", "")


def test_refusals_and_wrong_arguments_are_results_with_their_codes(client):
    outside = expect_error(client.call("Read", file_path="/etc/passwd"))
    wrong = expect_error(client.call("Read", file_path=7, paht="x"))
    protected = expect_error(client.call("Write", file_path=".git/hooks/pre-commit", content="x"))
    assert (outside["code"], outside["data"]["kind"]) == (-32001, "security")
    assert (protected["code"], protected["data"]["kind"]) == (-32001, "security")
    assert (wrong["code"], wrong["data"]["kind"]) == (-32602, "validation")
    assert {each["field"] for each in wrong["data"]["validation_errors"]} == {"file_path", "paht"}


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (SystemFault("The disk is full.", hint="Free some space.", retryable=True), -32000),
        (ConfigError("The key is missing", where="toolyard.yaml:3"), -32000),
        (ProviderError("The model did not answer.", facts={"retry_after": 3}), -32603),
    ],
    ids=lambda value: type(value).__name__,
)
def test_every_kind_of_error_has_the_same_fields(error, code):
    result = result_of_failure(error, ErrorForm.RESULT)
    fields = {"code", "kind", "message", "hint", "retryable", "validation_errors"}
    assert result.structured["error"].keys() == fields | error.facts.keys()
    assert (result.structured["error"]["code"], result.failed, result.text) == (code, True, str(error))


def test_misuse_of_the_protocol_is_a_json_rpc_error(client):
    unknown = client.call("Raed", file_path="a.txt")["error"]
    assert (unknown["code"], unknown["data"]["hint"]) == (-32602, "Did you mean Read?")
    assert request(client, "no/such/method")["error"]["code"] == -32601
    assert request(client, "tools/call", {"name": "Read", "arguments": []})["error"]["code"] == -32602
    assert request(client, "resources/read", {"uri": "file:///etc/passwd"})["error"]["code"] == -32001


def test_a_command_that_fails_is_an_error_with_its_output_and_exit_code(client):
    failed = client.call("Bash", command="echo out; echo err >&2; exit 3")["result"]
    fine = client.call("Bash", command="true")["result"]
    background = client.call("Bash", command="exit 3", run_in_background=True)["result"]
    assert failed["isError"] is True
    said = failed["structuredContent"]
    assert (said["stdout"], said["stderr"], said["exit_code"]) == ("out\n", "err\n", 3)
    assert "Exit code 3" in failed["content"][0]["text"]
    assert (fine["isError"], background["isError"]) == (False, False)


def test_a_command_that_is_stopped_is_an_error(client):
    stopped = client.call("Bash", command="echo begun; exec sleep 60", timeout=1000)["result"]
    assert stopped["isError"] is True
    assert (stopped["structuredContent"]["ending"], stopped["structuredContent"]["stdout"]) == ("timeout", "begun\n")


def test_an_exception_in_python_is_an_error_with_its_output_and_traceback(client):
    raised = client.call("execute_python", code="print('out')\n1 / 0")["result"]
    left = client.call("execute_python", code="import sys; sys.exit(4)")["result"]
    fine = client.call("execute_python", code="import sys; sys.exit(0)")["result"]
    said = raised["structuredContent"]
    assert (raised["isError"], said["stdout"], said["exit_code"]) == (True, "out\n", 1)
    assert "ZeroDivisionError" in said["error"]
    assert "ZeroDivisionError" in raised["content"][0]["text"]
    assert (left["isError"], left["structuredContent"]["exit_code"]) == (True, 4)
    assert fine["isError"] is False


@pytest.mark.parametrize(
    ("configured", "options", "is_result"),
    [("jsonrpc", (), False), ("jsonrpc", ("--errors", "result"), True), ("result", ("--errors", "jsonrpc"), False)],
)
@pytest.mark.parametrize("surface", ["stdio", "http"])
def test_the_form_is_chosen_by_the_option_before_the_configuration(place, surface, configured, options, is_result):
    config = place.write("../toolyard.yaml", f"errors: {configured}\n")
    with serving(place, surface, "--config", config, *options, modern=surface == "http") as client:
        answer = client.call("Read", file_path="missing.txt")
        command = client.call("Bash", command="exit 3")["result"]
    error = error_in(answer)
    assert error is not None
    assert (error["code"], error["data"]["kind"], "result" in answer) == (-32603, "tool", is_result)
    assert (command["isError"], command["structuredContent"]["exit_code"]) == (True, 3)


def test_failures_satisfy_the_output_schemas_that_are_listed(client):
    schemas = {tool["name"]: tool["outputSchema"] for tool in request(client, "tools/list")["result"]["tools"]}
    for name, schema in schemas.items():
        failed = client.call(name, no_such_argument=1)["result"]
        assert failed["isError"] is True, name
        jsonschema.validate(failed["structuredContent"], schema)
    raised = client.call("execute_python", code="1 / 0")["result"]
    jsonschema.validate(raised["structuredContent"], schemas["execute_python"])
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate({"path": 7}, schemas["Read"])


@pytest.mark.parametrize(
    "schema",
    [
        {"type": "object"},
        {"type": "object", "properties": {"a": {"type": "string"}}, "required": ["a"]},
        {"type": "object", "properties": {"error": {"type": "string"}}, "required": ["error"]},
        {"type": "object", "properties": {"a": {"$ref": "#/$defs/a"}}, "required": ["a"], "$defs": {"a": {}}},
        {
            "type": "object",
            "properties": {"a": {"$ref": "#/$defs/a"}},
            "additionalProperties": False,
            "$defs": {"a": {"type": "string"}},
        },
        {"type": "object", "oneOf": [{"required": ["a"]}, {"required": ["b"]}]},
    ],
    ids=str,
)
def test_an_output_schema_admits_errors_and_still_describes_its_members(schema):
    wider = schema_admitting_errors(schema)
    assert wider["type"] == "object"
    jsonschema.validate({"error": {"code": -32603}}, wider)
    before, after = jsonschema.Draft202012Validator(schema), jsonschema.Draft202012Validator(wider)
    for content in [{"a": "text"}, {"a": 1}, {"error": "text"}, {"a": "text", "b": 1}]:
        assert after.is_valid(content) or not before.is_valid(content)
    if schema.get("properties", {}).get("a") == {"type": "string"}:
        assert not after.is_valid({"a": 1})


@pytest.mark.parametrize("form", ["jsonrpc", "result"])
def test_an_output_schema_is_widened_only_where_errors_are_results(place, form):
    with place.stdio("--errors", form) as client:
        tools = {tool["name"]: tool["outputSchema"] for tool in client.request("tools/list")["result"]["tools"]}
    assert ("required" in tools["Read"]) is (form == "jsonrpc")

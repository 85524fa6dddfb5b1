"""What a client is told of the assistant before it calls anything."""

import json

import jsonschema
import pytest

from toolyard.core.tokens import count_tokens
from toolyard.testing.client import StdioClient
from toolyard.testing.model_server import Say

ARGUMENTS = {
    "chat": {"prompt", "continuation_id", "temperature", "thinking_mode"},
    "thinkdeep": {
        *("current_analysis", "problem_context", "focus_areas", "thinking_mode", "files", "continuation_id"),
    },
    "analyze": {"files", "question", "analysis_type", "thinking_mode", "continuation_id"},
    "codereview": {"files", "context", "review_type", "severity_filter", "standards", "thinking_mode"},
    "debug": {
        *("error_description", "error_context", "files", "previous_attempts", "runtime_info", "thinking_mode"),
    },
    "precommit": {
        *("path", "include_staged", "include_unstaged", "review_type", "original_request", "thinking_mode"),
    },
}
REQUIRED = {
    "chat": ["prompt"],
    "thinkdeep": ["current_analysis"],
    "analyze": ["files", "question"],
    "codereview": ["files", "context"],
    "debug": ["error_description"],
    "precommit": ["path"],
}


@pytest.fixture
def listed(serve):
    return serve(Say("yes")).request("tools/list")["result"]


def test_the_six_tools_have_the_arguments_that_were_promised(listed):
    assert {tool["name"]: set(tool["inputSchema"]["properties"]) for tool in listed["tools"]} == ARGUMENTS
    assert {tool["name"]: tool["inputSchema"]["required"] for tool in listed["tools"]} == REQUIRED


def test_the_list_of_all_six_costs_at_most_2500_tokens(listed):
    assert count_tokens(json.dumps(listed, ensure_ascii=False)) <= 2_500


def test_their_schemas_are_valid_and_say_that_they_change_nothing(listed):
    for tool in listed["tools"]:
        for schema in ("inputSchema", "outputSchema"):
            jsonschema.Draft202012Validator.check_schema(tool[schema])
        assert tool["annotations"]["readOnlyHint"] is True
        assert tool["annotations"]["openWorldHint"] is True


def test_results_fit_their_output_schema(serve, project):
    (project / "a.py").write_text("import os\n")
    served = serve(Say('{"summary": "fine", "findings": []}'))
    schemas = {tool["name"]: tool["outputSchema"] for tool in served.request("tools/list")["result"]["tools"]}

    for tool, arguments in (
        ("chat", {"prompt": "hello"}),
        ("thinkdeep", {"current_analysis": "It is slow.", "files": ["a.py"]}),
        ("analyze", {"files": ["."], "question": "What is it?"}),
        ("codereview", {"files": ["a.py"], "context": "an import"}),
        ("debug", {"error_description": "It fails."}),
    ):
        jsonschema.validate(served.ask(tool, **arguments), schemas[tool])


def test_it_says_what_it_is_for_when_a_client_connects(serve, project):
    greeting = serve(Say("yes")).greeting["result"]

    assert "second opinion" in greeting["instructions"]
    assert str(project) in greeting["instructions"]


def test_clients_of_the_later_protocol_are_served_alike(fresh):
    served = fresh(Say("Use a queue."))
    with StdioClient(served.process.args, modern=True, env=served.variables) as modern:
        assert {tool["name"] for tool in modern.request("tools/list")["result"]["tools"]} == set(ARGUMENTS)
        answered = modern.call("chat", prompt="How?")["result"]
    assert answered["structuredContent"]["content"] == "Use a queue."


@pytest.mark.parametrize(
    ("tool", "arguments", "field"),
    [
        ("chat", {}, "prompt"),
        ("chat", {"prompt": ""}, "prompt"),
        ("chat", {"prompt": "x", "temperature": 1.5}, "temperature"),
        ("chat", {"prompt": "x", "thinking_mode": "huge"}, "thinking_mode"),
        ("chat", {"prompt": "x", "model": "gpt-5"}, "model"),
        ("analyze", {"files": "a.py", "question": "?"}, "files"),
        ("analyze", {"files": [], "question": "?"}, "files"),
        ("codereview", {"files": ["a.py"]}, "context"),
        ("precommit", {"path": ".", "include_staged": "yes"}, "include_staged"),
    ],
)
def test_wrong_arguments_are_named(serve, tool, arguments, field):
    fault = serve(Say("yes")).fault(tool, **arguments)

    assert fault["code"] == -32602
    assert field in [each["field"] for each in fault["data"]["validation_errors"]]


def test_null_stands_for_an_argument_that_is_left_out(serve):
    served = serve(Say("yes"))

    assert (
        served.ask("chat", prompt="x", continuation_id=None, temperature=None, thinking_mode=None)["content"] == "yes"
    )

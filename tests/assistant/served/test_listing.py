"""What a client is told of the assistant before it calls anything."""

import json
import subprocess

import jsonschema
import pytest

from toolyard.core.tokens import count_tokens
from toolyard.testing.mcp_client import StdioClient
from toolyard.testing.mock_model import Say

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
DEFAULTS = {
    "chat": {"temperature": 0.5, "thinking_mode": "medium"},
    "thinkdeep": {"thinking_mode": "high"},
    "analyze": {"analysis_type": "general", "thinking_mode": "medium"},
    "codereview": {"review_type": "full", "severity_filter": "all", "thinking_mode": "medium"},
    "debug": {"thinking_mode": "medium"},
    "precommit": {"include_staged": True, "include_unstaged": True, "review_type": "full", "thinking_mode": "medium"},
}
FINDING = {"severity", "category", "file", "line", "title", "fix"}
ITEMS = {
    "thinkdeep": {"areas": {"area", "answer"}},
    "codereview": {"findings": FINDING},
    "debug": {"frames": {"file", "line", "function", "path", "excerpt"}},
    "precommit": {"check_results": {"name", "outcome", "details"}, "findings": FINDING},
}


@pytest.fixture
def listed(serve):
    return serve(Say("yes")).request("tools/list")["result"]


def test_the_six_tools_have_the_arguments_that_were_promised(listed):
    assert {tool["name"]: set(tool["inputSchema"]["properties"]) for tool in listed["tools"]} == ARGUMENTS
    assert {tool["name"]: tool["inputSchema"]["required"] for tool in listed["tools"]} == REQUIRED


def test_what_is_left_out_of_a_call_is_told(listed):
    told = {
        tool["name"]: {
            name: argument["default"]
            for name, argument in tool["inputSchema"]["properties"].items()
            if "default" in argument
        }
        for tool in listed["tools"]
    }

    assert told == DEFAULTS


def test_what_the_lists_in_a_result_hold_is_told(listed):
    schemas = {tool["name"]: tool["outputSchema"]["properties"] for tool in listed["tools"]}

    for tool, lists in ITEMS.items():
        for name, fields in lists.items():
            items = schemas[tool][name]["items"]
            assert set(items["properties"]) == fields, (tool, name)
            assert all(field.keys() & {"type", "enum"} for field in items["properties"].values()), (tool, name)


def test_the_list_of_all_six_costs_at_most_2500_tokens(listed):
    assert count_tokens(json.dumps(listed)) <= 2_500  # with blanks, which are not on the wire


def test_their_schemas_are_valid_and_say_that_they_change_nothing(listed):
    for tool in listed["tools"]:
        for schema in ("inputSchema", "outputSchema"):
            jsonschema.Draft202012Validator.check_schema(tool[schema])
        assert tool["annotations"]["readOnlyHint"] is True
        assert tool["annotations"]["openWorldHint"] is True


def test_results_fit_their_output_schema(serve, project):
    subprocess.run(["git", "init", "-q", str(project)], check=True)
    (project / "a.py").write_text("import os\n")
    (project / ".env").write_text("A=1\n")
    finding = {"severity": "high", "file": "a.py", "title": "unused", "line": 0}
    area = {"area": "cost", "answer": "none"}
    served = serve(Say(json.dumps({"summary": "fine", "findings": [finding], "areas": [area]})))
    schemas = {tool["name"]: tool["outputSchema"] for tool in served.request("tools/list")["result"]["tools"]}

    for tool, arguments in (
        ("chat", {"prompt": "hello"}),
        ("thinkdeep", {"current_analysis": "It is slow.", "files": ["a.py"], "focus_areas": ["cost"]}),
        ("analyze", {"files": ["."], "question": "What is it?"}),
        ("codereview", {"files": ["a.py"], "context": "an import"}),
        ("debug", {"error_description": '  File "a.py", line 1, in x\n  File "/b.py", line 2\nValueError: no'}),
        ("precommit", {"path": "."}),
    ):
        fields = served.ask(tool, **arguments)
        jsonschema.validate(fields, schemas[tool])
        assert all(fields[name] for name in ITEMS.get(tool, {})), (tool, fields)


def test_it_says_what_it_is_for_when_a_client_connects(serve, project):
    greeting = serve(Say("yes")).initialize_response["result"]

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

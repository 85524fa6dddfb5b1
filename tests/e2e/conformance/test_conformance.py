"""The official conformance suite, in both eras. It was written for a reference server with tools of its own.

What such a server has and we do not is in the tables below, check by check. A check outside its table that fails,
and one inside that no longer does, both fail the test.
"""

from __future__ import annotations

import json
import re

import pytest

NO_TOOL = "needs a tool, prompt or resource that only the suite's own server has"
NO_PROMPTS = "we offer no prompts"
NO_COMPLETION = "we offer nothing to complete"
NO_SUBSCRIPTIONS = "resources cannot be subscribed to"
NO_TASKS = "the tasks extension is not offered"

BOTH_ERAS = {
    "completion-complete": (NO_COMPLETION, {"completion-complete"}),
    "tools-call-simple-text": (NO_TOOL, {"tools-call-simple-text"}),
    "tools-call-image": (NO_TOOL, {"tools-call-image"}),
    "tools-call-audio": (NO_TOOL, {"tools-call-audio"}),
    "tools-call-embedded-resource": (NO_TOOL, {"tools-call-embedded-resource"}),
    "tools-call-mixed-content": (NO_TOOL, {"tools-call-mixed-content"}),
    "tools-call-with-logging": (NO_TOOL, {"tools-call-with-logging"}),
    "tools-call-error": (NO_TOOL, {"tools-call-error"}),
    "tools-call-with-progress": (NO_TOOL, {"tools-call-with-progress"}),
    "tools-call-sampling": (NO_TOOL, {"tools-call-sampling"}),
    "tools-call-elicitation": (NO_TOOL, {"tools-call-elicitation"}),
    "json-schema-2020-12": (NO_TOOL, {"json-schema-2020-12-tool-found"}),
    "elicitation-sep1034-defaults": (NO_TOOL, {"elicitation-sep1034-general"}),
    "elicitation-sep1330-enums": (NO_TOOL, {"elicitation-sep1330-general"}),
    "resources-read-text": (NO_TOOL, {"resources-read-text"}),
    "resources-read-binary": (NO_TOOL, {"resources-read-binary"}),
    "resources-templates-read": (NO_TOOL, {"resources-templates-read"}),
    "resources-subscribe": (NO_SUBSCRIPTIONS, {"resources-subscribe"}),
    "resources-unsubscribe": (NO_SUBSCRIPTIONS, {"resources-unsubscribe"}),
    "prompts-list": (NO_PROMPTS, {"prompts-list"}),
    "prompts-get-simple": (NO_PROMPTS, {"prompts-get-simple"}),
    "prompts-get-with-args": (NO_PROMPTS, {"prompts-get-with-args"}),
    "prompts-get-embedded-resource": (NO_PROMPTS, {"prompts-get-embedded-resource"}),
    "prompts-get-with-image": (NO_PROMPTS, {"prompts-get-with-image"}),
}
ONLY_2026 = {
    "caching": (NO_PROMPTS, {"sep-2549-prompts-list-caching-hints"}),
    "http-custom-header-server-validation": (
        NO_TOOL,
        {
            "sep-2243-server-no-xmcp-tool",
            "sep-2243-server-decode-base64",
            "sep-2243-server-validate-param-match",
            "sep-2243-server-reject-invalid-param-chars",
            "sep-2243-server-reject-param-mismatch",
        },
    ),
    "server-stateless": (
        NO_TOOL,
        {
            "sep-2575-server-rejects-undeclared-capability",
            "sep-2575-missing-capability-http-400",
            "sep-2575-http-server-no-independent-requests-on-stream",
            "sep-2575-server-no-log-without-loglevel",
        },
    ),
    "input-required-result-basic-elicitation": (NO_TOOL, {"sep-2322-elicitation-incomplete"}),
    "input-required-result-basic-sampling": (NO_TOOL, {"sep-2322-sampling-incomplete"}),
    "input-required-result-basic-list-roots": (NO_TOOL, {"sep-2322-list-roots-incomplete"}),
    "input-required-result-request-state": (NO_TOOL, {"sep-2322-request-state-incomplete"}),
    "input-required-result-multiple-input-requests": (NO_TOOL, {"sep-2322-multiple-inputs-incomplete"}),
    "input-required-result-multi-round": (NO_TOOL, {"sep-2322-multi-round-r1"}),
    "input-required-result-non-tool-request": (NO_PROMPTS, {"sep-2322-non-tool-incomplete"}),
    "input-required-result-result-type": (NO_TOOL, {"sep-2322-result-type-included"}),
    "input-required-result-tampered-state": (NO_TOOL, {"sep-2322-reject-tampered-state"}),
    "input-required-result-capability-check": (NO_TOOL, {"sep-2322-respect-client-capabilities"}),
    "tasks-lifecycle": (
        NO_TASKS,
        {
            "tasks-sync-tool-call",
            "sep-2663-result-type-task-on-create",
            "sep-2663-tasks-get-status-working",
            "sep-2663-tasks-get-status-completed",
            "sep-2663-tool-error-uses-completed-status",
            "sep-2663-tasks-get-status-failed",
            "sep-2663-cancel-ack-empty-result",
            "tasks-cancel-terminal-idempotent-ack",
        },
    ),
    "tasks-capability-negotiation": (
        NO_TASKS,
        {
            "tasks-extension-advertised",
            "sep-2663-tasks-methods-non-declaring",
            "sep-2663-server-rejects-undeclared-client",
            "tasks-per-request-meta-opt-in",
        },
    ),
    "tasks-wire-fields": (
        NO_TASKS,
        {
            "tasks-wire-field-renames",
            "tasks-no-early-ttl-expiry",
            "tasks-no-related-task-meta-on-inlined-result",
        },
    ),
    "tasks-request-state-removal": (NO_TASKS, {"tasks-request-state-removal-setup"}),
    "tasks-mrtr-input": (
        NO_TASKS,
        {
            "sep-2663-tasks-get-status-input-required",
            "tasks-mrtr-tasks-update-resumes",
            "tasks-mrtr-partial-fulfillment",
        },
    ),
    "tasks-request-headers": (
        NO_TASKS,
        {
            "tasks-headers-tolerate-mcp-method-on-tools-call",
            "sep-2663-routing-headers-accepted-on-tasks-get",
            "sep-2663-server-rejects-mismatched-mcp-name-on-tasks-get",
        },
    ),
    "tasks-dispatch-and-envelope": (
        NO_TASKS,
        {
            "tasks-server-directed-creation-no-hint",
            "sep-2663-legacy-task-param-ignored",
            "tasks-immediate-result-shortcut",
            "tasks-result-type-complete-on-non-task-responses",
            "sep-2663-durable-create-strong-consistency",
            "sep-2663-tasks-get-invalid-task-id-32602",
        },
    ),
    "tasks-required-task-error": (NO_TASKS, {"sep-2663-server-returns-missing-capability-when-required"}),
    "tasks-mrtr-composition": (NO_TASKS, {"sep-2663-mrtr-synchronous-before-task-creation"}),
}
SUITES = {"conformance-2025": BOTH_ERAS, "conformance-2026": BOTH_ERAS | ONLY_2026}
# What must have run and passed whatever the tables say, so that an empty run fails.
ESSENTIAL = {"server-initialize", "ping", "tools-list", "resources-list", "dns-rebinding-protection"}
ESSENTIAL_2026 = ESSENTIAL | {"server-session-lifecycle", "sep-2164-resource-not-found"}


@pytest.mark.parametrize("suite", SUITES)
def test_every_check_passes_that_a_server_without_the_suites_own_tools_can_pass(npm, yard, with_bearer, token, suite):
    (yard.workspace / "a.txt").write_text("one\n")
    skill = yard.workspace / "skills" / "community" / "greet_guests"
    skill.mkdir(parents=True)
    (skill / "SKILL.md").write_text("---\nname: greet-guests\ndescription: Greets guests.\n---\n\nSay hello.\n")
    output = yard.base / "results"
    program = npm.script(suite, "dist/index.js")
    environment = yard.environment(npm)
    with yard.http() as address, with_bearer(address, token) as url:
        yard.run([*program, "server", "--suite", "all", "--url", url, "-o", str(output)], environment)
    listed = yard.run([*program, "list", "--server"], environment).stdout
    scenarios = set(re.findall(r"^\s+- (\S+)", listed, re.MULTILINE))
    checks = {folder.name: json.loads((folder / "checks.json").read_text()) for folder in output.iterdir()}
    by_scenario = {_scenario(name): found for name, found in checks.items()}
    failed = {
        name: ids
        for name, found in by_scenario.items()
        if (ids := {check["id"] for check in found if check["status"] == "FAILURE"})
    }
    assert by_scenario.keys() == scenarios
    assert failed == {name: ids for name, (_, ids) in SUITES[suite].items()}
    passed = {
        name
        for name, found in by_scenario.items()
        if name not in failed and any(check["status"] == "SUCCESS" for check in found)
    }
    assert passed >= (ESSENTIAL if suite == "conformance-2025" else ESSENTIAL_2026)


def _scenario(folder: str) -> str:
    """`server-ping-2026-11-15T22-20-36-511Z` is a run of `ping`."""
    return re.sub(r"-\d{4}-\d\d-\d\dT[\d-]+Z$", "", folder).removeprefix("server-")

"""Gemini CLI.

Its settings are found by `GEMINI_CLI_HOME` (the other way, a path for system settings, is ignored without a word
where a parent folder is writable for others). A policy file turns its own tools off and ours on: without one the
tools of a server are silently absent where nobody can be asked.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from toolyard.drivers.clis.cli import ATTEMPTS, TOOL_SECONDS, Cli, Listener, words_of
from toolyard.drivers.clis.json_access import arguments, count, inner, is_object, message_of, text, toml
from toolyard.drivers.clis.workdir import NO_CONTEXT, as_words, beside
from toolyard.drivers.driver import TOKEN_VARIABLE, Login, Reader, Recipe, RunSpec
from toolyard.drivers.messages import Message, Tokens

_POLICY = """\
[[rule]]
toolName = "*"
decision = "deny"
priority = 100

[[rule]]
mcpName = "{server}"
toolName = "*"
decision = "allow"
priority = 900
"""
_DENIED = """\
[[rule]]
mcpName = "{server}"
toolName = "{tool}"
decision = "deny"
deny_message = {reason}
priority = 950
"""
_STOPPED = "Loop detected"
"""It ends the model's turn, calls that a warning, and the run a success."""


class Gemini(Cli):
    name = "gemini"
    title = "Gemini CLI"
    program = "gemini"
    package = "@google/gemini-cli"
    minimum = "0.61.0"
    keys = ("GEMINI_API_KEY", "GOOGLE_API_KEY")
    instead_of_key = (
        *("GOOGLE_GEMINI_BASE_URL", "GOOGLE_VERTEX_BASE_URL"),
        *("GOOGLE_GENAI_USE_VERTEXAI", "GOOGLE_APPLICATION_CREDENTIALS"),
    )
    handed_on = (
        "GOOGLE_GEMINI_BASE_URL",
        "GOOGLE_VERTEX_BASE_URL",
        "GOOGLE_GENAI_USE_VERTEXAI",
        "GOOGLE_CLOUD_PROJECT",
        "GOOGLE_CLOUD_LOCATION",
        "GOOGLE_APPLICATION_CREDENTIALS",
    )
    logins = (
        Login(".gemini", "oauth_creds.json", ".gemini/oauth_creds.json"),
        Login(".gemini", "google_accounts.json", ".gemini/google_accounts.json"),
    )
    loses_bare_names = True
    shown_as = "mcp_{server}_{tool}"
    provider = "google"
    address = "GOOGLE_GEMINI_BASE_URL"
    # ALL_BUILTIN_TOOL_NAMES and TOOL_LEGACY_ALIASES of packages/core/src/tools/tool-names.ts, as bundled in 0.61.0.
    builtins = words_of(
        """glob write_todos write_file google_web_search web_fetch replace run_shell_command grep_search
        read_many_files read_file list_directory activate_skill ask_user tracker_create_task tracker_update_task
        tracker_get_task tracker_list_tasks tracker_add_dependency tracker_visualize get_internal_docs
        enter_plan_mode exit_plan_mode update_topic complete_task invoke_agent read_mcp_resource list_mcp_resources
        search_file_content save_memory"""
    )

    def recipe(self, run: RunSpec) -> Recipe:
        server = {
            "httpUrl": run.url,
            "headers": {"Authorization": f"Bearer ${TOKEN_VARIABLE}"},
            "timeout": TOOL_SECONDS * 1000,
        }
        settings: dict[str, object] = {
            "mcpServers": {self.server: server},
            "security": {"auth": {"selectedType": _way_in(run)}},
            "privacy": {"usageStatisticsEnabled": False},
            "telemetry": {"enabled": False},
            "general": {"enableAutoUpdate": False, "enableAutoUpdateNotification": False, "maxAttempts": ATTEMPTS},
            "skills": {"enabled": False},
            "context": {"fileName": NO_CONTEXT, "memoryBoundaryMarkers": []},
            "advanced": {"ignoreLocalEnv": True},
        }
        files = {
            ".gemini/settings.json": json.dumps(settings, indent=1),
            "policy.toml": self._policy(run),
            beside(run, ".env"): "",  # The first one on the way up to the root is read.
        }
        if run.instructions:
            files[f".gemini/{NO_CONTEXT}"] = run.instructions
        words = ["--output-format", "stream-json", "--skip-trust", "--policy", f"{run.folder}/policy.toml"]
        words += ["--allowed-mcp-server-names", self.server]
        if run.model:
            words += ["--model", run.model]
        variables = {"GEMINI_CLI_HOME": run.folder, "GEMINI_CLI_NO_RELAUNCH": "true"}
        return Recipe(tuple(words), variables, files, as_words(run.prompt))

    def _policy(self, run: RunSpec) -> str:
        rules = [_POLICY.format(server=self.server)]
        for tool, reason in run.denied.items():
            rules.append(_DENIED.format(server=self.server, tool=self.served_name(tool), reason=toml(reason)))
        return "\n".join(rules)

    def reader(self, run: str, tools: Iterable[str]) -> Reader:
        return GeminiReader(self, run, tuple(tools))


def _way_in(run: RunSpec) -> str:
    """It takes one from the environment too, but another where a base URL is set."""
    if run.has_login:
        return "oauth-personal"
    is_vertex = run.variables.get("GOOGLE_GENAI_USE_VERTEXAI", "").lower() in {"true", "1"}
    return "vertex-ai" if is_vertex else "gemini-api-key"


def _billed(stats: Mapping[str, Any]) -> Tokens:
    """The tokens of a model as they are billed: its thoughts are output, which is told in the total alone."""
    given = count(stats, "input_tokens")
    output = max(count(stats, "output_tokens"), count(stats, "total_tokens") - given)
    return Tokens(given, output, count(stats, "cached"))


class GeminiReader(Listener, Reader):
    refusal = re.compile(r"^Tool execution (for .{0,200} )?(denied by policy|requires user confirmation)")
    unknown = re.compile(r'^Tool "[^"]*" not found')

    def read(self, record: Mapping[str, Any]) -> Iterator[Message]:
        kind = text(record, "type")
        if kind in {"message", "tool_use"}:
            self.heard.error = ""  # It came over what it told before.
        if kind == "init":
            yield from self.began(text(record, "model"), text(record, "session_id"))
        elif kind == "message" and text(record, "role") == "assistant":
            yield from self.said(text(record, "content"))
        elif kind == "tool_use":
            found = arguments(record.get("parameters"))
            yield from self.called(text(record, "tool_id"), text(record, "tool_name"), found)
        elif kind == "tool_result":
            said = text(record, "output") or message_of(record.get("error"))
            yield from self.answered(text(record, "tool_id"), said, ok=text(record, "status") == "success")
        elif kind == "error":
            words = message_of(record)
            is_end = text(record, "severity") == "error" or words.startswith(_STOPPED)
            yield from self.failed(words) if is_end else self.troubled(words)
        elif kind == "result":
            yield from self._result(record)
        elif not kind and is_object(record.get("stats")):
            yield from self._whole(record)

    def _result(self, record: Mapping[str, Any]) -> Iterator[Message]:
        stats = inner(record, "stats")
        tokens = Tokens(count(stats, "input_tokens"), count(stats, "output_tokens"), count(stats, "cached"))
        self.heard.tokens = tokens
        models = inner(stats, "models")
        self.heard.tokens_by_model = {name: _billed(inner(models, name)) for name in models}
        self.heard.is_over = True
        yield from self.counted()
        if text(record, "status") != "success":
            yield from self.failed(message_of(record.get("error")))

    def _whole(self, record: Mapping[str, Any]) -> Iterator[Message]:
        """All in one object, as `--output-format json` prints it."""
        yield from self.began(session=text(record, "session_id"))
        yield from self.said(text(record, "response"))
        self.heard.is_over = True
        if record.get("error"):
            yield from self.failed(message_of(record.get("error")))

"""Driver for Gemini CLI.

`GEMINI_CLI_HOME` locates its settings. (A system settings path is silently ignored if others can write to a parent
folder.) A policy file disables its own tools and enables ours: without it, the tools of a server are silently missing
in non-interactive mode.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from toolyard.drivers.clis.cli import ATTEMPTS, TOOL_SECONDS, BaseOutputReader, Cli, split_words
from toolyard.drivers.clis.json_access import (
    error_message,
    get_count,
    get_object,
    get_text,
    is_object,
    parse_arguments,
    toml_value,
)
from toolyard.drivers.clis.workdir import INSTRUCTIONS_FILE_NAME, escape_slash_command, workdir_relative_path
from toolyard.drivers.driver import TOKEN_VARIABLE, LaunchSpec, Login, OutputReader, RunSpec
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
_DENY_RULE = """\
[[rule]]
mcpName = "{server}"
toolName = "{tool}"
decision = "deny"
deny_message = {reason}
priority = 950
"""
_LOOP_DETECTED = "Loop detected"
"""It ends the model's turn with this warning, and reports success."""


class Gemini(Cli):
    name = "gemini"
    title = "Gemini CLI"
    program = "gemini"
    package = "@google/gemini-cli"
    minimum_version = "0.61.0"
    keys = ("GEMINI_API_KEY", "GOOGLE_API_KEY")
    key_alternatives = (
        *("GOOGLE_GEMINI_BASE_URL", "GOOGLE_VERTEX_BASE_URL"),
        *("GOOGLE_GENAI_USE_VERTEXAI", "GOOGLE_APPLICATION_CREDENTIALS"),
    )
    passed_variables = (
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
    shadows_bare_names = True
    tool_name_template = "mcp_{server}_{tool}"
    provider = "google"
    base_url_variable = "GOOGLE_GEMINI_BASE_URL"
    # ALL_BUILTIN_TOOL_NAMES and TOOL_LEGACY_ALIASES of packages/core/src/tools/tool-names.ts, as bundled in 0.61.0.
    builtins = split_words(
        """glob write_todos write_file google_web_search web_fetch replace run_shell_command grep_search
        read_many_files read_file list_directory activate_skill ask_user tracker_create_task tracker_update_task
        tracker_get_task tracker_list_tasks tracker_add_dependency tracker_visualize get_internal_docs
        enter_plan_mode exit_plan_mode update_topic complete_task invoke_agent read_mcp_resource list_mcp_resources
        search_file_content save_memory"""
    )

    def launch_spec(self, run: RunSpec) -> LaunchSpec:
        server = {
            "httpUrl": run.url,
            "headers": {"Authorization": f"Bearer ${TOKEN_VARIABLE}"},
            "timeout": TOOL_SECONDS * 1000,
        }
        settings: dict[str, object] = {
            "mcpServers": {self.server: server},
            "security": {"auth": {"selectedType": _auth_type(run)}},
            "privacy": {"usageStatisticsEnabled": False},
            "telemetry": {"enabled": False},
            "general": {"enableAutoUpdate": False, "enableAutoUpdateNotification": False, "maxAttempts": ATTEMPTS},
            "skills": {"enabled": False},
            "context": {"fileName": INSTRUCTIONS_FILE_NAME, "memoryBoundaryMarkers": []},
            "advanced": {"ignoreLocalEnv": True},
        }
        files = {
            ".gemini/settings.json": json.dumps(settings, indent=1),
            "policy.toml": self._policy(run),
            workdir_relative_path(run, ".env"): "",  # it reads the first one on the way up to the root
        }
        if run.instructions:
            files[f".gemini/{INSTRUCTIONS_FILE_NAME}"] = run.instructions
        arguments = ["--output-format", "stream-json", "--skip-trust", "--policy", f"{run.folder}/policy.toml"]
        arguments += ["--allowed-mcp-server-names", self.server]
        if run.model:
            arguments += ["--model", run.model]
        variables = {"GEMINI_CLI_HOME": run.folder, "GEMINI_CLI_NO_RELAUNCH": "true"}
        return LaunchSpec(tuple(arguments), variables, files, escape_slash_command(run.prompt))

    def _policy(self, run: RunSpec) -> str:
        rules = [_POLICY.format(server=self.server)]
        for tool, reason in run.denied.items():
            rules.append(
                _DENY_RULE.format(server=self.server, tool=self.served_name(tool), reason=toml_value(reason))
            )
        return "\n".join(rules)

    def reader(self, run: str, tools: Iterable[str]) -> OutputReader:
        return GeminiReader(self, run, tuple(tools))


def _auth_type(run: RunSpec) -> str:
    """Returns the auth type. From the environment Gemini CLI would choose another one if a base URL is set."""
    if run.has_login:
        return "oauth-personal"
    is_vertex = run.variables.get("GOOGLE_GENAI_USE_VERTEXAI", "").lower() in {"true", "1"}
    return "vertex-ai" if is_vertex else "gemini-api-key"


def _billed_tokens(stats: Mapping[str, Any]) -> Tokens:
    """Returns the billed tokens of a model: thoughts count as output, but only the total includes them."""
    input_tokens = get_count(stats, "input_tokens")
    output = max(get_count(stats, "output_tokens"), get_count(stats, "total_tokens") - input_tokens)
    return Tokens(input_tokens, output, get_count(stats, "cached"))


class GeminiReader(BaseOutputReader, OutputReader):
    """Reads the `stream-json` output of Gemini CLI."""

    refusal = re.compile(r"^Tool execution (for .{0,200} )?(denied by policy|requires user confirmation)")
    unknown = re.compile(r'^Tool "[^"]*" not found')

    def read(self, record: Mapping[str, Any]) -> Iterator[Message]:
        kind = get_text(record, "type")
        if kind in {"message", "tool_use"}:
            self.state.error = ""  # It recovered from the error it reported before.
        if kind == "init":
            yield from self.begin_session(get_text(record, "model"), get_text(record, "session_id"))
        elif kind == "message" and get_text(record, "role") == "assistant":
            yield from self.add_text(get_text(record, "content"))
        elif kind == "tool_use":
            call_arguments = parse_arguments(record.get("parameters"))
            yield from self.add_call(get_text(record, "tool_id"), get_text(record, "tool_name"), call_arguments)
        elif kind == "tool_result":
            result_text = get_text(record, "output") or error_message(record.get("error"))
            yield from self.add_result(
                get_text(record, "tool_id"), result_text, ok=get_text(record, "status") == "success"
            )
        elif kind == "error":
            message = error_message(record)
            is_end = get_text(record, "severity") == "error" or message.startswith(_LOOP_DETECTED)
            yield from self.report_final_error(message) if is_end else self.report_error(message)
        elif kind == "result":
            yield from self._result(record)
        elif not kind and is_object(record.get("stats")):
            yield from self._single_object(record)

    def _result(self, record: Mapping[str, Any]) -> Iterator[Message]:
        stats = get_object(record, "stats")
        tokens = Tokens(
            get_count(stats, "input_tokens"), get_count(stats, "output_tokens"), get_count(stats, "cached")
        )
        self.state.tokens = tokens
        models = get_object(stats, "models")
        self.state.tokens_by_model = {name: _billed_tokens(get_object(models, name)) for name in models}
        self.state.is_over = True
        yield from self.report_usage()
        if get_text(record, "status") != "success":
            yield from self.report_final_error(error_message(record.get("error")))

    def _single_object(self, record: Mapping[str, Any]) -> Iterator[Message]:
        """Reads the single object that `--output-format json` prints."""
        yield from self.begin_session(session=get_text(record, "session_id"))
        yield from self.add_text(get_text(record, "response"))
        self.state.is_over = True
        if record.get("error"):
            yield from self.report_final_error(error_message(record.get("error")))

"""Driver for Codex.

`--strict-config` and `required` make it fail rather than run with an unknown setting or without our tools. Its own
sandbox is read-only and never asks: a second barrier behind the disabled tools.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from toolyard.drivers.clis.cli import START_SECONDS, TOOL_SECONDS, BaseOutputReader, Cli, split_words
from toolyard.drivers.clis.json_access import (
    blocks_text,
    error_message,
    get_count,
    get_object,
    get_text,
    parse_arguments,
    toml_value,
)
from toolyard.drivers.driver import TOKEN_VARIABLE, LaunchSpec, Login, OutputReader, RunSpec
from toolyard.drivers.messages import Message, Tokens

_CONFIG = "codex"
_PROVIDER = "key"
_OPENAI = "https://api.openai.com/v1"
_DISABLED_FEATURES = (
    "shell_tool",
    "unified_exec",
    "multi_agent",
    "goals",
    "apps",
    "plugins",
    "view_image",
    "image_generation",
    "tool_suggest",
    "hooks",
    "shell_snapshot",  # writes all variables to a file, including the token
    "unbounded_connection_retries",
)
"""Features to disable: its own tools, external content, and unlimited provider retries."""
_MODEL = "gpt-5.5"
"""Default model. Codex's own default is part of the model list that we replace."""
_CATALOG = "models.json"
_CONTEXT_TOKENS = 272_000
_INSTRUCTIONS = """\
You are an agent that works on the files of a workspace for its user. Everything you do there, you do with the tools \
of the MCP server: you have no shell and no files of your own. Carry the task through to its end, check what you \
did, and say shortly what came of it. Where a tool refuses something, it says why and what to do instead.
"""
_OWN_TOOLS = frozenset({"command_execution", "file_change", "web_search", "collab_tool_call"})


class Codex(Cli):
    name = "codex"
    title = "Codex"
    program = "codex"
    package = "@openai/codex"
    minimum_version = "0.166.0"
    keys = ("OPENAI_API_KEY", "CODEX_API_KEY")
    key_alternatives = ("OPENAI_BASE_URL",)
    passed_variables = ("OPENAI_BASE_URL", "OPENAI_ORGANIZATION", "OPENAI_PROJECT")
    logins = (Login(".codex", "auth.json", f"{_CONFIG}/auth.json", "CODEX_HOME"),)
    tool_name_template = "mcp__{server}__{tool}"
    provider = "openai"
    base_url_variable = "OPENAI_BASE_URL"
    default_model = _MODEL
    # What 0.166.0 declared to models of its own list with all features on. Ours are in a separate namespace.
    builtins = split_words(
        """shell_command exec_command write_stdin apply_patch view_image web_search update_plan tool_search exec wait
        spawn_agent send_message followup_task wait_agent interrupt_agent list_agents request_user_input
        list_mcp_resources list_mcp_resource_templates read_mcp_resource"""
    )

    def launch_spec(self, run: RunSpec) -> LaunchSpec:
        arguments = ["exec", "--json", "--skip-git-repo-check", "--strict-config", "--ephemeral", "--ignore-rules"]
        for feature in _DISABLED_FEATURES:
            arguments += ["--disable", feature]
        variables = {"CODEX_HOME": f"{run.folder}/{_CONFIG}"}
        model = run.model or _MODEL
        files = {
            f"{_CONFIG}/config.toml": self._settings(run),
            f"{_CONFIG}/{_CATALOG}": json.dumps(_model_catalog(model)),
        }
        return LaunchSpec((*arguments, "-"), variables, files, run.prompt)

    def _settings(self, run: RunSpec) -> str:
        top: dict[str, object] = {
            "approval_policy": "never",
            "sandbox_mode": "read-only",
            "web_search": "disabled",
            "check_for_update_on_startup": False,
            "project_doc_max_bytes": 0,
            "project_root_markers": [],
            "include_permissions_instructions": False,  # they say that no file can be written
            "include_environment_context": False,
            "model_reasoning_summary": "none",
            "model": run.model or _MODEL,
            "model_catalog_json": f"{run.folder}/{_CONFIG}/{_CATALOG}",
        }
        if run.instructions:
            top["developer_instructions"] = run.instructions
        tables: dict[str, dict[str, object]] = {
            "analytics": {"enabled": False},
            "feedback": {"enabled": False},
            "history": {"persistence": "none"},
            "skills": {"include_instructions": False},
            "skills.bundled": {"enabled": False},
            f"mcp_servers.{self.server}": {
                "url": run.url,
                "bearer_token_env_var": TOKEN_VARIABLE,
                "required": True,
                "default_tools_approval_mode": "approve",
                "startup_timeout_sec": START_SECONDS,
                "tool_timeout_sec": TOOL_SECONDS,
                "disabled_tools": [self.served_name(tool) for tool in run.denied],
            },
        }
        key = next((name for name in self.keys if run.variables.get(name)), "")
        if key:
            top["model_provider"] = _PROVIDER
            tables[f"model_providers.{_PROVIDER}"] = {
                "name": _PROVIDER,
                "base_url": run.variables.get("OPENAI_BASE_URL") or _OPENAI,
                "env_key": key,
                "wire_api": "responses",
            }
        lines = [f"{name} = {toml_value(value)}" for name, value in top.items()]
        for table, values in tables.items():
            lines += ["", f"[{table}]", *(f"{name} = {toml_value(value)}" for name, value in values.items())]
        return "\n".join(lines) + "\n"

    def reader(self, run: str, tools: Iterable[str]) -> OutputReader:
        return CodexReader(self, run, tuple(tools))


def _model_catalog(model: str) -> dict[str, object]:
    """Returns a model list with only the chosen model; Codex's own list decides which of its tools it adds.

    Newer models of that list get a JavaScript shell, agents and patches regardless of the features, and see the tools
    of a server only through a search.
    """
    entry = {
        "slug": model,
        "display_name": model,
        "description": "",
        "base_instructions": _INSTRUCTIONS,
        "shell_type": "disabled",
        "apply_patch_tool_type": None,
        "experimental_supported_tools": [],
        "supports_search_tool": False,
        "tool_mode": None,
        "multi_agent_version": None,
        "supports_parallel_tool_calls": True,
        "supported_reasoning_levels": [],
        "supports_reasoning_summaries": False,
        "support_verbosity": False,
        "context_window": _CONTEXT_TOKENS,
        "truncation_policy": {"mode": "tokens", "limit": 10_000},
        "input_modalities": ["text", "image"],
        "visibility": "list",
        "supported_in_api": True,
        "priority": 1,
    }
    return {"models": [entry]}


class CodexReader(BaseOutputReader, OutputReader):
    """Reads the JSON events of `codex exec --json`."""

    refusal = re.compile(r"^(MCP tool call requires approval|user (rejected|cancelled) MCP tool call)")
    unknown = re.compile(r"^(unsupported call|unknown MCP tool)")

    def read(self, record: Mapping[str, Any]) -> Iterator[Message]:
        kind = get_text(record, "type")
        if kind == "thread.started":
            yield from self.begin_session(session=get_text(record, "thread_id"))
        elif kind in {"item.started", "item.updated", "item.completed"}:
            yield from self._item(get_object(record, "item"), is_done=kind == "item.completed")
        elif kind == "error":
            # It reports retried errors too: what counts is how the turn ends.
            yield from self.report_final_error(error_message(record))
        elif kind == "turn.failed":
            self.state.is_over = True
            yield from self.report_final_error(error_message(record.get("error")))
        elif kind == "turn.completed":
            yield from self._turn_completed(get_object(record, "usage"))

    def _item(self, item: Mapping[str, Any], *, is_done: bool) -> Iterator[Message]:
        kind, call = get_text(item, "type"), get_text(item, "id")
        if kind == "agent_message" and is_done:
            yield from self.add_text(get_text(item, "text"))
            self._is_new_paragraph = True
        elif kind == "error" and is_done:
            yield from self.report_error(error_message(item))
        elif kind == "mcp_tool_call":
            name = f"mcp__{get_text(item, 'server')}__{get_text(item, 'tool')}"
            yield from self.add_call(call, name, parse_arguments(item.get("arguments")))
            if is_done:
                result, error = get_object(item, "result"), error_message(item.get("error"))
                result_text = error or blocks_text(result.get("content"))
                ok = get_text(item, "status") == "completed" and not error and result.get("is_error") is not True
                yield from self.add_result(call, result_text, ok=ok)
        elif kind in _OWN_TOOLS:
            yield from self.add_call(call, kind, {})
            if is_done:
                yield from self.add_result(
                    call, get_text(item, "aggregated_output"), ok=get_text(item, "status") != "failed"
                )

    def _turn_completed(self, usage: Mapping[str, Any]) -> Iterator[Message]:
        state = self.state
        state.is_over = True
        state.error = ""
        cached = get_count(usage, "cached_input_tokens")
        state.tokens = Tokens(get_count(usage, "input_tokens"), get_count(usage, "output_tokens"), cached)
        yield from self.report_usage()

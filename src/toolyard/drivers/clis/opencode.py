"""Driver for opencode."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from toolyard.drivers.clis.cli import TOOL_SECONDS, BaseOutputReader, Cli, split_words
from toolyard.drivers.clis.json_access import (
    add_tokens,
    error_message,
    get_cost,
    get_count,
    get_object,
    get_text,
    parse_arguments,
)
from toolyard.drivers.clis.workdir import workdir_relative_path
from toolyard.drivers.driver import TOKEN_VARIABLE, LaunchSpec, Login, OutputReader, RunSpec
from toolyard.drivers.messages import Message, Tokens
from toolyard.models.pricing import ModelRef

_CONFIG = "opencode.json"
_INSTRUCTIONS = "instructions.md"
_PROVIDER = "endpoint"
"""Provider name for an OpenAI-compatible endpoint, used if the user has set its address."""
_MODELS = "models.json"
"""Its database of models. A custom endpoint is not in it, and an empty one makes the start faster."""
_LOCK = {"packages": {"": {"dependencies": {"@opencode-ai/plugin": "*"}}}}
_INSTALLED_PLUGIN_FILES = {
    ".config/opencode/package-lock.json": json.dumps(_LOCK),
    ".config/opencode/node_modules/.keep": "",
}
"""Files that make it believe its plugin package is installed; otherwise it fetches the package from npm."""
_PROJECT_ROOT_FILES = {".git/HEAD": "ref: refs/heads/main\n", ".git/objects/.keep": "", ".git/refs/.keep": ""}
"""It loads plugins of every folder up to the project root, regardless of its settings: this is that root."""
_INVALID_TOOL = "invalid"
"""Its own tool that replaces a call of an unknown tool."""
_KEYS = {
    "anthropic": "ANTHROPIC_API_KEY",
    "openai": "OPENAI_API_KEY",
    "google": "GOOGLE_GENERATIVE_AI_API_KEY",
    "openrouter": "OPENROUTER_API_KEY",
    "groq": "GROQ_API_KEY",
    "mistral": "MISTRAL_API_KEY",
    "deepseek": "DEEPSEEK_API_KEY",
    "xai": "XAI_API_KEY",
    "opencode": "OPENCODE_API_KEY",
}

_PRICED_AS = {"xai": "x-ai"}
"""Providers with another name in genai-prices."""


class Opencode(Cli):
    name = "opencode"
    title = "opencode"
    program = "opencode"
    package = "opencode-ai"
    minimum_version = "1.18.3"
    keys = tuple(_KEYS.values())
    works_without_key = True  # it has a provider with free models
    passed_variables = ("OPENAI_BASE_URL", "OPENAI_MODEL", "GEMINI_API_KEY")
    logins = (Login(".local/share", "opencode/auth.json", ".local/share/opencode/auth.json", "XDG_DATA_HOME"),)
    tool_name_template = "{server}_{tool}"
    # The first argument of every tool definition in the program's source, 1.18.33. Ours have a prefix.
    builtins = split_words(
        """bash shell execute read write edit glob grep task todowrite todoread webfetch websearch codesearch skill
        question invalid apply_patch patch lsp plan_exit batch list"""
    )

    def launch_spec(self, run: RunSpec) -> LaunchSpec:
        server = {
            "type": "remote",
            "url": run.url,
            "headers": {"Authorization": f"Bearer {{env:{TOKEN_VARIABLE}}}"},
            "oauth": False,
            "timeout": TOOL_SECONDS * 1000,
        }
        settings: dict[str, object] = {
            "mcp": {self.server: server},
            "permission": {
                "*": "deny",
                self.tool_name_template.format(server=self.server, tool="*"): "allow",
                **dict.fromkeys(map(self.shown_name, run.denied), "deny"),
            },
            "autoupdate": False,
            "share": "disabled",
            "snapshot": False,
        }
        files = _INSTALLED_PLUGIN_FILES | {
            workdir_relative_path(run, name): content for name, content in _PROJECT_ROOT_FILES.items()
        }
        if run.instructions:
            settings["instructions"] = [f"{run.folder}/{_INSTRUCTIONS}"]
            files[_INSTRUCTIONS] = run.instructions
        model = run.model
        if run.variables.get("OPENAI_BASE_URL") and not self._is_of_another_provider(model):
            name = model.removeprefix("openai/") or run.variables.get("OPENAI_MODEL") or "default"
            model = f"{_PROVIDER}/{name}"
            settings["provider"] = {_PROVIDER: _endpoint_provider(name)}
            files[_MODELS] = "{}"
        files[_CONFIG] = json.dumps(settings, indent=1)
        # With a title it does not ask the model for one.
        arguments = ["run", "--format", "json", "--pure", "--title", "run"]
        if model:
            arguments += ["--model", model]
        variables = {
            "OPENCODE_CONFIG": f"{run.folder}/{_CONFIG}",
            "OPENCODE_DISABLE_PROJECT_CONFIG": "1",
            "OPENCODE_DISABLE_CLAUDE_CODE": "1",
            "OPENCODE_DISABLE_EXTERNAL_SKILLS": "1",
            "OPENCODE_DISABLE_AUTOUPDATE": "1",
            "OPENCODE_DISABLE_MODELS_FETCH": "1",
            "OPENCODE_DISABLE_LSP_DOWNLOAD": "1",
            "OPENCODE_DISABLE_SHARE": "1",
        }
        if _MODELS in files:
            variables["OPENCODE_MODELS_PATH"] = f"{run.folder}/{_MODELS}"
        return LaunchSpec(tuple(arguments), variables, files, run.prompt)

    def _is_of_another_provider(self, model: str) -> bool:
        provider, slash, _ = model.partition("/")
        return bool(slash) and provider != "openai" and provider in _KEYS

    def model_ref(self, model: str, variables: Mapping[str, str]) -> ModelRef:
        if variables.get("OPENAI_BASE_URL") and not self._is_of_another_provider(model):
            name = model.removeprefix("openai/") or variables.get("OPENAI_MODEL", "")
            return ModelRef("openai", name, variables["OPENAI_BASE_URL"])
        provider, _, name = model.partition("/")
        return ModelRef(_PRICED_AS.get(provider, provider), name)

    def reader(self, run: str, tools: Iterable[str]) -> OutputReader:
        return OpencodeReader(self, run, tuple(tools))


def _endpoint_provider(model: str) -> dict[str, object]:
    return {
        "npm": "@ai-sdk/openai-compatible",
        "name": _PROVIDER,
        "options": {"baseURL": "{env:OPENAI_BASE_URL}", "apiKey": "{env:OPENAI_API_KEY}"},
        "models": {model: {"name": model}},
    }


class OpencodeReader(BaseOutputReader, OutputReader):
    """Reads the events of `opencode run --format json`."""

    refusal = re.compile(r"^The user (rejected permission|has specified a rule which prevents)")
    unknown = re.compile(r"^Model tried to call unavailable tool")

    def read(self, record: Mapping[str, Any]) -> Iterator[Message]:
        kind, part = get_text(record, "type"), get_object(record, "part")
        if kind == "step_start":
            self.state.is_over = False
            yield from self.begin_session(session=get_text(record, "sessionID"))
        elif kind == "text":
            yield from self.add_text(get_text(part, "text"))
            self._is_new_paragraph = True
        elif kind == "tool_use":
            yield from self._tool_used(part)
        elif kind == "step_finish":
            yield from self._step_finished(part)
        elif kind == "error":
            yield from self.report_final_error(error_message(record.get("error")))

    def _tool_used(self, part: Mapping[str, Any]) -> Iterator[Message]:
        """Reads a tool call, which opencode reports only when it is over."""
        state, call = get_object(part, "state"), get_text(part, "callID")
        call_arguments = parse_arguments(state.get("input"))
        if get_text(part, "tool") == _INVALID_TOOL:
            yield from self.add_call(call, get_text(call_arguments, "tool"), {})
            yield from self.add_result(call, get_text(call_arguments, "error"), ok=False)
            return
        yield from self.add_call(call, get_text(part, "tool"), call_arguments)
        status = get_text(state, "status")
        if status in {"completed", "error"}:
            result_text = get_text(state, "output") or error_message(state.get("error"))
            yield from self.add_result(call, result_text, ok=status == "completed")

    def _step_finished(self, part: Mapping[str, Any]) -> Iterator[Message]:
        state, tokens = self.state, get_object(part, "tokens")
        cached = get_count(get_object(tokens, "cache"), "read")
        state.tokens = add_tokens(
            state.tokens, Tokens(get_count(tokens, "input") + cached, get_count(tokens, "output"), cached)
        )
        state.cost = (state.cost or 0.0) + (get_cost(part, "cost") or 0.0)
        state.is_over = get_text(part, "reason") != "tool-calls"
        yield from self.report_usage()

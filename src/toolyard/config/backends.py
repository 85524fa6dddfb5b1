"""The table of model APIs and agent CLIs that `backend.type` may name.

A kind is either a model API (`api` names its wire format) or an agent CLI (`driver` names it). All differences
between providers of one API are data in this table: base URL, key variables and default model.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, Literal

from toolyard.config.suggestions import did_you_mean

Api = Literal["", "gemini", "openai", "claude"]


@dataclass(frozen=True, slots=True)
class BackendKind:
    """A model API or an agent CLI that can be an agent's backend."""

    name: str
    title: str
    api: Api = ""
    """The wire format; empty for a CLI."""
    driver: str = ""
    """The CLI, by its name in `toolyard drive`; empty for an API."""
    key_variables: tuple[str, ...] = ()
    """Variables for the API key; the first that is set is used."""
    needs_key: bool = False
    """Whether a key is required; self-hosted servers usually need none."""
    base_url_variable: str = ""
    base_url: str = ""
    """The URL if neither the file nor the variable sets one; empty: the SDK's default, or none."""
    needs_base_url: bool = False
    """Whether the file or the variable must set the URL."""
    default_model: str = ""
    """The model if `model` is omitted. Empty: an API needs it to be named, a CLI chooses its own."""


_KINDS: Final = (
    BackendKind(
        "gemini",
        "Gemini API",
        api="gemini",
        key_variables=("GEMINI_API_KEY", "GOOGLE_API_KEY"),
        needs_key=True,
        base_url_variable="GOOGLE_GEMINI_BASE_URL",
        default_model="gemini-2.5-flash",
    ),
    BackendKind(
        "openai",
        "OpenAI API",
        api="openai",
        key_variables=("OPENAI_API_KEY",),
        needs_key=True,
        base_url_variable="OPENAI_BASE_URL",
        default_model="gpt-5",
    ),
    BackendKind(
        "claude",
        "Anthropic API",
        api="claude",
        key_variables=("ANTHROPIC_API_KEY",),
        needs_key=True,
        base_url_variable="ANTHROPIC_BASE_URL",
        default_model="claude-sonnet-5",
    ),
    BackendKind(
        "openrouter",
        "OpenRouter",
        api="openai",
        key_variables=("OPENROUTER_API_KEY",),
        needs_key=True,
        base_url="https://openrouter.ai/api/v1",
        default_model="openrouter/auto",
    ),
    BackendKind(
        "ollama",
        "Ollama",
        api="openai",
        base_url_variable="OLLAMA_BASE_URL",
        base_url="http://localhost:11434/v1",
    ),
    # It serves one model and ignores the name.
    BackendKind("llama.cpp", "llama.cpp", api="openai", base_url="http://localhost:8080/v1", default_model="default"),
    BackendKind("vllm", "vLLM", api="openai", base_url="http://localhost:8000/v1"),
    BackendKind("lmstudio", "LM Studio", api="openai", base_url="http://localhost:1234/v1"),
    BackendKind(
        "openai-compatible",
        "OpenAI-compatible API",
        api="openai",
        key_variables=("OPENAI_API_KEY",),
        base_url_variable="OPENAI_BASE_URL",
        needs_base_url=True,
    ),
    BackendKind("claude_code", "Claude Code", driver="claude"),
    BackendKind("gemini_cli", "Gemini CLI", driver="gemini"),
    BackendKind("codex", "Codex", driver="codex"),
    BackendKind("qwen", "Qwen Code", driver="qwen"),
    BackendKind("opencode", "opencode", driver="opencode"),
)
_ALIASES: Final = {
    "anthropic": "claude",
    "google": "gemini",
    "llamacpp": "llama.cpp",
    "chatcompletion": "openai-compatible",
    "qwen_code": "qwen",
}
BACKENDS: Final[Mapping[str, BackendKind]] = {kind.name: kind for kind in _KINDS} | {
    alias: next(kind for kind in _KINDS if kind.name == name) for alias, name in _ALIASES.items()
}
"""The kinds by every accepted name, aliases included."""
KEY_VARIABLES: Final = tuple(dict.fromkeys(variable for kind in _KINDS for variable in kind.key_variables))
PROVIDER_VARIABLES: Final = tuple(
    dict.fromkeys(
        variable for kind in _KINDS for variable in (*kind.key_variables, kind.base_url_variable) if variable
    )
)
"""Every variable that holds a key or an address of a provider."""

_SEPARATORS: Final = re.compile(r"[\s._-]+")
_MODEL_PREFIXES: Final = {"gemini": "gemini", "gpt": "openai", "o1": "openai", "o3": "openai", "claude": "claude"}
"""Prefixes of model names, to detect a model name given as the type."""


def _normalize_name(name: str) -> str:
    return _SEPARATORS.sub("", name).lower()


_BY_NORMALIZED_NAME: Final = {_normalize_name(name): kind for name, kind in BACKENDS.items()}


def backend_kind(name: str) -> BackendKind | None:
    """Returns the kind of that name, ignoring case and separators (`claude-code`); None if unknown."""
    return _BY_NORMALIZED_NAME.get(_normalize_name(name))


def accepted_spellings() -> tuple[str, ...]:
    """Returns the names of the table, followed by their variants with other separators, in lower case."""
    written = (*BACKENDS, *(kind.title.lower() for kind in _KINDS))
    joined = (_SEPARATORS.sub(joint, name) for name in written for joint in ("-", "_", ""))
    return tuple(dict.fromkeys((*BACKENDS, *(name for name in joined if backend_kind(name) is not None))))


def suggest_backend(name: str) -> str:
    """Returns a hint for an unknown backend name: what was probably meant."""
    begun = (family for prefix, family in _MODEL_PREFIXES.items() if name.strip().lower().startswith(prefix))
    family = next(begun, "")
    if family and any(char.isdigit() for char in name):
        return f'Did you mean "{family}"? The name of a model belongs under `model`.'
    return did_you_mean(name, BACKENDS)

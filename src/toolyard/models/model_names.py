"""Resolves the name of a model to the backend that serves it: `google:gemini-2.5-pro`, `gpt-5`, an alias.

A name is looked up as an alias first, the user's before ours. The result is `provider:name`, a provider alone (its
default model), or a name with a known prefix. `openai:` and `openai-chat:` mean the server at OPENAI_BASE_URL if that
is set, and any other name is then taken as one of its models.

If no model is named anywhere, the default model of the first provider with a key is used: Gemini, OpenAI, Anthropic,
OpenRouter, as far as their models are allowed. Without any key it is Gemini's, and opening it reports what to set.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Final
from urllib.parse import urlsplit

from toolyard.config.assistant import DEFAULT_MODEL, Assistant, ToolName
from toolyard.config.backends import BACKENDS
from toolyard.config.models import Backend
from toolyard.config.settings import Settings
from toolyard.config.suggestions import closest_match
from toolyard.core.errors import ConfigError
from toolyard.models.endpoint import is_loopback

_OPENAI, _OPENAI_COMPATIBLE = "openai", "openai-chat"
_PROVIDERS: Final[Mapping[str, str]] = {
    "google": "gemini",
    _OPENAI: "openai",
    _OPENAI_COMPATIBLE: "openai-compatible",
    "anthropic": "claude",
    "openrouter": "openrouter",
    "ollama": "ollama",
    "llama.cpp": "llama.cpp",
    "vllm": "vllm",
    "lmstudio": "lmstudio",
}
"""The `backend.type` of each provider, by the name that users see."""
_PROVIDER_ALIASES: Final[Mapping[str, str]] = {
    **{name: name for name in _PROVIDERS},
    "google-gla": "google",
    "gemini": "google",
    "claude": "anthropic",
    "openai-compatible": _OPENAI_COMPATIBLE,
    "llamacpp": "llama.cpp",
}
_NAME_PREFIXES: Final = (
    (re.compile(r"gemini-|gemma-"), "google"),
    (re.compile(r"gpt-(?!oss)|chatgpt-|codex-|o\d+($|-)"), _OPENAI),
    (re.compile(r"claude-"), "anthropic"),
)
_MODEL_ALIASES: Final[Mapping[str, str]] = {
    "pro": DEFAULT_MODEL,
    "flash": "google:gemini-2.5-flash",
    "gpt": "openai:gpt-5",
    "opus": "anthropic:claude-opus-5",
    "sonnet": "anthropic:claude-sonnet-5",
    "haiku": "anthropic:claude-haiku-4-5",
}
_DEFAULT_MODELS: Final[Mapping[str, str]] = {"google": DEFAULT_MODEL.partition(":")[2]}
"""Models for a provider that is named alone, where the assistant differs from the backend's default."""
_DEFAULT_PROVIDERS: Final = ("google", _OPENAI, "anthropic", "openrouter")
"""Tried in this order if no model is named."""
_OPENAI_HOST: Final = "api.openai.com"


@dataclass(frozen=True, slots=True)
class ModelChoice:
    """A model and the backend that serves it."""

    name: str
    """`provider:model`, as shown to users."""
    backend: Backend


def choose_model(assistant: Assistant, settings: Settings, tool: ToolName) -> ModelChoice:
    """Returns the model for a tool: from the environment, from the file for this tool or for all.

    Raises ConfigError if the name is unknown or the model is not allowed.
    """
    access = settings.model_access
    named = settings.model or assistant.models.get(tool) or assistant.model
    if named:
        return _require_allowed(resolve_model_name(named, assistant.aliases, access), assistant)
    is_elsewhere = _has_custom_openai_url(access)
    usual = [
        resolve_model_name(name, {}, access) for name in _DEFAULT_PROVIDERS if not (name == _OPENAI and is_elsewhere)
    ]
    permitted = [each for each in usual if _is_allowed(each, assistant)]
    for each in permitted:
        if _has_access(each, access):
            return each
    if is_elsewhere:
        raise ConfigError(
            "OPENAI_BASE_URL is set, but no model of that server is named.",
            hint="Set TOOLYARD_MODEL, or `assistant.model`, to `openai-chat:` and the model's name.",
        )
    return _require_allowed((permitted or usual)[0], assistant)


def resolve_model_name(name: str, aliases: Mapping[str, str], access: Mapping[str, str]) -> ModelChoice:
    """Resolves a name or an alias. Raises ConfigError."""
    resolved = _resolve_alias(name.strip(), aliases)
    before, colon, after = resolved.partition(":")
    is_elsewhere, family = _has_custom_openai_url(access), _provider_by_prefix(resolved)
    provider, model = _PROVIDER_ALIASES.get(before.strip().lower(), ""), after.strip()
    if not provider:
        provider, model = family or (_OPENAI_COMPATIBLE if is_elsewhere else ""), resolved
    if not provider:
        raise _unknown_provider_error(resolved, before) if colon else _unknown_model_error(resolved, aliases)
    if provider == _OPENAI and is_elsewhere:
        provider = _OPENAI_COMPATIBLE
    elif provider == _OPENAI_COMPATIBLE and not is_elsewhere and _provider_by_prefix(model) == _OPENAI:
        provider = _OPENAI
    model = model or _DEFAULT_MODELS.get(provider) or BACKENDS[_PROVIDERS[provider]].default_model
    if not model:
        raise ConfigError(
            f'"{name}" names no model, and {provider} has no default model.',
            hint=f"Write it after the colon: `{provider}:NAME`.",
        )
    return ModelChoice(f"{provider}:{model}", Backend(type=_PROVIDERS[provider], model=model))


def _resolve_alias(name: str, aliases: Mapping[str, str]) -> str:
    met = [name]
    while (following := aliases.get(met[-1])) is not None:
        if (following := following.strip()) in met:
            chain = " → ".join((*met, following))
            raise ConfigError(f"The model aliases form a cycle: {chain}.", hint="Fix `assistant.aliases`.")
        met.append(following)
    return _MODEL_ALIASES.get(met[-1], met[-1])


def _provider_by_prefix(name: str) -> str:
    return next((provider for begin, provider in _NAME_PREFIXES if begin.match(name.lower())), "")


def _has_custom_openai_url(access: Mapping[str, str]) -> bool:
    """Whether OPENAI_BASE_URL points to a server other than OpenAI's.

    An invalid URL is reported when the model is opened.
    """
    url = access.get("OPENAI_BASE_URL", "").strip()
    try:
        return bool(url) and urlsplit(url).hostname != _OPENAI_HOST
    except ValueError:
        return True


def _has_access(chosen: ModelChoice, access: Mapping[str, str]) -> bool:
    kind = chosen.backend.kind
    if kind is None:
        return False
    address = access.get(kind.base_url_variable, "")
    return any(access.get(name, "").strip() for name in kind.key_variables) or bool(address and is_loopback(address))


def _require_allowed(chosen: ModelChoice, assistant: Assistant) -> ModelChoice:
    if _is_allowed(chosen, assistant):
        return chosen
    listed = ", ".join(assistant.allowed_models)
    raise ConfigError(
        f"{chosen.name} is not one of the allowed models: {listed}.",
        hint="Name one of those in TOOLYARD_MODEL or `assistant.model`, or add it to `assistant.allowed_models`.",
    )


def _is_allowed(chosen: ModelChoice, assistant: Assistant) -> bool:
    globs = [spelled for glob in assistant.allowed_models for spelled in _normalized_globs(glob.strip())]
    return not assistant.allowed_models or any(fnmatchcase(chosen.name, glob) for glob in globs)


def _normalized_globs(glob: str) -> Iterator[str]:
    """Yields the glob with the provider's canonical name; without a provider, for every provider."""
    before, colon, after = glob.partition(":")
    provider = _PROVIDER_ALIASES.get(before.lower())
    if not colon:
        yield f"*:{glob}"
    elif provider in (_OPENAI, _OPENAI_COMPATIBLE):  # the same API, whatever its address
        yield from (f"{_OPENAI}:{after}", f"{_OPENAI_COMPATIBLE}:{after}")
    else:
        yield f"{provider}:{after}" if provider else glob


def _unknown_provider_error(meant: str, before: str) -> ConfigError:
    near = closest_match(before, _PROVIDER_ALIASES)
    suggestion = f'Did you mean "{near}:"? ' if near else ""
    return ConfigError(
        f'"{meant}" names an unknown provider. Known ones: {", ".join(_PROVIDERS)}.',
        hint=f"{suggestion}Any OpenAI-compatible server works: set OPENAI_BASE_URL, and write "
        "`openai-chat:` before the model's name.",
    )


def _unknown_model_error(meant: str, aliases: Mapping[str, str]) -> ConfigError:
    near = closest_match(meant, (*aliases, *_MODEL_ALIASES, *_PROVIDER_ALIASES))
    suggestion = f'Did you mean "{near}"? ' if near else ""
    return ConfigError(
        f'The provider of the model "{meant}" is unknown.',
        hint=f"{suggestion}Write its provider before it, as in {DEFAULT_MODEL}; for a server of your own, set "
        "OPENAI_BASE_URL.",
    )

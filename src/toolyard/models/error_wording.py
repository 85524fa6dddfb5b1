"""Wording of provider errors for the two callers of models: agents of a run, and the assistant.

An agent of a run is configured by a `backend` in a file. The assistant is configured by variables and a section of
its own, and there every provider failure is a failure of the tool that asked.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from toolyard.config.backends import BackendKind
from toolyard.core.errors import ConfigError, ProviderError, SystemFault, ToolyardError

_OTHER_SERVERS: Final = "with OPENAI_BASE_URL, and `openai-chat:` before the model's name"
"""How to point the assistant at a server whose kind has no variable of its own."""


@dataclass(frozen=True, slots=True)
class ErrorWording:
    """The setting names, hints and error types that a caller's messages use."""

    model: str
    """The setting that names the model."""
    address: str
    """The setting of the base URL; empty if only the provider's variable sets it."""
    key: str
    """The setting that holds a key beside the provider's variables; empty if there is none."""
    key_alternative: str
    """What else can be set if there is no key."""
    timeout: str
    truncated_hint: str
    """The next step if the answer's limit was too small."""
    overflow_hint: str
    """The next step if the conversation is too long."""
    settings: str
    """Where to look for a setting that the model does not accept."""
    extra: str
    """The extra of this package that installs pydantic-ai."""
    failure_type: type[ToolyardError]
    """Raised if the provider does not answer."""
    misconfiguration_type: type[ToolyardError]
    """Raised if the provider reports a wrong setting: the key, the model."""

    def address_setting(self, kind: BackendKind) -> str:
        """Returns the name of the setting for this backend's address."""
        return self.address or kind.base_url_variable or f"the address (set another {_OTHER_SERVERS})"

    def key_settings(self, kind: BackendKind) -> str:
        """Returns the names of the settings for this backend's key."""
        named = (*kind.key_variables, self.key) if self.key else kind.key_variables
        return " or ".join(named) or f"OPENAI_API_KEY {_OTHER_SERVERS}"


BACKEND_WORDING: Final = ErrorWording(
    model="`backend.model`",
    address="`backend.base_url`",
    key="`backend.api_key`",
    key_alternative="`backend.api_key`",
    timeout="`backend.timeout`",
    truncated_hint="Raise `backend.max_tokens`, or lower `backend.thinking`.",
    overflow_hint="Use a model with a larger context, or offer it fewer tools.",
    settings="the keys under `backend`",
    extra="agents",
    failure_type=SystemFault,
    misconfiguration_type=ConfigError,
)
ASSISTANT_WORDING: Final = ErrorWording(
    model="TOOLYARD_MODEL or `assistant.model`",
    address="",
    key="",
    key_alternative="TOOLYARD_MODEL to a model of another provider (`openai:gpt-5`, `anthropic:claude-sonnet-5`, or "
    "`openai-chat:NAME` at OPENAI_BASE_URL)",
    timeout="`assistant.limits.seconds`",
    truncated_hint="Ask with a lower `thinking_mode`, or for a shorter answer.",
    overflow_hint="Send fewer files, or use a model with a larger context.",
    settings="the model's name, and the `temperature` and `thinking_mode` of the call",
    extra="assistant",
    failure_type=ProviderError,
    misconfiguration_type=ProviderError,
)

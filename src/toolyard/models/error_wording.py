"""Who asked for a model: what they can set, by the names that they know it by, and which error of ours they get.

An agent of a run has a `backend` in a file. Who uses the assistant has variables, and a section of its own; and there
a provider that fails is a failure of the tool that asked it, whatever the reason.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from toolyard.config.backends import BackendKind
from toolyard.core.errors import ConfigError, ProviderError, SystemFault, ToolyardError

_OTHER_SERVERS: Final = "with OPENAI_BASE_URL, and `openai-chat:` before the model's name"
"""How the assistant is led to a server whose kind has no variable of its own."""


@dataclass(frozen=True, slots=True)
class ErrorWording:
    model: str
    """What names the model."""
    address: str
    """What says where it listens; empty: the provider's variable."""
    key: str
    """What holds a key beside the provider's variables; empty: nothing does."""
    key_alternative: str
    """What else may be set by who has no key."""
    timeout: str
    truncated_hint: str
    """The next step where the room for an answer was too small."""
    overflow_hint: str
    """The next step where the conversation is too long."""
    settings: str
    """Where to look for a setting that a model does not take."""
    extra: str
    """The extra of this package that brings what asks models."""
    failure_type: type[ToolyardError]
    """The provider did not answer."""
    misconfiguration_type: type[ToolyardError]
    """The provider says that something is set wrongly: the key, the model."""

    def address_setting(self, kind: BackendKind) -> str:
        return self.address or kind.base_url_variable or f"the address (set another {_OTHER_SERVERS})"

    def key_settings(self, kind: BackendKind) -> str:
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

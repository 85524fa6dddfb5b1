"""The interface of a chat model: turns in a conversation, independent of the API behind it.

A `ChatModel` takes one turn at a time: it sends the conversation, reports the pieces of the answer as they arrive,
appends the answer to the conversation and returns it. The model itself retries, waits and compacts the conversation;
it raises a ToolyardError for what it cannot recover from. It never runs the tool calls that a model asks for.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Protocol

from toolyard.models.messages import (
    DEFAULT_TURN_SETTINGS,
    OfferedTool,
    StreamEventHandler,
    TurnResult,
    TurnSettings,
    ignore_stream_event,
)

if TYPE_CHECKING:
    from toolyard.models.conversation import Conversation


class ChatModel(Protocol):
    """A model that answers one turn of a conversation at a time."""

    @property
    def title(self) -> str:
        """The model's name at its provider."""
        ...

    @property
    def window(self) -> int:
        """Size of its context, in tokens."""
        ...

    async def turn(
        self,
        conversation: Conversation,
        *,
        instructions: str = "",
        tools: Sequence[OfferedTool] = (),
        settings: TurnSettings = DEFAULT_TURN_SETTINGS,
        on_event: StreamEventHandler = ignore_stream_event,
    ) -> TurnResult:
        """Sends the conversation and returns the answer.

        Raises ToolyardError; the conversation is then unchanged or shorter.
        """
        ...

    async def close(self) -> None: ...

"""What a model is to those who work with it: turns in a conversation, whichever API they go through.

A `ChatModel` takes one turn at a time: it sends the conversation, tells what comes in as it comes, appends the answer
to the conversation and returns it. Trying again, waiting and making room in the context are its affair; what it
cannot mend it raises as an error of ours. The calls that a model asks for are never made here.
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
    @property
    def title(self) -> str:
        """The model as its provider names it."""
        ...

    @property
    def window(self) -> int:
        """Tokens that its context holds."""
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
        """One answer. Raises ToolyardError; the conversation is then as it was, or shorter."""
        ...

    async def close(self) -> None: ...

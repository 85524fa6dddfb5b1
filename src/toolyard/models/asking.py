"""One turn of a model behind an API: asked until it answered, in the room that its context has."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

from toolyard.core.errors import SystemFault, ToolyardError
from toolyard.models.chat import Hear, OfferedTool, Said, Shortened, Spent, Thought, Turn, hear_nothing
from toolyard.models.cleaning import cleaned, whole_characters
from toolyard.models.compacting import compacted, without_pictures
from toolyard.models.failures import Failure, cut_short, failure_of, misunderstood, too_long
from toolyard.models.measuring import tokens_of, tokens_of_text, tokens_of_tools
from toolyard.models.pricing import price_of
from toolyard.models.trying import Trying

if TYPE_CHECKING:
    from pydantic_ai.messages import ModelResponse
    from pydantic_ai.models import ModelRequestParameters, StreamedResponse
    from pydantic_ai.settings import ModelSettings

    from toolyard.models.conversation import Conversation
    from toolyard.models.places import Place
    from toolyard.models.providers import Spoken

_FULL = 0.85
"""Of the context: what is more is made shorter before it is sent."""
_ROOMY = 0.6
"""What a conversation is made to fit then, so that it is not the same again in the next turn."""
_MOST_SHORTENINGS = 5
"""In one turn, on the word of the provider."""
_MOST_TOKENS = 10**12
"""That a provider is believed to have counted."""
_MISUNDERSTOOD = (AttributeError, LookupError, TypeError, ValueError, ArithmeticError, RecursionError)
"""What the SDKs raise for JSON of another shape than theirs: they check none of it."""


@dataclass(frozen=True, slots=True)
class _Offer:
    """What goes with every turn, made once for as long as it stays the same."""

    instructions: str
    tools: tuple[OfferedTool, ...]
    parameters: ModelRequestParameters
    tokens: int

    def is_of(self, instructions: str, tools: Sequence[OfferedTool]) -> bool:
        return (
            self.instructions == instructions
            and len(self.tools) == len(tools)
            and all(one is other for one, other in zip(self.tools, tools, strict=True))
        )


class ApiModel:
    """A `ChatModel` behind an API."""

    def __init__(
        self,
        place: Place,
        spoken: Spoken,
        settings: ModelSettings,
        *,
        window: int,
        patience: float,
        first_pause: float,
    ) -> None:
        self._place = place
        self._spoken = spoken
        self._settings = settings
        self._window = window
        self._patience = patience
        self._first_pause = first_pause
        self._offer: _Offer | None = None
        self._is_blind = False
        self._has_answered = False

    def __repr__(self) -> str:
        return f"ApiModel({self._place!r})"

    @property
    def title(self) -> str:
        return self._place.model

    @property
    def window(self) -> int:
        return self._window

    async def turn(
        self,
        conversation: Conversation,
        *,
        instructions: str = "",
        tools: Sequence[OfferedTool] = (),
        hear: Hear = hear_nothing,
    ) -> Turn:
        if not len(conversation) or conversation.messages[-1].kind != "request":
            raise ValueError("nothing was said to the model since its last answer")
        if conversation.unanswered:
            raise ValueError("calls of the model are not answered yet")
        offer = self._offered(instructions, tools)
        if self._is_blind:
            conversation.replace_messages(without_pictures(conversation.messages))
        if conversation.tokens + offer.tokens > self._window * _FULL:
            self._make_room(conversation, int(self._window * _ROOMY) - offer.tokens, hear)
        trying = Trying(hear, self._patience, self._first_pause, is_known=self._has_answered)
        wasted, shortenings = Spent(), 0
        while True:
            outcome, spent = await self._ask(conversation, offer, trying)
            if not isinstance(outcome, Failure):
                self._has_answered = True
                wanted = conversation.add_response(outcome)
                is_cut = outcome.finish_reason == "length"
                return Turn(outcome.text or "", wanted, outcome.thinking or "", wasted + spent, is_cut)
            wasted = wasted + spent if spent.total else wasted
            if outcome.is_too_long:
                trying.take_back()
                shortenings += 1
                room = int((conversation.tokens + offer.tokens) * _ROOMY) - offer.tokens
                if shortenings > _MOST_SHORTENINGS or not self._make_room(conversation, room, hear):
                    raise outcome.error
            elif outcome.is_about_pictures and not self._is_blind and self._blind(conversation):
                trying.take_back()
            else:
                await trying.again(outcome, is_costly=spent.output > 0)

    async def close(self) -> None:
        await self._spoken.close()

    def _offered(self, instructions: str, tools: Sequence[OfferedTool]) -> _Offer:
        if self._offer is None or not self._offer.is_of(instructions, tools):
            from pydantic_ai.messages import InstructionPart
            from pydantic_ai.models import ModelRequestParameters
            from pydantic_ai.tools import ToolDefinition

            parameters = ModelRequestParameters(
                function_tools=[
                    ToolDefinition(
                        name=tool.name,
                        description=tool.description,
                        parameters_json_schema=dict(tool.schema),
                        strict=False,
                    )
                    for tool in tools
                ],
                instruction_parts=[InstructionPart(content=instructions)] if instructions else [],
            )
            tokens = tokens_of_text(instructions) + tokens_of_tools(tools)
            self._offer = _Offer(instructions, tuple(tools), parameters, tokens)
        return self._offer

    def _make_room(self, conversation: Conversation, target: int, hear: Hear) -> bool:
        """Whether the conversation got shorter."""
        before = conversation.tokens
        messages = compacted(conversation.messages, conversation.sizes, max(target, 0))
        conversation.replace_messages(messages)
        if conversation.tokens >= before:
            return False
        hear(Shortened(before, conversation.tokens))
        return True

    def _blind(self, conversation: Conversation) -> bool:
        """Whether there were pictures, which are not shown from now on."""
        messages = without_pictures(conversation.messages)
        if all(new is old for new, old in zip(messages, conversation.messages, strict=True)):
            return False
        conversation.replace_messages(messages)
        self._is_blind = True
        return True

    async def _ask(
        self, conversation: Conversation, offer: _Offer, trying: Trying
    ) -> tuple[ModelResponse | Failure, Spent]:
        """One try: the answer, or why there is none; and what it took."""
        import httpx2
        from pydantic_ai.exceptions import AgentRunError, UserError

        stream: StreamedResponse | None = None
        try:
            opened = self._spoken.model.request_stream(conversation.messages, self._settings, offer.parameters)
            async with opened as stream:
                async for event in stream:
                    _tell(event, trying)
            response = cleaned(stream.get())
        except (AgentRunError, UserError, httpx2.HTTPError, httpx2.StreamError) as error:
            return failure_of(error, self._place), self._spent(_so_far(stream))
        except _MISUNDERSTOOD:
            return misunderstood(self._place), self._spent(_so_far(stream))
        counted = self._spent(response)
        return self._checked(response), counted if counted.total else _estimated(response, conversation, offer)

    def _checked(self, response: ModelResponse) -> ModelResponse | Failure:
        """The answer, where it is one."""
        details = response.provider_details or {}
        is_filtered = response.finish_reason == "content_filter"
        if details.get("finish_reason") == "model_context_window_exceeded" and not response.tool_calls:
            return too_long(self._place)
        if not is_filtered and (response.state == "incomplete" or not details.get("finish_reason")):
            return cut_short(self._place)
        if (response.text or "").strip() or response.tool_calls:
            return response
        if is_filtered:
            return Failure(_filtered(self._place), "the answer was withheld")
        return Failure(
            _empty(self._place, response.finish_reason), f"{self._place.model} gave an empty answer", passes=True
        )

    def _spent(self, response: ModelResponse | None) -> Spent:
        if response is None:
            return Spent()
        usage = response.usage
        cost = None if self._place.is_free else price_of(response)
        return Spent(
            _believed(usage.input_tokens), _believed(usage.output_tokens), _believed(usage.cache_read_tokens), cost
        )


def _believed(tokens: int) -> int:
    return min(max(tokens, 0), _MOST_TOKENS)


def _so_far(stream: StreamedResponse | None) -> ModelResponse | None:
    """What had come when it failed."""
    try:
        return stream.get() if stream is not None else None
    except _MISUNDERSTOOD:
        return None


def _estimated(response: ModelResponse, conversation: Conversation, offer: _Offer) -> Spent:
    """For servers that count nothing in a stream: llama-cpp-python's is one. A limit of tokens holds there too."""
    return Spent(conversation.tokens + offer.tokens, tokens_of(response))


def _tell(event: Any, trying: Trying) -> None:
    if event.event_kind == "part_start":
        kind, text = event.part.part_kind, cast("str | None", getattr(event.part, "content", None))
    elif event.event_kind == "part_delta":
        kind, text = event.delta.part_delta_kind, cast("str | None", getattr(event.delta, "content_delta", None))
    else:
        return
    if not isinstance(text, str) or not text:
        return
    if kind == "text":
        trying.tell(Said(whole_characters(text)))
    elif kind == "thinking":
        trying.tell(Thought(whole_characters(text)))


def _filtered(place: Place) -> ToolyardError:
    return SystemFault(
        f"{place.kind.title} withheld the answer of {place.model}: its content filter stepped in.",
        hint="Say the task in other words, or use another model.",
    )


def _empty(place: Place, finish_reason: str | None) -> ToolyardError:
    if finish_reason == "length":
        return SystemFault(
            f"{place.model} reached the limit of its answer before it said anything.",
            hint="Raise `backend.max_tokens`, or lower `backend.thinking`.",
        )
    return SystemFault(
        f"{place.model} gave empty answers only.",
        hint="Check that the model can use tools, and that `backend.base_url` is where its API listens.",
        retryable=True,
    )

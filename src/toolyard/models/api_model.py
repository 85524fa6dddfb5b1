"""One turn of a model behind an API: asked until it answered, in the room that its context has."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from typing import TYPE_CHECKING

from toolyard.models.compaction import compacted, without_pictures
from toolyard.models.errors import Failure, cut_short, empty, failure_of, misunderstood, too_long, withheld
from toolyard.models.messages import NO_WISH, Hear, OfferedTool, Shortened, Spent, Turn, Wish, hear_nothing
from toolyard.models.pricing import price_of
from toolyard.models.retry import Trying
from toolyard.models.sanitize import cleaned
from toolyard.models.settings import wished
from toolyard.models.token_estimate import tokens_of, tokens_of_text, tokens_of_tools

if TYPE_CHECKING:
    from pydantic_ai.messages import ModelResponse
    from pydantic_ai.models import ModelRequestParameters, StreamedResponse
    from pydantic_ai.settings import ModelSettings
    from pydantic_ai.usage import RequestUsage

    from toolyard.models.conversation import Conversation
    from toolyard.models.endpoint import Place
    from toolyard.models.providers import Spoken

_FULL = 0.85
"""Of the context: what is more is made shorter before it is sent."""
_ROOMY = 0.6
"""What a conversation is made to fit then, so that it is not the same again in the next turn."""
_MOST_SHORTENINGS = 5
"""In one turn, on the word of the provider."""
_MOST_TOKENS = 10**9
"""That a provider is believed to have counted."""
_COUNTED_THINKING = ("thoughts_tokens", "reasoning_tokens", "thinking_tokens")
"""What Google, OpenAI and Anthropic call it."""
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
        most_tries: int | None = None,
    ) -> None:
        self._place = place
        self._spoken = spoken
        self._settings = settings
        self._window = window
        self._patience = patience
        self._first_pause = first_pause
        self._most_tries = most_tries
        self._offer: _Offer | None = None
        self._is_blind = False
        self._streams = True
        """Until a whole answer was understood that it did not give in pieces."""
        self._takes_thinking = self._takes_temperature = True
        """Until it answers only when it is not told so."""
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
        wish: Wish = NO_WISH,
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
        trying, told, streams = self._trying(hear, wish), self._granted(wish), self._streams
        wasted, shortenings = Spent(), 0
        while True:
            outcome, spent = await self._ask(conversation, offer, told, trying, streams=streams)
            if not isinstance(outcome, Failure):
                self._has_answered = True
                self._streams = streams
                self._takes_thinking &= told.thinking == wish.thinking
                self._takes_temperature &= told.temperature == wish.temperature
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
            elif outcome.comes_whole and streams:
                trying.count(outcome)
                streams = False
            elif (less := _without_refused(told, outcome)) is not None:
                told = less
            else:
                await trying.again(outcome, is_costly=spent.output > 0)

    async def close(self) -> None:
        await self._spoken.close()

    def _trying(self, hear: Hear, wish: Wish) -> Trying:
        return Trying(
            hear,
            self._patience,
            self._first_pause,
            is_known=self._has_answered,
            most_tries=self._most_tries,
            within=wish.seconds,
        )

    def _granted(self, wish: Wish) -> Wish:
        """What of a wish the model has not refused before."""
        return replace(
            wish,
            thinking=wish.thinking if self._takes_thinking else None,
            temperature=wish.temperature if self._takes_temperature else None,
        )

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
        self, conversation: Conversation, offer: _Offer, wish: Wish, trying: Trying, *, streams: bool
    ) -> tuple[ModelResponse | Failure, Spent]:
        """One try: the answer, or why there is none; and what it took."""
        import httpx2
        from pydantic_ai.exceptions import AgentRunError, UserError

        from toolyard.models.close_streams import hanging_up
        from toolyard.models.stream_events import hear_all, hear_whole

        stream: StreamedResponse | None = None
        try:
            settings = wished(self._settings, wish, self._place.kind, self._spoken.model)
            asked = (conversation.messages, settings, offer.parameters)
            if streams:
                async with hanging_up(), self._spoken.model.request_stream(*asked) as stream:
                    await hear_all(stream, trying)
                response = cleaned(stream.get())
            else:
                async with hanging_up():
                    response = cleaned(await self._spoken.model.request(*asked))
                hear_whole(response, trying)
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
            return withheld(self._place)
        return empty(self._place, response.finish_reason)

    def _spent(self, response: ModelResponse | None) -> Spent:
        if response is None:
            return Spent()
        usage = _credible(response.usage)
        cost = None if self._place.is_free else price_of(replace(response, usage=usage))
        thinking = max(_believed(usage.details.get(name, 0)) for name in _COUNTED_THINKING)
        output = usage.output_tokens
        return Spent(usage.input_tokens, output, usage.cache_read_tokens, cost, min(thinking, output))


def _without_refused(wish: Wish, failure: Failure) -> Wish | None:
    """The wish without the part that seems to be what was refused; None where it is none of it."""
    if wish.thinking is not None and failure.is_about_thinking:
        return replace(wish, thinking=None)
    if wish.temperature is not None and failure.is_about_temperature:
        return replace(wish, temperature=None)
    return None


def _credible(usage: RequestUsage) -> RequestUsage:
    names = [field.name for field in fields(usage) if field.name.endswith("_tokens")]
    return replace(usage, **{name: _believed(getattr(usage, name)) for name in names})


def _believed(tokens: object) -> int:
    if not isinstance(tokens, int | float) or math.isnan(min(tokens, _MOST_TOKENS)):
        return 0
    return int(min(max(tokens, 0), _MOST_TOKENS))


def _so_far(stream: StreamedResponse | None) -> ModelResponse | None:
    """What had come when it failed."""
    try:
        return stream.get() if stream is not None else None
    except _MISUNDERSTOOD:
        return None


def _estimated(response: ModelResponse, conversation: Conversation, offer: _Offer) -> Spent:
    """For servers that count nothing in a stream: llama-cpp-python's is one. A limit of tokens holds there too."""
    return Spent(conversation.tokens + offer.tokens, tokens_of(response))

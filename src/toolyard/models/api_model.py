"""One turn of a model behind an API: sends the conversation, retries failures, and compacts it to fit the context."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from typing import TYPE_CHECKING

from toolyard.models.compaction import compact_messages, without_pictures
from toolyard.models.errors import (
    ProviderFailure,
    classify_error,
    content_filter_failure,
    context_overflow_failure,
    empty_answer_failure,
    truncated_answer_failure,
    unreadable_answer_failure,
)
from toolyard.models.messages import (
    DEFAULT_TURN_SETTINGS,
    ConversationCompacted,
    ModelUsage,
    OfferedTool,
    StreamEventHandler,
    TurnResult,
    TurnSettings,
    ignore_stream_event,
)
from toolyard.models.pricing import response_cost
from toolyard.models.retry import TurnRetries
from toolyard.models.sanitize import sanitize_response
from toolyard.models.settings import model_settings
from toolyard.models.token_estimate import message_tokens, text_tokens, tool_tokens

if TYPE_CHECKING:
    from pydantic_ai.messages import ModelResponse
    from pydantic_ai.models import ModelRequestParameters, StreamedResponse
    from pydantic_ai.settings import ModelSettings
    from pydantic_ai.usage import RequestUsage

    from toolyard.models.conversation import Conversation
    from toolyard.models.endpoint import ModelEndpoint
    from toolyard.models.providers import ProviderClient

_COMPACT_ABOVE = 0.85
"""Share of the context window above which a conversation is compacted before it is sent."""
_COMPACT_TO = 0.6
"""Share of the context window that compaction aims for, so that the next turn does not compact again."""
_MOST_COMPACTIONS = 5
"""How often one turn compacts because the provider reports that the context is full."""
_MOST_TOKENS = 10**9
"""Largest token count that is accepted from a provider; larger numbers are clamped."""
_THINKING_COUNTERS = ("thoughts_tokens", "reasoning_tokens", "thinking_tokens")
"""The names that Google, OpenAI and Anthropic use for the number of thinking tokens."""
_PARSE_ERRORS = (AttributeError, LookupError, TypeError, ValueError, ArithmeticError, RecursionError)
"""What the SDKs raise for JSON of an unexpected shape: they do not validate it."""


@dataclass(frozen=True, slots=True)
class _PromptPrefix:
    """Instructions and tools as they are sent with every turn, built once and reused while they stay the same."""

    instructions: str
    tools: tuple[OfferedTool, ...]
    parameters: ModelRequestParameters
    tokens: int

    def matches(self, instructions: str, tools: Sequence[OfferedTool]) -> bool:
        """Whether the prefix was built from these instructions and these tool objects."""
        return (
            self.instructions == instructions
            and len(self.tools) == len(tools)
            and all(one is other for one, other in zip(self.tools, tools, strict=True))
        )


class ApiModel:
    """A `ChatModel` behind an API."""

    def __init__(
        self,
        endpoint: ModelEndpoint,
        client: ProviderClient,
        settings: ModelSettings,
        *,
        window: int,
        patience: float,
        first_pause: float,
        most_tries: int | None = None,
    ) -> None:
        self._endpoint = endpoint
        self._client = client
        self._settings = settings
        self._window = window
        self._patience = patience
        self._first_pause = first_pause
        self._most_tries = most_tries
        self._prefix: _PromptPrefix | None = None
        self._hides_pictures = False
        self._streams = True
        """False once the server has answered only a request that did not ask for a stream."""
        self._takes_thinking = self._takes_temperature = True
        """Each becomes False once the model has answered only a request without that setting."""
        self._has_answered = False

    def __repr__(self) -> str:
        return f"ApiModel({self._endpoint!r})"

    @property
    def title(self) -> str:
        return self._endpoint.model

    @property
    def window(self) -> int:
        return self._window

    async def turn(
        self,
        conversation: Conversation,
        *,
        instructions: str = "",
        tools: Sequence[OfferedTool] = (),
        settings: TurnSettings = DEFAULT_TURN_SETTINGS,
        on_event: StreamEventHandler = ignore_stream_event,
    ) -> TurnResult:
        if not len(conversation) or conversation.messages[-1].kind != "request":
            raise ValueError("no question was added since the model's last answer")
        if conversation.pending_calls:
            raise ValueError("calls of the model have no results yet")
        prefix = self._prompt_prefix(instructions, tools)
        if self._hides_pictures:
            conversation.replace_messages(without_pictures(conversation.messages))
        if conversation.tokens + prefix.tokens > self._window * _COMPACT_ABOVE:
            self._compact(conversation, int(self._window * _COMPACT_TO) - prefix.tokens, on_event)
        retries, accepted, streams = (
            self._new_retries(on_event, settings),
            self._accepted_settings(settings),
            self._streams,
        )
        wasted, shortenings = ModelUsage(), 0
        while True:
            outcome, usage = await self._attempt(conversation, prefix, accepted, retries, streams=streams)
            if not isinstance(outcome, ProviderFailure):
                self._has_answered = True
                self._streams = streams
                self._takes_thinking &= accepted.thinking == settings.thinking
                self._takes_temperature &= accepted.temperature == settings.temperature
                calls = conversation.add_response(outcome)
                is_cut = outcome.finish_reason == "length"
                return TurnResult(outcome.text or "", calls, outcome.thinking or "", wasted + usage, is_cut)
            wasted = wasted + usage if usage.total else wasted
            if outcome.is_too_long:
                retries.discard_deltas()
                shortenings += 1
                room = int((conversation.tokens + prefix.tokens) * _COMPACT_TO) - prefix.tokens
                if shortenings > _MOST_COMPACTIONS or not self._compact(conversation, room, on_event):
                    raise outcome.error
            elif outcome.is_about_pictures and not self._hides_pictures and self._hide_pictures(conversation):
                retries.discard_deltas()
            elif outcome.cannot_stream and streams:
                retries.count_attempt(outcome)
                streams = False
            elif (less := _drop_refused_setting(accepted, outcome)) is not None:
                accepted = less
            else:
                await retries.wait_to_retry(outcome, is_costly=usage.output > 0)

    async def close(self) -> None:
        await self._client.close()

    def _new_retries(self, on_event: StreamEventHandler, settings: TurnSettings) -> TurnRetries:
        return TurnRetries(
            on_event,
            self._patience,
            self._first_pause,
            is_known=self._has_answered,
            most_tries=self._most_tries,
            seconds=settings.seconds,
        )

    def _accepted_settings(self, settings: TurnSettings) -> TurnSettings:
        """Returns the settings without those that the model has refused before."""
        return replace(
            settings,
            thinking=settings.thinking if self._takes_thinking else None,
            temperature=settings.temperature if self._takes_temperature else None,
        )

    def _prompt_prefix(self, instructions: str, tools: Sequence[OfferedTool]) -> _PromptPrefix:
        """Returns the prefix for these instructions and tools, from the last turn where they are the same."""
        if self._prefix is None or not self._prefix.matches(instructions, tools):
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
            tokens = text_tokens(instructions) + tool_tokens(tools)
            self._prefix = _PromptPrefix(instructions, tuple(tools), parameters, tokens)
        return self._prefix

    def _compact(self, conversation: Conversation, target: int, on_event: StreamEventHandler) -> bool:
        """Shortens the conversation to `target` tokens; returns whether it became shorter."""
        before = conversation.tokens
        messages = compact_messages(conversation.messages, conversation.sizes, max(target, 0))
        conversation.replace_messages(messages)
        if conversation.tokens >= before:
            return False
        on_event(ConversationCompacted(before, conversation.tokens))
        return True

    def _hide_pictures(self, conversation: Conversation) -> bool:
        """Removes all pictures, now and in later turns; returns False if there are none."""
        messages = without_pictures(conversation.messages)
        if all(new is old for new, old in zip(messages, conversation.messages, strict=True)):
            return False
        conversation.replace_messages(messages)
        self._hides_pictures = True
        return True

    async def _attempt(
        self,
        conversation: Conversation,
        prefix: _PromptPrefix,
        turn_settings: TurnSettings,
        retries: TurnRetries,
        *,
        streams: bool,
    ) -> tuple[ModelResponse | ProviderFailure, ModelUsage]:
        """Sends one request. Returns the response or the failure, and what the request used."""
        import httpx2
        from pydantic_ai.exceptions import AgentRunError, UserError

        from toolyard.models.close_streams import closing_open_streams
        from toolyard.models.stream_events import emit_stream, emit_whole_answer

        stream: StreamedResponse | None = None
        try:
            settings = model_settings(self._settings, turn_settings, self._endpoint.kind, self._client.model)
            request = (conversation.messages, settings, prefix.parameters)
            if streams:
                async with closing_open_streams(), self._client.model.request_stream(*request) as stream:
                    await emit_stream(stream, retries)
                response = sanitize_response(stream.get())
            else:
                async with closing_open_streams():
                    response = sanitize_response(await self._client.model.request(*request))
                emit_whole_answer(response, retries)
        except (AgentRunError, UserError, httpx2.HTTPError, httpx2.StreamError) as error:
            return classify_error(error, self._endpoint), self._usage_of(_partial_response(stream))
        except _PARSE_ERRORS:
            return unreadable_answer_failure(self._endpoint), self._usage_of(_partial_response(stream))
        counted = self._usage_of(response)
        return self._check_response(response), counted if counted.total else _estimated_usage(
            response, conversation, prefix
        )

    def _check_response(self, response: ModelResponse) -> ModelResponse | ProviderFailure:
        """Returns the response, or a failure if it is empty, filtered or cut off."""
        details = response.provider_details or {}
        is_filtered = response.finish_reason == "content_filter"
        if details.get("finish_reason") == "model_context_window_exceeded" and not response.tool_calls:
            return context_overflow_failure(self._endpoint)
        if not is_filtered and (response.state == "incomplete" or not details.get("finish_reason")):
            return truncated_answer_failure(self._endpoint)
        if (response.text or "").strip() or response.tool_calls:
            return response
        if is_filtered:
            return content_filter_failure(self._endpoint)
        return empty_answer_failure(self._endpoint, response.finish_reason)

    def _usage_of(self, response: ModelResponse | None) -> ModelUsage:
        """Returns the tokens and the cost of a response; nothing for None."""
        if response is None:
            return ModelUsage()
        usage = _clamped_usage(response.usage)
        cost = None if self._endpoint.is_free else response_cost(replace(response, usage=usage))
        thinking = max(_clamped_count(usage.details.get(name, 0)) for name in _THINKING_COUNTERS)
        output = usage.output_tokens
        return ModelUsage(usage.input_tokens, output, usage.cache_read_tokens, cost, min(thinking, output))


def _drop_refused_setting(settings: TurnSettings, failure: ProviderFailure) -> TurnSettings | None:
    """Returns the settings without the one that was probably refused; None if no setting is to blame."""
    if settings.thinking is not None and failure.is_about_thinking:
        return replace(settings, thinking=None)
    if settings.temperature is not None and failure.is_about_temperature:
        return replace(settings, temperature=None)
    return None


def _clamped_usage(usage: RequestUsage) -> RequestUsage:
    """Returns the usage with every token count limited to a plausible number."""
    names = [field.name for field in fields(usage) if field.name.endswith("_tokens")]
    return replace(usage, **{name: _clamped_count(getattr(usage, name)) for name in names})


def _clamped_count(tokens: object) -> int:
    if not isinstance(tokens, int | float) or math.isnan(min(tokens, _MOST_TOKENS)):
        return 0
    return int(min(max(tokens, 0), _MOST_TOKENS))


def _partial_response(stream: StreamedResponse | None) -> ModelResponse | None:
    """Returns what had arrived when the stream failed; None if that cannot be read."""
    try:
        return stream.get() if stream is not None else None
    except _PARSE_ERRORS:
        return None


def _estimated_usage(response: ModelResponse, conversation: Conversation, prefix: _PromptPrefix) -> ModelUsage:
    """Estimates the usage for servers that do not count tokens in a stream, such as llama-cpp-python's.

    Token limits then apply to them as well.
    """
    return ModelUsage(conversation.tokens + prefix.tokens, message_tokens(response))

"""One call of an assistant tool (`AssistantRequest`) and its turn with the model (`ModelTurn`).

A ModelTurn holds its thread, so that calls in one thread run one after another. It stores the turn when the answer is
complete: the turn is on disk before the caller gets the answer.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Generator, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from toolyard.assistant.arguments import ThinkingMode
from toolyard.assistant.files.lookup import FoundFiles, find_files
from toolyard.assistant.output import AssistantOutput, Status, UsageReport
from toolyard.assistant.prompt_builder import ComposedPrompt, Question, compose_prompt, describe_omitted_turns
from toolyard.assistant.prompts import system_instructions
from toolyard.assistant.secret_findings import masked_note
from toolyard.assistant.threads.thread import FileSeen, Message, Turn
from toolyard.config.assistant import AssistantLimits, ToolName
from toolyard.core.errors import ConfigError, SystemFault, ValidationError
from toolyard.core.tokens import count_tokens_in_pieces
from toolyard.dispatch.call_context import CallContext
from toolyard.models.messages import ModelUsage, RetryWait, TurnSettings
from toolyard.snapshots.service.format import pluralize

if TYPE_CHECKING:
    from toolyard.assistant.runtime import AssistantRuntime, LoadedModel
    from toolyard.assistant.threads.store import OpenTurn
    from toolyard.models.conversation import Conversation
    from toolyard.models.messages import StreamEvent

_SHOWN_REASONS = 5
_USABLE_SHARE = 0.8
"""Share of the context for the prompt; the rest is for the answer and for differences in token counting."""
_RESERVED_TOKENS = 65_536
"""Tokens reserved for thinking and the answer if the request's own limit is smaller than the context."""


@dataclass(frozen=True, slots=True)
class AssistantRequest:
    """A call of a tool: its context, deadline and settings."""

    runtime: AssistantRuntime
    ctx: CallContext
    tool: ToolName
    deadline: float
    thinking: ThinkingMode
    temperature: float

    @property
    def limits(self) -> AssistantLimits:
        return self.runtime.config.limits

    def check_rate(self) -> None:
        """Counts the call against the rate limit.

        Tools call it after validation, so that invalid calls are not counted.
        """
        self.runtime.check_rate(self.tool, self.ctx)

    def find_files(self, names: Sequence[str]) -> FoundFiles:
        """Reads the named files and folders. Raises ValidationError if names are given and no file can be sent."""
        found = find_files(self.ctx, names, self.limits)
        if names and not found.sources:
            why = (
                "; ".join(f"{each.path}: {each.reason}" for each in found.skipped[:_SHOWN_REASONS]) or "there is none"
            )
            raise ValidationError.of("files", f"no file can be sent ({why})", hint="Name files with text in them.")
        return found

    def missing_model_reason(self) -> str | None:
        """Returns why no model can be asked; None if one can. Sends nothing."""
        try:
            self.runtime.model_for(self.tool)
        except (ConfigError, SystemFault) as error:
            return str(error)
        return None

    @contextlib.contextmanager
    def open_turn(self, question: Question, thread: str | None = None) -> Generator[ModelTurn]:
        """Opens a turn in the thread and composes its prompt.

        Raises ConfigError if there is no model, before the thread is locked.
        """
        loaded_model = self.runtime.model_for(self.tool)
        self.ctx.notes.status = "waiting for its turn in the thread"
        with self.runtime.thread_services(self.ctx).threads.turn(thread, self.ctx.check_can_wait) as open_turn:
            self.ctx.notes.status = "reading files"
            prompt = compose_prompt(open_turn.thread, question, self.available_tokens(), self.ctx, self.limits)
            yield ModelTurn(self, loaded_model, open_turn, prompt, self._instructions())

    def available_tokens(self) -> int:
        """Returns the tokens available for a question and everything sent with it. Raises as `open_turn` does."""
        window = self.runtime.model_for(self.tool).model.window
        return _prompt_tokens(window, self.limits) - count_tokens_in_pieces(self._instructions())

    def _instructions(self) -> str:
        """Returns the model's instructions."""
        return system_instructions(self.tool, self.runtime.config.locale)

    def save_without_model(
        self, question: Question, content: str, reason: str, thread: str | None = None
    ) -> AssistantOutput:
        """Stores an answer made without a model and returns it, with the reason as a note."""
        with self.runtime.thread_services(self.ctx).threads.turn(thread, self.ctx.check_can_wait) as open_turn:
            seen = tuple(FileSeen(source.path, source.digest) for source in question.sources)
            number = open_turn.keep(self.thread_turn(question.text, content, seen))
        files = tuple(each.path for each in seen)
        return AssistantOutput(
            *(content, "partial", open_turn.thread.id, number),
            files=files,
            skipped=question.skipped,
            notes=(reason, *masked_note(question.sources)),
        )

    def thread_turn(self, question: str, answer: str, seen: tuple[FileSeen, ...], model: str = "") -> Turn:
        """Builds the turn as it is stored: with secrets masked."""
        now, mask = time.time(), self.runtime.mask_secrets
        question, answer = mask(question), mask(answer)
        files = tuple(replace(each, path=mask(each.path)) for each in seen)
        return Turn(
            Message("user", question, self.tool, at=now, files=files, tokens=count_tokens_in_pieces(question)),
            Message("assistant", answer, self.tool, model, at=now, tokens=count_tokens_in_pieces(answer)),
        )


class ModelTurn:
    """A question to the model in a thread, its answers and follow-ups."""

    def __init__(
        self,
        request: AssistantRequest,
        loaded_model: LoadedModel,
        open_turn: OpenTurn,
        prompt: ComposedPrompt,
        instructions: str,
    ) -> None:
        self._request = request
        self._loaded_model = loaded_model
        self._open_turn = open_turn
        self._prompt = prompt
        self._instructions = instructions
        self._conversation: Conversation | None = None
        self._usage = ModelUsage()
        self._seconds = 0.0
        self._is_truncated = False

    def ask(self) -> str:
        """Sends the prompt and returns the answer."""
        from toolyard.models.conversation import Conversation

        mask = self._request.runtime.mask_keys
        self._conversation = Conversation.from_turns(
            (mask(question), mask(answer)) for question, answer in self._prompt.turns
        )
        return self.follow_up(self._prompt.final_message)

    def follow_up(self, words: str) -> str:
        """Sends a further message and returns its answer."""
        if self._conversation is None:
            raise ValueError("ask() has not been called")
        request = self._request
        self._conversation.add_question(request.runtime.mask_keys(words))
        request.ctx.notes.status = f"waiting for {self._loaded_model.name}"
        started = time.monotonic()
        settings = TurnSettings(
            temperature=request.temperature,
            thinking=request.thinking,
            thinking_tokens=request.limits.thinking_tokens,
            seconds=max(request.deadline - started, 0.0),
        )
        asking = self._loaded_model.model.turn(
            self._conversation, instructions=self._instructions, settings=settings, on_event=self._on_stream_event
        )
        try:
            turn = request.runtime.run_on_model_loop(asking, request.ctx, request.deadline)
        finally:
            self._seconds += time.monotonic() - started
        self._usage += turn.usage
        self._is_truncated = turn.is_truncated
        return turn.text

    def save(self, content: str, status: Status = "success") -> AssistantOutput:
        """Adds the turn to its thread and returns the output for the caller."""
        request, prompt = self._request, self._prompt
        number = self._open_turn.keep(
            request.thread_turn(prompt.question, content, prompt.files_shown, self._loaded_model.name)
        )
        usage = self._usage
        spending = UsageReport(
            self._loaded_model.name,
            request.thinking,
            usage.input,
            usage.output,
            usage.thinking,
            self._seconds,
            usage.cost,
        )
        notes = [*self._missing_parts()]
        return AssistantOutput(
            *(content, "partial" if notes else status, self._open_turn.thread.id, number, spending),
            files=prompt.files,
            skipped=prompt.skipped,
            notes=(*notes, *prompt.notes),
        )

    def _missing_parts(self) -> Iterator[str]:
        """Yields notes on what is missing from the prompt or the answer."""
        if self._is_truncated:
            yield "The answer reached its length limit; ask for the rest, or for less."
        if self._prompt.omitted_turns:
            yield f"Left out because of the token limit: {describe_omitted_turns(self._prompt.omitted_turns)}."
        if self._prompt.omitted_files:
            yield f"{pluralize(self._prompt.omitted_files, 'file')} did not fit at all, not even as an outline."
        if count := self._prompt.outlined_files:
            yield f"{pluralize(count, 'file')} {'is' if count == 1 else 'are'} shown as an outline, not whole."

    def _on_stream_event(self, event: StreamEvent) -> None:
        if isinstance(event, RetryWait):
            self._request.ctx.notes.status = (
                f"trying {self._loaded_model.name} again in {event.seconds:.0f} s: {event.reason}"
            )


def _prompt_tokens(window: int, limits: AssistantLimits) -> int:
    return min(int(window * _USABLE_SHARE), max(limits.context_tokens - _RESERVED_TOKENS, limits.context_tokens // 2))

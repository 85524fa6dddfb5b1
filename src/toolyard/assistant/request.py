"""A Case is one call of one tool: who asks, until when, how much is thought. An Exchange is its turn with the model.

The exchange holds its thread, so that the calls of one thread come one after another, and keeps the turn when the
answer is complete: what the caller was told is on the disk before.
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
"""Of a model's context: the rest is for its answer, and for counting otherwise than we do."""
_RESERVED_TOKENS = 65_536
"""Tokens kept free for thinking and the answer where the limit of the request is what counts."""


@dataclass(frozen=True, slots=True)
class AssistantRequest:
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
        """Count this call. For tools, once their arguments have held: what cannot run costs nobody a call."""
        self.runtime.check_rate(self.tool, self.ctx)

    def find_files(self, names: Sequence[str]) -> FoundFiles:
        """The files that are named. Raises where some are, and none of them can be sent."""
        found = find_files(self.ctx, names, self.limits)
        if names and not found.sources:
            why = (
                "; ".join(f"{each.path}: {each.reason}" for each in found.skipped[:_SHOWN_REASONS]) or "there is none"
            )
            raise ValidationError.of("files", f"no file can be sent ({why})", hint="Name files with text in them.")
        return found

    def missing_model_reason(self) -> str | None:
        """Why no model can be asked, in words; None where one can. It costs nothing to know."""
        try:
            self.runtime.model_for(self.tool)
        except (ConfigError, SystemFault) as error:
            return str(error)
        return None

    @contextlib.contextmanager
    def open_turn(self, question: Question, thread: str | None = None) -> Generator[ModelTurn]:
        """Raises ConfigError where there is no model to ask, before anything is held."""
        opinion = self.runtime.model_for(self.tool)
        self.ctx.status = "waiting for its turn in the thread"
        with self.runtime.thread_services(self.ctx).threads.turn(thread, self.ctx.check_can_wait) as held:
            self.ctx.status = "reading files"
            composed = compose_prompt(held.thread, question, self.available_tokens(), self.ctx, self.limits)
            yield ModelTurn(self, opinion, held, composed, self._instructions())

    def available_tokens(self) -> int:
        """Tokens that there are for a question, with all that comes with it. Raises as `open_turn` does."""
        window = self.runtime.model_for(self.tool).model.window
        return _prompt_tokens(window, self.limits) - count_tokens_in_pieces(self._instructions())

    def _instructions(self) -> str:
        """The model's instructions."""
        return system_instructions(self.tool, self.runtime.config.locale)

    def save_without_model(
        self, question: Question, content: str, reason: str, thread: str | None = None
    ) -> AssistantOutput:
        """An answer without a model's, and why there is none."""
        with self.runtime.thread_services(self.ctx).threads.turn(thread, self.ctx.check_can_wait) as held:
            seen = tuple(FileSeen(source.path, source.digest) for source in question.sources)
            number = held.keep(self.thread_turn(question.text, content, seen))
        files = tuple(each.path for each in seen)
        return AssistantOutput(
            *(content, "partial", held.thread.id, number),
            files=files,
            skipped=question.skipped,
            notes=(reason, *masked_note(question.sources)),
        )

    def thread_turn(self, question: str, answer: str, seen: tuple[FileSeen, ...], model: str = "") -> Turn:
        """As it is kept."""
        now, mask = time.time(), self.runtime.mask_secrets
        question, answer = mask(question), mask(answer)
        files = tuple(replace(each, path=mask(each.path)) for each in seen)
        return Turn(
            Message("user", question, self.tool, at=now, files=files, tokens=count_tokens_in_pieces(question)),
            Message("assistant", answer, self.tool, model, at=now, tokens=count_tokens_in_pieces(answer)),
        )


class ModelTurn:
    def __init__(
        self,
        request: AssistantRequest,
        loaded_model: LoadedModel,
        open_turn: OpenTurn,
        prompt: ComposedPrompt,
        instructions: str,
    ) -> None:
        """`instructions` are the model's instructions."""
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
        """The model's answer."""
        from toolyard.models.conversation import Conversation

        mask = self._request.runtime.mask_keys
        self._conversation = Conversation.from_turns(
            (mask(asked), mask(answered)) for asked, answered in self._prompt.turns
        )
        return self.follow_up(self._prompt.final_message)

    def follow_up(self, words: str) -> str:
        """Its answer to something more."""
        if self._conversation is None:
            raise ValueError("nothing was asked yet")
        case = self._request
        self._conversation.add_question(case.runtime.mask_keys(words))
        case.ctx.status = f"waiting for {self._loaded_model.name}"
        started = time.monotonic()
        wish = TurnSettings(
            temperature=case.temperature,
            thinking=case.thinking,
            thinking_tokens=case.limits.thinking_tokens,
            seconds=max(case.deadline - started, 0.0),
        )
        asking = self._loaded_model.model.turn(
            self._conversation, instructions=self._instructions, settings=wish, on_event=self._on_stream_event
        )
        try:
            turn = case.runtime.run_on_model_loop(asking, case.ctx, case.deadline)
        finally:
            self._seconds += time.monotonic() - started
        self._usage += turn.usage
        self._is_truncated = turn.is_truncated
        return turn.text

    def save(self, content: str, status: Status = "success") -> AssistantOutput:
        """Add the turn to its thread, with what the caller is told."""
        case, composed = self._request, self._prompt
        number = self._open_turn.keep(
            case.thread_turn(composed.question, content, composed.files_shown, self._loaded_model.name)
        )
        spent = self._usage
        spending = UsageReport(
            self._loaded_model.name,
            case.thinking,
            spent.input,
            spent.output,
            spent.thinking,
            self._seconds,
            spent.cost,
        )
        notes = [*self._missing_parts()]
        return AssistantOutput(
            *(content, "partial" if notes else status, self._open_turn.thread.id, number, spending),
            files=composed.files,
            skipped=composed.skipped,
            notes=(*notes, *composed.notes),
        )

    def _missing_parts(self) -> Iterator[str]:
        """What is missing."""
        if self._is_truncated:
            yield "The answer ended at the limit of its length; ask for the rest, or for less."
        if self._prompt.omitted_turns:
            yield f"Left out for want of room: {describe_omitted_turns(self._prompt.omitted_turns)}."
        if self._prompt.omitted_files:
            yield f"{pluralize(self._prompt.omitted_files, 'file')} found no room at all, not even as an outline."
        if count := self._prompt.outlined_files:
            yield f"{pluralize(count, 'file')} {'is' if count == 1 else 'are'} shown as an outline, not whole."

    def _on_stream_event(self, event: StreamEvent) -> None:
        if isinstance(event, RetryWait):
            self._request.ctx.status = (
                f"trying {self._loaded_model.name} again in {event.seconds:.0f} s: {event.reason}"
            )


def _prompt_tokens(window: int, limits: AssistantLimits) -> int:
    return min(int(window * _USABLE_SHARE), max(limits.context_tokens - _RESERVED_TOKENS, limits.context_tokens // 2))

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
from toolyard.assistant.files.lookup import Found, find
from toolyard.assistant.output import Output, Spending, Status
from toolyard.assistant.prompt_builder import Composed, Question, compose, left_out
from toolyard.assistant.prompts import instructions
from toolyard.assistant.secret_findings import masked_note
from toolyard.assistant.threads.thread import FileSeen, Message, Turn
from toolyard.config.assistant import AssistantLimits, ToolName
from toolyard.core.errors import ConfigError, SystemFault, ValidationError
from toolyard.core.tokens import count_in_pieces
from toolyard.dispatch.call_context import Gate
from toolyard.models.messages import Spent, Waiting, Wish
from toolyard.snapshots.service.format import counted

if TYPE_CHECKING:
    from toolyard.assistant.runtime import Desk, Opinion
    from toolyard.assistant.threads.store import OpenTurn
    from toolyard.models.conversation import Conversation
    from toolyard.models.messages import Heard

_SHOWN = 5
_FULL = 0.8
"""Of a model's context: the rest is for its answer, and for counting otherwise than we do."""
_MOST_RESERVED = 65_536
"""Tokens kept free for thinking and the answer where the limit of the request is what counts."""


@dataclass(frozen=True, slots=True)
class Case:
    desk: Desk
    gate: Gate
    tool: ToolName
    until: float
    thinking: ThinkingMode
    temperature: float

    @property
    def limits(self) -> AssistantLimits:
        return self.desk.config.limits

    def admit(self) -> None:
        """Count this call. For tools, once their arguments have held: what cannot run costs nobody a call."""
        self.desk.admit(self.tool, self.gate)

    def find(self, names: Sequence[str]) -> Found:
        """The files that are named. Raises where some are, and none of them can be sent."""
        found = find(self.gate, names, self.limits)
        if names and not found.sources:
            why = "; ".join(f"{each.path}: {each.reason}" for each in found.skipped[:_SHOWN]) or "there is none"
            raise ValidationError.of("files", f"no file can be sent ({why})", hint="Name files with text in them.")
        return found

    def lacks_model(self) -> str | None:
        """Why no model can be asked, in words; None where one can. It costs nothing to know."""
        try:
            self.desk.opinion(self.tool)
        except (ConfigError, SystemFault) as error:
            return str(error)
        return None

    @contextlib.contextmanager
    def exchange(self, question: Question, thread: str | None = None) -> Generator[Exchange]:
        """Raises ConfigError where there is no model to ask, before anything is held."""
        opinion = self.desk.opinion(self.tool)
        self.gate.doing = "waiting for its turn in the thread"
        with self.desk.threads(self.gate).threads.turn(thread, self.gate.may_wait) as held:
            self.gate.doing = "reading files"
            composed = compose(held.thread, question, self.room(), self.gate, self.limits)
            yield Exchange(self, opinion, held, composed, self._told())

    def room(self) -> int:
        """Tokens that there are for a question, with all that comes with it. Raises as `exchange` does."""
        window = self.desk.opinion(self.tool).model.window
        return _room(window, self.limits) - count_in_pieces(self._told())

    def _told(self) -> str:
        """The model's instructions."""
        return instructions(self.tool, self.desk.config.locale)

    def kept_alone(self, question: Question, content: str, why: str, thread: str | None = None) -> Output:
        """An answer without a model's, and why there is none."""
        with self.desk.threads(self.gate).threads.turn(thread, self.gate.may_wait) as held:
            seen = tuple(FileSeen(source.path, source.digest) for source in question.sources)
            number = held.keep(self.turn(question.words, content, seen))
        files = tuple(each.path for each in seen)
        return Output(
            *(content, "partial", held.thread.id, number),
            files=files,
            skipped=question.skipped,
            notes=(why, *masked_note(question.sources)),
        )

    def turn(self, words: str, content: str, seen: tuple[FileSeen, ...], model: str = "") -> Turn:
        """As it is kept."""
        now, mask = time.time(), self.desk.without_secrets
        words, content = mask(words), mask(content)
        files = tuple(replace(each, path=mask(each.path)) for each in seen)
        return Turn(
            Message("user", words, self.tool, at=now, files=files, tokens=count_in_pieces(words)),
            Message("assistant", content, self.tool, model, at=now, tokens=count_in_pieces(content)),
        )


class Exchange:
    def __init__(self, case: Case, opinion: Opinion, held: OpenTurn, composed: Composed, told: str) -> None:
        """`told` are the model's instructions."""
        self._case = case
        self._opinion = opinion
        self._held = held
        self._composed = composed
        self._told = told
        self._conversation: Conversation | None = None
        self._spent = Spent()
        self._seconds = 0.0
        self._is_cut = False

    def ask(self) -> str:
        """The model's answer."""
        from toolyard.models.conversation import Conversation

        mask = self._case.desk.masked
        self._conversation = Conversation.of(
            (mask(asked), mask(answered)) for asked, answered in self._composed.turns
        )
        return self.again(self._composed.last)

    def again(self, words: str) -> str:
        """Its answer to something more."""
        if self._conversation is None:
            raise ValueError("nothing was asked yet")
        case = self._case
        self._conversation.ask(case.desk.masked(words))
        case.gate.doing = f"waiting for {self._opinion.name}"
        started = time.monotonic()
        wish = Wish(
            temperature=case.temperature,
            thinking=case.thinking,
            thinking_tokens=case.limits.thinking_tokens,
            seconds=max(case.until - started, 0.0),
        )
        asking = self._opinion.model.turn(self._conversation, instructions=self._told, wish=wish, hear=self._heard)
        try:
            turn = case.desk.wait_for(asking, case.gate, case.until)
        finally:
            self._seconds += time.monotonic() - started
        self._spent += turn.spent
        self._is_cut = turn.is_cut
        return turn.text

    def keep(self, content: str, status: Status = "success") -> Output:
        """Add the turn to its thread, with what the caller is told."""
        case, composed = self._case, self._composed
        number = self._held.keep(case.turn(composed.words, content, composed.seen, self._opinion.name))
        spent = self._spent
        spending = Spending(
            self._opinion.name, case.thinking, spent.input, spent.output, spent.thinking, self._seconds, spent.cost
        )
        notes = [*self._notes()]
        return Output(
            *(content, "partial" if notes else status, self._held.thread.id, number, spending),
            files=composed.files,
            skipped=composed.skipped,
            notes=(*notes, *composed.notes),
        )

    def _notes(self) -> Iterator[str]:
        """What is missing."""
        if self._is_cut:
            yield "The answer ended at the limit of its length; ask for the rest, or for less."
        if self._composed.left_out:
            yield f"Left out for want of room: {left_out(self._composed.left_out)}."
        if self._composed.homeless:
            yield f"{counted(self._composed.homeless, 'file')} found no room at all, not even as an outline."
        if count := self._composed.outlined:
            yield f"{counted(count, 'file')} {'is' if count == 1 else 'are'} shown as an outline, not whole."

    def _heard(self, heard: Heard) -> None:
        if isinstance(heard, Waiting):
            self._case.gate.doing = f"trying {self._opinion.name} again in {heard.seconds:.0f} s: {heard.why}"


def _room(window: int, limits: AssistantLimits) -> int:
    return min(int(window * _FULL), max(limits.context_tokens - _MOST_RESERVED, limits.context_tokens // 2))

"""A scripted model for a CLI: it plays its steps to the conversation that has our tools, and says `done` to all else.

A CLI has conversations of its own beside that one, and names our tools in its own way. One step follows each result
that the model was shown; a fault is met by every attempt.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

from toolyard.testing.mock_model import DONE, Call, Request, Say, Step, Turn, Usage, serve_model

LITTLE = Usage(1, 1)
"""A CLI that hears of many tokens shortens its conversation or its results, which is not what the tests are about."""
RENAMED = "ws_"
"""Before the name of a tool that the client has one of its own for."""
ROUTED = Say(json.dumps({"complexity_reasoning": "it is short", "complexity_score": 10}))
"""What Gemini CLI asks a small model for before the first turn, where no model is named. It has to be JSON: for other
words it asks again, five times in a minute and a half."""


@dataclass
class ScriptedModel:
    steps: tuple[Step | Callable[[Request], Step], ...]
    """A function makes its step of the request: what it has to say may stand in an earlier result."""
    prefix: str
    """What the client puts before the names of our tools."""
    before: Callable[[int], None] | None = None
    """Called with the number of a turn before it is answered, in a thread of the server's."""
    requests: list[Request] = field(default_factory=list)

    def __call__(self, request: Request) -> Step:
        turn, offered = len(request.results), request.tools
        is_ours = any(name.startswith(self.prefix) for name in offered)
        step = self.steps[turn] if turn < len(self.steps) and is_ours else DONE
        if is_ours and self.before is not None:
            self.before(turn)
        step = step(request) if callable(step) else step
        if request.body.get("generationConfig", {}).get("responseMimeType") == "application/json":
            return ROUTED
        if isinstance(step, Call):
            is_renamed = f"{self.prefix}{RENAMED}{step.tool}" in offered
            call = Call(self.prefix + (RENAMED if is_renamed else "") + step.tool, step.arguments)
            return Turn(calls=(call,), usage=LITTLE)
        return Turn(step.text, usage=LITTLE) if isinstance(step, Say) else step

    @contextlib.contextmanager
    def serving(self) -> Iterator[str]:
        with serve_model(self) as server:
            self.requests = server.all_requests
            yield server.url

    @property
    def conversation(self) -> Request:
        """The last request of the main conversation."""
        return max(self.requests, key=lambda request: len(request.results))

    @property
    def tools(self) -> list[str]:
        return list(self.conversation.tools)

    @property
    def shown(self) -> list[Any]:
        """What the model was shown of each call, as its API spells it."""
        return list(self.conversation.raw_results)

    @property
    def words(self) -> list[str]:
        """What the model was shown of each call, as text."""
        return list(self.conversation.results)

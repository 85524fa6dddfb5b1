"""Who can be asked while an agent's code runs.

Code in the sandbox calls tools long after the call that runs it was let through. When the policy wants somebody asked
about such a call, the question goes to the client whose run is under way, the latest first. What was answered with
yes holds for the rest of that run: a loop of a hundred calls asks once.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Generator
from contextlib import contextmanager

from toolyard.core.actions import Action, Decision
from toolyard.core.calls import Asker, ask_nobody


class _Run:
    def __init__(self, ask: Asker, loop: asyncio.AbstractEventLoop) -> None:
        self.ask = ask
        self.loop = loop
        self.approved: set[Action] = set()


class Questions:
    """Used from any thread."""

    def __init__(self) -> None:
        self._runs: list[_Run] = []
        self._lock = threading.Lock()

    @contextmanager
    def go_to(self, ask: Asker, loop: asyncio.AbstractEventLoop) -> Generator[None]:
        """While the block runs, questions are put to `ask`, on its own loop."""
        if ask is ask_nobody:
            yield
            return
        run = _Run(ask, loop)
        with self._lock:
            self._runs.append(run)
        try:
            yield
        finally:
            with self._lock:
                self._runs.remove(run)

    async def ask(self, action: Action, decision: Decision) -> bool:
        """False where nobody can be asked."""
        with self._lock:
            run = self._runs[-1] if self._runs else None
        if run is None:
            return False
        if action in run.approved:
            return True
        put = asyncio.run_coroutine_threadsafe(_put(run.ask, action, decision), run.loop)
        said_yes = await asyncio.wrap_future(put)
        if said_yes:
            run.approved.add(action)
        return said_yes


async def _put(ask: Asker, action: Action, decision: Decision) -> bool:
    return await ask(action, decision)

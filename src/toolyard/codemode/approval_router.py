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
from toolyard.core.calls import ApprovalCallback, deny_without_asking


class _ActiveRun:
    def __init__(self, ask: ApprovalCallback, loop: asyncio.AbstractEventLoop) -> None:
        self.ask = ask
        self.loop = loop
        self.approved: set[Action] = set()


class ApprovalRouter:
    """Used from any thread."""

    def __init__(self) -> None:
        self._runs: list[_ActiveRun] = []
        self._lock = threading.Lock()

    @contextmanager
    def route_to(self, ask: ApprovalCallback, loop: asyncio.AbstractEventLoop) -> Generator[None]:
        """While the block runs, questions are put to `ask`, on its own loop."""
        if ask is deny_without_asking:
            yield
            return
        run = _ActiveRun(ask, loop)
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
        put = asyncio.run_coroutine_threadsafe(_await_approval(run.ask, action, decision), run.loop)
        said_yes = await asyncio.wrap_future(put)
        if said_yes:
            run.approved.add(action)
        return said_yes


async def _await_approval(ask: ApprovalCallback, action: Action, decision: Decision) -> bool:
    return await ask(action, decision)

"""Routes approval requests of sandboxed code to the client whose run is in progress.

Code in the sandbox calls tools long after the call that started it was approved. If the policy requires approval for
such a call, the latest running client is asked. An approval holds for the rest of that run, so a loop of a hundred
calls asks once.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Generator
from contextlib import contextmanager

from toolyard.core.actions import Action, Decision
from toolyard.core.calls import ApprovalCallback


class _ActiveRun:
    def __init__(self, ask: ApprovalCallback, loop: asyncio.AbstractEventLoop) -> None:
        self.ask = ask
        self.loop = loop
        self.approved: set[Action] = set()


class ApprovalRouter:
    """Thread-safe."""

    def __init__(self) -> None:
        self._runs: list[_ActiveRun] = []
        self._lock = threading.Lock()

    @contextmanager
    def route_to(self, ask: ApprovalCallback, loop: asyncio.AbstractEventLoop) -> Generator[None]:
        """Routes requests to `ask`, on its own loop, while the block runs."""
        run = _ActiveRun(ask, loop)
        with self._lock:
            self._runs.append(run)
        try:
            yield
        finally:
            with self._lock:
                self._runs.remove(run)

    async def ask(self, action: Action, decision: Decision) -> bool:
        """Asks for approval. Returns False if no client can be asked."""
        with self._lock:
            run = self._runs[-1] if self._runs else None
        if run is None:
            return False
        if action in run.approved:
            return True
        put = asyncio.run_coroutine_threadsafe(_await_approval(run.ask, action, decision), run.loop)
        is_approved = await asyncio.wrap_future(put)
        if is_approved:
            run.approved.add(action)
        return is_approved


async def _await_approval(ask: ApprovalCallback, action: Action, decision: Decision) -> bool:
    return await ask(action, decision)

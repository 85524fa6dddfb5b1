"""Calls that go straight through: from one callback of a loop to the next, without a task of their own.

A task costs a call three more rounds of the loop: to begin, to go on when the answer is there, to be done. Where all
a coroutine waits for is one `InlineFuture`, a `EagerCall` runs it at once up to there, and the rest at once when the reply is
set. What waits for anything else goes on as a task; but what it did until then ran outside of any, so it must not
have asked for the current one (as `asyncio.timeout` does). `switch_to_task` is there for that.
"""

from __future__ import annotations

import asyncio
import contextlib
import types
from collections.abc import Callable, Coroutine, Generator
from typing import Any


class InlineFuture(asyncio.Future[Any]):
    """A future that can tell one listener at once. To everybody else it is a future like any other."""

    inline_callback: Callable[[], None] | None = None

    def set_result(self, result: Any, /) -> None:
        super().set_result(result)
        self._run_inline_callback()

    def set_exception(self, exception: type[BaseException] | BaseException, /) -> None:
        super().set_exception(exception)
        self._run_inline_callback()

    def _run_inline_callback(self) -> None:
        listener, self.inline_callback = self.inline_callback, None
        if listener is not None:
            listener()


async def switch_to_task() -> None:
    """What follows runs as a task, whoever runs it."""
    await asyncio.sleep(0)


class EagerCall:
    """One coroutine under way. `on_done` is told when it has ended, with the fault that it did not handle itself."""

    __slots__ = ("_coroutine", "_done", "_loop", "_reply", "task")

    def __init__(
        self,
        coroutine: Coroutine[Any, Any, None],
        loop: asyncio.AbstractEventLoop,
        on_done: Callable[[BaseException | None], None],
    ) -> None:
        self._coroutine = coroutine
        self._loop = loop
        self._done = on_done
        self._reply: InlineFuture | None = None
        self.task: asyncio.Task[None] | None = None
        """What it became, where it had to be one."""

    def start(self, *, as_task: bool = False) -> None:
        """Run it to where it waits. It may be done by then."""
        if as_task:
            self._become_task(self._coroutine)
        else:
            self._resume()

    def cancel(self) -> None:
        """As with a task; but one that waits for its reply has ended when this returns."""
        if self.task is not None:
            self.task.cancel()
        elif self._reply is not None:
            self._reply.inline_callback = None
            self._step(lambda: self._coroutine.throw(asyncio.CancelledError()))

    def _resume(self) -> None:
        self._step(lambda: self._coroutine.send(None))

    def _step(self, step: Callable[[], Any]) -> None:
        self._reply = None
        try:
            waits_for = step()
        except StopIteration:
            self._done(None)
        except BaseException as fault:  # noqa: BLE001 - handed on, whatever it is
            self._done(fault)
        else:
            if isinstance(waits_for, InlineFuture) and waits_for.inline_callback is None and not waits_for.done():
                self._reply = waits_for
                waits_for.inline_callback = self._resume
                return
            self._become_task(_await_rest(self._coroutine, waits_for))

    def _become_task(self, coroutine: Coroutine[Any, Any, None]) -> None:
        self.task = self._loop.create_task(coroutine)
        self.task.add_done_callback(self._on_task_done)

    def _on_task_done(self, task: asyncio.Task[None]) -> None:
        fault = asyncio.CancelledError() if task.cancelled() else task.exception()
        if isinstance(fault, asyncio.CancelledError):
            # A task that is cancelled before it begins never gets to tell the coroutine.
            with contextlib.suppress(BaseException):
                self._coroutine.throw(fault)
        self._done(fault)


async def _await_rest(coroutine: Coroutine[Any, Any, None], waits_for: Any) -> None:
    await _drive_coroutine(coroutine, waits_for)


@types.coroutine
def _drive_coroutine(coroutine: Coroutine[Any, Any, None], waits_for: Any) -> Generator[Any, Any, None]:
    """The rest of a coroutine that has begun already and waits for something."""
    while True:
        try:
            given = yield waits_for
        except BaseException as fault:  # noqa: BLE001 - a cancellation: it is the coroutine's to see
            step = coroutine.throw
            given = fault
        else:
            step = coroutine.send
        try:
            waits_for = step(given)
        except StopIteration:
            return

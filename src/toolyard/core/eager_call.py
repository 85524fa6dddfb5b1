"""Runs coroutines directly in loop callbacks, without a task of their own.

A task costs a call three more iterations of the loop: to begin, to resume when the answer arrives, and to finish. If
a coroutine waits for a single `InlineFuture` only, an `EagerCall` runs it immediately up to that point, and runs the
rest as soon as the future is set. A coroutine that waits for anything else continues as a task; the part before ran
outside of any task, so it must not have asked for the current one (as `asyncio.timeout` does). Such coroutines call
`switch_to_task` first.
"""

from __future__ import annotations

import asyncio
import contextlib
import types
from collections.abc import Callable, Coroutine, Generator
from typing import Any


class InlineFuture(asyncio.Future[Any]):
    """A future that can run one callback immediately when it is set. Otherwise it behaves like any future."""

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
    """Makes the rest of the calling coroutine run as a task, even inside an `EagerCall`."""
    await asyncio.sleep(0)


class EagerCall:
    """One coroutine in progress. `on_done` receives the exception that the coroutine did not handle, or None."""

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
        """The task that continues the coroutine, if it needed one."""

    def start(self, *, as_task: bool = False) -> None:
        """Runs the coroutine until it waits. It may already have finished when this returns."""
        if as_task:
            self._become_task(self._coroutine)
        else:
            self._resume()

    def cancel(self) -> None:
        """Cancels the coroutine. One that waits for its inline future has ended when this returns."""
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
        except BaseException as fault:  # noqa: BLE001 - passed on to the callback, whatever it is
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
            # A task that is cancelled before it begins never throws into the coroutine.
            with contextlib.suppress(BaseException):
                self._coroutine.throw(fault)
        self._done(fault)


async def _await_rest(coroutine: Coroutine[Any, Any, None], waits_for: Any) -> None:
    await _drive_coroutine(coroutine, waits_for)


@types.coroutine
def _drive_coroutine(coroutine: Coroutine[Any, Any, None], waits_for: Any) -> Generator[Any, Any, None]:
    """Runs the rest of a coroutine that has already begun and waits for something."""
    while True:
        try:
            given = yield waits_for
        except BaseException as fault:  # noqa: BLE001 - a cancellation: the coroutine has to see it
            step = coroutine.throw
            given = fault
        else:
            step = coroutine.send
        try:
            waits_for = step(given)
        except StopIteration:
            return

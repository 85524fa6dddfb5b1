"""Runs the function of a custom tool: async functions on the loop, others in a thread each, all with a deadline.

A thread cannot be stopped from outside. After its call is abandoned it occupies its slot until it returns, so
functions that never return use up the slots and are refused, instead of accumulating threads. The threads are daemons
and do not keep the process alive.
"""

from __future__ import annotations

import asyncio
import contextvars
import inspect
import threading
from collections.abc import Mapping
from typing import Any, Final

from toolyard.codemode.custom.signature import Function
from toolyard.core.errors import ToolError, ToolyardError

MAX_THREADS: Final = 16
_MAX_MESSAGE_CHARS: Final = 2_000


class ToolThreads:
    """Thread slots for functions that are not async."""

    def __init__(self, max_threads: int = MAX_THREADS) -> None:
        self._free_slots = threading.Semaphore(max_threads)
        self._max_threads = max_threads

    async def run(self, function: Function, values: Mapping[str, Any]) -> Any:
        if not self._free_slots.acquire(blocking=False):
            raise ToolError(
                f"{self._max_threads} custom tools are already running, which is the limit.",
                hint="Wait for some of them; if they hang, restart Toolyard.",
            )
        loop = asyncio.get_running_loop()
        done: asyncio.Future[Any] = loop.create_future()
        context_variables = contextvars.copy_context()

        def deliver(value: Any, error: BaseException | None) -> None:
            if done.done():  # the caller has left
                return
            if error is None:
                done.set_result(value)
            else:
                done.set_exception(error)

        def work() -> None:
            value, failure = None, None
            try:
                value = context_variables.run(function, **values)
            except BaseException as error:  # noqa: BLE001 - passed to the caller; must not print a traceback of the thread
                # A future refuses StopIteration, and these two would end the loop.
                ends = isinstance(error, (StopIteration, SystemExit, KeyboardInterrupt))
                failure = RuntimeError(f"{type(error).__name__} {error}".strip()) if ends else error
            finally:
                self._free_slots.release()
            try:
                loop.call_soon_threadsafe(deliver, value, failure)
            except RuntimeError:
                return  # the loop is closed: the caller has left

        try:
            threading.Thread(target=work, name=f"custom-{function.__name__}", daemon=True).start()
        except RuntimeError:
            self._free_slots.release()
            raise ToolError("No thread can be started for the tool.", hint="Try again later.") from None
        return await done


async def run_function(
    function: Function, values: Mapping[str, Any], *, name: str, seconds: float, threads: ToolThreads
) -> Any:
    """Returns the function's result. Its errors become ToolErrors with their message, without our stack frames."""
    deadline = asyncio.timeout(seconds)
    try:
        async with deadline:
            if inspect.iscoroutinefunction(function):
                return await function(**values)
            return await threads.run(function, values)
    except ToolyardError:
        raise
    except (Exception, SystemExit, KeyboardInterrupt) as error:  # noqa: BLE001 - boundary to user code
        if isinstance(error, TimeoutError) and deadline.expired():
            raise ToolError(
                f"{name} did not finish within {seconds:g} seconds.",
                hint="Ask for less at once, or let the user raise its `timeout`.",
                retryable=True,
            ) from None
        message = str(error)[:_MAX_MESSAGE_CHARS]
        kind = type(error).__name__
        raise ToolError(f"{name} failed: {kind}: {message}" if message else f"{name} failed: {kind}") from None

"""Running a custom tool's function: async ones on the loop, others each in a thread, all under a deadline.

A thread cannot be ended from outside. One whose call is given up keeps its place until it returns, so functions that
never do use up the places and are refused, instead of piling up threads; being daemons, they keep nobody from ending.
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
    """The places for functions that are not async."""

    def __init__(self, max_threads: int = MAX_THREADS) -> None:
        self._free_slots = threading.Semaphore(max_threads)
        self._max_threads = max_threads

    async def run(self, function: Function, values: Mapping[str, Any]) -> Any:
        if not self._free_slots.acquire(blocking=False):
            raise ToolError(
                f"{self._max_threads} custom tools are running at once, and no more may.",
                hint="Wait for some of them; if they hang, restart Toolyard.",
            )
        loop = asyncio.get_running_loop()
        done: asyncio.Future[Any] = loop.create_future()
        around = contextvars.copy_context()

        def deliver(value: Any, error: BaseException | None) -> None:
            if done.done():  # nobody waits any more
                return
            if error is None:
                done.set_result(value)
            else:
                done.set_exception(error)

        def work() -> None:
            value, failure = None, None
            try:
                value = around.run(function, **values)
            except BaseException as error:  # noqa: BLE001 - it is the caller's, and ends no thread loudly
                # A future refuses StopIteration, and these two would end the loop.
                ends = isinstance(error, (StopIteration, SystemExit, KeyboardInterrupt))
                failure = RuntimeError(f"{type(error).__name__} {error}".strip()) if ends else error
            finally:
                self._free_slots.release()
            try:
                loop.call_soon_threadsafe(deliver, value, failure)
            except RuntimeError:
                return  # the loop is closed: nobody waits any more

        try:
            threading.Thread(target=work, name=f"custom-{function.__name__}", daemon=True).start()
        except RuntimeError:
            self._free_slots.release()
            raise ToolError("No thread can be started for the tool.", hint="Try again later.") from None
        return await done


async def run_function(
    function: Function, values: Mapping[str, Any], *, name: str, seconds: float, threads: ToolThreads
) -> Any:
    """What the function returns. Its own errors become ToolErrors with their message, and without our frames."""
    deadline = asyncio.timeout(seconds)
    try:
        async with deadline:
            if inspect.iscoroutinefunction(function):
                return await function(**values)
            return await threads.run(function, values)
    except ToolyardError:
        raise
    except (Exception, SystemExit, KeyboardInterrupt) as error:  # noqa: BLE001 - the edge of somebody else's code
        if isinstance(error, TimeoutError) and deadline.expired():
            raise ToolError(
                f"{name} did not finish within {seconds:g} seconds.",
                hint="Ask for less at once, or let the user raise its `timeout`.",
                retryable=True,
            ) from None
        said = str(error)[:_MAX_MESSAGE_CHARS]
        kind = type(error).__name__
        raise ToolError(f"{name} failed: {kind}: {said}" if said else f"{name} failed: {kind}") from None

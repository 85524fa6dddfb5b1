"""The caller of a run, asked where the policy says so: in the caller's own loop, though our server has another.

An `async` function runs in that loop. A plain one runs in a thread of its own, so that it may wait for somebody's
answer while messages go on. Only `True` is a yes. One that fails has said no, and the run
tells what it raised.
"""

from __future__ import annotations

import asyncio
import contextlib
import inspect
import threading
from collections.abc import Awaitable, Callable
from typing import Protocol, cast

from toolyard.core.actions import Action, Decision
from toolyard.core.calls import Asker
from toolyard.drivers.messages import Fault

_LONGEST_WORDS = 300


class PlainAsker(Protocol):
    """An Asker that is no coroutine function."""

    def __call__(self, action: Action, decision: Decision) -> bool: ...


def in_loop_of_caller(ask: Asker | PlainAsker, tell: Callable[[Fault], None]) -> Asker:
    """To be awaited in any loop. `tell` is called in that of the caller, which is the one that runs now."""
    loop = asyncio.get_running_loop()

    async def asked(action: Action, decision: Decision) -> bool:
        return await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(_asked(ask, action, decision, tell), loop))

    return asked


async def _asked(ask: Asker | PlainAsker, action: Action, decision: Decision, tell: Callable[[Fault], None]) -> bool:
    try:
        answer = await _answer(ask, action, decision)
    except asyncio.CancelledError:
        task = asyncio.current_task()
        if task is not None and task.cancelling():
            raise
        tell(_fault("was cancelled"))
        return False
    except Exception as error:  # noqa: BLE001 - somebody else's code: whatever it raises is no yes
        words = f": {error}"[:_LONGEST_WORDS] if str(error) else ""
        tell(_fault(f"raised {type(error).__name__}{words}"))
        return False
    if not isinstance(answer, bool):
        tell(_fault(f"answered with {type(answer).__name__}"))
    return answer is True


async def _answer(ask: Asker | PlainAsker, action: Action, decision: Decision) -> object:
    if inspect.iscoroutinefunction(ask) or inspect.iscoroutinefunction(getattr(ask, "__call__", None)):  # noqa: B004
        return await cast("Asker", ask)(action, decision)
    answer = await _in_thread(lambda: ask(action, decision))
    return await cast("Awaitable[object]", answer) if inspect.isawaitable(answer) else answer


async def _in_thread(work: Callable[[], object]) -> object:
    """Not one of the loop's own threads: the loop's end would wait for somebody to answer after the run is over."""
    loop = asyncio.get_running_loop()
    done: asyncio.Future[object] = loop.create_future()

    def settle(answer: object, error: BaseException | None) -> None:
        if done.done():  # nobody waits any more
            return
        if error is None:
            done.set_result(answer)
        else:
            done.set_exception(error)

    def run() -> None:
        answer, failure = None, None
        try:
            answer = work()
        except BaseException as error:  # noqa: BLE001 - told where it is awaited
            is_plain = isinstance(error, Exception) and not isinstance(error, StopIteration)
            failure = error if is_plain else RuntimeError(type(error).__name__)  # a future carries no other
        with contextlib.suppress(RuntimeError):  # the loop is closed
            loop.call_soon_threadsafe(settle, answer, failure)

    threading.Thread(target=run, name="toolyard-ask", daemon=True).start()
    return await done


def _fault(what: str) -> Fault:
    return Fault(f"`ask` {what}: that is taken for no.", "Mend the function: it is to return True or False.")

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
from toolyard.core.calls import ApprovalCallback
from toolyard.drivers.messages import Fault

_MAX_ERROR_CHARS = 300


class SyncApprovalCallback(Protocol):
    """An Asker that is no coroutine function."""

    def __call__(self, action: Action, decision: Decision) -> bool: ...


def approval_on_caller_loop(
    ask: ApprovalCallback | SyncApprovalCallback, on_fault: Callable[[Fault], None]
) -> ApprovalCallback:
    """To be awaited in any loop. `on_fault` is called in that of the caller, which is the one that runs now."""
    loop = asyncio.get_running_loop()

    async def ask_on_caller_loop(action: Action, decision: Decision) -> bool:
        return await asyncio.wrap_future(
            asyncio.run_coroutine_threadsafe(_is_approved(ask, action, decision, on_fault), loop)
        )

    return ask_on_caller_loop


async def _is_approved(
    ask: ApprovalCallback | SyncApprovalCallback,
    action: Action,
    decision: Decision,
    on_fault: Callable[[Fault], None],
) -> bool:
    try:
        answer = await _call_callback(ask, action, decision)
    except asyncio.CancelledError:
        task = asyncio.current_task()
        if task is not None and task.cancelling():
            raise
        on_fault(_callback_fault("was cancelled"))
        return False
    except Exception as error:  # noqa: BLE001 - somebody else's code: whatever it raises is no yes
        words = f": {error}"[:_MAX_ERROR_CHARS] if str(error) else ""
        on_fault(_callback_fault(f"raised {type(error).__name__}{words}"))
        return False
    if not isinstance(answer, bool):
        on_fault(_callback_fault(f"answered with {type(answer).__name__}"))
    return answer is True


async def _call_callback(ask: ApprovalCallback | SyncApprovalCallback, action: Action, decision: Decision) -> object:
    if inspect.iscoroutinefunction(ask) or inspect.iscoroutinefunction(getattr(ask, "__call__", None)):  # noqa: B004
        return await cast("ApprovalCallback", ask)(action, decision)
    answer = await _run_in_thread(lambda: ask(action, decision))
    return await cast("Awaitable[object]", answer) if inspect.isawaitable(answer) else answer


async def _run_in_thread(work: Callable[[], object]) -> object:
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


def _callback_fault(what: str) -> Fault:
    return Fault(f"`ask` {what}: that is taken for no.", "Mend the function: it is to return True or False.")

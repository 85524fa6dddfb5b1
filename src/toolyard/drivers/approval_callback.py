"""Calls the approval callback of a run's caller on the caller's event loop; our server has its own loop.

An `async` function runs on that loop. A plain function runs in its own thread, so it may block for an answer while
messages continue. Only `True` approves. A callback that raises denies, and the run reports what it raised.
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
    """An approval callback that is a plain function."""

    def __call__(self, action: Action, decision: Decision) -> bool: ...


def approval_on_caller_loop(
    ask: ApprovalCallback | SyncApprovalCallback, on_fault: Callable[[Fault], None]
) -> ApprovalCallback:
    """Returns a callback for any loop. `on_fault` is called on the caller's loop, which is the running one."""
    loop = asyncio.get_running_loop()

    async def ask_on_caller_loop(action: Action, decision: Decision) -> bool:
        return await asyncio.wrap_future(
            asyncio.run_coroutine_threadsafe(is_approved(ask, action, decision, on_fault), loop)
        )

    return ask_on_caller_loop


async def is_approved(
    ask: ApprovalCallback | SyncApprovalCallback,
    action: Action,
    decision: Decision,
    on_fault: Callable[[Fault], None],
) -> bool:
    """Calls the callback on the running loop, a plain function in its own thread. Returns whether it approved."""
    try:
        answer = await _call_callback(ask, action, decision)
    except asyncio.CancelledError:
        task = asyncio.current_task()
        if task is not None and task.cancelling():
            raise
        on_fault(_callback_fault("was cancelled"))
        return False
    except Exception as error:  # noqa: BLE001 - the caller's code: any exception denies
        detail = f": {error}"[:_MAX_ERROR_CHARS] if str(error) else ""
        on_fault(_callback_fault(f"raised {type(error).__name__}{detail}"))
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
    """Runs `work` in its own thread: closing the loop would wait for a thread of its executor."""
    loop = asyncio.get_running_loop()
    done: asyncio.Future[object] = loop.create_future()

    def settle(answer: object, error: BaseException | None) -> None:
        if done.done():  # the awaiting task is gone
            return
        if error is None:
            done.set_result(answer)
        else:
            done.set_exception(error)

    def run() -> None:
        answer, failure = None, None
        try:
            answer = work()
        except BaseException as error:  # noqa: BLE001 - raised where it is awaited
            is_plain = isinstance(error, Exception) and not isinstance(error, StopIteration)
            # a future cannot carry other exceptions
            failure = error if is_plain else RuntimeError(type(error).__name__)
        with contextlib.suppress(RuntimeError):  # the loop is closed
            loop.call_soon_threadsafe(settle, answer, failure)

    threading.Thread(target=run, name="toolyard-ask", daemon=True).start()
    return await done


def _callback_fault(what: str) -> Fault:
    return Fault(f"`ask` {what}, so the action was denied.", "Fix the function: it must return True or False.")

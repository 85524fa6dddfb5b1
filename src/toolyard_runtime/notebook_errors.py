"""Formats an exception for the agent: with the frames of its own code and of libraries, without this package's."""

from __future__ import annotations

import os

from toolyard_runtime.notebook_cells import CELL_PREFIX
from toolyard_runtime.notebook_text import shorten

TYPE_CHECKING = False
if TYPE_CHECKING:
    from traceback import StackSummary, TracebackException
    from types import TracebackType

OWN_FOLDER = os.path.dirname(os.path.abspath(__file__)) + os.sep
# Of a longer traceback only the end is read: with a raised recursion limit it can have millions of frames.
FRAMES_READ_WHOLE = 2_000
FRAMES_OF_A_LONG_ONE = 300


def render(fault: BaseException) -> str:
    """Returns the traceback as text of bounded length. Never raises, whatever the exception's own methods do."""
    try:
        return shorten(_traceback_text(fault))
    except Exception as broken:  # noqa: BLE001 (the exception's class is the agent's and may do anything)
        return f"{summary(fault)} (its traceback cannot be shown: {type(broken).__name__})"


def summary(fault: BaseException) -> str:
    """Returns the exception in one short line."""
    try:
        text = str(fault)
    except Exception:  # noqa: BLE001 (as above)
        text = "its message cannot be shown"
    name = type(fault).__name__
    return shorten(f"{name}: {text}" if text else name, 300)


def _traceback_text(fault: BaseException) -> str:
    import traceback

    length = _frame_count(fault.__traceback__)
    limit = None if length <= FRAMES_READ_WHOLE else -FRAMES_OF_A_LONG_ONE
    story = traceback.TracebackException.from_exception(fault, limit=limit, compact=True)
    _drop_own_frames(story)
    text = "".join(story.format()).rstrip("\n")
    if limit is not None:
        text = f"({length - FRAMES_OF_A_LONG_ONE:,} outer frames left out)\n{text}"
    return text


def _frame_count(step: TracebackType | None) -> int:
    count = 0
    while step is not None:
        count += 1
        step = step.tb_next
    return count


def _drop_own_frames(story: TracebackException) -> None:
    waiting = [story]
    seen: set[int] = set()
    while waiting:
        part = waiting.pop()
        if id(part) in seen:
            continue
        seen.add(id(part))
        _filter_stack(part)
        waiting.extend(other for other in (part.__cause__, part.__context__) if other is not None)
        waiting.extend(part.exceptions or ())


def _filter_stack(part: TracebackException) -> None:
    stack: StackSummary | None = part.stack
    if not stack:
        return
    if stack[0].filename.startswith(OWN_FOLDER):
        # Frames between this package and the code (the event loop) are dropped as well.
        first = next((at for at, frame in enumerate(stack) if frame.filename.startswith(CELL_PREFIX)), 0)
        del stack[:first]
    stack[:] = [frame for frame in stack if not frame.filename.startswith(OWN_FOLDER)]
    if not stack:
        # Without frames there is no "Traceback" heading: a syntax error shows only its own line.
        part.stack = None  # pyright: ignore[reportAttributeAccessIssue]

"""Reading a pickle as data. Nothing in it is imported or called: every name it mentions stands for an empty object.

The local store of qdrant keeps its points so. A pickle is a program; run as pickle runs it, a store that somebody
sent could do anything.
"""

from __future__ import annotations

import io
import pickle
from datetime import date, datetime, time, timedelta, timezone
from typing import Any, cast
from uuid import UUID

_HARMLESS = {
    ("datetime", "datetime"): datetime,
    ("datetime", "date"): date,
    ("datetime", "time"): time,
    ("datetime", "timedelta"): timedelta,
    ("datetime", "timezone"): timezone,
    ("uuid", "UUID"): UUID,
}


class Stand:
    """In the place of any object: takes whatever it is given and keeps its state."""

    state: object = None

    def __init__(self, *_: object, **__: object) -> None:
        """Arguments of the real thing, which is not made."""

    def __setstate__(self, state: object) -> None:
        self.state = state

    def __setitem__(self, key: object, value: object) -> None:
        """An item of a mapping that is not made."""

    def append(self, item: object) -> None:
        """An item of a list that is not made."""

    def extend(self, items: object) -> None:
        """Items of a list that is not made."""

    def add(self, item: object) -> None:
        """An item of a set that is not made."""

    @property
    def fields(self) -> dict[str, Any]:
        """Of a pydantic model."""
        state = cast("dict[str, Any]", self.state) if isinstance(self.state, dict) else {}
        inner = state.get("__dict__", state)
        return cast("dict[str, Any]", inner) if isinstance(inner, dict) else {}


# Python's own version of it, not the one in C: that one makes a table as large as a number in the pickle says.
class _Reader(pickle._Unpickler):  # type: ignore[misc,name-defined]  # noqa: SLF001  # pyright: ignore[reportPrivateUsage, reportAttributeAccessIssue, reportUntypedBaseClass, reportUnknownMemberType]
    def find_class(self, module: str, name: str) -> type:
        return _HARMLESS.get((module, name), Stand)

    def persistent_load(self, pid: object) -> object:  # noqa: ARG002
        return Stand()


def unpickled(data: bytes) -> object:
    """What the pickle describes. Raises ValueError when it describes nothing."""
    try:
        return cast("object", _Reader(io.BytesIO(data)).load())  # pyright: ignore[reportUnknownMemberType]
    except Exception as error:  # noqa: BLE001 - a broken pickle raises anything at all
        raise ValueError(f"no pickle that can be read: {type(error).__name__}") from None

"""Reading a pickle as data. Nothing in it is imported or called: every name it mentions stands for an empty object.

The local store of qdrant keeps its points so. A pickle is a program; run as pickle runs it, a store that somebody
sent could do anything.
"""

from __future__ import annotations

import io
import pickle
import struct
from datetime import date, datetime, time, timedelta, timezone
from typing import Any, ClassVar, cast
from uuid import UUID

_ALLOWED_CLASSES = {
    ("datetime", "datetime"): datetime,
    ("datetime", "date"): date,
    ("datetime", "time"): time,
    ("datetime", "timedelta"): timedelta,
    ("datetime", "timezone"): timezone,
    ("uuid", "UUID"): UUID,
}


_FLOAT_BYTES = 8
_FLOAT_BATCH = 2_048  # a float that stands alone must not cost a look at all that follows


class Placeholder:
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
class _SafeUnpickler(pickle._Unpickler):  # type: ignore[misc,name-defined]  # noqa: SLF001  # pyright: ignore[reportPrivateUsage, reportAttributeAccessIssue, reportUntypedBaseClass, reportUnknownMemberType]
    def __init__(self, data: bytes) -> None:
        self._source = io.BytesIO(data)
        super().__init__(self._source)  # pyright: ignore[reportUnknownMemberType]

    def find_class(self, module: str, name: str) -> type:
        return _ALLOWED_CLASSES.get((module, name), Placeholder)

    def persistent_load(self, pid: object) -> object:  # noqa: ARG002
        return Placeholder()

    def load_floats(self) -> None:
        """A vector is a thousand floats in a row: each an opcode of one byte and eight of value. All at once."""
        inner = cast("Any", self)  # of Python's own, which has no types
        source = cast("io.BytesIO", inner._unframer.current_frame or self._source)  # noqa: SLF001
        with source.getbuffer() as data:
            at = source.tell()
            codes = bytes(
                data[at + _FLOAT_BYTES : at + _FLOAT_BYTES + _FLOAT_BATCH * (_FLOAT_BYTES + 1) : _FLOAT_BYTES + 1]
            )
            more = len(codes) - len(codes.lstrip(pickle.BINFLOAT))
            more = max(min(more, (len(data) - at - _FLOAT_BYTES) // (_FLOAT_BYTES + 1)), 0)
            numbers = struct.unpack_from(">" + "dx" * more + "d", data, at)
        source.seek(at + more * (_FLOAT_BYTES + 1) + _FLOAT_BYTES)
        inner.stack.extend(numbers)

    dispatch: ClassVar[dict[int, Any]] = {**pickle._Unpickler.dispatch, pickle.BINFLOAT[0]: load_floats}  # type: ignore[attr-defined]  # noqa: SLF001  # pyright: ignore[reportPrivateUsage, reportUnknownMemberType, reportAttributeAccessIssue]


def unpickle_safely(data: bytes) -> object:
    """What the pickle describes. Raises ValueError when it describes nothing."""
    try:
        return cast("object", _SafeUnpickler(data).load())  # pyright: ignore[reportUnknownMemberType]
    except Exception as error:  # noqa: BLE001 - a broken pickle raises anything at all
        raise ValueError(f"no pickle that can be read: {type(error).__name__}") from None

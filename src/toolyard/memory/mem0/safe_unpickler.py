"""Reads a pickle as data: imports and calls nothing, and puts a placeholder in place of every object.

Qdrant's local store pickles its points. A pickle is a program: unpickled normally, a store from an untrusted source
could run any code.
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
_FLOAT_BATCH = 2_048  # limits what a single float costs: the bytes after it are inspected


class Placeholder:
    """Stands for any object: accepts all arguments and keeps its state."""

    state: object = None

    def __init__(self, *_: object, **__: object) -> None:
        """Ignores the arguments of the real object, which is never created."""

    def __setstate__(self, state: object) -> None:
        self.state = state

    def __setitem__(self, key: object, value: object) -> None:
        """Ignores an item of a mapping that is never created."""

    def append(self, item: object) -> None:
        """Ignores an item of a list that is never created."""

    def extend(self, items: object) -> None:
        """Ignores items of a list that is never created."""

    def add(self, item: object) -> None:
        """Ignores an item of a set that is never created."""

    @property
    def fields(self) -> dict[str, Any]:
        """The fields of a pydantic model."""
        state = cast("dict[str, Any]", self.state) if isinstance(self.state, dict) else {}
        inner = state.get("__dict__", state)
        return cast("dict[str, Any]", inner) if isinstance(inner, dict) else {}


# The Python implementation, not the one in C, which allocates a table as large as a number in the pickle says.
class _SafeUnpickler(pickle._Unpickler):  # type: ignore[misc,name-defined]  # noqa: SLF001  # pyright: ignore[reportPrivateUsage, reportAttributeAccessIssue, reportUntypedBaseClass, reportUnknownMemberType]
    def __init__(self, data: bytes) -> None:
        self._source = io.BytesIO(data)
        super().__init__(self._source)  # pyright: ignore[reportUnknownMemberType]

    def find_class(self, module: str, name: str) -> type:
        return _ALLOWED_CLASSES.get((module, name), Placeholder)

    def persistent_load(self, pid: object) -> object:  # noqa: ARG002
        return Placeholder()

    def load_floats(self) -> None:
        """Reads a run of floats in one step: a vector is a thousand one-byte opcodes with eight-byte values."""
        inner = cast("Any", self)  # attributes of the untyped base class
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
    """Returns the data of a pickle. Raises ValueError if it cannot be read."""
    try:
        return cast("object", _SafeUnpickler(data).load())  # pyright: ignore[reportUnknownMemberType]
    except Exception as error:  # noqa: BLE001 - a broken pickle can raise any exception
        raise ValueError(f"the pickle cannot be read: {type(error).__name__}") from None

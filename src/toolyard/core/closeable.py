"""A base class that gives objects with a `close()` method the `with` statement."""

from __future__ import annotations

from abc import ABC, abstractmethod
from types import TracebackType
from typing import Self


class Closeable(ABC):
    """Calls `close()` at the end of its `with` block."""

    __slots__ = ()

    @abstractmethod
    def close(self) -> object: ...

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

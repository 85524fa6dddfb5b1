"""The decorator of every tool file: turns a signature into a tool that can be called.

    @tool("filesystem", "read_text_file")
    async def read_text_file(path: str, *, head: float = ...) -> ReadTextFileResult:
        '''Read a file.'''
        ...

The body of such a function never runs and its defaults are never sent: they show what the server assumes. A call
binds its arguments as Python would (and raises the same TypeError), sends the given ones, and returns what the
annotation says: a `Result`, or the structured content itself. Passing `OMITTED` (which is `...`) as an argument is
the same as omitting it.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Coroutine, Mapping, Sequence
from types import FunctionType, ModuleType
from typing import Any, Generic, ParamSpec, TypeVar, cast

from toolyard_runtime.results import Record, Result, as_records

__all__ = ["OMITTED", "Record", "Result", "Tool", "custom_tool", "lazy_tools", "tool"]

OMITTED: Any = ...
"""An argument that is not sent."""

P = ParamSpec("P")
R = TypeVar("R")
Progress = Callable[[float, "float | None", str], None]
"""Called as a tool works: the progress so far, the total, and a message."""


class Tool(Generic[P, R]):
    """A tool of a server, or a custom tool if `server` is empty: `await it(...)`, or `it.sync(...)`, which blocks."""

    def __init__(
        self, function: Callable[P, Coroutine[Any, Any, R]], server: str, name: str, names: Mapping[str, str]
    ) -> None:
        made = cast("FunctionType", function)
        self.server = server
        self.name = name
        self._names = names
        self._bind: Callable[..., Coroutine[Any, Any, R]] = made
        self._positional = made.__code__.co_varnames[: made.__code__.co_argcount]
        self._options: dict[str, Any] = {}
        returns = str(made.__annotations__.get("return", "Result"))
        self._returns_structured = returns.partition("[")[0] != "Result"
        self.__name__ = made.__name__
        self.__qualname__ = made.__qualname__
        self.__module__ = made.__module__
        self.__doc__ = made.__doc__
        self.__wrapped__ = made  # where `inspect.signature` and `help` look

    def __call__(self, /, *args: P.args, **kwargs: P.kwargs) -> Coroutine[Any, Any, R]:
        return self._run(self._sent_arguments(args, kwargs))

    def sync(self, /, *args: P.args, **kwargs: P.kwargs) -> R:
        """Calls the tool and waits for its answer, without an event loop."""
        from toolyard_runtime import calls

        given = self._sent_arguments(args, kwargs)
        if self.server:
            return self._typed_answer(calls.call_mcp_tool_sync(self.server, self.name, given, **self._options))
        return self._typed_answer(calls.call_custom_tool_sync(self.name, **given))

    def options(self, *, timeout: float | None = None, progress: Progress | None = None) -> Tool[P, R]:
        """Returns the same tool with a deadline in seconds, or with a progress callback."""
        twin = Tool(
            cast("Callable[P, Coroutine[Any, Any, R]]", self.__wrapped__), self.server, self.name, self._names
        )
        given = {"timeout": timeout, "progress": progress}
        twin._options = {key: value for key, value in given.items() if value is not None}
        return twin

    async def _run(self, given: dict[str, Any]) -> R:
        from toolyard_runtime import calls

        if self.server:
            return self._typed_answer(await calls.call_mcp_tool(self.server, self.name, given, **self._options))
        return self._typed_answer(await calls.call_custom_tool(self.name, **given))

    def _sent_arguments(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> dict[str, Any]:
        """Returns the given arguments under the names that the server knows."""
        self._bind(*args, **kwargs).close()  # raises what Python raises; the body does not run
        given = dict(zip(self._positional, args, strict=False))
        given.update(kwargs)
        names = self._names
        return {names.get(key, key): value for key, value in given.items() if value is not OMITTED}

    def _typed_answer(self, answer: Any) -> R:
        """Returns what the annotation promises; the `Result` if the server declared a shape but sent none."""
        if not isinstance(answer, Result):
            return as_records(answer)
        whole = cast("Result[Any]", answer)
        if not self._returns_structured or whole.structured is None:
            return cast("R", whole)
        return whole.structured if self.server else as_records(whole.structured)

    def __repr__(self) -> str:
        return f"<tool {self.server}.{self.name}>" if self.server else f"<custom tool {self.name}>"


Decorator = Callable[[Callable[P, Coroutine[Any, Any, R]]], Tool[P, R]]


def tool(server: str, name: str, names: Mapping[str, str] | None = None) -> Decorator[P, R]:
    """Declares a tool of a server. `names` maps parameters to the server's names that are not valid in Python."""

    def decorate(function: Callable[P, Coroutine[Any, Any, R]]) -> Tool[P, R]:
        return Tool(function, server, name, names or {})

    return decorate


def custom_tool(name: str, names: Mapping[str, str] | None = None) -> Decorator[P, R]:
    """Declares a custom tool, which runs in the host's process: `name` is "group.tool"."""

    def decorate(function: Callable[P, Coroutine[Any, Any, R]]) -> Tool[P, R]:
        return Tool(function, "", name, names or {})

    return decorate


class _ToolPackage(ModuleType):
    """A package whose tools have the names of their modules: the name is the tool, however it was imported."""

    def __setattr__(self, name: str, value: object) -> None:
        # The import system stores a submodule in its package under the submodule's name.
        if isinstance(value, ModuleType) and value.__name__ == f"{self.__name__}.{name}":
            value = getattr(value, name, value)
        super().__setattr__(name, value)


def lazy_tools(package: str, names: Sequence[str]) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """Returns `__getattr__` and `__dir__` for a package that imports each tool on first use."""
    module = sys.modules[package]
    module.__class__ = _ToolPackage
    known = frozenset(names)

    def find(name: str) -> Any:
        if name not in known:
            raise AttributeError(_missing_tool_message(package, name, names))
        import importlib

        return getattr(importlib.import_module(f"{package}.{name}"), name)

    def list_names() -> list[str]:
        return sorted({*names, *module.__dict__})

    return find, list_names


def _missing_tool_message(package: str, name: str, names: Sequence[str]) -> str:
    import difflib

    near = difflib.get_close_matches(name, names, 3)
    hint = f" Did you mean {', '.join(near)}?" if near else f" {package.replace('.', '/')}/INDEX.md lists them."
    return f"{package} has no tool {name!r}.{hint}"

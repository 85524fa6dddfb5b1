"""Runs pieces of Python code one after another in one namespace.

    notebook = Notebook()
    notebook.run("x = 20")
    notebook.run("x + 1")["value"]  # "21"
    notebook.close()

Contract
- One process serves one notebook, in its main thread. The caller owns the process, its limits and its descriptors:
  it puts the run's pipes at 1 and 2 (and /dev/null at 0) before each run, and handles timeouts and crashes.
- `run` returns when the code has ended, however it ended: `status` is "ok", "error" (an exception, described in
  `error`) or "exit" (SystemExit, with its `exit_code`). It raises only for a signal that arrives during cleanup.
- The code is the module `__main__`, without `__file__`. It may await at the top level: all pieces share one event
  loop, which runs only while a piece awaits. `value` is the repr of the last expression, unless it is None or a `;`
  follows it; `_` is that value in the next piece.
- `images` are PNG or JPEG: figures shown or left open (they are closed), arguments of `display()`, a last value that
  is an image. `notes` report omitted images, and what threads of earlier runs printed.
- A child that the code forks and that reaches the end of the code exits here; it never returns to the caller.
- `close` does what the end of a program does: cancels tasks, joins threads, runs exit handlers, drops the variables
  so that open files are written. For a single run, call `run`, then `close`, then send the answer: closing may print.
- `preload` imports what most code needs. Call it once, while idle, in the process that notebooks are forked from.
"""

from __future__ import annotations

import builtins
import os
import sys
from contextvars import copy_context

from toolyard_runtime import notebook_errors, notebook_images
from toolyard_runtime.notebook_cells import (
    VALUE_NAME,
    CellSources,
    cell_name,
    compile_cell,
    future_flags_of,
    is_coroutine,
    with_plain_newlines,
)
from toolyard_runtime.notebook_streams import StandardStreams, flush_open_files, no_input
from toolyard_runtime.notebook_text import TEXT_LIMIT, shorten

TYPE_CHECKING = False
if TYPE_CHECKING:
    from asyncio import Runner
    from typing import Any

EXIT_ERROR = 1
EXIT_INTERRUPTED = 130

PRELOADED = (
    "ast", "asyncio", "collections", "contextlib", "dataclasses", "datetime", "enum", "functools", "io", "itertools",
    "json", "linecache", "math", "operator", "pathlib", "re", "string", "textwrap", "threading", "time", "traceback",
    "typing", "warnings",
)  # fmt: skip


def preload() -> None:
    """Imports what nearly every piece of code needs, and excludes it from garbage collection."""
    import gc
    from importlib import import_module

    for name in PRELOADED:
        import_module(name)
    CellSources().add(cell_name(1), "")
    gc.collect()
    gc.freeze()


class Notebook:
    """One namespace with its streams, images and event loop."""

    def __init__(self) -> None:
        self._module = type(sys)("__main__")
        self._namespace: dict[str, Any] = self._module.__dict__
        self._namespace["__builtins__"] = builtins
        self._sources = CellSources()
        self._streams = StandardStreams()
        self._images = notebook_images.new_image_collector()
        # One context for everything, so that numpy's print options or decimal's precision also apply to later pieces.
        self._context = copy_context()
        self._runner: Runner | None = None
        self._future_flags = 0
        self._count = 0
        self._folder: str | None = None
        self._last_value: Any = None

    def run(self, code: str) -> dict[str, Any]:
        """Runs one piece of code and returns how it ended, in values that JSON can represent."""
        notes = self._begin_run()
        process, trace = os.getpid(), sys.gettrace()
        status, exit_code, value, error = "ok", 0, None, None
        try:
            result = self._execute(code)
            if result is not None:
                value = self._context.run(self._display_result, result)
        except SystemExit as stop:
            status, exit_code = "exit", _exit_code(stop)
        except BaseException as fault:  # noqa: BLE001 (the code may raise anything; this is the outermost edge)
            self._sources.refresh()
            status, error = "error", notebook_errors.render(fault)
            exit_code = EXIT_INTERRUPTED if isinstance(fault, KeyboardInterrupt) else EXIT_ERROR
            notes += _advice(fault)
        if sys.gettrace() is not trace:
            sys.settrace(trace)
        if os.getpid() != process:
            _end_child(exit_code, error)
        notes += self._finish_run(value)
        return {
            "status": status,
            "value": None if value is None else shorten(value),
            "error": error,
            "exit_code": exit_code,
            "images": self._images.images,
            "notes": notes,
        }

    def close(self) -> None:
        """Ends as a program ends. The notebook cannot be used afterwards."""
        self._streams.release()
        for step in (self._end_loop, _join_threads, _run_exit_handlers, flush_open_files, self._drop_names):
            try:
                step()
            except SystemExit:
                continue
            except BaseException as fault:  # noqa: BLE001 (the code's own endings run here)
                print(notebook_errors.render(fault), file=sys.stderr)  # noqa: T201 (as the interpreter does)
        self._streams.end_run()

    def _end_loop(self) -> None:
        if self._runner is not None:
            self._runner.close()

    def _drop_names(self) -> None:
        import gc

        self._last_value = None
        self._namespace.clear()
        gc.collect()

    def display(self, *values: object, **_options: object) -> None:
        """Shows each value: an image as an image, anything else as text. Available to the code as `display`."""
        for value in values:
            if not self._images.add_value(value):
                print(_repr(value))  # noqa: T201 (this is what it is for)
            notebook_images.close_figure(value)

    def _begin_run(self) -> list[str]:
        notes: list[str] = []
        self._streams.begin_run()
        self._images = notebook_images.new_image_collector()
        late = self._streams.leftover.pop_text()
        if late:
            notes.append(f"Threads of earlier runs printed meanwhile:\n{late}")
        sys.modules["__main__"] = self._module
        sys.argv = [""]
        self._set_first_path()
        # A new registry for each run: a warning is shown once per run, not once per session.
        self._namespace.pop("__warningregistry__", None)
        self._namespace.pop(VALUE_NAME, None)
        _install_builtins(self)
        return notes

    def _set_first_path(self) -> None:
        try:
            folder = os.getcwd()
        except OSError:  # the folder was deleted
            folder = ""
        if folder == self._folder and sys.path and sys.path[0] == folder:
            return
        if self._folder is not None and sys.path and sys.path[0] == self._folder:
            sys.path[0] = folder
        elif self._folder != folder:
            sys.path.insert(0, folder)
        self._folder = folder

    def _execute(self, source: str) -> Any:
        self._count += 1
        name = cell_name(self._count)
        source = with_plain_newlines(source)
        self._sources.add(name, source)
        code = compile_cell(source, name, self._future_flags)
        self._future_flags |= future_flags_of(source, code)
        if is_coroutine(code):
            self._run_coroutine(eval(code, self._namespace))  # noqa: S307 (running code is the purpose)
        else:
            self._context.run(exec, code, self._namespace)
        return self._namespace.pop(VALUE_NAME, None)

    def _run_coroutine(self, coroutine: Any) -> None:
        if self._runner is None:
            import asyncio

            self._runner = asyncio.Runner()
        try:
            self._runner.run(coroutine, context=self._context)
        except KeyboardInterrupt as stop:
            # The runner cancels the code and raises a new exception: the cancelled code's traceback has the location.
            cancelled = stop.__context__
            raise (stop.with_traceback(cancelled.__traceback__) if cancelled else stop) from None

    def _display_result(self, value: Any) -> str:
        # A `_` that the code assigned itself (gettext, a loop variable) is not replaced.
        if self._namespace.get("_") is self._last_value:
            self._namespace["_"] = self._last_value = value
        self._images.add_value(value)
        notebook_images.close_figure(value)
        return _repr(value)

    def _finish_run(self, value: str | None) -> list[str]:
        self._context.run(notebook_images.take_open_figures)
        self._streams.end_run()
        notes = self._images.notes()
        if value is not None and len(value) > TEXT_LIMIT:
            notes = [*notes, f"The value has {len(value):,} characters; its head and tail are shown."]
        return notes


def _install_builtins(notebook: Notebook) -> None:
    offered = builtins.__dict__
    offered["display"] = notebook.display
    offered["input"] = no_input
    if "exit" not in offered:  # started without site, which adds these
        import _sitebuiltins

        offered["exit"] = _sitebuiltins.Quitter("exit", "Ctrl-D (i.e. EOF)")
        offered["quit"] = _sitebuiltins.Quitter("quit", "Ctrl-D (i.e. EOF)")
        offered["help"] = _sitebuiltins._Helper()  # noqa: SLF001  # pyright: ignore[reportPrivateUsage] (as site does)


def _join_threads() -> None:
    threading = sys.modules.get("threading")
    if threading is not None:
        threading._shutdown()  # noqa: SLF001 (what the interpreter itself calls)


def _run_exit_handlers() -> None:
    import atexit

    atexit._run_exitfuncs()  # noqa: SLF001  # pyright: ignore[reportPrivateUsage] (likewise)


def _repr(value: object) -> str:
    try:
        return repr(value)
    except Exception as fault:  # noqa: BLE001 (the value's own method)
        return f"<{type(value).__name__} object at {id(value):#x}; its repr raised {notebook_errors.summary(fault)}>"


def _exit_code(stop: SystemExit) -> int:
    if stop.code is None:
        return 0
    if isinstance(stop.code, int):
        return stop.code & 0xFF
    print(stop.code, file=sys.stderr)  # noqa: T201 (as the interpreter does)
    return EXIT_ERROR


def _advice(fault: BaseException) -> list[str]:
    if isinstance(fault, SyntaxError) and (fault.text or "").lstrip()[:1] in ("%", "!"):
        return ["This is plain Python: lines that begin with % or ! are IPython's. Commands run with subprocess."]
    if isinstance(fault, RuntimeError) and "cannot be called from a running event loop" in str(fault):
        return ["The code awaits at the top level, so a loop is already running: write `await main()` instead."]
    return []


def _end_child(exit_code: int, error: str | None) -> None:
    """Ends a forked child that reached the end of the code. Its parent returns the result."""
    try:
        if error is not None:
            print(error, file=sys.stderr)  # noqa: T201 (as the interpreter does)
        sys.stdout.flush()
        sys.stderr.flush()
    finally:
        os._exit(exit_code)

"""Compiles one piece of code so that it may use top-level await and its last expression's value is available."""

from __future__ import annotations

import _ast
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import CodeType
    from typing import TypeVar

    Node = TypeVar("Node", _ast.Name, _ast.Assign)

# Not a valid identifier, so it cannot clash with a variable of the code.
VALUE_NAME = " value of the last expression"
CELL_PREFIX = "<code"
KEPT_CELLS = 1_000

_CO_COROUTINE = 0x80  # inspect.CO_COROUTINE, without the cost of importing inspect


def cell_name(number: int) -> str:
    """Returns the file name of the numbered piece in tracebacks: `<code>`, `<code 2>`, …"""
    return f"{CELL_PREFIX}>" if number == 1 else f"{CELL_PREFIX} {number}>"


def with_plain_newlines(source: str) -> str:
    r"""Returns the source with `\n` line ends, which the compiler counts by."""
    return source.replace("\r\n", "\n").replace("\r", "\n") if "\r" in source else source


def compile_cell(source: str, name: str, future_flags: int) -> CodeType:
    """Compiles a piece; the value of a last expression without a trailing `;` is stored as VALUE_NAME."""
    flags = _ast.PyCF_ALLOW_TOP_LEVEL_AWAIT | future_flags
    tree: _ast.Module = compile(source, name, "exec", flags | _ast.PyCF_ONLY_AST, dont_inherit=True)
    last = tree.body[-1] if tree.body else None
    if isinstance(last, _ast.Expr) and not _ends_with_semicolon(source, last):
        target = _with_location(_ast.Name(id=VALUE_NAME, ctx=_ast.Store()), last)
        tree.body[-1] = _with_location(_ast.Assign(targets=[target], value=last.value), last)
    return compile(tree, name, "exec", flags, dont_inherit=True)


def is_coroutine(code: CodeType) -> bool:
    return bool(code.co_flags & _CO_COROUTINE)


def future_flags_of(source: str, code: CodeType) -> int:
    """Returns the `from __future__` features that a piece enables: they apply to later pieces, as at a prompt."""
    if "__future__" not in source:
        return 0
    import __future__

    flags = 0
    for feature_name in __future__.all_feature_names:
        flags |= getattr(__future__, feature_name).compiler_flag
    return code.co_flags & flags


def _with_location(node: Node, like: _ast.Expr) -> Node:
    node.lineno, node.col_offset = like.lineno, like.col_offset
    node.end_lineno, node.end_col_offset = like.end_lineno, like.end_col_offset
    return node


def _ends_with_semicolon(source: str, last: _ast.Expr) -> bool:
    if ";" not in source or last.end_lineno is None or last.end_col_offset is None:
        return False
    line = source.split("\n")[last.end_lineno - 1]
    return line.encode("utf-8")[last.end_col_offset :].lstrip().startswith(b";")


class CellSources:
    """The source of the latest pieces, registered in linecache for tracebacks, warnings and inspect."""

    def __init__(self) -> None:
        self._cells: dict[str, tuple[int, None, list[str], str]] = {}

    def add(self, name: str, source: str) -> None:
        """Registers the source of a piece and drops the oldest one if there are too many."""
        lines = [line + "\n" for line in source.split("\n")]
        # No modification time: linecache then keeps the entry although no such file exists.
        self._cells[name] = (len(source), None, lines, name)
        oldest = next(iter(self._cells)) if len(self._cells) > KEPT_CELLS else None
        if oldest is not None:
            del self._cells[oldest]
        if "linecache" not in sys.modules and "import" not in source:
            return  # only our tracebacks look lines up, and they call refresh(); importing linecache takes long
        self.refresh()
        if oldest is not None:
            sys.modules["linecache"].cache.pop(oldest, None)

    def refresh(self) -> None:
        """Restores the entries that the code may have dropped with linecache.clearcache()."""
        import linecache

        linecache.cache.update(self._cells)

"""One piece of code, compiled so that it may await and so that its last expression's value can be had."""

from __future__ import annotations

import _ast
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import CodeType
    from typing import TypeVar

    Node = TypeVar("Node", _ast.Name, _ast.Assign)

# No source can spell this name, so the value of the last expression disturbs no variable.
VALUE_NAME = " value of the last expression"
CELL_PREFIX = "<code"
KEPT_CELLS = 1_000

_CO_COROUTINE = 0x80  # inspect.CO_COROUTINE, without the cost of importing inspect


def cell_name(number: int) -> str:
    """The file name of the numbered piece in tracebacks: `<code>`, `<code 2>`, …"""
    return f"{CELL_PREFIX}>" if number == 1 else f"{CELL_PREFIX} {number}>"


def with_plain_newlines(source: str) -> str:
    """The source with the line ends the compiler counts by."""
    return source.replace("\r\n", "\n").replace("\r", "\n") if "\r" in source else source


def compile_cell(source: str, name: str, future_flags: int) -> CodeType:
    """Compile a piece; the value of a last expression without a `;` after it is stored as VALUE_NAME."""
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
    """The `from __future__` features a piece turned on: they hold for the pieces after it, as at a prompt."""
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
    """The text of the last pieces, where tracebacks, warnings and inspect look lines up."""

    def __init__(self) -> None:
        self._cells: dict[str, tuple[int, None, list[str], str]] = {}

    def add(self, name: str, source: str) -> None:
        lines = [line + "\n" for line in source.split("\n")]
        # No modification time: linecache then keeps the entry although no such file exists.
        self._cells[name] = (len(source), None, lines, name)
        oldest = next(iter(self._cells)) if len(self._cells) > KEPT_CELLS else None
        if oldest is not None:
            del self._cells[oldest]
        if "linecache" not in sys.modules and "import" not in source:
            return  # nobody can look a line up but our own tracebacks, which refresh; it takes long to import
        self.refresh()
        if oldest is not None:
            sys.modules["linecache"].cache.pop(oldest, None)

    def refresh(self) -> None:
        """Put the entries back that the code may have dropped with linecache.clearcache()."""
        import linecache

        linecache.cache.update(self._cells)

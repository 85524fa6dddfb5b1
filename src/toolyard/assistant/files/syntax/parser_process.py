"""The parser process: reads files from its input and writes their outlines to its output.

tree-sitter blocks all threads of its process, cannot be interrupted, and needs minutes for some texts. In a separate
process each file has a few seconds and all files together a memory limit, and the kernel ends a process that exceeds
them. The client (`outliner`) then continues without it.

A request is a line of JSON (the language, the number of bytes) and the bytes. The answer is a line of JSON: a list of
[line, depth, text] and the number of further entries, or null if there is no grammar. The process ends with its
input.
"""

from __future__ import annotations

import json
import resource
import signal
import sys
from collections.abc import Iterator
from importlib import import_module
from itertools import islice
from typing import TYPE_CHECKING

from toolyard.assistant.files.syntax.grammars import GRAMMARS, Grammar

if TYPE_CHECKING:
    from tree_sitter import Node, Parser

PARSE_SECONDS = 3
"""Time limit for one file."""
MOST_ENTRIES = 1_000
_MEMORY_BYTES = 1 << 30
_HEAD_CHARS = 240
_DEEPEST = 40
_SEARCHED_NODES = 30
"""Nodes that are searched for one that decides whether their parent is shown."""

Entry = tuple[int, int, str]


def main() -> None:
    """Serves requests until the input ends."""
    resource.setrlimit(resource.RLIMIT_AS, (_MEMORY_BYTES, _MEMORY_BYTES))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    signal.signal(signal.SIGALRM, signal.SIG_DFL)
    source, out = sys.stdin.buffer, sys.stdout.buffer
    while line := source.readline():
        language, size = json.loads(line)
        text = source.read(size)
        signal.alarm(PARSE_SECONDS)
        answer = outline_text(language, text)
        signal.alarm(0)
        out.write(json.dumps(answer).encode() + b"\n")
        out.flush()


def outline_text(language: str, text: bytes) -> tuple[list[Entry], int] | None:
    """Returns the entries of `text` and the number of further ones; None if there is no grammar."""
    grammar = GRAMMARS.get(language)
    parser = None if grammar is None else _load_parser(grammar)
    if grammar is None or parser is None:
        return None
    found = _TreeOutline(grammar, text).entries(parser.parse(text).root_node, 0, 0, None)
    return list(islice(found, MOST_ENTRIES)), sum(1 for _ in found)


def _load_parser(grammar: Grammar) -> Parser | None:
    try:
        from tree_sitter import Language, Parser

        language: object = getattr(import_module(grammar.package), grammar.function)()
        return Parser(Language(language))
    except (ImportError, AttributeError, ValueError):  # not installed, or incompatible with the parser
        return None


class _TreeOutline:
    """Collects the entries of one syntax tree."""

    def __init__(self, grammar: Grammar, text: bytes) -> None:
        self._grammar = grammar
        self._text = text

    def entries(self, node: Node, depth: int, level: int, begin: Node | None) -> Iterator[Entry]:
        """Yields the entries inside `node`; `begin` is a wrapper whose start belongs to the first entry in it."""
        grammar = self._grammar
        if level > _DEEPEST:
            return
        for child in node.named_children:
            kind = child.type
            start = child if begin is None else begin
            if kind in grammar.wraps:
                inner = list(self.entries(child, depth, level + 1, start))
                # `export { a } from "b"` contains no declaration: it is an import.
                yield from inner or [self._entry(child, child, depth, None)]
            elif kind in grammar.through:
                yield from self.entries(child, depth, level + 1, begin)
            elif kind in grammar.imports or self._matches(child):
                yield self._entry(start, child, depth, None)
            elif kind in grammar.heads:
                body = child.child_by_field_name("body")
                yield self._entry(start, child, depth, body, is_head=True)
                if kind in grammar.opened:
                    yield from self.entries(child if body is None else body, depth + 1, level + 1, None)
            elif kind in grammar.holding:
                inner_node = _find_node(child, grammar.holding[kind])
                if inner_node is not None:
                    body = inner_node.child_by_field_name("body")
                    yield self._entry(start, child, depth, body)

    def _matches(self, node: Node) -> bool:
        pattern = self._grammar.matching.get(node.type)
        near = min(node.end_byte, node.start_byte + _HEAD_CHARS)
        return pattern is not None and pattern.match(self._text, node.start_byte, near) is not None

    def _entry(self, begin: Node, node: Node, depth: int, body: Node | None, *, is_head: bool = False) -> Entry:
        end = node.end_byte if body is None else body.start_byte
        text = self._text[begin.start_byte : min(end, begin.start_byte + 4 * _HEAD_CHARS)].decode("utf-8", "replace")
        if body is None and is_head:
            text = text.partition("{")[0]
        text = " ".join(text.split()).rstrip("{ ")
        shown = text if len(text) <= _HEAD_CHARS else f"{text[:_HEAD_CHARS]}..."
        return begin.start_point[0] + 1, depth, shown


def _find_node(node: Node, kinds: tuple[str, ...]) -> Node | None:
    """Returns the first nearby node of these kinds inside `node`."""
    near = [node]
    for current in near:
        if current.type in kinds:
            return current
        if len(near) < _SEARCHED_NODES:
            near.extend(current.named_children[: _SEARCHED_NODES - len(near)])
    return None

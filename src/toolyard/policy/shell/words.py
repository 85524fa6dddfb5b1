"""Converts the parser's word nodes to `Word`: quotes and backslashes removed, expansions marked."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from toolyard.policy.shell.ast import Fragment, ParseFailure, Word

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tree_sitter import Node

_UNQUOTED_ESCAPE: Final = re.compile(r"\\(?s:(\n)|(.))")
_QUOTED_ESCAPE: Final = re.compile(r"\\(?:(\n)|([$`\"\\]))")
_BRACES: Final = re.compile(r"\{[^{}]*(?:,|\.\.)")
_GLOB: Final = re.compile(r"[*?\[]|[@+!]\(")
_ANSI: Final = re.compile(r"\\(?s:x([0-9A-Fa-f]{1,2})|u([0-9A-Fa-f]{1,4})|([0-7]{1,3})|(.))")
_ANSI_LETTERS: Final = dict(zip("ntrabefv\\'\"?", "\n\t\r\a\b\x1b\f\v\\'\"?", strict=True))
# Only these do nothing but insert a variable's value; others count, index, or evaluate text as code.
_PLAIN_EXPANSION: Final = re.compile(r"\$(?:\w+|[?#@*$!-]|\{#?\w+\}|\{\w+(?:%%?|##?|:?-)[^$`{}\\'\"\[\]]*\})")
_PLAIN_ARITHMETIC: Final = re.compile(r"\$\(\([0-9+*/%() -]*\)\)")
_WHOLE_LIST: Final = re.compile(r"\$\{?(?:@|\*)|@\]")


@dataclass(slots=True)
class _WordBuilder:
    """Builds a word from its nodes."""

    text: list[str] = field(default_factory=list[str])
    head: str | None = None
    bare: list[str] = field(default_factory=list[str])
    """The text outside quotes, in which globs and braces are active."""
    dynamic: bool = False
    splits: bool = False
    fragments: list[Fragment] = field(default_factory=list[Fragment])

    def add_literal(self, text: str, *, quoted: bool = True) -> None:
        self.text.append(text)
        self.fragments.append(Fragment(text, quoted))

    def add_unquoted(self, raw: str) -> None:
        """Adds text outside quotes, in which a backslash quotes the next character."""
        at = 0
        for escape in _UNQUOTED_ESCAPE.finditer(raw):
            self.add_literal(raw[at : escape.start()], quoted=False)
            self.add_literal(escape[2] or "")
            at = escape.end()
        self.add_literal(raw[at:], quoted=False)
        bare = _UNQUOTED_ESCAPE.sub("", raw)
        if "\n" in bare:
            # The grammar reads a line that begins with a backslash as the end of the previous word.
            raise ParseFailure("a line begins with a backslash")
        self.bare.append(bare)

    def add_expansion(self, spelling: str, *, splits: bool, quoted: bool = False) -> None:
        self.fragments.append(Fragment(spelling, quoted, expands=True))
        if self.head is None:
            self.head = "".join(self.text)
        self.dynamic = True
        self.splits = self.splits or splits


def node_text(node: Node) -> str:
    """Returns the source text of a node."""
    return (node.text or b"").decode("utf-8", "replace")


def is_plain_expansion(node: Node) -> bool:
    """Whether the expansion is certain to run no command."""
    if node.type == "arithmetic_expansion":
        return _PLAIN_ARITHMETIC.fullmatch(node_text(node)) is not None
    return _PLAIN_EXPANSION.fullmatch(node_text(node)) is not None


def word_from_nodes(nodes: Sequence[Node]) -> Word:
    """Returns the word that these adjacent nodes form."""
    pieces = _WordBuilder()
    for at, node in enumerate(nodes):
        # `$"text"` is the same text, translated if a translation exists.
        if not (node.type == "$" and nodes[at + 1 : at + 2] and nodes[at + 1].type == "string"):
            _add_node(node, pieces)
    source = "".join(node_text(node) for node in nodes)
    text, bare, fragments = "".join(pieces.text), "".join(pieces.bare), tuple(pieces.fragments)
    braces = _BRACES.search(bare) is not None
    # `[` alone is the program of that name.
    glob = None if bare in {"[", "[["} else _GLOB.search(bare)
    if pieces.dynamic or braces:
        known = "" if braces else pieces.head or ""
        starts = _GLOB.split(known, maxsplit=1)[0] if glob else known
        splits = pieces.splits or braces
        return Word(source, literal=False, head=starts, splits=splits, fragments=fragments)
    if glob:
        return Word(source, literal=False, head=_GLOB.split(text, maxsplit=1)[0], globs=True, fragments=fragments)
    return Word(text, fragments=fragments)


def _add_node(node: Node, pieces: _WordBuilder) -> None:
    match node.type:
        case "concatenation" | "command_name":
            for child in node.children:
                _add_node(child, pieces)
        case "translated_string":
            _add_node(node.children[-1], pieces)
        case "raw_string":
            pieces.add_literal(node_text(node)[1:-1])
        case "string":
            _add_string(node, pieces)
        case "ansi_c_string":
            _add_ansi(node_text(node)[2:-1], pieces)
        case "simple_expansion" | "expansion" | "arithmetic_expansion" | "command_substitution" | "brace_expression":
            pieces.add_expansion(node_text(node), splits=True)
        case "process_substitution":
            # Becomes one path such as /dev/fd/63.
            pieces.add_literal("/dev/fd/")
            pieces.add_expansion(node_text(node), splits=False)
        case _:
            pieces.add_unquoted(node_text(node))


def _add_string(node: Node, pieces: _WordBuilder) -> None:
    """Adds double-quoted text, cut from the source because blanks between two parts belong to no parser node."""
    source, start = node.text or b"", node.start_byte
    at, end = source.find(b'"') + 1, len(source) - 1
    for child in node.children:
        if child.type in {"simple_expansion", "expansion", "arithmetic_expansion", "command_substitution"}:
            _add_quoted(source[at : child.start_byte - start], pieces)
            whole_list = _WHOLE_LIST.search(node_text(child)) is not None
            pieces.add_expansion(node_text(child), splits=whole_list, quoted=True)
            at = child.end_byte - start
    _add_quoted(source[at:end], pieces)


def _add_quoted(text: bytes, pieces: _WordBuilder) -> None:
    pieces.add_literal(_QUOTED_ESCAPE.sub(lambda match: match[2] or "", text.decode("utf-8", "replace")))


def _add_ansi(text: str, pieces: _WordBuilder) -> None:
    known = True

    def decode_escape(match: re.Match[str]) -> str:
        nonlocal known
        if match[1] or match[2]:
            return chr(int(match[1] or match[2], 16))
        if match[3]:
            return chr(int(match[3], 8) & 0xFF)
        known = known and match[4] in _ANSI_LETTERS
        return _ANSI_LETTERS.get(match[4], "")

    value = _ANSI.sub(decode_escape, text)
    # A NUL or non-ASCII byte ends or changes the word in shell-specific ways.
    if known and value.isascii() and "\0" not in value:
        pieces.add_literal(value)
    else:
        pieces.add_expansion(text, splits=False, quoted=True)

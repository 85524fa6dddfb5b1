"""Refuses text for which the grammar disagrees with bash or takes too long to parse.

Each case was found by running texts in bash and comparing which programs it started.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from toolyard.policy.shell.ast import ParseFailure
from toolyard.policy.shell.words import node_text, word_from_nodes

if TYPE_CHECKING:
    from tree_sitter import Node

MAX_COMMAND_CHARS: Final = 20_000
MAX_OPEN_BRACKETS: Final = 100
MAX_SLOW_TOKENS: Final = 100
"""Maximum number of here-documents and `[[` tests, whose parse time grows quadratically."""
MAX_MARKS: Final = 2_000
"""Maximum number of separators, opening brackets and `?`. Also quadratic, with a smaller factor in invalid text."""

_SLOW_TOKENS: Final = re.compile(r"<<|\[\[|\(\(")
_MARKS: Final = re.compile(r"[;|&()$`!?]")
_BRACKETS: Final = re.compile(r"[(){}\[\]]")
# Directly after `=` the grammar reads the first word of the next line as the value, but the shell as the program.
_CONTINUED_WORD: Final = re.compile(r"(?<![ \t])\\\n(?![ \t])|\\\\\n|(?:\A|\n)[ \t]*\\\n|=\\\n")
# The grammar skips an escaped blank between words; the shell makes it part of a word.
_ESCAPED_BLANK: Final = re.compile(r"(?<![A-Za-z_./-])\\[ \t]")
# The shell reads these as parts of a word and the grammar as blanks, or the other way round.
_ODD_CHARACTERS: Final = re.compile(
    r"[\x00-\x08\x0b-\x1f\x7f\x85\xa0\u1680\u2000-\u200f\u2028-\u202f\u205f-\u2060\u3000\ufeff]"
)
# In these positions the grammar indexes a table of 256 entries with any character: an out-of-bounds read that crashes
# this process for some characters.
_PAST_TABLE: Final = re.compile(r"(?:\{[\d.]*|[$?]|-[A-Za-z]*)[^\x00-\xff]")
RESERVED: Final = frozenset(
    {
        *("if", "then", "else", "elif", "fi", "for", "select", "while", "until", "do", "done", "case", "in", "esac"),
        *("{", "}", "!", "function"),
    }
)
"""Never the name of a program. If the grammar reports one as such (`! { ls; }`, `time { ls; }`), it is wrong."""
_KEYWORDS: Final = RESERVED | {"[", "]", "[[", "]]"}
_BEFORE_KEYWORD: Final = b" \t\n;&|(){}`"
_AFTER_KEYWORD: Final = b" \t\n;&|()<>`"

_FILE_TESTS: Final = frozenset(
    {
        *("-b", "-c", "-d", "-e", "-f", "-g", "-h", "-k", "-n", "-p", "-r", "-s", "-t", "-u", "-w", "-x", "-z"),
        *("-G", "-L", "-N", "-O", "-S", "-nt", "-ot", "-ef", "==", "=", "!=", "!"),
    }
)
# `[` takes plain numbers; `[[` would evaluate text as arithmetic, which may run commands.
_SINGLE_TESTS: Final = _FILE_TESTS | {"[", "]", "-a", "-o", "-eq", "-ne", "-lt", "-le", "-gt", "-ge"}
# In `[`, these would end the command or open a file.
_DOUBLE_TESTS: Final = _FILE_TESTS | {"[[", "]]", "=~", "<", ">", "&&", "||", "(", ")"}
_EXPRESSIONS: Final = frozenset({"binary_expression", "unary_expression", "parenthesized_expression", "test_command"})


def refuse_ambiguous_text(text: str) -> None:
    """Raises ParseFailure for text that must not reach the parser."""
    if len(text) > MAX_COMMAND_CHARS:
        raise ParseFailure(f"it is longer than {MAX_COMMAND_CHARS} characters")
    if _ODD_CHARACTERS.search(text) or not _encodable(text):
        raise ParseFailure("it contains control characters or odd blanks")
    if _PAST_TABLE.search(text):
        raise ParseFailure("a special character is followed by one that the grammar does not know")
    if _CONTINUED_WORD.search(text):
        raise ParseFailure("a line is continued in the middle of a word")
    if _ESCAPED_BLANK.search(text):
        raise ParseFailure("a word starts with an escaped blank")
    if len(_SLOW_TOKENS.findall(text)) > MAX_SLOW_TOKENS:
        raise ParseFailure("it has too many here-documents or tests")
    if len(_MARKS.findall(text)) > MAX_MARKS:
        raise ParseFailure("it has too many parts")
    depth = 0
    for bracket in _BRACKETS.findall(text):
        depth = depth + 1 if bracket in "({[" else max(depth - 1, 0)
        if depth > MAX_OPEN_BRACKETS:
            raise ParseFailure("it nests too deep")


def _encodable(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def refuse_ambiguous_keyword(node: Node, source: bytes) -> None:
    """Raises ParseFailure for words such as `{ls` and `fi#`: program names in bash, but keywords in the grammar."""
    if node.type not in _KEYWORDS:
        return
    before, after = source[node.start_byte - 1 : node.start_byte], source[node.end_byte : node.end_byte + 1]
    if (node.start_byte and before not in _BEFORE_KEYWORD) or after not in _AFTER_KEYWORD:
        raise ParseFailure(f'"{node.type}" is not written as a word of its own')


def is_side_effect_free_test(test: Node, source: bytes) -> bool:
    """Whether a test is certain to run no command."""
    opening = test.children[0].type
    for child in (test.children[0], test.children[-1]):
        refuse_ambiguous_keyword(child, source)
    if b"\n" in (test.text or b""):
        raise ParseFailure("a test goes over several lines")
    if opening == "[":
        return _contains_only(test, _SINGLE_TESTS, splitting=True)
    return opening == "[[" and _contains_only(test, _DOUBLE_TESTS, splitting=False)


def _contains_only(node: Node, safe: frozenset[str], *, splitting: bool) -> bool:
    """Whether the test contains only safe operators and words; in `[`, an unquoted `$x` may become an operator."""
    if (node.type == "test_operator" or not node.is_named) and node.child_count == 0:
        return node_text(node).strip() in safe
    if node.type in _EXPRESSIONS:
        return all(_contains_only(child, safe, splitting=splitting) for child in node.children)
    return not (splitting and word_from_nodes([node]).splits)

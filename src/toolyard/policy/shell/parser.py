"""Parses command text into `Script` with the tree-sitter grammar of bash.

Nothing is guessed: if the grammar reports an error, or the text has a form that the grammar may read differently from
bash, `ParseFailure` is raised, and the caller must assume that the text may do anything.

The parser is native code without limits of its own, so text that would be slow or deeply nested is refused first.
"""

from __future__ import annotations

import functools
import itertools
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Final

from toolyard.policy.shell.ast import (
    Assignment,
    CommandPosition,
    Fragment,
    ParseFailure,
    Redirection,
    Scope,
    Script,
    SimpleCommand,
    Word,
)
from toolyard.policy.shell.grammar_guards import (
    is_side_effect_free_test,
    refuse_ambiguous_keyword,
    refuse_ambiguous_text,
)
from toolyard.policy.shell.words import is_plain_expansion, node_text, word_from_nodes

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from tree_sitter import Language, Node

MAX_DEPTH: Final = 60
MAX_COMMANDS: Final = 1_000

_SUBSTITUTIONS: Final = frozenset({"command_substitution", "process_substitution"})
_EXPANSIONS: Final = frozenset({"simple_expansion", "expansion", "arithmetic_expansion", "subscript"})
# After `==` the grammar expects a pattern, and after a comment more words, where the shell ends the command.
_WORDS: Final = frozenset(
    {
        *(
            "command_name",
            "word",
            "number",
            "string",
            "raw_string",
            "ansi_c_string",
            "concatenation",
            "$",
            "==",
            "=~",
        ),
        "translated_string",
        *("simple_expansion", "expansion", "arithmetic_expansion", "brace_expression", *_SUBSTITUTIONS),
    }
)
_GROUPS: Final = frozenset(
    {
        *("program", "compound_statement", "do_group", "if_statement", "elif_clause", "else_clause"),
        *("while_statement", "case_statement", "case_item", "for_statement", "negated_command", "subshell"),
    }
)
_BRANCHES: Final = frozenset({"if_statement", "while_statement", "case_item", "for_statement"})
_TESTED: Final = frozenset({"if_statement", "elif_clause", "else_clause", "case_item"})
_SCOPES: Final = _BRANCHES | _TESTED | {"subshell"}
_ALL_PARAMETERS: Final = Word(
    '"$@"', literal=False, splits=True, fragments=(Fragment("$@", quoted=True, expands=True),)
)
_OPERATORS: Final = frozenset({"&&", "||", "|", "|&"})


@functools.cache
def _language() -> Language:
    # Imported on first use: a server that never runs a command does not pay for it.
    import tree_sitter
    import tree_sitter_bash

    return tree_sitter.Language(tree_sitter_bash.language())


def parse_script(text: str) -> Script:
    """Parses command text. Raises ParseFailure for text that bash may read differently."""
    refuse_ambiguous_text(text)
    from tree_sitter import Parser

    # One parser per text: a parser must not be shared between threads, and creating one takes microseconds.
    source = text.encode()
    root = Parser(_language()).parse(source).root_node
    if root.has_error:
        raise ParseFailure("it is not complete shell syntax")
    reader = _TreeWalker(source)
    reader.visit(root, CommandPosition(), 0)
    return Script(
        tuple(reader.commands),
        frozenset(reader.bodies),
        tuple(reader.obscure),
        reader.comments,
        tuple(reader.bodies.items()),
    )


@dataclass(slots=True)
class _TreeWalker:
    """Walks the syntax tree once and collects the simple commands."""

    source: bytes
    commands: list[SimpleCommand] = field(default_factory=list[SimpleCommand])
    bodies: dict[str, str] = field(default_factory=dict[str, str])
    obscure: list[str] = field(default_factory=list[str])
    comments: bool = False

    def visit(self, node: Node, position: CommandPosition, depth: int) -> None:
        if depth > MAX_DEPTH:
            raise ParseFailure("it nests too deep")
        handler = _HANDLERS.get(node.type)
        if handler is not None:
            handler(self, node, position, depth)
            return
        if node.type == "c_style_for_statement" or (node.type in _EXPANSIONS and not is_plain_expansion(node)):
            self.obscure.append(node_text(node))
        self._visit_children(node.children, position, depth)

    def _add_command(self, simple: SimpleCommand) -> None:
        if len(self.commands) >= MAX_COMMANDS:
            raise ParseFailure(f"it has more than {MAX_COMMANDS} parts")
        self.commands.append(simple)

    def _visit_children(self, nodes: Iterable[Node], position: CommandPosition, depth: int) -> None:
        """Visits the parts of a group; a part followed by `&` runs in the background."""
        parts = list(nodes)
        first = replace(position, joined="")
        for at, node in enumerate(parts):
            if not node.is_named:
                refuse_ambiguous_keyword(node, self.source)
            else:
                goes_on = parts[at + 1].type == "&" if at + 1 < len(parts) else False
                self.visit(node, replace(first, background=True) if goes_on else first, depth + 1)

    def visit_group(self, node: Node, position: CommandPosition, depth: int) -> None:
        if node.type == "compound_statement" and node_text(node).startswith("(("):
            self.obscure.append(node_text(node))
        if node.type == "for_statement" and (variable := node.child_by_field_name("variable")):
            choices = tuple(word_from_nodes([value]) for value in node.children_by_field_name("value")) or (
                _ALL_PARAMETERS,
            )
            self._add_command(
                SimpleCommand(None, assignments=(Assignment(node_text(variable), None, choices),), position=position)
            )
        branch = position.conditional or node.type in _BRANCHES
        inner = replace(position, conditional=branch, subshell=position.subshell or node.type == "subshell")
        children = node.children
        if node.type == "if_statement":
            # The test always runs, and its effects on the shell persist after the branches.
            then = next((at for at, child in enumerate(children) if child.type == "then"), 0)
            self._visit_children(children[:then], inner, depth)
            negated = any(child.type == "negated_command" for child in children[:then])
            inner, children = replace(inner, joined="||" if negated else "&&"), children[then:]
        if node.type in _SCOPES or (node.type == "compound_statement" and position.joined in {"&&", "||", "|"}):
            inner = _with_scope(inner, node)
        self._visit_children(children, inner, depth)

    def visit_function(self, node: Node, position: CommandPosition, depth: int) -> None:
        body = node.child_by_field_name("body")
        self.bodies[node_text(node.child_by_field_name("name") or node)] = node_text(body) if body else ""
        redirects = node.children_by_field_name("redirect")
        self._add_command(
            SimpleCommand(None, redirections=tuple(self._redirections(redirects, position, depth)), position=position)
        )
        # A function's input is that of its caller.
        self._visit_children(
            [body] if body else [], _with_scope(replace(position, function=True, fed=True), node), depth
        )

    def visit_assignment(self, node: Node, position: CommandPosition, depth: int) -> None:
        nodes = node.children if node.type == "variable_assignments" else [node]
        self._add_command(
            SimpleCommand(None, assignments=self._assignments(nodes, position, depth), position=position)
        )

    def visit_comment(self, _node: Node, _place: CommandPosition, _depth: int) -> None:
        self.comments = True

    def visit_list(self, node: Node, position: CommandPosition, depth: int) -> None:
        # `a && b && c` is left-recursive in the grammar, as deep as the chain is long.
        spine: list[Node] = []
        left = node
        while left.type == "list":
            spine.append(left)
            left = left.children[0]
        self.visit(left, position, depth + 1)
        for part in reversed(spine):
            joined = ""
            for child in part.children[1:]:
                if child.type in _OPERATORS:
                    joined = child.type
                elif child.is_named:
                    self.visit(child, replace(position, joined=joined), depth + 1)

    def visit_pipeline(self, node: Node, position: CommandPosition, depth: int) -> None:
        here = position
        for child in node.children:
            if child.type in _OPERATORS:
                here = replace(position, joined="|", fed=True)
            elif child.is_named:
                self.visit(child, here, depth + 1)

    def visit_redirected(self, node: Node, position: CommandPosition, depth: int) -> None:
        redirects = node.children_by_field_name("redirect")
        found = tuple(self._redirections(redirects, position, depth))
        body = node.child_by_field_name("body")
        inner = replace(position, fed=True) if any(one.gives_input for one in found) else position
        extra = [
            word_from_nodes([part])
            for one in redirects
            if one.type == "heredoc_redirect"
            for part in one.children_by_field_name("argument")
        ]
        if body is not None and body.type == "command":
            at = len(self.commands)
            self.visit_command(body, inner, depth)
            own = self.commands[at]
            self.commands[at] = replace(
                own, arguments=(*own.arguments, *extra), redirections=(*own.redirections, *found)
            )
        else:
            self._add_command(SimpleCommand(None, redirections=found, position=position))
            if body is not None:
                self.visit(body, inner, depth + 1)
        for one in redirects:
            if one.type == "heredoc_redirect":
                self._after_heredoc(one, position, depth)

    def _after_heredoc(self, node: Node, position: CommandPosition, depth: int) -> None:
        """Visits what follows `<<EOF` on its line (a pipe, `&& more`), and the substitutions in the document."""
        joined = ""
        for child in node.children:
            if child.type in _OPERATORS:
                joined = child.type
            elif child.type == "pipeline":
                self.visit_pipeline(child, replace(position, joined="|", fed=True), depth + 1)
            elif child.type == "heredoc_body":
                self._visit_children(child.children, position, depth)
            elif child.is_named and child.type not in {"heredoc_start", "heredoc_end", "file_redirect"}:
                self.visit(child, replace(position, joined=joined), depth + 1)

    def _redirections(self, nodes: Iterable[Node], position: CommandPosition, depth: int) -> Iterable[Redirection]:
        for node in nodes:
            targets = [child for child in node.children if child.is_named and child.type != "file_descriptor"]
            operator = next((child.type for child in node.children if not child.is_named), "")
            if node.type == "heredoc_redirect":
                bodies = [node_text(child) for child in targets if child.type == "heredoc_body"]
                yield Redirection("<<", None, "".join(bodies))
                inner = [child for child in targets if child.type == "file_redirect"]
                yield from self._redirections(inner, position, depth)
                continue
            self._visit_substitutions(targets, position, depth)
            if len(targets) > 1 or (not targets and not operator.endswith("-")):
                raise ParseFailure("a redirection is unclear")
            yield Redirection(operator, word_from_nodes(targets) if targets else None)

    def visit_substitution(self, node: Node, position: CommandPosition, depth: int) -> None:
        inner = _with_scope(replace(position, substitution=True, joined="", background=False), node)
        redirects = node.children_by_field_name("redirect")
        if redirects:
            self._add_command(
                SimpleCommand(None, redirections=tuple(self._redirections(redirects, inner, depth)), position=inner)
            )
        self._visit_children((child for child in node.children if child not in redirects), inner, depth)

    def _refuse_line_ends(self, node: Node) -> None:
        """Refuses a line end between words: it ends the command, but the grammar ignores it after `==` and `=~`."""
        for one, next_one in itertools.pairwise(node.children):
            between = self.source[one.end_byte : next_one.start_byte].replace(b"\\\n", b"")
            if b"\n" in between and one.type != "heredoc_redirect":
                raise ParseFailure("a line ends among its words")

    def visit_command(self, node: Node, position: CommandPosition, depth: int) -> None:
        groups: list[list[Node]] = []
        assignments: list[Node] = []
        redirects: list[Node] = []
        self._refuse_line_ends(node)
        for child in node.children:
            if child.type == "variable_assignment":
                assignments.append(child)
            elif child.type in {"file_redirect", "herestring_redirect", "heredoc_redirect"}:
                redirects.append(child)
            elif child.type not in _WORDS:
                raise ParseFailure(f"it has a {child.type} among its words")
            elif groups and groups[-1][-1].end_byte == child.start_byte:
                groups[-1].append(child)
            else:
                groups.append([child])
        found = tuple(self._redirections(redirects, position, depth))
        here = replace(position, fed=True) if any(one.gives_input for one in found) else position
        words = [word_from_nodes(group) for group in groups]
        at = len(self.commands)
        self._add_command(SimpleCommand(None))
        values = self._assignments(assignments, position, depth)
        for group in groups:
            self._visit_substitutions(group, position, depth)
        self.commands[at] = SimpleCommand(words[0] if words else None, tuple(words[1:]), values, found, here)

    def _visit_substitutions(self, nodes: Iterable[Node], position: CommandPosition, depth: int) -> None:
        """Visits the substitutions in words, at any depth."""
        if depth > MAX_DEPTH:
            raise ParseFailure("it nests too deep")
        for node in nodes:
            if node.type in _SUBSTITUTIONS:
                self.visit_substitution(node, position, depth + 1)
                continue
            if node.type in _EXPANSIONS and not is_plain_expansion(node):
                self.obscure.append(node_text(node))
            if node.child_count:
                self._visit_substitutions(node.children, position, depth + 1)

    def _assignments(self, nodes: Iterable[Node], position: CommandPosition, depth: int) -> tuple[Assignment, ...]:
        found: list[Assignment] = []
        for node in nodes:
            name, value = node.child_by_field_name("name"), node.child_by_field_name("value")
            self._visit_substitutions(node.children, position, depth)
            plain = value is not None and value.type != "array"
            word = word_from_nodes([value]) if value is not None and plain else (Word("") if value is None else None)
            found.append(Assignment(node_text(name) if name else "", word))
        return tuple(found)

    def visit_test(self, node: Node, position: CommandPosition, depth: int) -> None:
        self._add_command(SimpleCommand(Word(node.children[0].type), position=position))
        # First, because it checks the nesting depth.
        self._visit_substitutions(node.children, position, depth)
        if not is_side_effect_free_test(node, self.source):
            self.obscure.append(node_text(node))

    def visit_declaration(self, node: Node, position: CommandPosition, depth: int) -> None:
        keyword, *rest = node.children
        assignments = [child for child in rest if child.type == "variable_assignment"]
        words = [child for child in rest if child.type != "variable_assignment"]
        self._visit_substitutions(words, position, depth)
        values = self._assignments(assignments, position, depth)
        arguments = tuple(word_from_nodes([child]) for child in rest)
        self._add_command(SimpleCommand(Word(node_text(keyword)), arguments, values, position=position))


def _with_scope(position: CommandPosition, node: Node) -> CommandPosition:
    # Each part of a pipeline runs in a subshell.
    is_shell = node.type not in {*_SCOPES, "compound_statement"} or node.type == "subshell" or position.joined == "|"
    scope = Scope(node.start_byte, is_shell, position.joined, node.type in _TESTED)
    return replace(position, scopes=(*position.scopes, scope))


_HANDLERS: Final[dict[str, Callable[[_TreeWalker, Node, CommandPosition, int], None]]] = {
    "command": _TreeWalker.visit_command,
    "list": _TreeWalker.visit_list,
    "pipeline": _TreeWalker.visit_pipeline,
    "redirected_statement": _TreeWalker.visit_redirected,
    "function_definition": _TreeWalker.visit_function,
    "command_substitution": _TreeWalker.visit_substitution,
    "process_substitution": _TreeWalker.visit_substitution,
    "test_command": _TreeWalker.visit_test,
    "declaration_command": _TreeWalker.visit_declaration,
    "unset_command": _TreeWalker.visit_declaration,
    "variable_assignment": _TreeWalker.visit_assignment,
    "variable_assignments": _TreeWalker.visit_assignment,
    "comment": _TreeWalker.visit_comment,
    **dict.fromkeys(_GROUPS, _TreeWalker.visit_group),
}

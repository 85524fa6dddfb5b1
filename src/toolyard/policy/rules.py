"""Permission rules in the users' syntax, parsed once when the configuration is loaded.

Read(src/**)          every reading tool (Read, Grep, Glob, LS, read_file ...), on these paths
Write(*.md) Edit(..)  every writing tool; the two mean the same
Bash(git status:*)    commands that start with these words; Bash(npm run test): exactly this one
Bash(@read-only)      commands known to only read
Read, Write, Bash     without a pattern: all reads, all writes, all commands and code
Grep, Grep(docs/**)   that tool alone
mcp__github__*        tools by name; mcp__github means every tool of that server
*                     everything
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Final

from toolyard.config.suggestions import did_you_mean
from toolyard.core.actions import Action, Effect, Kind
from toolyard.core.errors import ConfigError
from toolyard.policy.command_rules import CommandPattern, parse_command_pattern
from toolyard.policy.patterns import MAX_PATTERN_CHARS, PathPattern, PathView, parse_pattern

_RULE: Final = re.compile(r"([A-Za-z0-9_.*-]+)(?:\((.*)\))?", re.DOTALL)
_EXAMPLE: Final = "Examples: Read(src/**), Write(//tmp/out/**), Bash(git status:*), mcp__github__*."
_KINDS: Final = {"Read": Kind.READ, "Write": Kind.WRITE, "Edit": Kind.WRITE, "Bash": Kind.EXECUTE}
KNOWN_TOOLS: Final = frozenset(
    {
        *("Read", "Write", "Edit", "MultiEdit", "NotebookEdit", "Bash", "Grep", "Glob", "LS"),
        *("BashOutput", "KillShell", "execute_bash", "execute_python", "search_tools"),
        *("read_file", "read_text_file", "read_media_file", "read_multiple_files", "write_file", "edit_file"),
        *("create_directory", "list_directory", "list_directory_with_sizes", "directory_tree", "move_file"),
        *("search_files", "get_file_info", "list_allowed_directories"),
        *("snapshot_create", "snapshot_list", "snapshot_show", "snapshot_diff", "snapshot_restore", "snapshot_gc"),
        *("memory_search", "memory_remember", "shared_list", "shared_read", "shared_merge"),
    }
)
"""Every tool that Toolyard itself serves; a test keeps this in step with the toolsets."""
_SERVER_PARTS: Final = 2
"""`mcp__server` has two parts, `mcp__server__tool` three."""


@dataclass(frozen=True, slots=True)
class Rule:
    """One parsed rule. `str(rule)` returns its text as written; `source` names the preset it came from."""

    effect: Effect
    name: str
    argument: str | None = None
    unless: tuple[str, ...] = ()
    """Patterns of paths that the rule excepts; only presets set them."""
    source: str = ""
    written: str = field(default="", compare=False)
    """The text to display if the file's text contains variables."""
    paths: PathPattern | None = field(default=None, repr=False, compare=False)
    exceptions: tuple[PathPattern, ...] = field(default=(), repr=False, compare=False)
    commands: CommandPattern | None = field(default=None, repr=False, compare=False)
    names: re.Pattern[str] | None = field(default=None, repr=False, compare=False)

    def __str__(self) -> str:
        return self.written or self._text

    @property
    def label(self) -> str:
        """The rule's name in decisions."""
        return f"{self.effect} {self}" + (f" (preset {self.source})" if self.source else "")

    @property
    def identity(self) -> str:
        """A key that is unique to this rule; not for display, because variables are expanded in it."""
        return f"{self.effect} {self._text} {self.source}"

    @property
    def _text(self) -> str:
        return self.name if self.argument is None else f"{self.name}({self.argument})"

    @property
    def names_absolute_path(self) -> bool:
        return self.paths is not None and self.paths.is_absolute

    def governs(self, kind: Kind, tool: str) -> bool:
        """Whether the rule concerns this kind of action or this tool, for any path or command."""
        if self.name in _KINDS:
            return _KINDS[self.name] is kind
        return self.names is not None and self.names.match(tool) is not None

    def applies(self, action: Action, view: PathView | None) -> bool:
        """Whether the rule matches this action at this path (None for an action without a path)."""
        if not self.governs(action.kind, action.tool):
            return False
        if self.commands is not None:
            command = action.command
            if command is None:
                # Code has no command line: a deny rule has nothing to match, and an allow rule must not guess.
                return False
            allow = self.effect is Effect.ALLOW
            return self.commands.matches_whole(command) if allow else self.commands.matches_any_part(command)
        return self.paths is None or (view is not None and self.matches_path(view))

    def matches_path(self, view: PathView) -> bool:
        if self.paths is None:
            return True
        if self.effect is Effect.ALLOW:
            return self.paths.matches_in_workspace(view)
        return self.paths.matches_in_any_root(view) and not self.is_exception(view)

    def is_exception(self, view: PathView) -> bool:
        """Whether the file's own name is excepted; a folder called `.env.example` excepts nothing inside it."""
        last = view.absolute[-1:]
        return any(exception.matches(last) for exception in self.exceptions)


def parse_rule(
    text: str,
    effect: Effect,
    *,
    home: str | None = None,
    unless: tuple[str, ...] = (),
    source: str = "",
) -> Rule:
    """Parses one rule. Raises ConfigError with an example if the text is not a rule."""
    if len(text) > MAX_PATTERN_CHARS:
        raise ConfigError(f"a rule is longer than {MAX_PATTERN_CHARS} characters.", hint=_EXAMPLE)
    match = _RULE.fullmatch(text.strip())
    if match is None:
        raise ConfigError(f'"{text}" is not a rule.', hint=_EXAMPLE)
    name, argument = match[1], match[2]
    _check_name(name, text)
    try:
        commands = parse_command_pattern(argument) if name == "Bash" and argument is not None else None
        paths = parse_pattern(argument, home=home) if name != "Bash" and argument is not None else None
    except ConfigError as error:
        raise ConfigError(f'the rule "{text}" cannot be read: {error.message}', hint=error.hint) from None
    exceptions = tuple(parse_pattern(pattern) for pattern in unless)
    return Rule(
        *(effect, name, argument, unless, source),
        paths=paths,
        exceptions=exceptions,
        commands=commands,
        names=None if name in _KINDS else _tool_name_regex(name),
    )


def _check_name(name: str, text: str) -> None:
    """Refuses unknown tool names: a rule with a typo would match nothing and protect nothing."""
    if name in KNOWN_TOOLS or "*" in name or "__" in name or "." in name:
        return
    guess = did_you_mean(name, KNOWN_TOOLS)
    raise ConfigError(f'the rule "{text}" names an unknown tool "{name}".', hint=guess)


def _tool_name_regex(name: str) -> re.Pattern[str]:
    if name.startswith("mcp__") and len(name.split("__")) == _SERVER_PARTS:
        name = f"{name}__*"
    # The pieces between stars are literal and each star matches lazily and atomically, so backtracking is bounded;
    # runs of stars are collapsed to keep it so.
    pieces = [re.escape(piece) for piece in re.split(r"\*+", name)]
    head, *rest = pieces
    if not rest:
        return re.compile(head + r"\Z")
    middle = "".join(f"(?>.*?{piece})" for piece in rest[:-1])
    return re.compile(f"(?s:{head}{middle}.*{rest[-1]})\\Z")

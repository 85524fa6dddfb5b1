"""Decides whether an action is allowed, denied, or needs approval.

Deterministic: the same action always gets the same decision, and nothing is read from disk but the mounts and
repositories that the circuit breaker checks. Order of precedence:

1. deny rules, in every mode;
2. the circuit breaker: commands that would destroy something as a whole ask in every mode that would run them;
3. `bypassPermissions` allows the rest;
4. restrictions that no rule overrides: read-only `plan` mode, protected paths, read-only context paths;
5. ask rules;
6. allow rules, which override an ask, and override "outside" only if they name an absolute path;
7. the mode's row in the table.

A path is checked both as the caller wrote it and with its links resolved; the stricter decision applies.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from toolyard.core.actions import Action, Decision, Effect, Kind
from toolyard.core.errors import ConfigError
from toolyard.core.paths import normalize_path, relative_to
from toolyard.core.permission_modes import Access, PermissionMode
from toolyard.policy import messages
from toolyard.policy.circuit_breaker import CircuitBreaker
from toolyard.policy.command_rules import analyse_command
from toolyard.policy.modes import MODES, SEVERITY, ModeRow, Zone, stricter_effect
from toolyard.policy.patterns import PathPattern, PathView, PatternIndex, combine_globs, parse_pattern
from toolyard.policy.rules import Rule

MAX_CACHED_FOLDERS = 20_000
READ_TOOL = "Read"
CIRCUIT_BREAKER = "circuit breaker"
# Git runs what these name (hooks, commands in a config, another repository's hooks through `commondir`, the `exec`
# lines of a rebase in progress), so an agent that could write them would run code as the user, outside the sandbox.
DEFAULT_PROTECTED = (
    "**/.git/hooks/**",
    "**/.git/config",
    "**/.git/config.worktree",
    "**/.git/commondir",
    "**/.git/modules/**",
    "**/.git/worktrees/**",
    "**/.git/rebase-merge/**",
    "/toolyard.yaml",
)


@dataclass(frozen=True, slots=True)
class ContextPath:
    """A path declared in the configuration, outside or inside the workspace, with its own access."""

    path: str
    access: Access = Access.READ
    protected_paths: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Root:
    """A folder with the access that it grants."""

    path: str
    zone: Zone


@dataclass(frozen=True, slots=True)
class ProtectedPattern:
    """A pattern whose matches may not be written, nor their literally named parent folders moved or replaced."""

    text: str
    matches: PathPattern
    folders: tuple[PathPattern, ...]

    @classmethod
    def parse(cls, text: str, *, home: str | None, root: str | None = None) -> ProtectedPattern:
        pattern = parse_pattern(text, home=home)
        if root is not None:
            pattern = pattern.anchored_at(root)
        return cls(text, pattern, pattern.parent_folder_patterns())

    def protects(self, view: PathView) -> bool:
        if self.matches.matches_in_any_root(view):
            return True
        return any(folder.matches_exactly(names) for folder in self.folders for names in folder.name_sequences(view))


class Roots:
    """All roots of a workspace, innermost first."""

    def __init__(self, workspace: str, context: Sequence[ContextPath], extra: Iterable[str]) -> None:
        for path in (workspace, *(entry.path for entry in context), *extra):
            if not path.startswith("/") or normalize_path(path, "/") != path:
                raise ConfigError(
                    f'the root "{path}" is not an absolute path.', hint="Resolve it before building a policy."
                )
        zones = {Access.READ: Zone.READ_ONLY, Access.WRITE: Zone.INSIDE}
        roots = [Root(entry.path, zones[entry.access]) for entry in context]
        # If one path is declared twice, the stricter access wins; a declaration also overrides the workspace itself.
        roots.sort(key=lambda root: root.zone is not Zone.READ_ONLY)
        roots.append(Root(workspace, Zone.INSIDE))
        roots.extend(Root(path, Zone.INSIDE) for path in extra)
        roots.sort(key=lambda root: -len(root.path))
        self.workspace = workspace
        self.all = tuple(roots)
        self.paths = frozenset(root.path for root in roots)

    def containing_root(self, path: str) -> Root | None:
        """Returns the innermost root that contains the path, or None."""
        for root in self.all:
            if relative_to(path, root.path) is not None:
                return root
        return None

    def path_view(self, path: str) -> PathView:
        held = [below for root in self.paths if (below := relative_to(path, root)) is not None]
        inside = relative_to(path, self.workspace)
        return PathView(
            path,
            _split_names(path.lstrip("/")),
            None if inside is None else _split_names(inside),
            tuple(_split_names(below) for below in held),
        )


@dataclass(frozen=True, slots=True)
class _RuleSet:
    """The rules that concern one kind of action and one tool."""

    deny: tuple[Rule, ...]
    ask: tuple[Rule, ...]
    allow: tuple[Rule, ...]
    refusing: PatternIndex[Rule]
    """The deny rules followed by the ask rules, indexed by the paths they may match."""
    needs_path_view: bool

    def find_refusal(self, action: Action, view: PathView | None) -> Rule | None:
        """Returns the first deny or ask rule that applies."""
        candidates = self.refusing.candidates(view.absolute if view else ())
        return next((rule for rule in candidates if rule.applies(action, view)), None)


@dataclass(frozen=True, slots=True)
class _FolderVisibility:
    """Cached visibility of the files in a folder: one answer for all, or the names that a rule may match."""

    all_visible: bool | None = None
    decides_each_file: bool = False
    """Every file must be decided individually."""
    names: frozenset[str] = frozenset()
    globs: re.Pattern[str] | None = None

    def may_be_refused(self, name: str) -> bool:
        return (
            self.decides_each_file
            or name in self.names
            or (self.globs is not None and self.globs.match(name) is not None)
        )


@dataclass(frozen=True, slots=True)
class _CompiledPolicy:
    row: ModeRow
    roots: Roots
    guards: PatternIndex[ProtectedPattern]
    allow_decision: Decision
    workspace_prefix: str
    reads_unrestricted: bool
    """No deny or ask rule can match a read, so everything inside is visible."""
    rule_sets: dict[tuple[Kind, str], _RuleSet] = field(default_factory=dict)
    folders: dict[tuple[str, str], _FolderVisibility] = field(default_factory=dict)


@dataclass(frozen=True)
class Policy:
    """The permissions of one agent in one workspace. Immutable; its caches only speed up decisions."""

    mode: PermissionMode
    workspace: str
    context: tuple[ContextPath, ...] = ()
    extra_roots: tuple[str, ...] = ()
    """Roots that only `moderate` mode opens in addition to the workspace."""
    protected: tuple[str, ...] = ()
    """Patterns of paths that may not be written, in addition to DEFAULT_PROTECTED."""
    rules: tuple[Rule, ...] = ()
    home: str | None = None
    display_patterns: Mapping[str, str] = field(default_factory=dict[str, str], repr=False, compare=False)
    """The display texts of protected patterns whose text in the file contains variables."""
    breaker: CircuitBreaker | None = field(default=None, repr=False, compare=False)
    """None if the configuration sets `allow_destructive`."""
    _compiled: _CompiledPolicy = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        row = MODES[self.mode]
        guards = [ProtectedPattern.parse(text, home=self.home) for text in (*DEFAULT_PROTECTED, *self.protected)]
        for entry in self.context:
            guards.extend(
                ProtectedPattern.parse(text, home=self.home, root=entry.path) for text in entry.protected_paths
            )
        compiled = _CompiledPolicy(
            row=row,
            roots=Roots(self.workspace, self.context, self.extra_roots if row.opens_extra_roots else ()),
            guards=PatternIndex((guard.matches, guard) for guard in guards),
            allow_decision=Decision(Effect.ALLOW, f"{self.mode} mode allows it.", f"mode {self.mode}"),
            workspace_prefix=self.workspace.rstrip("/") + "/",
            reads_unrestricted=all(
                rule.effect is Effect.ALLOW or rule.name in {"Write", "Edit", "Bash"} for rule in self.rules
            ),
        )
        object.__setattr__(self, "_compiled", compiled)

    def decide(self, action: Action) -> Decision:
        if action.kind is Kind.EXECUTE:
            return self._decide_command(action)
        if action.kind is Kind.CALL:
            return self._decide_call(action)
        path = action.path or self.workspace
        decision = self._decide_path(action, path)
        if action.real_path is not None and action.real_path != path:
            behind = self._decide_path(action, action.real_path)
            decision = behind if SEVERITY[behind.effect] > SEVERITY[decision.effect] else decision
        broken = (
            self._circuit_breaker_decision(action, messages.describe_action(action)) if action.displaces else None
        )
        return broken if broken is not None and decision.effect is not Effect.DENY else decision

    def is_visible(self, path: str, real_path: str | None = None, *, tool: str = READ_TOOL) -> bool:
        """Whether the path may be read without approval. Fast enough to filter thousands of search results."""
        if real_path is not None and real_path != path and not self.is_visible(real_path, tool=tool):
            return False
        compiled = self._compiled
        if compiled.reads_unrestricted and path.startswith(compiled.workspace_prefix):
            return True
        folder, _, name = path.rpartition("/")
        known = compiled.folders.get((folder, tool)) or self._folder_visibility(folder, tool)
        if known.all_visible is not None:
            return known.all_visible
        if path not in compiled.roots.paths and not known.may_be_refused(name):
            return True
        return self.decide(Action(Kind.READ, tool, path)).effect is Effect.ALLOW

    def hidden_name_filter(self, folder: str, *, tool: str = READ_TOOL) -> Callable[[str], bool]:
        """Returns a cheap test for names in a folder: False means visible, True means `is_visible` must decide."""
        known = self._compiled.folders.get((folder, tool)) or self._folder_visibility(folder, tool)
        return known.may_be_refused if known.all_visible is None else _always_true

    def _folder_visibility(self, folder: str, tool: str) -> _FolderVisibility:
        compiled = self._compiled
        known = self._compute_folder_visibility(folder or "/", tool)
        if len(compiled.folders) >= MAX_CACHED_FOLDERS:
            compiled.folders.clear()
        compiled.folders[(folder, tool)] = known
        return known

    def _compute_folder_visibility(self, folder: str, tool: str) -> _FolderVisibility:
        if self._zone_effect(Kind.READ, self._compiled.roots.containing_root(folder)) is not Effect.ALLOW:
            return _FolderVisibility(decides_each_file=True)
        rules = self._rules_for(Kind.READ, tool)
        view = self._compiled.roots.path_view(folder)
        last: set[str | re.Pattern[str]] = set()
        # bypassPermissions never asks, so its ask rules hide nothing.
        for rule in rules.deny + (rules.ask if self._compiled.row.guards else ()):
            if rule.paths is None:
                return _FolderVisibility(all_visible=False)
            for names in rule.paths.name_sequences(view):
                states = rule.paths.states_after(names)
                if rule.paths.accepts(states):
                    return (
                        _FolderVisibility(decides_each_file=True)
                        if rule.exceptions
                        else _FolderVisibility(all_visible=False)
                    )
                last.update(rule.paths.final_components(states))
        globs = frozenset(component.pattern for component in last if isinstance(component, re.Pattern))
        return _FolderVisibility(
            names=frozenset(component for component in last if isinstance(component, str)),
            globs=combine_globs(globs) if globs else None,
        )

    def _rules_for(self, kind: Kind, tool: str) -> _RuleSet:
        found = self._compiled.rule_sets.get((kind, tool))
        if found is None:
            about = [rule for rule in self.rules if rule.governs(kind, tool)]
            by_effect = {effect: tuple(rule for rule in about if rule.effect is effect) for effect in Effect}
            found = _RuleSet(
                by_effect[Effect.DENY],
                by_effect[Effect.ASK],
                by_effect[Effect.ALLOW],
                PatternIndex((rule.paths, rule) for rule in by_effect[Effect.DENY] + by_effect[Effect.ASK]),
                any(rule.paths is not None for rule in about),
            )
            self._compiled.rule_sets[(kind, tool)] = found
        return found

    def _zone_effect(self, kind: Kind, root: Root | None) -> Effect:
        row = self._compiled.row
        if root is None:
            return row.outside_read if kind is not Kind.WRITE else row.outside_write
        if kind is not Kind.WRITE:
            return row.inside_read
        return row.inside_write

    def _decide_path(self, action: Action, path: str) -> Decision:
        compiled = self._compiled
        rules = self._rules_for(action.kind, action.tool)
        view = compiled.roots.path_view(path) if rules.needs_path_view or action.kind is Kind.WRITE else None
        refusal = rules.find_refusal(action, view) if rules.deny or rules.ask else None
        if refusal is not None and refusal.effect is Effect.DENY:
            return _decision_from_rule(refusal, messages.describe_action(action, path))
        if not compiled.row.guards:
            return compiled.allow_decision
        root = compiled.roots.containing_root(path)
        if action.kind is Kind.WRITE and view is not None:
            denial = self._hard_denial(action, view, root)
            if denial is not None:
                return denial
        base = self._zone_effect(action.kind, root)
        lift = None if base is Effect.ALLOW else _matching_allow_rule(rules.allow, action, view, base)
        if root is None and base is not Effect.ALLOW and lift is None:
            reason = messages.outside_workspace_reason(
                messages.describe_action(action, path), self.workspace, compiled.roots.paths, self.mode, base
            )
            return Decision(base, reason, f"mode {self.mode}")
        if refusal is not None:
            return _decision_from_rule(refusal, messages.describe_action(action, path))
        if lift is not None:
            return _decision_from_rule(lift, messages.describe_action(action, path))
        if base is not Effect.ALLOW:
            return Decision(
                base,
                messages.mode_asks_reason(messages.describe_action(action, path), self.mode),
                f"mode {self.mode}",
            )
        return compiled.allow_decision

    def _hard_denial(self, action: Action, view: PathView, root: Root | None) -> Decision | None:
        """Returns the denial of a write that no rule can override, or None."""
        if self.mode is PermissionMode.PLAN:
            return Decision(
                Effect.DENY,
                messages.plan_mode_write_reason(messages.describe_action(action, view.path)),
                f"mode {self.mode}",
            )
        if root is not None and root.zone is Zone.READ_ONLY:
            reason = messages.read_only_root_reason(
                messages.describe_action(action, view.path), root.path, self.workspace
            )
            return Decision(Effect.DENY, reason, f"context {root.path}")
        for guard in self._compiled.guards.candidates(view.absolute):
            if guard.protects(view):
                what = messages.describe_action(action, view.path)
                shown = self.display_patterns.get(guard.text, guard.text)
                return Decision(Effect.DENY, messages.protected_path_reason(what, shown), f"protected {shown}")
        return None

    def _decide_call(self, action: Action) -> Decision:
        """Decides the call of an upstream tool: rules match its name, modes use its read-only annotation."""
        compiled, what = self._compiled, messages.describe_action(action)
        rules = self._rules_for(Kind.CALL, action.tool)
        if rules.deny:
            return _decision_from_rule(rules.deny[0], what)
        if not compiled.row.guards:
            return compiled.allow_decision
        base = compiled.row.read_only_call if action.claims_read_only else compiled.row.other_call
        if base is Effect.DENY:
            return Decision(base, messages.plan_mode_call_reason(what), f"mode {self.mode}")
        if rules.ask:
            return _decision_from_rule(rules.ask[0], what)
        if base is Effect.ASK and rules.allow:
            return _decision_from_rule(rules.allow[0], what)
        return (
            compiled.allow_decision
            if base is Effect.ALLOW
            else Decision(base, messages.mode_asks_reason(what, self.mode), f"mode {self.mode}")
        )

    def _decide_command(self, action: Action) -> Decision:
        compiled, what = self._compiled, messages.describe_action(action)
        rules = self._rules_for(Kind.EXECUTE, action.tool)
        # Starting a command in a folder counts as a read of that folder.
        paths = dict.fromkeys(path for path in (action.path, action.real_path) if path is not None)
        views = [compiled.roots.path_view(path) for path in paths] or [None]
        for rule in rules.deny:
            if any(rule.applies(action, view) for view in views):
                return _decision_from_rule(rule, what)
        broken = self._circuit_breaker_decision(action, what)
        if not compiled.row.guards:
            return broken or compiled.allow_decision
        found = None if action.command is None else analyse_command(action.command)
        read_only, does = (False, "") if found is None else (found.read_only, found.summary)
        if self.mode is PermissionMode.PLAN and not read_only:
            return Decision(Effect.DENY, messages.plan_mode_command_reason(what, does), f"mode {self.mode}")
        base = compiled.row.read_only_command if read_only else compiled.row.other_command
        for path in paths:
            base = stricter_effect(base, self._zone_effect(Kind.READ, compiled.roots.containing_root(path)))
        if base is Effect.DENY:
            reason = messages.outside_workspace_reason(
                f"{what} in {action.path}", self.workspace, compiled.roots.paths, self.mode, base
            )
            return Decision(base, reason, f"mode {self.mode}")
        if broken is not None:
            return broken
        for rule in rules.ask:
            if any(rule.applies(action, view) for view in views):
                return _decision_from_rule(rule, messages.describe_command(action, does))
        if base is Effect.ALLOW:
            return compiled.allow_decision
        lifts = [_matching_allow_rule_for_command(rules.allow, action, view, base) for view in views]
        if lifts[0] is None or None in lifts:
            return Decision(
                base,
                messages.mode_asks_reason(messages.describe_command(action, does), self.mode),
                f"mode {self.mode}",
            )
        return _decision_from_rule(lifts[0], what)

    def _circuit_breaker_decision(self, action: Action, what: str) -> Decision | None:
        """Returns the circuit breaker's decision, or None if it does not trip."""
        if self.breaker is None:
            return None
        loss: str | None = None
        if action.command is not None:
            loss = self.breaker.describe_loss(action.command, action.folder)
        elif action.displaces:
            loss = self.breaker.describe_move_loss(action.real_path or action.path or self.workspace)
        return (
            None if loss is None else Decision(Effect.ASK, messages.destruction_reason(what, loss), CIRCUIT_BREAKER)
        )


def _split_names(relative: str) -> tuple[str, ...]:
    return () if relative in {"", "."} else tuple(relative.split("/"))


def _always_true(_: str) -> bool:
    return True


def _matching_allow_rule_for_command(
    allow: tuple[Rule, ...], action: Action, view: PathView | None, base: Effect
) -> Rule | None:
    """Like `_matching_allow_rule`; a compound command is also allowed if each part is allowed or only reads."""
    lift = _matching_allow_rule(allow, action, view, base)
    if lift is not None or action.command is None:
        return lift
    first: Rule | None = None
    for piece in analyse_command(action.command).pieces:
        rule = _matching_allow_rule(allow, replace(action, command=piece.text), view, base) if piece.plain else None
        if rule is None and not piece.read_only:
            return None
        first = first or rule
    return first


def _matching_allow_rule(allow: tuple[Rule, ...], action: Action, view: PathView | None, base: Effect) -> Rule | None:
    """Returns the allow rule that overrides `base`: any rule for an ask, one with an absolute path for a denial."""
    for rule in allow:
        if rule.applies(action, view) and (base is Effect.ASK or rule.names_absolute_path):
            return rule
    return None


def _decision_from_rule(rule: Rule, what: str) -> Decision:
    return Decision(rule.effect, messages.rule_reason(what, rule), f"rule {rule.label}")

"""Builds the policy of one workspace and one agent from the configuration.

This is the only module of the package that reads the disk, and only to resolve links in the *declared* roots (through
`resolve`), so that a context path or temp folder that is a link is covered under both of its names.
"""

from __future__ import annotations

import os
import posixpath
from dataclasses import replace
from typing import TYPE_CHECKING

from toolyard.config.agents import select_agent
from toolyard.config.error_location import with_error_location
from toolyard.config.included_files import included_files
from toolyard.core.actions import Effect
from toolyard.core.errors import ConfigError
from toolyard.core.paths import HOME_IN_SANDBOX, relative_to
from toolyard.core.permission_modes import Access, PermissionMode
from toolyard.linux.mountinfo import mount_points
from toolyard.policy.circuit_breaker import CircuitBreaker
from toolyard.policy.policy import ContextPath, Policy, ProtectedPattern
from toolyard.policy.presets import preset_rules
from toolyard.policy.rules import Rule, parse_rule
from toolyard.policy.socket_folders import SocketFolders

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from toolyard.config.models import CodeExecution, Config, Location
    from toolyard.config.settings import Settings


def policy_for(
    config: Config,
    settings: Settings,
    workspace: str,
    mode: PermissionMode | None = None,
    agent: str | None = None,
    *,
    resolve: Callable[[str], str] = os.path.realpath,
) -> Policy:
    """Returns the policy for a workspace, given as a clean, absolute path without links.

    `mode` overrides the agent's permission mode, which overrides the file's.
    """
    chosen = select_agent(config, agent)
    permissions = config.permissions
    of_agent = chosen.backend.permission_mode if chosen else None
    base = config.base_folder(workspace)

    def absolute(path: str) -> str:
        if path == "~" or path.startswith("~/"):
            path = settings.home + path[1:]
        return "/" + posixpath.normpath(posixpath.join(base, path)).lstrip("/")

    extra = permissions.moderate_roots
    if extra is None:
        extra = (settings.documents, settings.temp_dir)
    own = [config.source, *included_files(config, settings.home)] if config.source else []
    names = _with_resolved_paths(own, resolve)
    chosen_mode = mode or of_agent or permissions.mode or PermissionMode.STRICT
    context = _context_paths(config, settings, absolute, resolve, workspace)
    extra_roots = _with_resolved_paths((absolute(path) for path in extra), resolve)
    return Policy(
        mode=chosen_mode,
        workspace=workspace,
        context=context,
        extra_roots=extra_roots,
        # Write access to the configuration, or to a file it includes, would be write access to the policy.
        protected=(*permissions.protected_paths, *(_file_pattern(name, workspace) for name in names)),
        rules=_configured_rules(config, settings),
        home=settings.home,
        display_patterns=_display_patterns(config, settings.home, absolute),
        breaker=_build_circuit_breaker(
            config, settings, workspace, chosen_mode, (*(one.path for one in context), *extra_roots)
        ),
    )


def runs_on_host(execution: CodeExecution, mode: PermissionMode) -> bool:
    """Whether commands run without a sandbox: `code_execution.mode: none`, or the default of `bypassPermissions`."""
    return execution.mode == "none" or (mode is PermissionMode.BYPASS and "mode" not in execution.model_fields_set)


def _build_circuit_breaker(
    config: Config, settings: Settings, workspace: str, mode: PermissionMode, roots: tuple[str, ...]
) -> CircuitBreaker | None:
    execution = config.toolyard.code_execution
    if execution.allow_destructive:
        return None
    sandboxed = not runs_on_host(execution, mode)
    temporary = _with_resolved_paths([settings.temp_dir], os.path.realpath)
    return CircuitBreaker(
        workspace,
        HOME_IN_SANDBOX if sandboxed else settings.home,
        homes=tuple(dict.fromkeys((settings.home, os.path.realpath(settings.home)))),
        context=tuple(root for root in roots if root not in temporary),
        # In a sandbox the temp folder is private to the sandbox.
        temporary=() if sandboxed else temporary,
        environment={"TMPDIR": settings.temp_dir, **execution.env},
        mount_points=mount_points,
        is_sandboxed=sandboxed,
    )


def _file_pattern(path: str, workspace: str) -> str:
    """Returns a pattern for one file, relative to the workspace if the file is in it, else absolute."""
    inside = relative_to(path, workspace)
    return "/" + _literal_pattern(path.lstrip("/")) if inside is None else _literal_pattern(inside)


def with_protected_folder(policy: Policy, folder: str) -> Policy:
    """Returns the policy with one of Toolyard's own folders (absolute path) protected from all writing tools."""
    return replace(policy, protected=(*policy.protected, "/" + _literal_pattern(folder.lstrip("/"))))


def with_hidden_folder(policy: Policy, folder: str) -> Policy:
    """Returns the policy with a folder (absolute path) that no tool and no command may read or write."""
    pattern = "/" + _literal_pattern(folder.lstrip("/"))
    rules = (parse_rule(f"{name}({pattern})", Effect.DENY, home=policy.home) for name in ("Read", "Write"))
    return replace(policy, rules=(*policy.rules, *rules))


def hide_accessible_folders(policy: Policy, folders: Iterable[str]) -> Policy:
    """Returns the policy with those of the folders hidden that are inside a root the agent can access."""
    if policy.mode is PermissionMode.BYPASS:
        return policy
    roots = [policy.workspace, *(entry.path for entry in policy.context)]
    if policy.mode is PermissionMode.MODERATE:
        roots += policy.extra_roots
    for folder in folders:
        if any(relative_to(folder, root) is not None for root in roots):
            policy = with_hidden_folder(policy, folder)
    return policy


def _display_patterns(config: Config, home: str, absolute: Callable[[str], str]) -> dict[str, str]:
    """Returns the display texts of protected patterns that contain variables. Raises ConfigError for invalid ones."""
    found: dict[str, str] = {}
    for at, pattern in _protected_patterns(config, absolute):
        with with_error_location(config, *at):
            ProtectedPattern.parse(pattern, home=home)
        if written := config.as_written("", *at):
            found[pattern] = written
    return found


def _protected_patterns(config: Config, absolute: Callable[[str], str]) -> Iterator[tuple[Location, str]]:
    for number, text in enumerate(config.permissions.protected_paths):
        yield ("permissions", "protected_paths", number), text
    for place, entry in enumerate(config.orchestrator.context_paths):
        for number, text in enumerate(entry.protected_paths):
            at = ("orchestrator", "context_paths", place, "protected_paths", number)
            yield at, _relative_to_context(text, absolute(entry.path))


def _context_paths(
    config: Config,
    settings: Settings,
    absolute: Callable[[str], str],
    resolve: Callable[[str], str],
    workspace: str,
) -> tuple[ContextPath, ...]:
    found: list[ContextPath] = []
    sockets = SocketFolders.from_settings(settings, resolve)
    for number, entry in enumerate(config.orchestrator.context_paths):
        declared = absolute(entry.path)
        _refuse_escaping_link(declared, resolve(declared), workspace)
        if entry.permission is Access.WRITE:
            with with_error_location(config, "orchestrator", "context_paths", number):
                sockets.refuse_writable(_with_resolved_paths([declared], resolve))
        protected = tuple(_relative_to_context(text, declared) for text in entry.protected_paths)
        found.extend(
            ContextPath(path, entry.permission, protected) for path in _with_resolved_paths([declared], resolve)
        )
    return tuple(found)


def _refuse_escaping_link(declared: str, real: str, workspace: str) -> None:
    """Refuses a context path in the workspace that leads out of it: an agent may have planted a link on the way."""
    if relative_to(declared, workspace) is not None and relative_to(real, workspace) is None:
        raise ConfigError(
            f'the context path "{declared}" is inside the workspace, but a link leads out of it to {real}.',
            hint=f"If that is intended, name {real} directly.",
        )


def _relative_to_context(pattern: str, root: str) -> str:
    """Returns a protected path that was written as absolute as a pattern relative to its context path."""
    if not pattern.startswith("/"):
        return pattern
    inner = relative_to("/" + pattern.strip("/"), root)
    return pattern if inner is None else "/" + inner


def _with_resolved_paths(paths: Iterable[str], resolve: Callable[[str], str]) -> tuple[str, ...]:
    names: dict[str, None] = {}
    for path in paths:
        names[path] = None
        names[resolve(path)] = None
    return tuple(names)


def _literal_pattern(relative: str) -> str:
    """Returns a pattern for exactly this path; characters that are special in patterns become `?`."""
    return "/" + "".join("?" if char in "*?[]{}\\ " else char for char in relative)


def _configured_rules(config: Config, settings: Settings) -> tuple[Rule, ...]:
    permissions = config.permissions
    written = (
        (Effect.DENY, "deny", permissions.deny),
        (Effect.ASK, "ask", permissions.ask),
        (Effect.ALLOW, "allow", permissions.allow),
    )
    rules: list[Rule] = []
    for effect, key, texts in written:
        for number, text in enumerate(texts):
            with with_error_location(config, "permissions", key, number):
                rule = parse_rule(text, effect, home=settings.home)
                rules.append(replace(rule, written=config.as_written("", "permissions", key, number)))
    for preset in preset_rule_sets(config):
        rules.extend(preset)
    return tuple(rules)


def preset_rule_sets(config: Config) -> Iterator[tuple[Rule, ...]]:
    """Yields the rules of each preset that the configuration enables."""
    for number, name in enumerate(config.permissions.presets):
        with with_error_location(config, "permissions", "presets", number):
            yield preset_rules(name)

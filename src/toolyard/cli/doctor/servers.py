"""Checks the MCP servers: what is known of each, its last error, and the token cost of their tools.

Starts no server: it reports what the last sync and the last calls recorded.
"""

from __future__ import annotations

import os
import shlex
import time
from collections.abc import Iterator, Mapping, Sequence

from toolyard.cli.common.pattern_checks import KnownToolNames, unmatched_patterns
from toolyard.cli.common.resolve_workspace import ResolvedWorkspace
from toolyard.cli.common.server_errors import format_failures, last_stderr_lines, without_server_name
from toolyard.cli.doctor.check import Check, Status
from toolyard.codemode.catalog import FILE_NAME, Catalog, KnownServer
from toolyard.codemode.file_writer import WrittenServer
from toolyard.codemode.files import OWN_SERVER, collision_notices
from toolyard.codemode.search import embedding
from toolyard.config.server_registry import ResolvedServers, resolve_servers
from toolyard.config.settings import Settings
from toolyard.core.errors import ToolyardError
from toolyard.workspace.agent_paths import resolve_agent_paths

_WHAT = "servers"
_DAY_SECONDS = 24 * 3600
_MAX_SERVER_CHECKS = 20


def server_checks(workspace: ResolvedWorkspace, settings: Settings, state_home: str | None) -> Iterator[Check]:
    """Yields the checks of servers, custom tools and search."""
    try:
        resolved = resolve_servers(workspace.config, settings)
        for problem in resolved.problems:
            status = Status.FAIL if problem.severity == "error" else Status.INFO
            yield Check(status, f"server {problem.server}", problem.message, problem.hint)
        for notice in collision_notices(entry.name for entry in resolved.entries):
            yield Check(Status.WARN, f"server {OWN_SERVER}", notice)
        if workspace.config.toolyard.search_tools.enable_semtools:
            yield _search_check()
        groups: Mapping[str, Sequence[str]] = {}
        if workspace.config.toolyard.available_custom_tools:
            groups, checks = _custom_tool_checks(workspace, settings)
            yield from checks
        if resolved.entries:
            home = resolve_agent_paths(
                workspace.config, os.path.realpath(workspace.workspace), None, settings, state_home or ""
            )
            yield from _catalog_checks(workspace, resolved, groups, home.state)
    except ToolyardError as error:
        yield Check(Status.FAIL, _WHAT, error.message, error.hint)


def _catalog_checks(
    workspace: ResolvedWorkspace, resolved: ResolvedServers, groups: Mapping[str, Sequence[str]], state: str
) -> Iterator[Check]:
    if not os.path.exists(os.path.join(state, FILE_NAME)):
        found = f"{len(resolved.entries)} configured, none asked yet"
        yield Check(Status.INFO, _WHAT, found, "Run `toolyard sync`.")
        return
    with Catalog.open(state) as catalog:
        yield from _known_server_checks(resolved, catalog)
        names = {server: catalog.tool_names(server) for server in catalog.tool_counts()}
    for idle in unmatched_patterns(workspace.config, resolved, KnownToolNames.of(resolved, names, groups)):
        yield Check(Status.WARN, "patterns", str(idle), idle.hint)


def _custom_tool_checks(
    workspace: ResolvedWorkspace, settings: Settings
) -> tuple[Mapping[str, Sequence[str]], list[Check]]:
    """Returns the custom tools by group, and their checks. Imports their modules, as every use does."""
    from toolyard.codemode.custom import load_custom_tools

    tools = load_custom_tools(workspace.config, settings)
    groups = {
        group: tuple(schema.name.removeprefix(f"{group}.") for schema in schemas)
        for group, schemas in tools.groups.items()
    }
    listed = ", ".join(f"{group} ({len(names)})" for group, names in groups.items())
    checks = [Check(Status.OK, "custom tools", listed)] if listed else []
    return groups, [*checks, *(Check(Status.FAIL, f"custom tool {each.name}", each.text) for each in tools.problems)]


def _search_check() -> Check:
    if embedding.is_installed():
        return Check(Status.OK, "search", "by keywords and by meaning")
    return Check(Status.WARN, "search", "by keywords only: the extra `semantic` is not installed", embedding.INSTALL)


def _known_server_checks(resolved: ResolvedServers, catalog: Catalog) -> Iterator[Check]:
    known = {server.name: server for server in catalog.servers()}
    counts = catalog.tool_counts()
    names = [entry.name for entry in resolved.entries]
    tokens = sum(WrittenServer.from_json(known[name].written).tokens for name in names if name in known)
    asked = [known[name].asked_at for name in names if name in known and known[name].asked_at]
    if asked:
        failed = [name for name in names if name in known and known[name].error]
        answered = [name for name in names if name in known and known[name].asked_at]
        found = f"{len(answered)} with {sum(counts.get(name, 0) for name in names):,} tools, asked {_age(min(asked))}"
        cost = f"; in a model's context they would cost {tokens:,} tokens, as files they cost none" if tokens else ""
        status = Status.WARN if failed else Status.OK
        yield Check(status, _WHAT, found + (f"; {format_failures(failed)}" if failed else "") + cost)
    else:
        yield Check(Status.INFO, _WHAT, f"{len(names)} configured, none has answered yet", "Run `toolyard sync`.")
    worries = [check for name in names for check in _server_problems(name, known.get(name))]
    yield from worries[:_MAX_SERVER_CHECKS]
    if len(worries) > _MAX_SERVER_CHECKS:
        yield Check(Status.WARN, _WHAT, f"and {len(worries) - _MAX_SERVER_CHECKS} more servers with problems")
    for tool in catalog.quarantined_tools():
        accept = f"`toolyard sync --accept {shlex.quote(tool.server)}`"
        fix = f"Show the change: `toolyard sync`. Accept it: {accept}."
        yield Check(Status.WARN, f"server {tool.server}", f"{tool.schema.name} changed since it was pinned", fix)


def _server_problems(name: str, known: KnownServer | None) -> Iterator[Check]:
    what, again = f"server {name}", f"`toolyard sync {shlex.quote(name)}`"
    if known is None or (not known.asked_at and not known.error):
        yield Check(Status.INFO, what, "not asked yet", f"Run {again}.")
    elif known.error:
        printed = last_stderr_lines(known.stderr, known.error)
        output = f" It printed: {' | '.join(printed)}" if printed else ""
        yield Check(
            Status.WARN, what, without_server_name(name, known.error) + output, f"After fixing it, run {again}."
        )


def _age(asked: float) -> str:
    days = int((time.time() - asked) // _DAY_SECONDS)
    return "within the last day" if days < 1 else f"up to {days} days ago"

"""What `toolyard doctor` says of the MCP servers: what is known of each, what it last complained of, what they cost.

Starts no server: it tells what the last sync and the last calls left behind.
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


def server_checks(place: ResolvedWorkspace, settings: Settings, state_home: str | None) -> Iterator[Check]:
    try:
        resolved = resolve_servers(place.config, settings)
        for problem in resolved.problems:
            status = Status.FAIL if problem.severity == "error" else Status.INFO
            yield Check(status, f"server {problem.server}", problem.message, problem.hint)
        for notice in collision_notices(entry.name for entry in resolved.entries):
            yield Check(Status.WARN, f"server {OWN_SERVER}", notice)
        if place.config.toolyard.search_tools.enable_semtools:
            yield _search_check()
        groups: Mapping[str, Sequence[str]] = {}
        if place.config.toolyard.available_custom_tools:
            groups, checks = _custom_tool_checks(place, settings)
            yield from checks
        if resolved.entries:
            home = resolve_agent_paths(
                place.config, os.path.realpath(place.workspace), None, settings, state_home or ""
            )
            yield from _catalog_checks(place, resolved, groups, home.state)
    except ToolyardError as error:
        yield Check(Status.FAIL, _WHAT, error.message, error.hint)


def _catalog_checks(
    place: ResolvedWorkspace, resolved: ResolvedServers, groups: Mapping[str, Sequence[str]], state: str
) -> Iterator[Check]:
    if not os.path.exists(os.path.join(state, FILE_NAME)):
        found = f"{len(resolved.entries)} configured, none asked yet"
        yield Check(Status.INFO, _WHAT, found, "Run `toolyard sync`.")
        return
    with Catalog.open(state) as catalog:
        yield from _known_server_checks(resolved, catalog)
        names = {server: catalog.tool_names(server) for server in catalog.tool_counts()}
    for idle in unmatched_patterns(place.config, resolved, KnownToolNames.of(resolved, names, groups)):
        yield Check(Status.WARN, "patterns", str(idle), idle.hint)


def _custom_tool_checks(
    place: ResolvedWorkspace, settings: Settings
) -> tuple[Mapping[str, Sequence[str]], list[Check]]:
    """The custom tools, by their groups. Imports their modules, as every use of them does."""
    from toolyard.codemode.custom import load_custom_tools

    tools = load_custom_tools(place.config, settings)
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
    return Check(Status.WARN, "search", "by keywords alone, for want of the extra `semantic`", embedding.INSTALL)


def _known_server_checks(resolved: ResolvedServers, catalog: Catalog) -> Iterator[Check]:
    known = {server.name: server for server in catalog.servers()}
    counts = catalog.tool_counts()
    names = [entry.name for entry in resolved.entries]
    tokens = sum(WrittenServer.from_json(known[name].written).tokens for name in names if name in known)
    asked = [known[name].asked_at for name in names if name in known and known[name].asked_at]
    if asked:
        failed = [name for name in names if name in known and known[name].error]
        heard = [name for name in names if name in known and known[name].asked_at]
        found = f"{len(heard)} with {sum(counts.get(name, 0) for name in names):,} tools, asked {_age(min(asked))}"
        cost = f"; put into a context they would cost {tokens:,} tokens, as files none" if tokens else ""
        status = Status.WARN if failed else Status.OK
        yield Check(status, _WHAT, found + (f"; {format_failures(failed)}" if failed else "") + cost)
    else:
        yield Check(Status.INFO, _WHAT, f"{len(names)} configured, none has answered yet", "Run `toolyard sync`.")
    worries = [check for name in names for check in _server_problems(name, known.get(name))]
    yield from worries[:_MAX_SERVER_CHECKS]
    if len(worries) > _MAX_SERVER_CHECKS:
        yield Check(Status.WARN, _WHAT, f"and {len(worries) - _MAX_SERVER_CHECKS} more with something to say")
    for tool in catalog.quarantined_tools():
        accept = f"`toolyard sync --accept {shlex.quote(tool.server)}`"
        fix = f"Look at the change: `toolyard sync`. Trust it: {accept}."
        yield Check(Status.WARN, f"server {tool.server}", f"{tool.schema.name} changed since it was pinned", fix)


def _server_problems(name: str, known: KnownServer | None) -> Iterator[Check]:
    what, again = f"server {name}", f"`toolyard sync {shlex.quote(name)}`"
    if known is None or (not known.asked_at and not known.error):
        yield Check(Status.INFO, what, "not asked yet", f"Run {again}.")
    elif known.error:
        printed = last_stderr_lines(known.stderr, known.error)
        said = f" It printed: {' | '.join(printed)}" if printed else ""
        yield Check(
            Status.WARN, what, without_server_name(name, known.error) + said, f"When it is mended, run {again}."
        )


def _age(asked: float) -> str:
    days = int((time.time() - asked) // _DAY_SECONDS)
    return "within the last day" if days < 1 else f"up to {days} days ago"

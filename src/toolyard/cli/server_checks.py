"""What `toolyard doctor` says of the MCP servers: what is known of each, what it last complained of, what they cost.

Starts no server: it tells what the last sync and the last calls left behind.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator

from toolyard.cli.check import Check, Status
from toolyard.cli.opening import Place
from toolyard.codemode.catalog import FILE_NAME, Catalog, KnownServer
from toolyard.codemode.search import embedding
from toolyard.codemode.writing import Written
from toolyard.config.server_registry import ResolvedServers, resolve_servers
from toolyard.config.settings import Settings
from toolyard.core.errors import ToolyardError
from toolyard.storage.state import state_dir

_WHAT = "servers"
_DAY_SECONDS = 24 * 3600
_SHOWN_WORRIES = 20


def server_checks(place: Place, settings: Settings, state_home: str | None) -> Iterator[Check]:
    try:
        resolved = resolve_servers(place.config, settings)
        for problem in resolved.problems:
            status = Status.FAIL if problem.severity == "error" else Status.INFO
            yield Check(status, f"server {problem.server}", problem.message, problem.hint)
        if place.config.toolyard.search_tools.enable_semtools:
            yield _searching()
        if not resolved.entries:
            return
        state = state_dir(state_home or settings.state_home, place.workspace)
        if not os.path.exists(os.path.join(state, FILE_NAME)):
            found = f"{len(resolved.entries)} configured, none asked yet"
            yield Check(Status.INFO, _WHAT, found, "Run `toolyard sync`.")
            return
        with Catalog.open(state) as catalog:
            yield from _known(resolved, catalog)
    except ToolyardError as error:
        yield Check(Status.FAIL, _WHAT, error.message, error.hint)


def _searching() -> Check:
    if embedding.is_installed():
        return Check(Status.OK, "search", "by keywords and by meaning")
    return Check(Status.WARN, "search", "by keywords alone, for want of the extra `semantic`", embedding.INSTALL)


def _known(resolved: ResolvedServers, catalog: Catalog) -> Iterator[Check]:
    known = {server.name: server for server in catalog.servers()}
    counts = catalog.counts()
    names = [entry.name for entry in resolved.entries]
    tokens = sum(Written.parse(known[name].written).tokens for name in names if name in known)
    found = f"{len(names)} with {sum(counts.get(name, 0) for name in names):,} tools, asked {_age(known, names)}"
    cost = f"; put into a context they would cost {tokens:,} tokens, as files none" if tokens else ""
    yield Check(Status.OK, _WHAT, found + cost)
    worries = [check for name in names for check in _worries(name, known.get(name))]
    yield from worries[:_SHOWN_WORRIES]
    if len(worries) > _SHOWN_WORRIES:
        yield Check(Status.WARN, _WHAT, f"and {len(worries) - _SHOWN_WORRIES} more with something to say")
    for tool in catalog.quarantined():
        fix = f"Look at the change: `toolyard sync`. Trust it: `toolyard sync --accept {tool.server}`."
        yield Check(Status.WARN, f"server {tool.server}", f"{tool.schema.name} changed since it was pinned", fix)


def _worries(name: str, known: KnownServer | None) -> Iterator[Check]:
    what = f"server {name}"
    if known is None or (not known.asked and not known.error):
        yield Check(Status.INFO, what, "not asked yet", f"Run `toolyard sync {name}`.")
    elif known.error:
        last = known.stderr.strip().rpartition("\n")[2]
        said = f" It last printed: {last}" if last and last not in known.error else ""
        yield Check(Status.WARN, what, known.error + said, f"When it is mended, run `toolyard sync {name}`.")


def _age(known: dict[str, KnownServer], names: list[str]) -> str:
    asked = [known[name].asked for name in names if name in known and known[name].asked]
    if not asked:
        return "never"
    days = int((time.time() - min(asked)) // _DAY_SECONDS)
    return "within the last day" if days < 1 else f"up to {days} days ago"

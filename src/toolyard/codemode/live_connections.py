"""The running part of code mode, created by the first call: the server pool, and the broker on its loop.

Servers and their loop may be shared with other agents. Authorisation, limits and the audit log are not shared.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import contextlib
import sqlite3
import time
from collections.abc import Coroutine
from typing import TYPE_CHECKING, Any, TypeVar

from toolyard.codemode.broker import Broker
from toolyard.codemode.broker_handler import SURFACE, BrokerHandler
from toolyard.codemode.catalog import Catalog
from toolyard.codemode.custom.caller import CustomCallTarget, CustomPinnedTools
from toolyard.codemode.rate_limits import RateLimits
from toolyard.codemode.skill_requests import SkillRequests
from toolyard.codemode.sync import exclusive_sync_lock, update_tool_files
from toolyard.codemode.upstream_caller import UpstreamCaller
from toolyard.core.closeable import Closeable
from toolyard.core.debounce import Debouncer
from toolyard.core.errors import ToolyardError
from toolyard.core.upstream import ServerListing
from toolyard.mcp_client import ServerPool, SharedServers
from toolyard.workspace.file_tool_detector import Origin

if TYPE_CHECKING:
    from toolyard.codemode.tool_knowledge import ToolKnowledge

_STDERR_CHARS = 4_000

_ADOPT_PAUSE_SECONDS = 1.0
"""Pause after an unknown server name: reading the configuration blocks the loop."""

_WATCH_SECONDS = 1.0
"""Interval between two checks of the configuration."""

T = TypeVar("T")


class LiveConnections(Closeable):
    """Owns its parts. `close()` ends its calls, its connections and every server that no other agent uses."""

    def __init__(self, knowledge: ToolKnowledge) -> None:
        deps = knowledge.deps
        self._knowledge = knowledge
        self._has_new_schemas = False
        self._stale_servers: set[str] = set()
        self._next_adopt_time = 0.0
        self._changed_servers: set[str] = set()
        """Trusted servers with announced tool changes that are not yet recorded."""
        self._change_tasks: dict[str, asyncio.Task[None]] = {}
        self._calls: set[concurrent.futures.Future[Any]] = set()
        self._detaching: set[asyncio.Task[None]] = set()
        with contextlib.ExitStack() as undo:
            servers = deps.servers
            if servers is None:
                most = deps.config.toolyard.max_running_servers
                servers = undo.enter_context(SharedServers(max_running=most))
            self.loop = servers.loop
            self._file_updates = undo.enter_context(Debouncer(self.loop.loop, self._write_inferred_schemas))
            self._stale_marks = undo.enter_context(Debouncer(self.loop.loop, self._write_stale_marks))
            self.pool = undo.enter_context(
                ServerPool(
                    knowledge.resolved_servers.entries,
                    shared=servers,
                    on_list_changed=self._on_list_changed,
                    tokens_folder=knowledge.sign_in_folder,
                    on_authorize=deps.on_authorize,
                )
            )
            rate_limits = RateLimits.from_config(deps.config) if deps.config.toolyard.tool_limits else None
            self.upstream = self._upstream_calls(rate_limits)
            self.custom = self._custom_calls(rate_limits)
            self.own_tools = deps.open_own_tools() if deps.open_own_tools is not None else None
            if self.own_tools is not None:
                undo.callback(self.own_tools.close)
            skills = SkillRequests(knowledge.skill_library, deps.policy, deps.audit, SURFACE, deps.make_checks)
            undo.callback(skills.close)
            services = (
                knowledge.custom.unwrap_result,
                knowledge.approvals,
                knowledge.find_tools,
                skills,
                knowledge.server_for_code_name,
                self.own_tools,
            )
            handler = BrokerHandler(self.upstream, self.custom, *services)
            broker = Broker.open(deps.agent, handler, self.loop.loop, can_run_eagerly=handler.can_run_eagerly)
            self.broker = undo.enter_context(broker)
            undo.callback(self._cancel_calls)
            self._watching = asyncio.run_coroutine_threadsafe(self._watch_configuration(), self.loop.loop)
            undo.callback(self._watching.cancel)
            self._undo = undo.pop_all()

    def _upstream_calls(self, rate_limits: RateLimits | None) -> UpstreamCaller:
        knowledge, deps = self._knowledge, self._knowledge.deps
        return UpstreamCaller(
            policy=deps.policy,
            audit=deps.audit,
            catalog=knowledge.catalog,
            target=self.pool,
            authorization=knowledge.authorization,
            rate_limits=rate_limits,
            servers=frozenset(self.pool.names),
            trusted_servers=knowledge.trusted_servers,
            adopt_server=self._adopt_server,
            on_schema_learnt=self._on_schema_learnt,
            detector=deps.detector,
            snapshots=deps.snapshots,
            origin=Origin(deps.agent, deps.session),
        )

    def _custom_calls(self, rate_limits: RateLimits | None) -> UpstreamCaller:
        knowledge, deps = self._knowledge, self._knowledge.deps
        return UpstreamCaller(
            policy=deps.policy,
            audit=deps.audit,
            catalog=CustomPinnedTools(knowledge.custom),
            target=CustomCallTarget(knowledge.custom),
            authorization=knowledge.custom_authorization,
            rate_limits=rate_limits,
            servers=knowledge.custom.groups.keys(),
            on_schema_learnt=self._on_schema_learnt,
            detector=deps.detector,
            snapshots=deps.snapshots,
            origin=Origin(deps.agent, deps.session),
        )

    async def fresh_listing(self, server: str) -> ServerListing:
        """Returns a fresh listing of a server, for sync."""
        listing = await self.pool.server_listing(server, fresh=True)
        self._stale_servers.discard(server)  # the new listing includes earlier changes
        return listing

    def run(self, call: Coroutine[Any, Any, T]) -> T:
        """Runs a call from another thread and waits. Closing cancels it."""
        future = self.loop.submit(call)
        self._calls.add(future)
        try:
            return future.result()
        except BaseException:
            future.cancel()
            raise
        finally:
            self._calls.discard(future)

    def close(self) -> None:
        self._undo.close()

    def _cancel_calls(self) -> None:
        for call in tuple(self._calls):
            call.cancel()
        for task in tuple(self._change_tasks.values()):
            self.loop.loop.call_soon_threadsafe(task.cancel)

    def _store_server_stderr(self) -> None:
        """Stores the servers' stderr and errors, for `doctor`."""
        for name, status in self.pool.status().items():
            if status.starts:
                with contextlib.suppress(ToolyardError, sqlite3.Error):
                    failed = status.last_error if status.state == "failed" else ""
                    self._knowledge.catalog.record_stderr(name, status.stderr[-_STDERR_CHARS:], failed)

    def flush(self) -> None:
        """Writes pending data to disk, before closing."""
        self.flush_stale_marks()
        if not self._knowledge.catalog.is_busy():  # the rest is not worth waiting for
            self._file_updates.run_now()
            self._store_server_stderr()

    def _write_inferred_schemas(self) -> None:
        """Writes inferred result types into the tool files. Failures are ignored."""
        if not self._has_new_schemas or self._knowledge.catalog.is_busy(
            0.0
        ):  # waiting would block other users of the catalog
            return
        self._has_new_schemas = False
        with contextlib.suppress(ToolyardError, sqlite3.Error), exclusive_sync_lock(self._knowledge.deps.state):
            update_tool_files(self._knowledge)

    def flush_stale_marks(self) -> None:
        """Marks in the catalog which servers have to be asked again."""
        self._stale_marks.run_now()

    def _write_stale_marks(self) -> None:
        """Writes the marks. On failure they are kept for the next attempt."""
        stale = tuple(self._stale_servers)
        if not stale:
            return
        self._stale_servers.difference_update(stale)
        try:
            # A separate connection: the loop's own would block while another process holds the file.
            with Catalog.open(self._knowledge.deps.state) as catalog:
                for server in stale:
                    catalog.mark_stale(server)
        except (ToolyardError, sqlite3.Error):
            self._stale_servers.update(stale)

    def _on_list_changed(self, server: str) -> None:
        """Handles `list_changed`. The catalog may be locked, so it is written off the loop."""
        self._stale_servers.add(server)
        self._stale_marks.schedule()
        if server in self.upstream.trusted_servers:
            self._changed_servers.add(server)
            if server not in self._change_tasks:
                self._change_tasks[server] = self.loop.loop.create_task(self._adopt_tool_changes(server))

    async def _adopt_tool_changes(self, server: str) -> None:
        """Records and writes the current tools of a server with `pinned: false`."""
        try:
            while server in self._changed_servers:
                self._changed_servers.discard(server)
                with contextlib.suppress(
                    ToolyardError, sqlite3.Error
                ):  # the next call fails the same way and reports it
                    await self.upstream.verify(server)
                    await asyncio.to_thread(
                        self._file_updates.run_now
                    )  # its files, so that code can import a new tool
        finally:
            del self._change_tasks[server]

    async def _watch_configuration(self) -> None:
        """Follows the configuration, so that servers removed from it are no longer called."""
        while True:
            await asyncio.sleep(_WATCH_SECONDS)
            with contextlib.suppress(ToolyardError, sqlite3.Error):  # the next check may succeed
                await asyncio.to_thread(self._knowledge.refresh)  # reads a changed configuration off the loop

    def update_attachments(self) -> None:
        """Attaches the current servers, from any thread."""
        self.loop.loop.call_soon_threadsafe(self._update_attachments)

    def _update_attachments(self) -> None:
        knowledge, upstream = self._knowledge, self.upstream
        entries = {entry.name: entry for entry in knowledge.resolved_servers.entries}
        for name, entry in self.pool.entries.items():
            if entries.get(name) is not entry:
                self._detaching.add(task := self.loop.loop.create_task(self.pool.detach(name)))
                task.add_done_callback(self._detaching.discard)
                upstream.forget(name)
        for name, entry in entries.items():
            if name not in self.pool.entries:
                self.pool.add(entry)
        upstream.authorization = knowledge.authorization
        upstream.servers, upstream.trusted_servers = frozenset(entries), knowledge.trusted_servers

    def _adopt_server(self, server: str) -> bool:
        """Whether a server was configured and synced after this session began."""
        if time.monotonic() < self._next_adopt_time:
            return False
        self._knowledge.refresh()
        self._update_attachments()
        if server in self.pool.entries:
            return True
        self._next_adopt_time = time.monotonic() + _ADOPT_PAUSE_SECONDS
        return False

    def _on_schema_learnt(self) -> None:
        """Schedules an update of the tool files, together with other changes."""
        self._has_new_schemas = True
        self._file_updates.schedule()

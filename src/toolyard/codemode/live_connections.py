"""What code mode has running once something was called: the pool of servers, and the broker's socket on its loop.

The servers and their loop may be shared with other agents. What is decided, counted and recorded for a call is not.
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
from toolyard.codemode.broker_handler import SURFACE, Answering
from toolyard.codemode.catalog import Catalog
from toolyard.codemode.custom.caller import CustomCallee, CustomKnowledge
from toolyard.codemode.rate_limits import Allowances
from toolyard.codemode.skill_requests import SkillRequests
from toolyard.codemode.sync import alone
from toolyard.codemode.update_files import write
from toolyard.codemode.upstream_caller import Upstream
from toolyard.core.closeable import Closing
from toolyard.core.debounce import Aside
from toolyard.core.errors import ToolyardError
from toolyard.core.upstream import ServerListing
from toolyard.mcp_client import ServerPool, SharedServers

if TYPE_CHECKING:
    from toolyard.codemode.tool_knowledge import ToolKnowledge

_STDERR_CHARS = 4_000

_ADOPT_PAUSE_SECONDS = 1.0
"""After a name that no server was added under: reading the configuration holds up the loop."""

_WATCH_SECONDS = 1.0
"""Between two looks at the configuration."""

T = TypeVar("T")


class Connected(Closing):
    """Owns its parts. `close()` ends its calls, its connections and every server that no other agent uses."""

    def __init__(self, mode: ToolKnowledge) -> None:
        around = mode.around
        self._mode = mode
        self._has_learnt = False
        self._stale: set[str] = set()
        self._adopts_after = 0.0
        self._changed: set[str] = set()
        """Trusted servers that said that their tools have changed, until those are taken over."""
        self._taking_over: dict[str, asyncio.Task[None]] = {}
        self._calls: set[concurrent.futures.Future[Any]] = set()
        self._detaching: set[asyncio.Task[None]] = set()
        with contextlib.ExitStack() as undo:
            servers = around.servers
            if servers is None:
                most = around.config.toolyard.max_running_servers
                servers = undo.enter_context(SharedServers(most_running=most))
            self.loop = servers.loop
            self._learning = undo.enter_context(Aside(self.loop.loop, self._write_learnt))
            self._marking = undo.enter_context(Aside(self.loop.loop, self._write_stale))
            self.pool = undo.enter_context(
                ServerPool(
                    mode.resolved.entries,
                    shared=servers,
                    on_list_changed=self._list_changed,
                    tokens_folder=mode.sign_ins,
                    on_authorize=around.on_authorize,
                )
            )
            allowances = Allowances.of(around.config)
            self.upstream = self._upstream_calls(allowances)
            self.custom = self._custom_calls(allowances)
            self.own = around.own() if around.own is not None else None
            if self.own is not None:
                undo.callback(self.own.close)
            skills = SkillRequests(mode.shelf, around.policy, around.audit, SURFACE, around.checks)
            undo.callback(skills.close)
            asked = (mode.custom.plain, mode.questions, mode.find, skills, mode.server_called, self.own)
            answering = Answering(self.upstream, self.custom, *asked)
            broker = Broker.open(around.agent, answering, self.loop.loop, goes_straight=answering.goes_straight)
            self.broker = undo.enter_context(broker)
            undo.callback(self._cancel_calls)
            self._watching = asyncio.run_coroutine_threadsafe(self._watch(), self.loop.loop)
            undo.callback(self._watching.cancel)
            self._undo = undo.pop_all()

    def _upstream_calls(self, allowances: Allowances) -> Upstream:
        mode, around = self._mode, self._mode.around
        return Upstream(
            policy=around.policy,
            audit=around.audit,
            catalog=mode.catalog,
            callee=self.pool,
            authorization=mode.authorization,
            allowances=allowances,
            servers=frozenset(self.pool.names),
            trusted=mode.trusted,
            adopt=self._adopt,
            on_learnt=self._learnt,
            on_called=around.on_called,
        )

    def _custom_calls(self, allowances: Allowances) -> Upstream:
        mode, around = self._mode, self._mode.around
        return Upstream(
            policy=around.policy,
            audit=around.audit,
            catalog=CustomKnowledge(mode.custom),
            callee=CustomCallee(mode.custom),
            authorization=mode.custom_authorization,
            allowances=allowances,
            servers=mode.custom.groups.keys(),
            on_learnt=self._learnt,
            on_called=around.on_called,
        )

    async def fresh_listing(self, server: str) -> ServerListing:
        """What a server says now, for sync."""
        listing = await self.pool.listing(server, fresh=True)
        self._stale.discard(server)  # what it said of changes before is in its answer
        return listing

    def run(self, call: Coroutine[Any, Any, T]) -> T:
        """Run a call from a thread that is not the loop's, and wait. Closing cancels it."""
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
        for task in tuple(self._taking_over.values()):
            self.loop.loop.call_soon_threadsafe(task.cancel)

    def _keep_what_was_heard(self) -> None:
        """What servers printed and why they failed, for `doctor`."""
        for name, status in self.pool.status().items():
            if status.starts:
                with contextlib.suppress(ToolyardError, sqlite3.Error):
                    failed = status.last_error if status.state == "failed" else ""
                    self._mode.catalog.heard(name, status.stderr[-_STDERR_CHARS:], failed)

    def write_down(self) -> None:
        """Whatever was learnt and is not written yet: for whoever closes."""
        self.write_stale()
        if not self._mode.catalog.is_busy():  # the rest is not worth waiting for another process
            self._learning.now()
            self._keep_what_was_heard()

    def _write_learnt(self) -> None:
        """Put the shapes that were learnt into the tools' files. A guess, so a failure is none."""
        if not self._has_learnt or self._mode.catalog.is_busy(0.0):  # waiting would hold up whoever looks there
            return
        self._has_learnt = False
        with contextlib.suppress(ToolyardError, sqlite3.Error), alone(self._mode.around.state):
            write(self._mode)

    def write_stale(self) -> None:
        """Note in the catalog which servers have to be asked again."""
        self._marking.now()

    def _write_stale(self) -> None:
        """What cannot be noted now is kept for later."""
        stale = tuple(self._stale)
        if not stale:
            return
        self._stale.difference_update(stale)
        try:
            # Not the catalog of the loop, which would wait for this one while another process holds the file.
            with Catalog.open(self._mode.around.state) as catalog:
                for server in stale:
                    catalog.mark_stale(server)
        except (ToolyardError, sqlite3.Error):
            self._stale.update(stale)

    def _list_changed(self, server: str) -> None:
        """The catalog may be locked by another process, and the loop waits for nobody: it is written aside."""
        self._stale.add(server)
        self._marking.soon()
        if server in self.upstream.trusted:
            self._changed.add(server)
            if server not in self._taking_over:
                self._taking_over[server] = self.loop.loop.create_task(self._take_over(server))

    async def _take_over(self, server: str) -> None:
        """Of a server with `pinned: false`: what it has now counts from now on, and its files are written anew."""
        try:
            while server in self._changed:
                self._changed.discard(server)
                with contextlib.suppress(ToolyardError, sqlite3.Error):  # the next call meets the same, and says so
                    await self.upstream.verify(server)
                    await asyncio.to_thread(self._learning.now)  # its files, for code that imports a new tool next
        finally:
            del self._taking_over[server]

    async def _watch(self) -> None:
        """Follow the configuration, so that a server that is removed from it is no longer called."""
        while True:
            await asyncio.sleep(_WATCH_SECONDS)
            with contextlib.suppress(ToolyardError, sqlite3.Error):  # the next look may find it mended
                await asyncio.to_thread(self._mode.refresh)  # a changed configuration is read, off the loop of calls

    def attach(self) -> None:
        """Attach the servers that code mode has now, from any thread."""
        self.loop.loop.call_soon_threadsafe(self._attach)

    def _attach(self) -> None:
        mode, upstream = self._mode, self.upstream
        entries = {entry.name: entry for entry in mode.resolved.entries}
        for name, entry in self.pool.entries.items():
            if entries.get(name) is not entry:
                self._detaching.add(task := self.loop.loop.create_task(self.pool.detach(name)))
                task.add_done_callback(self._detaching.discard)
                upstream.forget(name)
        for name, entry in entries.items():
            if name not in self.pool.entries:
                self.pool.add(entry)
        upstream.authorization = mode.authorization
        upstream.servers, upstream.trusted = frozenset(entries), mode.trusted

    def _adopt(self, server: str) -> bool:
        """Whether a server was added to the configuration and synced after this session began."""
        if time.monotonic() < self._adopts_after:
            return False
        self._mode.refresh()
        self._attach()
        if server in self.pool.entries:
            return True
        self._adopts_after = time.monotonic() + _ADOPT_PAUSE_SECONDS
        return False

    def _learnt(self) -> None:
        """It goes into the tools' files a moment later, with whatever else is learnt by then."""
        self._has_learnt = True
        self._learning.soon()

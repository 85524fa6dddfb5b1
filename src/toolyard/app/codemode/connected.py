"""What code mode has running once something was called: a loop, the pool of servers on it, the broker's socket."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

from toolyard.app.codemode.answering import Answering
from toolyard.app.codemode.upstream import Upstream
from toolyard.codemode.allowances import Allowances
from toolyard.codemode.broker import Broker
from toolyard.core.closing import Closing
from toolyard.core.upstream import ServerListing
from toolyard.servers import LoopThread, ServerPool

if TYPE_CHECKING:
    from toolyard.app.codemode.codemode import CodeMode


class Connected(Closing):
    """Owns its parts; `close()` ends every server, call and connection, and the loop's thread last."""

    def __init__(self, mode: CodeMode) -> None:
        around = mode.around
        with contextlib.ExitStack() as undo:
            self.loop = undo.enter_context(LoopThread("toolyard-servers"))
            entries = mode.resolved.entries
            self.pool = undo.enter_context(
                ServerPool(entries, loop=self.loop, on_list_changed=mode.catalog.mark_stale)
            )
            allowances = Allowances.of(around.config)
            self.upstream = Upstream(
                policy=around.policy,
                audit=around.audit,
                catalog=mode.catalog,
                callee=self.pool,
                authorization=mode.authorization,
                allowances=allowances,
                servers=frozenset(entry.name for entry in entries),
                on_learnt=self._learnt,
            )
            answering = Answering(self.upstream, self.upstream, mode.questions, mode.find, around.policy, around.root)
            self.broker = undo.enter_context(Broker.open(around.agent, answering, self.loop.loop))
            self._undo = undo.pop_all()

    async def fresh_listing(self, server: str) -> ServerListing:
        """What a server says now, for sync."""
        return await self.pool.listing(server, fresh=True)

    def close(self) -> None:
        self._undo.close()

    def _learnt(self, server: str, tool: str) -> None:
        """A result's shape was learnt; the next sync writes it into the tool's file."""

"""The MCP SDK, imported when something first needs it, in a thread, so that the client is answered meanwhile.

An Sdk owns that thread for as long as the import lasts. Nobody waits for it at shutdown: it changes nothing but the
modules that are loaded, and ends with the process.
"""

from __future__ import annotations

import asyncio
import contextlib
import threading
from typing import TYPE_CHECKING

from toolyard.core.actions import Action, Decision
from toolyard.core.calls import Asker
from toolyard.core.errors import SystemFault

if TYPE_CHECKING:
    from toolyard.transports.mcp import sdk_session as session

    Session = type[session.Session]


class Sdk:
    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._session: asyncio.Future[Session] = self._loop.create_future()
        self._asker: asyncio.Future[Asker] = self._loop.create_future()
        self._is_needed = False

    def need(self) -> None:
        """Begin to load it."""
        if not self._is_needed:
            self._is_needed = True
            threading.Thread(target=self._load, name="toolyard-sdk", daemon=True).start()

    async def session(self) -> Session:
        """The SDK's side of a connection, once something needed it and it is loaded. Raises what kept it away."""
        return await asyncio.shield(self._session)

    async def ask(self, action: Action, decision: Decision) -> bool:
        """Ask the client, which the SDK alone can."""
        self.need()
        asker = await asyncio.shield(self._asker)
        return await asker(action, decision)

    def can_ask(self, asker: Asker) -> None:
        """The SDK knows the client now."""
        if not self._asker.done():
            self._asker.set_result(asker)

    def _load(self) -> None:
        try:
            from toolyard.transports.mcp import sdk_session as session
        except Exception as error:  # noqa: BLE001 - a package that is broken may raise anything; each request is told
            self._tell(_fault(error))
        else:
            self._tell(session.Session)

    def _tell(self, outcome: Session | SystemFault) -> None:
        with contextlib.suppress(RuntimeError):  # the loop has closed: nobody waits for it any more
            self._loop.call_soon_threadsafe(self._settle, outcome)

    def _settle(self, outcome: Session | SystemFault) -> None:
        if not isinstance(outcome, SystemFault):
            self._session.set_result(outcome)
            return
        for future in (self._session, self._asker):
            future.set_exception(outcome)
            future.exception()  # perhaps nobody asks for it, and that is no fault


def _fault(error: Exception) -> SystemFault:
    return SystemFault(
        f"The MCP SDK cannot be loaded ({type(error).__name__}: {error}).",
        hint="Install Toolyard again, and start it anew.",
    )

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
from toolyard.core.calls import ApprovalCallback
from toolyard.core.errors import SystemFault

if TYPE_CHECKING:
    from toolyard.transports.mcp import sdk_session as session

    SdkSessionType = type[session.SdkSession]


class SdkLoader:
    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._session: asyncio.Future[SdkSessionType] = self._loop.create_future()
        self._approval_callback: asyncio.Future[ApprovalCallback] = self._loop.create_future()
        self._is_loading = False

    def start_loading(self) -> None:
        """Begin to load it."""
        if not self._is_loading:
            self._is_loading = True
            threading.Thread(target=self._import_sdk, name="toolyard-sdk", daemon=True).start()

    async def session(self) -> SdkSessionType:
        """The SDK's side of a connection, once something needed it and it is loaded. Raises what kept it away."""
        return await asyncio.shield(self._session)

    async def ask(self, action: Action, decision: Decision) -> bool:
        """Ask the client, which the SDK alone can."""
        self.start_loading()
        asker = await asyncio.shield(self._approval_callback)
        return await asker(action, decision)

    def set_approval_callback(self, asker: ApprovalCallback) -> None:
        """The SDK knows the client now."""
        if not self._approval_callback.done():
            self._approval_callback.set_result(asker)

    def _import_sdk(self) -> None:
        try:
            from toolyard.transports.mcp import sdk_session as session
        except Exception as error:  # noqa: BLE001 - a package that is broken may raise anything; each request is told
            self._publish_outcome(_load_error(error))
        else:
            self._publish_outcome(session.SdkSession)

    def _publish_outcome(self, outcome: SdkSessionType | SystemFault) -> None:
        with contextlib.suppress(RuntimeError):  # the loop has closed: nobody waits for it any more
            self._loop.call_soon_threadsafe(self._set_outcome, outcome)

    def _set_outcome(self, outcome: SdkSessionType | SystemFault) -> None:
        if not isinstance(outcome, SystemFault):
            self._session.set_result(outcome)
            return
        for future in (self._session, self._approval_callback):
            future.set_exception(outcome)
            future.exception()  # perhaps nobody asks for it, and that is no fault


def _load_error(error: Exception) -> SystemFault:
    return SystemFault(
        f"The MCP SDK cannot be loaded ({type(error).__name__}: {error}).",
        hint="Install Toolyard again, and start it anew.",
    )

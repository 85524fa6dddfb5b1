"""Imports the MCP SDK in a thread when it is first needed, while clients are still being answered.

An SdkLoader owns that thread during the import. Shutdown does not wait for it: it only loads modules, and ends with
the process.
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
    """Loads the SDK on demand."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._session: asyncio.Future[SdkSessionType] = self._loop.create_future()
        self._approval_callback: asyncio.Future[ApprovalCallback] = self._loop.create_future()
        self._is_loading = False

    def start_loading(self) -> None:
        """Starts the import."""
        if not self._is_loading:
            self._is_loading = True
            threading.Thread(target=self._import_sdk, name="toolyard-sdk", daemon=True).start()

    async def session(self) -> SdkSessionType:
        """Returns the SDK's session class once it is loaded. Raises SystemFault if it cannot be imported."""
        return await asyncio.shield(self._session)

    async def ask(self, action: Action, decision: Decision) -> bool:
        """Asks the client, for which the SDK is needed."""
        self.start_loading()
        asker = await asyncio.shield(self._approval_callback)
        return await asker(action, decision)

    def set_approval_callback(self, asker: ApprovalCallback) -> None:
        """Sets the approval callback, once the SDK knows the client."""
        if not self._approval_callback.done():
            self._approval_callback.set_result(asker)

    def _import_sdk(self) -> None:
        try:
            from toolyard.transports.mcp import sdk_session as session
        except Exception as error:  # noqa: BLE001 - a broken package may raise anything; requests get the error
            self._publish_outcome(_load_error(error))
        else:
            self._publish_outcome(session.SdkSession)

    def _publish_outcome(self, outcome: SdkSessionType | SystemFault) -> None:
        with contextlib.suppress(RuntimeError):  # the loop is closed: nothing waits for it
            self._loop.call_soon_threadsafe(self._set_outcome, outcome)

    def _set_outcome(self, outcome: SdkSessionType | SystemFault) -> None:
        if not isinstance(outcome, SystemFault):
            self._session.set_result(outcome)
            return
        for future in (self._session, self._approval_callback):
            future.set_exception(outcome)
            future.exception()  # mark it as retrieved: maybe nothing awaits it


def _load_error(error: Exception) -> SystemFault:
    return SystemFault(
        f"The MCP SDK cannot be loaded ({type(error).__name__}: {error}).",
        hint="Reinstall Toolyard and start it again.",
    )

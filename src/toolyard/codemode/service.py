"""Code mode of one Yard: knowledge of its tools and, from the first call on, the connections and the broker.

Creating it costs nothing. The first sandbox starts a loop thread and the broker's socket; a call starts the server
that it needs. `CodeMode` owns all of them until `close()`.
"""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from toolyard.codemode.tool_knowledge import ToolKnowledge
from toolyard.core.calls import Call
from toolyard.core.errors import SystemFault
from toolyard.core.upstream import UpstreamResult

if TYPE_CHECKING:
    from toolyard.codemode.deps import CodeModeDeps
    from toolyard.codemode.live_connections import LiveConnections
    from toolyard.codemode.upstream_caller import UpstreamCall


class CodeMode(ToolKnowledge):
    """Calls tools, and knows them. Thread-safe."""

    def __init__(self, deps: CodeModeDeps) -> None:
        super().__init__(deps)
        self._connections: LiveConnections | None = None
        self._has_own_files = False

    def close(self) -> None:
        connected = self._connections
        if connected is not None:
            connected.flush()
        with contextlib.ExitStack() as stack:  # connections first: running calls still use the catalog
            stack.callback(super().close)
            with self._lock:
                self._is_closed = True
                connected, self._connections = self._connections, None
            if connected is not None:
                stack.callback(connected.close)

    def _on_attachment_changed(self) -> None:
        if self._connections is not None:
            self._connections.update_attachments()

    def record_stale_servers(self) -> None:
        """Marks servers that announced changed tools, so that sync asks them."""
        if self._connections is not None:
            self._connections.flush_stale_marks()

    @property
    def connections(self) -> LiveConnections:
        """The loop, the pool and the broker."""
        from toolyard.codemode.live_connections import LiveConnections

        with self._while_open():
            self._connections = self._connections or LiveConnections(self)
            return self._connections

    def broker_folder(self) -> str:
        """Returns the folder with the agent's socket, to mount in a sandbox."""
        with self._while_open():
            # Only in a root that Toolyard manages. A user's own folder stays unchanged: code imports the files that
            # come with the runtime.
            if not self._has_own_files and self.root is not self.deps.mounts.workspace:
                from toolyard.codemode.own_tools import write_own_tools

                self._has_own_files = True
                with contextlib.suppress(SystemFault, OSError):  # a read-only root works without them
                    write_own_tools(self.root, self.deps.state, self.deps.list_own_tools())
        return self.connections.broker.folder

    def call(self, call: UpstreamCall) -> UpstreamResult:
        """Calls a tool from any thread except the loop's own."""
        connected = self.connections
        way = connected.custom if call.is_custom else connected.upstream
        return connected.run(way.call(call))

    def call_own(self, call: UpstreamCall) -> UpstreamResult:
        """Calls one of Toolyard's own file tools from any thread except the loop's own."""
        from toolyard.codemode.own_tools import call_own_tool

        connected = self.connections
        if connected.own_tools is None:
            raise SystemFault("The file tools are not available here.", hint="Open the complete workspace.")
        return connected.loop.run(call_own_tool(connected.own_tools, call))

    def call_for_client(
        self, server: str, tool: str, arguments: Mapping[str, Any], caller: Call, *, is_custom: bool = False
    ) -> UpstreamResult:
        """Calls a tool for a client that has it in its own list."""
        from toolyard.codemode.upstream_caller import UpstreamCall

        ask, surface, session = self.approvals.ask, caller.surface, caller.session
        call = UpstreamCall(server, tool, arguments, caller.agent, surface, ask, session, is_custom=is_custom)
        return self.call(call)

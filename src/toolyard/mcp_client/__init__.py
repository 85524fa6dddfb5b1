"""Client for upstream MCP servers: connects on the first call, shares connections, closes them when idle."""

from toolyard.core.loop_thread import LoopThread
from toolyard.mcp_client.errors import (
    CallFailed,
    CallRefused,
    CallTimedOut,
    ServerMisbehaved,
    ServerUnavailable,
    UnknownServer,
)
from toolyard.mcp_client.managed_server import ServerStatus
from toolyard.mcp_client.pool import ServerPool
from toolyard.mcp_client.shared_servers import SharedServers

__all__ = [
    "CallFailed",
    "CallRefused",
    "CallTimedOut",
    "LoopThread",
    "ServerMisbehaved",
    "ServerPool",
    "ServerStatus",
    "ServerUnavailable",
    "SharedServers",
    "UnknownServer",
]

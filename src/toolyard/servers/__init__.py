"""Upstream MCP servers: connecting when called, sharing one connection, closing when idle."""

from toolyard.servers.faults import (
    CallFailed,
    CallRefused,
    CallTimedOut,
    ServerMisbehaved,
    ServerUnavailable,
    UnknownServer,
)
from toolyard.servers.loop import LoopThread
from toolyard.servers.pool import ServerPool
from toolyard.servers.shared import SharedServers
from toolyard.servers.upstream import ServerStatus

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

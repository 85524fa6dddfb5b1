"""For authors of MCP servers: reading the files of the client, safely.

    from toolyard.bridge import BridgeHost, FileCache, FilesystemBridge, PathValidator, SecurityPolicy

`BridgeHost` is what a server makes once; `host.bridge(ctx)` is the FilesystemBridge of the client behind one request.
"""

from __future__ import annotations

from toolyard.bridge.auditing import TRACE, Operation
from toolyard.bridge.bridge import FilesystemBridge
from toolyard.bridge.cache import CachedFile, CacheStatistics, FileCache, NewFile
from toolyard.bridge.errors import (
    BadAnswerError,
    CacheRefusedError,
    ClientRefusedError,
    MissingFileError,
    PathRefusedError,
    SamplingRefusedError,
    SamplingTimeoutError,
    SamplingUnsupportedError,
    UnreadableFileError,
    Violation,
)
from toolyard.bridge.host import BridgeHost, on_the_wire
from toolyard.bridge.listing import PathInfo
from toolyard.bridge.mcp_client import RoundNeeded
from toolyard.bridge.policy import DEFAULT_ALLOWED_PATHS, SecurityPolicy
from toolyard.bridge.validating import PathValidator
from toolyard.core.errors import SecurityError, ToolError, ValidationError

__all__ = [
    "DEFAULT_ALLOWED_PATHS",
    "TRACE",
    "BadAnswerError",
    "BridgeHost",
    "CacheRefusedError",
    "CacheStatistics",
    "CachedFile",
    "ClientRefusedError",
    "FileCache",
    "FilesystemBridge",
    "MissingFileError",
    "NewFile",
    "Operation",
    "PathInfo",
    "PathRefusedError",
    "PathValidator",
    "RoundNeeded",
    "SamplingRefusedError",
    "SamplingTimeoutError",
    "SamplingUnsupportedError",
    "SecurityError",
    "SecurityPolicy",
    "ToolError",
    "UnreadableFileError",
    "ValidationError",
    "Violation",
    "on_the_wire",
]

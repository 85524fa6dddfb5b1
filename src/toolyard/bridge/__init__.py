"""For authors of MCP servers: safe access to the client's files.

    from toolyard.bridge import BridgeHost, FileCache, FilesystemBridge, PathValidator, SecurityPolicy

A server creates one `BridgeHost`; `host.bridge(ctx)` returns the FilesystemBridge of the client behind one request.
"""

from __future__ import annotations

from toolyard.bridge.audit import TRACE, Listener, Operation
from toolyard.bridge.bridge import FilesystemBridge
from toolyard.bridge.cache import CachedFile, CacheStatistics, FileCache, NewFile
from toolyard.bridge.errors import (
    BadAnswerError,
    CacheRefusedError,
    ClientRefusedError,
    MissingFileError,
    PathRefusedError,
    ResourceRefusedError,
    SamplingRefusedError,
    SamplingTimeoutError,
    SamplingUnsupportedError,
    UnreadableFileError,
    Violation,
)
from toolyard.bridge.host import BridgeHost, on_the_wire
from toolyard.bridge.listing_answers import PathInfo
from toolyard.bridge.mcp_client import Identify, RoundNeeded, one_client
from toolyard.bridge.path_validator import PathValidator
from toolyard.bridge.policy import DEFAULT_ALLOWED_PATHS, SecurityPolicy
from toolyard.bridge.resources import ResourceReader
from toolyard.core.errors import ConfigError, SecurityError, SystemFault, ToolError, ToolyardError, ValidationError
from toolyard.storage.audit_log import AuditLog

__all__ = [
    "DEFAULT_ALLOWED_PATHS",
    "TRACE",
    "AuditLog",
    "BadAnswerError",
    "BridgeHost",
    "CacheRefusedError",
    "CacheStatistics",
    "CachedFile",
    "ClientRefusedError",
    "ConfigError",
    "FileCache",
    "FilesystemBridge",
    "Identify",
    "Listener",
    "MissingFileError",
    "NewFile",
    "Operation",
    "PathInfo",
    "PathRefusedError",
    "PathValidator",
    "ResourceReader",
    "ResourceRefusedError",
    "RoundNeeded",
    "SamplingRefusedError",
    "SamplingTimeoutError",
    "SamplingUnsupportedError",
    "SecurityError",
    "SecurityPolicy",
    "SystemFault",
    "ToolError",
    "ToolyardError",
    "UnreadableFileError",
    "ValidationError",
    "Violation",
    "on_the_wire",
    "one_client",
]

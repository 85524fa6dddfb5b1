"""A server of somebody's, on the bridge: it hands what the bridge says on to its client, and tells what it noted.

    python server.py --root ROOT [--allow PATH ...] [--seconds N] [--state DIR] [--disk DIR ...] [--http]

Over HTTP it prints the port that it listens on.
"""

from __future__ import annotations

import argparse
import base64
import json
import socket
import sys
from typing import Any

from mcp.server.mcpserver import Context, MCPServer

from toolyard.bridge import DEFAULT_ALLOWED_PATHS, BridgeHost, FileCache, Operation, PathInfo, SecurityPolicy
from toolyard.storage.audit_log import AuditLog


def told(info: PathInfo) -> dict[str, Any]:
    children = None if info.children is None else [told(child) for child in info.children]
    return {
        "name": info.name,
        "path": info.path,
        "type": info.type,
        "size": info.size,
        "mtime": info.mtime,
        "target": info.target,
        "children": children,
        "refused": info.refused,
    }


def build(host_options: dict[str, Any], root: str | None, allow: list[str] | None) -> tuple[MCPServer, BridgeHost]:
    operations: list[Operation] = []
    policy = SecurityPolicy(root, allow or DEFAULT_ALLOWED_PATHS)
    host = BridgeHost(policy, listen=operations.append, **host_options)
    server: MCPServer = MCPServer("somebody's")
    host.offer(server)

    @server.tool(structured_output=False)
    @host.asks
    async def list_directory(ctx: Context, path: str, recursive: bool = False, pattern: str | None = None) -> str:
        return json.dumps([told(info) for info in await host.bridge(ctx).list_directory(path, recursive, pattern)])

    @server.tool(structured_output=False)
    @host.asks
    async def read_file(
        ctx: Context, path: str, encoding: str | None = None, binary: bool = False, fresh: bool = False
    ) -> str:
        if binary:
            return base64.b64encode(await host.bridge(ctx).read_file(path, encoding, binary=True)).decode()
        return await host.bridge(ctx).read_file(path, encoding, fresh=fresh)

    @server.tool(structured_output=False)
    @host.asks
    async def read_files(ctx: Context, paths: list[str]) -> str:
        return json.dumps(await host.bridge(ctx).read_files(paths))

    @server.tool(structured_output=False)
    @host.asks
    async def list_then_read(ctx: Context, folder: str) -> str:
        """Two questions, one after the other."""
        bridge = host.bridge(ctx)
        listed = await bridge.list_directory(folder)
        return json.dumps({info.name: await bridge.read_file(info.path) for info in listed if info.type == "file"})

    @server.tool(structured_output=False)
    async def noted() -> str:
        """What the server knows: of its cache, and of every operation."""
        return json.dumps(
            {
                "cache": host.cache.statistics.as_dict(),
                "operations": [
                    {
                        "level": each.level,
                        "tool": each.event.tool,
                        "target": each.event.target,
                        "outcome": each.event.outcome,
                        "code": each.event.code,
                        "client": each.event.agent,
                        "violation": each.violation,
                        "stack": each.stack,
                        "violations": each.violations,
                    }
                    for each in operations
                ],
            }
        )

    return server, host


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--root")
    parser.add_argument("--allow", action="append")
    parser.add_argument("--seconds", type=float, default=20.0)
    parser.add_argument("--violations", type=int, default=5)
    parser.add_argument("--ttl", type=float, default=3600.0)
    parser.add_argument("--cache-bytes", type=int, default=1 << 20)
    parser.add_argument("--revalidate", type=float, default=5.0)
    parser.add_argument("--max-age", type=float, default=300.0)
    parser.add_argument("--state")
    parser.add_argument("--disk", action="append", default=[])
    parser.add_argument("--http", action="store_true")
    given = parser.parse_args()
    options: dict[str, Any] = {
        "seconds": given.seconds,
        "most_violations": given.violations,
        "shared_disk": given.disk,
        "revalidate_seconds": given.revalidate,
        "max_age_seconds": given.max_age,
        "cache": FileCache(given.cache_bytes, ttl_seconds=given.ttl),
        "audit": AuditLog.open(given.state) if given.state else None,
    }
    server, _ = build(options, given.root, given.allow)
    if not given.http:
        server.run("stdio")
        return
    import uvicorn

    listener = socket.create_server(("127.0.0.1", 0))
    print(listener.getsockname()[1], flush=True)
    app = server.streamable_http_app()
    uvicorn.Server(uvicorn.Config(app, log_level="warning")).run(sockets=[listener])


if __name__ == "__main__":
    sys.exit(main())

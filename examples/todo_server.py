"""An MCP server that finds what is left to do in the files of its client, wherever those are.

    python todo_server.py [--root /home/me/project] [--allow src/ ...] [--shared-disk /home/me] [--http 8080]

`--root` is where the project is at the client's; without it, paths are relative to the project. With `--shared-disk`
the files are read directly, where the project lies in that folder of this machine.
"""

from __future__ import annotations

import argparse
import re

from mcp.server.mcpserver import Context, MCPServer

from toolyard.bridge import DEFAULT_ALLOWED_PATHS, BridgeHost, SecurityPolicy, one_client

MARK = re.compile(r"\b(TODO|FIXME)\b.*")


def build(host: BridgeHost) -> MCPServer:
    server: MCPServer = MCPServer("todos")
    host.offer(server)  # guide_cache_file, with which clients hand files over

    @server.tool()
    @host.asks
    async def todos_in(paths: list[str], ctx: Context) -> dict[str, list[str]]:
        """What is left to do in these files of your project."""
        texts = await host.bridge(ctx).read_files(paths)
        return {path: found(text) for path, text in texts.items()}

    @server.tool()
    @host.asks
    async def find_todos(folder: str, ctx: Context, pattern: str = "*.py") -> dict[str, list[str]]:
        """What is left to do in all files below a folder of your project that match a pattern."""
        bridge = host.bridge(ctx)
        listed = await bridge.list_directory(folder, recursive=True, pattern=pattern)
        paths = [each.path for top in listed for each in top.walk() if each.type == "file"]
        texts = await bridge.read_files(paths) if paths else {}
        return {path: marks for path, text in texts.items() if (marks := found(text))}

    return server


def found(text: str) -> list[str]:
    lines = enumerate(text.splitlines(), 1)
    return [f"{number}: {match[0]}" for number, line in lines if (match := MARK.search(line))]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--root")
    parser.add_argument("--allow", action="append")
    parser.add_argument("--shared-disk", action="append", default=[])
    parser.add_argument("--http", type=int, metavar="PORT")
    given = parser.parse_args()
    policy = SecurityPolicy(given.root, given.allow or DEFAULT_ALLOWED_PATHS)
    # Over HTTP it listens on this machine alone, for the users of this machine.
    with BridgeHost(policy, shared_disk=given.shared_disk, identify=one_client) as host:
        server = build(host)
        if given.http:
            server.run("streamable-http", port=given.http)
        else:
            server.run("stdio")


if __name__ == "__main__":
    main()

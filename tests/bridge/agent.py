"""A client with files of its own, which answers a server's questions as a script says: honestly, or not at all."""

from __future__ import annotations

import asyncio
import base64
import fnmatch
import json
import os
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import mcp_types as types
from mcp import Client, MCPError

Sampled = types.CreateMessageResult | types.CreateMessageResultWithTools | types.ErrorData
Script = Callable[["Agent", dict[str, Any]], Awaitable[Any]]


class Agent:
    """`project` is its folder; `root` is what the server calls that folder."""

    def __init__(self, project: Path, root: str, script: Script | None = None) -> None:
        self.project = project
        self.root = root
        self.script = script or honest
        self.asked: list[dict[str, Any]] = []
        self.requests: list[types.CreateMessageRequestParams] = []
        self.with_tools = False
        self._client: Client | None = None

    @property
    def client(self) -> Client:
        assert self._client is not None
        return self._client

    @client.setter
    def client(self, client: Client) -> None:
        self._client = client

    async def sampled(self, _: Any, params: types.CreateMessageRequestParams) -> Sampled:
        request = dict(params.metadata or {})
        assert json.dumps(request["path"], ensure_ascii=False) in params.messages[0].content.text
        self.asked.append(request)
        self.requests.append(params)
        said = await self.script(self, request)
        if isinstance(said, (types.CreateMessageResult, types.CreateMessageResultWithTools, types.ErrorData)):
            return said
        return message(said if isinstance(said, str) else json.dumps(said))

    async def call(self, tool: str, **arguments: Any) -> str:
        """The text of a result. MCPError where it is an error."""
        result = await self.client.call_tool(tool, arguments)
        assert not result.is_error, result.content[0].text
        return result.content[0].text

    async def fails(self, tool: str, **arguments: Any) -> MCPError:
        try:
            said = await self.call(tool, **arguments)
        except MCPError as error:
            return error
        raise AssertionError(f"it did not fail: {said}")

    async def noted(self) -> dict[str, Any]:
        return json.loads(await self.call("noted"))

    async def push(self, path: str, **more: Any) -> dict[str, Any]:
        """Hand over a file as it is in the project."""
        result = await self.client.call_tool("guide_cache_file", {**self.file(path), **more})
        assert not result.is_error, result.content[0].text
        return result.structured_content

    def file(self, path: str, encoding: str | None = None, *, binary: bool = False) -> dict[str, Any]:
        """The arguments of guide_cache_file for a file."""
        place = self.place(path)
        data = place.read_bytes()
        about = {"path": path, "size": len(data), "mtime": place.stat().st_mtime}
        if binary:
            return {**about, "content": base64.b64encode(data).decode(), "encoding": "base64"}
        return {**about, "content": data.decode(encoding or "utf-8"), "encoding": encoding or "utf-8"}

    def place(self, path: str) -> Path:
        return self.project / os.path.relpath(path, self.root) if path.startswith("/") else self.project / path


def message(text: str, **more: Any) -> types.CreateMessageResult:
    content = types.TextContent(type="text", text=text)
    return types.CreateMessageResult(role="assistant", content=content, model="scripted", **more)


async def honest(agent: Agent, request: dict[str, Any]) -> Any:
    """Does what it is asked."""
    path = request["path"]
    place = agent.place(path)
    if not place.exists():
        return {"path": path, "error": "not_found"}
    if not place.stat().st_mode & 0o444:
        return {"path": path, "error": "permission_denied"}
    if request["operation"] == "list_directory":
        entries = listed(place, recursive=request["recursive"], pattern=request["pattern"])
        return {"path": path, "complete": True, "count": count(entries), "entries": entries}
    if request["operation"] == "stat_file":
        status = place.stat()
        return {"path": path, "size": status.st_size, "mtime": status.st_mtime}
    file = agent.file(path, request["encoding"], binary=request["binary"])
    if agent.with_tools:
        block = types.ToolUseContent(name="guide_cache_file", id="1", input=file)
        return types.CreateMessageResultWithTools(
            role="assistant", content=[block], model="scripted", stop_reason="toolUse"
        )
    await agent.client.call_tool("guide_cache_file", file)
    return {"path": path, "status": "cached"}


async def hangs(agent: Agent, request: dict[str, Any]) -> Any:
    await asyncio.sleep(60)


def saying(answer: Any) -> Script:
    """Always the same, whatever it is asked."""

    async def script(agent: Agent, request: dict[str, Any]) -> Any:
        return answer(request) if callable(answer) else answer

    return script


def listed(folder: Path, *, recursive: bool = False, pattern: str | None = None) -> list[dict[str, Any]]:
    entries: list[dict[str, Any]] = []
    for each in sorted(folder.iterdir()):
        status = each.lstat()
        if each.is_symlink():
            entry = {"name": each.name, "type": "symlink", "target": os.readlink(each)}
        elif each.is_dir():
            entry = {"name": each.name, "type": "directory"}
            if recursive:
                entry["entries"] = listed(each, recursive=True, pattern=pattern)
            if pattern and not entry.get("entries") and not fnmatch.fnmatch(each.name, pattern):
                continue
        else:
            entry = {"name": each.name, "type": "file", "size": status.st_size, "mtime": status.st_mtime}
        if pattern and entry["type"] != "directory" and not fnmatch.fnmatch(each.name, pattern):
            continue
        entries.append(entry)
    return entries


def count(entries: list[dict[str, Any]]) -> int:
    return sum(1 + count(entry.get("entries", [])) for entry in entries)

"""A workspace with real MCP servers attached, whose tools a test can change."""

from __future__ import annotations

import json
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from toolyard.app.toolsets import Toolset
from toolyard.app.yard import Yard
from toolyard.app.yard_options import YardOptions
from toolyard.codemode.sync_report import SyncReport, SyncRequest, run_sync
from toolyard.config.models import Config
from toolyard.config.settings import Settings
from toolyard.core.calls import ApprovalCallback, Call, Result, deny_without_asking
from toolyard.core.permission_modes import PermissionMode
from toolyard.storage.audit_reader import read

# Speaks the handshake era. Its tools are in a file, which it reads whenever it is asked for them; each start adds a
# line to another file. Every tool answers with its name and arguments.
SERVER = """
import json, os, sys
tools = sys.argv[1]
open(os.path.join(os.path.dirname(tools), "starts"), "a").write("started\\n")
for line in sys.stdin:
    message = json.loads(line)
    if "id" not in message:
        continue
    method, params = message["method"], message.get("params") or {}
    if method == "initialize":
        about = {"name": "s", "version": "1"}
        result = {"protocolVersion": "2025-11-25", "capabilities": {"tools": {}}, "serverInfo": about}
    elif method == "tools/list":
        result = {"tools": json.load(open(tools))}
    elif method == "tools/call":
        told = json.dumps({"tool": params["name"], "given": params.get("arguments", {})})
        if params["name"] == "long":
            told = "x" * 200_000
        result = {"content": [{"type": "text", "text": told}], "isError": params["name"] == "broken"}
    else:
        result = None
    told = {"result": result} if result is not None else {"error": {"code": -32601, "message": "no"}}
    print(json.dumps({"jsonrpc": "2.0", "id": message["id"], **told}), flush=True)
"""


def tool(name: str, description: str = "", *, read_only: bool = False, **properties: Any) -> dict[str, Any]:
    schema = {"type": "object", "properties": properties, "required": list(properties)}
    annotations = {"annotations": {"readOnlyHint": True}} if read_only else {}
    return {"name": name, "description": description, "inputSchema": schema, **annotations}


@dataclass
class Upstream:
    """One server's files."""

    folder: Path
    name: str
    more: dict[str, Any] = field(default_factory=dict)
    """Further keys of its entry."""

    def __post_init__(self) -> None:
        self.folder.mkdir(parents=True)
        (self.folder / "server.py").write_text(SERVER)
        (self.folder / "starts").write_text("")

    def has(self, *tools: dict[str, Any]) -> None:
        (self.folder / "tools.json").write_text(json.dumps(tools))

    @property
    def starts(self) -> int:
        return len((self.folder / "starts").read_text().splitlines())

    @property
    def entry(self) -> dict[str, Any]:
        files = [str(self.folder / name) for name in ("server.py", "tools.json")]
        return {"name": self.name, "command": sys.executable, "args": files, **self.more}


@dataclass
class Place:
    """A workspace, its servers, and the yards that were opened on it."""

    folder: Path
    servers: dict[str, Upstream] = field(default_factory=dict)
    yards: list[Yard] = field(default_factory=list)

    @property
    def workspace(self) -> Path:
        return self.folder / "ws"

    def server(self, name: str, *tools: dict[str, Any]) -> Upstream:
        made = self.servers[name] = Upstream(self.folder / f"server {name}", name)
        made.has(*tools)
        return made

    def open(
        self,
        mode: PermissionMode | None = None,
        toolset: Toolset = Toolset.CODE,
        agent: str | None = None,
        without: tuple[str, ...] = (),
        **config: Any,
    ) -> Yard:
        home = str(self.folder / "home")
        entries = [server.entry for server in self.servers.values() if server.name not in without]
        section = {"available_mcp_servers": entries, **config.pop("toolyard", {})}
        yard = Yard.open(
            YardOptions(
                workspace=str(self.workspace),
                config=Config.model_validate({"toolyard": section, **config}),
                settings=Settings(home, f"{home}/state", str(self.folder / "temp"), f"{home}/Documents"),
                mode=mode,
                agent=agent,
                toolset=toolset,
                state_home=str(self.folder / "state"),
            )
        )
        self.yards.append(yard)
        return yard

    def sync(self, *servers: str, nothing: bool = False, **wish: Any) -> SyncReport:
        yard = self.open(without=tuple(self.servers) if nothing else ())
        try:
            return run_sync(yard.codemode, SyncRequest(servers, **wish))
        finally:
            yard.close()

    def events(self, yard: Yard) -> list[tuple[str, str, str]]:
        return [(line.event.tool, line.event.decision, line.event.outcome) for line in read(yard.state)]


@pytest.fixture
def place(tmp_path: Path):
    made = Place(tmp_path)
    for name in ("ws", "home", "temp"):
        (tmp_path / name).mkdir()
    yield made
    for yard in made.yards:
        yard.close()


async def run(yard: Yard, code: str, ask: ApprovalCallback = deny_without_asking) -> Result:
    return await yard.dispatch(Call("execute_python", {"code": code}, "test", agent=yard.agent, ask=ask))


async def printed(yard: Yard, code: str, ask: ApprovalCallback = deny_without_asking) -> str:
    """What the code printed, or the last line of what it raised."""
    fields = (await run(yard, code, ask)).structured
    return fields["stdout"].strip() if not fields["error"] else fields["error"].strip().splitlines()[-1]

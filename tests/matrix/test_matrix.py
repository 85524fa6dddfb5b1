"""Every mode, every tool, every kind of place, every surface: who is refused, who is asked, who may.

The expected answers are written here from the table of permission modes in the documentation, not from the code. For
each mode and surface there is one server (two on stdio), tried by a client that says yes to questions, one that says
no, and one that cannot be asked: all three where the table says "asks", in turn where it does not matter.
"""

import contextlib
import glob
import json
import os
import sys
from dataclasses import dataclass
from typing import Any

import pytest

from toolyard.app.toolsets import Toolset, tools_of
from toolyard.app.yard import Yard
from toolyard.app.yard_options import YardOptions
from toolyard.config.models import Config
from toolyard.config.settings import Settings
from toolyard.core.calls import Call, deny_without_asking
from toolyard.core.errors import ToolyardError
from toolyard.core.permission_modes import PermissionMode
from toolyard.testing.mcp_client import StdioClient, error_in
from toolyard.testing.mcp_http_client import HttpClient, HttpServer

YES, NO, ASK = "allowed", "refused", "asks"
MODES = ("strict", "plan", "acceptEdits", "moderate", "default", "bypassPermissions")
SURFACES = ("in process", "stdio 2025-11-25", "stdio 2026-07-28", "http 2025-11-25", "http 2026-07-28")
CLIENTS = ("says yes", "says no", "cannot be asked")

# fmt: off
#                       strict plan acceptEdits moderate default bypass
TABLE = {
    ("read", "inside"):    (YES, YES,   YES,       YES,     YES,    YES),
    ("read", "outside"):   (NO,  NO,    ASK,       NO,      ASK,    YES),
    ("read", "temp"):      (NO,  NO,    ASK,       YES,     ASK,    YES),
    ("read", "documents"): (NO,  NO,    ASK,       YES,     ASK,    YES),
    ("read", "context"):   (YES, YES,   YES,       YES,     YES,    YES),
    ("read", "writable"):  (YES, YES,   YES,       YES,     YES,    YES),
    ("read", "protected"): (YES, YES,   YES,       YES,     YES,    YES),
    ("write", "inside"):   (YES, NO,    YES,       YES,     ASK,    YES),
    ("write", "outside"):  (NO,  NO,    ASK,       NO,      ASK,    YES),
    ("write", "temp"):     (NO,  NO,    ASK,       YES,     ASK,    YES),
    ("write", "documents"):(NO,  NO,    ASK,       YES,     ASK,    YES),
    ("write", "context"):  (NO,  NO,    NO,        NO,      NO,     YES),
    ("write", "writable"): (YES, NO,    YES,       YES,     ASK,    YES),
    ("write", "protected"):(NO,  NO,    NO,        NO,      NO,     YES),
    ("run", "a reader"):   (YES, YES,   YES,       YES,     ASK,    YES),
    ("run", "a writer"):   (YES, NO,    ASK,       YES,     ASK,    YES),
    ("run", "code"):       (YES, NO,    ASK,       YES,     ASK,    YES),
}
# fmt: on
PLACES = ("inside", "outside", "temp", "documents", "context", "writable", "protected")
# Each command touches a file of its own name, or reads; code is never known to only read.
RUNS: dict[str, tuple[str, str, str]] = {
    "Bash reads": ("a reader", "Bash", "ls -l"),
    "Bash writes": ("a writer", "Bash", "touch {made}"),
    "execute_bash reads": ("a reader", "execute_bash", "ls -l"),
    "execute_bash writes": ("a writer", "execute_bash", "touch {made}"),
    "execute_python reads": ("code", "execute_python", "1 + 1"),
    "execute_python writes": ("code", "execute_python", "open('{made}', 'w').close()"),
}

FILE, FOLDER, NAME = "the file", "its folder", "its name"
EDIT = {"old_string": "alpha", "new_string": "changed"}
TOOLS: dict[str, tuple[str, dict[str, Any]]] = {
    "Read": ("read", {"file_path": FILE}),
    "Grep": ("read", {"pattern": "alpha", "path": FILE}),
    "Glob": ("read", {"pattern": "*", "path": FOLDER}),
    "LS": ("read", {"path": FOLDER}),
    "resources/read": ("read", {"uri": FILE}),
    "Write": ("write", {"file_path": FILE, "content": "changed\n"}),
    "Edit": ("write", {"file_path": FILE, **EDIT}),
    "MultiEdit": ("write", {"file_path": FILE, "edits": [EDIT]}),
    "NotebookEdit": ("write", {"notebook_path": FILE, "cell_id": "cell-0", "new_source": "changed"}),
    "read_file": ("read", {"path": FILE}),
    "read_text_file": ("read", {"path": FILE}),
    "list_directory": ("read", {"path": FOLDER}),
    "list_directory_with_sizes": ("read", {"path": FOLDER}),
    "directory_tree": ("read", {"path": FOLDER}),
    "search_files": ("read", {"path": FOLDER, "pattern": "*"}),
    "get_file_info": ("read", {"path": FILE}),
    "write_file": ("write", {"path": FILE, "content": "changed\n"}),
    "edit_file": ("write", {"path": FILE, "edits": [{"oldText": "alpha", "newText": "changed"}]}),
}


@dataclass(frozen=True)
class World:
    base: str

    @property
    def workspace(self) -> str:
        return f"{self.base}/ws"

    def folder(self, place: str) -> str:
        inside = {"inside": "ws/src", "protected": "ws/.git/hooks", "documents": "home/Documents"}
        return f"{self.base}/{inside.get(place, place)}"

    def config(self) -> dict[str, Any]:
        paths = [(self.folder("context"), "read"), (self.folder("writable"), "write")]
        context_paths = [{"path": path, "permission": how} for path, how in paths]
        # The table is about rights; what has to be read first is not judged by them.
        return {"orchestrator": {"context_paths": context_paths}, "limits": {"overwrite_unread": True}}

    def environment(self) -> dict[str, str]:
        kept = {name: value for name, value in os.environ.items() if name in {"PATH", "PYTHONPATH"}}
        return {**kept, "HOME": f"{self.base}/home", "TMPDIR": self.folder("temp"), "TOOLYARD_TOKEN": "token"}

    def command(self, mode: str, *more: str) -> list[str]:
        with open(f"{self.base}/config.yaml", "w") as file:
            json.dump(self.config(), file)
        toolyard = [sys.executable, "-m", "toolyard", "mcp", "--config", f"{self.base}/config.yaml"]
        where = ["--workspace", self.workspace, "--state", f"{self.base}/state"]
        return [*toolyard, *where, "--permission-mode", mode, "--tools", "all", *more]


@pytest.fixture
def world(tmp_path):
    made = World(os.path.realpath(tmp_path))
    for place in PLACES:
        os.makedirs(made.folder(place))
    return made


@dataclass
class Person:
    """Who sits behind a client, and how often they were asked."""

    answer: bool
    asked: int = 0

    def reply(self) -> dict[str, Any]:
        self.asked += 1
        return {"action": "accept", "content": {"allow": True}} if self.answer else {"action": "decline"}


class InProcess:
    def __init__(self, yard: Yard, client: str) -> None:
        self._yard = yard
        self.person = Person(client == "says yes")
        self._can_be_asked = client != "cannot be asked"

    async def call(self, tool: str, arguments: dict[str, Any]) -> int:
        async def ask(action, decision):
            return self.person.reply()["action"] == "accept"

        try:
            asker = ask if self._can_be_asked else deny_without_asking
            await self._yard.dispatch(Call(tool, arguments, surface="test", ask=asker, hidden="/" in tool))
        except ToolyardError as error:
            return error.code
        return 0


class Stdio(StdioClient):
    person: Person

    def on_request(self, message):
        return {"result": self.person.reply()}


class Http(HttpClient):
    person: Person

    def on_request(self, message):
        return {"result": self.person.reply()}


class Wire:
    def __init__(self, client: Stdio | Http, kind: str) -> None:
        self.person = Person(kind == "says yes")
        self._client = client

    async def call(self, tool: str, arguments: dict[str, Any]) -> int:
        self._client.person = self.person
        method = tool if tool == "resources/read" else "tools/call"
        params = arguments if tool == "resources/read" else {"name": tool, "arguments": arguments}
        response = self._client.request(method, params)
        while response.get("result", {}).get("resultType") == "input_required":
            answers = {key: self.person.reply() for key in response["result"]["inputRequests"]}
            more = {"inputResponses": answers, "requestState": response["result"]["requestState"]}
            response = self._client.request(method, {**params, **more})
        error = error_in(response)
        return error["code"] if error is not None else 0


@contextlib.contextmanager
def clients_of(world: World, surface: str, mode: str):
    """The three clients of one mode on one surface, on as few servers as there can be."""
    transport, _, version = surface.partition(" ")
    modern = version == "2026-07-28"
    abilities = {client: {} if client == "cannot be asked" else {"elicitation": {}} for client in CLIENTS}
    with contextlib.ExitStack() as stack:
        if transport == "in":
            home = f"{world.base}/home"
            settings = Settings(home, f"{world.base}/state", world.folder("temp"), world.folder("documents"))
            options = YardOptions(
                world.workspace,
                Config.model_validate(world.config()),
                settings,
                PermissionMode(mode),
                toolset=Toolset.ALL,
            )
            yard = stack.enter_context(Yard.open(options))
            yield {client: InProcess(yard, client) for client in CLIENTS}
        elif transport == "http":
            server = stack.enter_context(
                HttpServer(world.command(mode, "--http", "127.0.0.1:0"), env=world.environment())
            )
            yield {
                client: Wire(
                    stack.enter_context(Http(server.url, "token", modern=modern, capabilities=abilities[client])),
                    client,
                )
                for client in CLIENTS
            }
        else:
            # On stdio a client is a server of its own; yes and no are two answers of one client.
            one, other = (
                stack.enter_context(
                    Stdio(world.command(mode), modern=modern, env=world.environment(), capabilities=abilities[client])
                )
                for client in ("says yes", "cannot be asked")
            )
            yield {client: Wire(other if client == "cannot be asked" else one, client) for client in CLIENTS}


def expected(mode: str, kind: str, place: str, client: str) -> tuple[str, str]:
    """What comes of a cell, and whether somebody is asked about it."""
    answer = TABLE[kind, place][MODES.index(mode)]
    if answer != ASK:
        return answer, "unasked"
    return (YES if client == "says yes" else NO), ("unasked" if client == "cannot be asked" else "asked")


def prepared(world: World, place: str, number: int, tool: str) -> str:
    """A file of its own for every cell, alone in a folder of its own."""
    folder = f"{world.folder(place)}/{number}"
    os.mkdir(folder)
    is_notebook = tool == "NotebookEdit"
    path = f"{folder}/file.{'ipynb' if is_notebook else 'txt'}"
    with open(path, "w") as file:
        file.write('{"cells": [{"cell_type": "markdown", "source": "alpha"}]}' if is_notebook else "alpha\n")
    return path


def filled(value: Any, path: str) -> Any:
    if value == FILE:
        return path
    return os.path.dirname(path) if value == FOLDER else value


async def found(client: InProcess | Wire, tool: str, path: str) -> tuple[str, str]:
    kind, template = TOOLS[tool]
    arguments = {name: filled(value, path) for name, value in template.items()}
    if tool == "resources/read":
        arguments = {"uri": f"file://{path}"}
    client.person.asked = 0
    code = await client.call(tool, arguments)
    assert code in {0, -32001}, (tool, path, code)
    with open(path) as file:
        changed = "alpha" not in file.read()
    assert changed == (kind == "write" and code == 0), f"{tool} did what it answered"
    return (NO if code else YES), ("asked" if client.person.asked else "unasked")


async def ran(client: InProcess | Wire, world: World, run: str, number: int) -> tuple[str, str]:
    _, tool, text = RUNS[run]
    made = f"made-{number}"
    client.person.asked = 0
    argument = "code" if tool == "execute_python" else "command"
    code = await client.call(tool, {argument: text.format(made=made)})
    assert code in {0, -32001}, (run, code)
    is_there = os.path.exists(f"{world.workspace}/{made}")
    assert is_there == ("{made}" in text and code == 0), f"{run} did what it answered"
    return (NO if code else YES), ("asked" if client.person.asked else "unasked")


def last_decision(world: World) -> str:
    # Beside it lie the snapshots of further roots, and sockets.
    (path,) = glob.glob("*/audit.jsonl", root_dir=f"{world.base}/state")
    with open(f"{world.base}/state/{path}") as file:
        *_, line = file
    return json.loads(line)["decision"]


@pytest.mark.slow
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("surface", SURFACES)
async def test_every_tool_gets_the_answer_of_the_table(world, surface, mode):
    wanted: dict[tuple[str, ...], tuple[str, ...]] = {}
    given: dict[tuple[str, ...], tuple[str, ...]] = {}
    decisions = {YES: "allow", NO: "deny", ASK: "ask"}
    number = 0
    with clients_of(world, surface, mode) as clients:
        for tool in TOOLS:
            for place in PLACES:
                asks = TABLE[TOOLS[tool][0], place][MODES.index(mode)] == ASK
                for kind in CLIENTS if asks else [CLIENTS[number % len(CLIENTS)]]:
                    number += 1
                    cell = (kind, tool, place)
                    wanted[cell] = expected(mode, TOOLS[tool][0], place, kind)
                    given[cell] = await found(clients[kind], tool, prepared(world, place, number, tool))
        for kind, client in clients.items():
            for run, (what, _, _) in RUNS.items():
                number += 1
                wanted[kind, run] = (
                    *expected(mode, "run", what, kind),
                    decisions[TABLE["run", what][MODES.index(mode)]],
                )
                given[kind, run] = (*await ran(client, world, run, number), last_decision(world))
    assert given == wanted


def test_the_table_has_a_row_for_every_tool_that_is_served(world):
    settings = Settings(world.base, f"{world.base}/state", world.folder("temp"), world.folder("documents"))
    with Yard.open(YardOptions(world.workspace, Config(), settings, toolset=Toolset.ALL)) as yard:
        served = set(yard.dispatch.tools)
    running = {tool for _, tool, _ in RUNS.values()} | {"BashOutput", "KillShell"}  # these two only look and end
    elsewhere = {*running, "create_directory", "move_file", "read_media_file", "read_multiple_files"}
    # These touch no path: one tells the folders, the other looks into the catalog.
    elsewhere |= {"list_allowed_directories", "search_tools"}
    # What these touch is judged file by file: tests/tools/test_snapshots.py, app/sharing and app/memory.
    elsewhere |= {tool.name for tool in tools_of(Toolset.WORKSPACE).values()}
    assert served - set(TOOLS) - elsewhere == set()

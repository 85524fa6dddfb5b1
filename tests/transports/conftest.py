"""A workspace and the servers on it, as other programs meet them: processes, pipes, sockets."""

from __future__ import annotations

import contextlib
import http.client
import json
import os
import pathlib
import select
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import pytest

from toolyard.core.events import Event
from toolyard.storage.audit_reader import read
from toolyard.testing.mcp_client import HANDSHAKE_VERSION, MODERN_VERSION, StdioClient

TOKEN = "the-token-of-the-tests"
DEADLINE_SECONDS = 20.0
POLL_SECONDS = 0.01
ENDLESS_BYTES = 1 << 38  # a file of holes: it takes ripgrep minutes to read, and no disk


def until(truth: Callable[[], object], seconds: float = DEADLINE_SECONDS) -> float:
    """Wait for something to become true; how long it took."""
    started = time.monotonic()
    while not truth():
        assert time.monotonic() - started < seconds, "it did not happen in time"
        select.select([], [], [], POLL_SECONDS)
    return time.monotonic() - started


def processes_of(pid: int) -> list[str]:
    """The names of a process's children."""
    names: list[str] = []
    for task in os.listdir(f"/proc/{pid}/task"):
        with contextlib.suppress(OSError), open(f"/proc/{pid}/task/{task}/children") as children:
            for child in children.read().split():
                with contextlib.suppress(OSError), open(f"/proc/{child}/comm") as name:
                    names.append(name.read().strip())
    return names


class Answering(StdioClient):
    """A client that answers elicitations with what `answers` gives."""

    answers: Callable[[dict[str, Any]], dict[str, Any]]

    def on_request(self, message: dict[str, Any]) -> dict[str, Any]:
        if message["method"] == "elicitation/create":
            return self.answers(message["params"])
        return super().on_request(message)


@dataclass(frozen=True)
class Response:
    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def messages(self) -> list[dict[str, Any]]:
        """The JSON-RPC messages of the body, whether it is one object or a stream of events."""
        if self.headers.get("content-type", "").startswith("text/event-stream"):
            data = [line[5:].strip() for line in self.body.splitlines() if line.startswith(b"data:")]
            return [json.loads(line) for line in data if line]
        return [json.loads(self.body)]

    @property
    def message(self) -> dict[str, Any]:
        return self.messages[-1]


@dataclass
class HttpServer:
    """A running `toolyard mcp --http`, and raw requests to it."""

    process: subprocess.Popen[bytes]
    host: str
    port: int
    token: str
    said: list[str]
    reader: threading.Thread

    def raw(
        self, method: str, headers: list[tuple[str, str]], body: bytes = b"", *, path: str = "/mcp", host: bool = True
    ) -> Response:
        connection = http.client.HTTPConnection(self.host, self.port, timeout=DEADLINE_SECONDS)
        with contextlib.closing(connection):
            connection.putrequest(method, path, skip_host=not host, skip_accept_encoding=True)
            for name, value in [*headers, ("Content-Length", str(len(body)))]:
                connection.putheader(name, value)
            with contextlib.suppress(BrokenPipeError, ConnectionResetError):  # refused before it was read
                connection.endheaders(body)
            answer = connection.getresponse()
            named = {name.lower(): value for name, value in answer.getheaders()}
            return Response(answer.status, named, answer.read())

    def post(self, message: object, *extra: tuple[str, str]) -> Response:
        return self.raw("POST", [*self.usual(), *extra], json.dumps(message).encode())

    def usual(self) -> list[tuple[str, str]]:
        return [
            ("Authorization", f"Bearer {self.token}"),
            ("Content-Type", "application/json"),
            ("Accept", "application/json, text/event-stream"),
        ]

    def stop(self, number: int = signal.SIGTERM) -> int:
        self.process.send_signal(number)
        code = self.process.wait(DEADLINE_SECONDS)
        self.reader.join(DEADLINE_SECONDS)
        return code


@dataclass
class HttpSession:
    """A conversation over HTTP, in either era."""

    server: HttpServer
    modern: bool = False
    capabilities: dict[str, Any] = field(default_factory=dict)
    session: str = ""
    _last: int = 0

    def open(self) -> HttpSession:
        if not self.modern:
            params = {
                "protocolVersion": HANDSHAKE_VERSION,
                "capabilities": self.capabilities,
                "clientInfo": {"name": "tests", "version": "1"},
            }
            greeting = self.send("initialize", params)
            self.session = greeting.headers["mcp-session-id"]
            self.server.post({"jsonrpc": "2.0", "method": "notifications/initialized"}, *self.headers())
        return self

    def headers(self, method: str = "", params: dict[str, Any] | None = None) -> list[tuple[str, str]]:
        if self.modern:
            name = (params or {}).get("name") or (params or {}).get("uri")
            named = [("Mcp-Name", name)] if name else []
            return [("MCP-Protocol-Version", MODERN_VERSION), ("Mcp-Method", method), *named]
        if self.session:
            return [("MCP-Protocol-Version", HANDSHAKE_VERSION), ("Mcp-Session-Id", self.session)]
        return []

    def send(self, method: str, params: dict[str, Any] | None = None) -> Response:
        self._last += 1
        body = dict(params or {})
        if self.modern:
            meta = {
                "io.modelcontextprotocol/protocolVersion": MODERN_VERSION,
                "io.modelcontextprotocol/clientCapabilities": self.capabilities,
                "io.modelcontextprotocol/clientInfo": {"name": "tests", "version": "1"},
            }
            body["_meta"] = {**meta, **body.get("_meta", {})}
        message = {"jsonrpc": "2.0", "id": self._last, "method": method, "params": body}
        return self.server.post(message, *self.headers(method, params))

    def call(self, tool: str, /, **arguments: Any) -> dict[str, Any]:
        return self.send("tools/call", {"name": tool, "arguments": arguments}).message


@dataclass(frozen=True)
class Place:
    workspace: str
    state: str
    env: dict[str, str]

    def command(self, *options: str) -> list[str]:
        return [
            *(sys.executable, "-m", "toolyard", "mcp"),
            *("--workspace", self.workspace, "--state", self.state, *options),
        ]

    def stdio(
        self,
        *options: str,
        modern: bool = False,
        capabilities: dict[str, Any] | None = None,
        answers: Callable[[dict[str, Any]], dict[str, Any]] | None = None,
        client_name: str = "tests",
    ) -> StdioClient:
        client = Answering(
            self.command(*options), modern=modern, env=self.env, capabilities=capabilities, client_name=client_name
        )
        if answers is not None:
            client.answers = answers
        return client

    def start(self, *options: str, **pipes: Any) -> subprocess.Popen[bytes]:
        return subprocess.Popen(self.command(*options), env=self.env, **pipes)

    @contextlib.contextmanager
    def http(self, *options: str, address: str = "127.0.0.1:0", token: str | None = TOKEN) -> Iterator[HttpServer]:
        env = {**self.env, "TOOLYARD_TOKEN": token} if token is not None else self.env
        process = subprocess.Popen(self.command("--http", address, *options), env=env, stderr=subprocess.PIPE)
        assert process.stderr is not None
        try:
            said = [process.stderr.readline().decode()]
            assert said[0].startswith("Serving "), said[0] + process.stderr.read().decode()
            if token is None:
                said.append(process.stderr.readline().decode())
                token = said[1].strip().removeprefix("TOOLYARD_TOKEN=")
            reader = threading.Thread(target=lambda: said.extend(line.decode() for line in process.stderr or ()))
            reader.start()
            host, _, port = said[0].strip().rpartition("http://")[2].removesuffix("/mcp").rpartition(":")
            server = HttpServer(process, host.strip("[]"), int(port), token, said, reader)
            yield server
        finally:
            process.kill()
            process.wait()
            reader.join(DEADLINE_SECONDS)
            process.stderr.close()

    def events(self) -> list[Event]:
        (workspace,) = os.listdir(self.state)
        return [record.event for record in read(os.path.join(self.state, workspace))]

    def write(self, name: str, content: str | bytes) -> str:
        path = os.path.join(self.workspace, name)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "wb") as file:
            file.write(content.encode() if isinstance(content, str) else content)
        return path

    def read(self, name: str) -> str:
        with open(os.path.join(self.workspace, name)) as file:
            return file.read()

    def endless(self) -> dict[str, Any]:
        """The arguments of a Grep that runs until somebody stops it."""
        with open(os.path.join(self.workspace, "endless.txt"), "wb") as file:
            file.truncate(ENDLESS_BYTES)
        return {"pattern": "needle", "path": "endless.txt"}


def place_in(base: pathlib.Path) -> Place:
    workspace, state, home = base / "ws", base / "state", base / "home"
    for folder in (workspace, state, home):
        folder.mkdir()
    env = {"PATH": os.environ["PATH"], "HOME": str(home), "TMPDIR": str(base)}
    return Place(str(workspace), str(state), env)


@pytest.fixture
def place(tmp_path) -> Place:
    return place_in(tmp_path)


@pytest.fixture(scope="module")
def door(tmp_path_factory) -> Iterator[HttpServer]:
    """One HTTP server for the tests of a module that leave nothing behind."""
    with place_in(tmp_path_factory.mktemp("door")).http() as server:
        yield server


@pytest.fixture(params=[False, True], ids=["2025-11-25", "2026-07-28"])
def modern(request) -> bool:
    return request.param


@pytest.fixture
def wait_until() -> Callable[..., float]:
    return until


@pytest.fixture
def children() -> Callable[[int], list[str]]:
    return processes_of


@pytest.fixture
def talk() -> Callable[..., HttpSession]:
    """Open a conversation with an HTTP server: `talk(server, modern=True)`."""

    def opened(
        server: HttpServer, *, modern: bool = False, capabilities: dict[str, Any] | None = None
    ) -> HttpSession:
        return HttpSession(server, modern, capabilities or {}).open()

    return opened

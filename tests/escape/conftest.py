"""The attacked workspace, reached in process and over every wire, with the same promises checked on each call."""

import contextlib
import json
import os
import re
import sys
from dataclasses import dataclass, field
from typing import Any

import pytest

from tests.support.attacks.mcp_calls import HIDDEN_NAME, MARKER, World, arguments_for, build_world
from toolyard.app.toolsets import Toolset
from toolyard.app.yard import Yard
from toolyard.app.yard_options import YardOptions
from toolyard.config.models import Config
from toolyard.config.settings import Settings
from toolyard.core.calls import Call, Image
from toolyard.core.errors import ToolyardError
from toolyard.core.events import MAX_TARGET_CHARS
from toolyard.core.permission_modes import PermissionMode
from toolyard.testing.mcp_client import StdioClient, error_in
from toolyard.testing.mcp_http_client import HttpClient, HttpServer

TOKEN = "a-token-for-the-tests"
CONTEXT = ({"path": "context", "permission": "read"}, {"path": "writable", "permission": "write"})
DENY = ("Read(hidden/**)", "Write(hidden/**)")
AUDIT = "audit.jsonl"
OUTCOMES = {-32001: "denied", -32602: "invalid", -32603: "failed", -32000: "failed", 0: "ok"}
NEXT_STEP = re.compile(r"[.;:!?] \S")


@dataclass(frozen=True)
class Answer:
    """What came back: code 0 and the whole result as text, or the error's."""

    code: int
    text: str
    data: dict[str, Any] = field(default_factory=dict)


def config_text(world: World) -> str:
    paths = [{**entry, "path": f"{world.base}/{entry['path']}"} for entry in CONTEXT]
    # The walls are to refuse, not the rule that a file is read before it is written.
    limits = {"overwrite_unread": True}
    return json.dumps({"orchestrator": {"context_paths": paths}, "permissions": {"deny": DENY}, "limits": limits})


def open_yard(world: World, mode: PermissionMode = PermissionMode.STRICT, toolset: Toolset = Toolset.ALL) -> Yard:
    settings = Settings(f"{world.base}/home", f"{world.base}/state", f"{world.base}/temp", f"{world.base}/documents")
    config = Config.model_validate(json.loads(config_text(world)))
    return Yard.open(
        YardOptions(
            workspace=world.workspace,
            config=config,
            settings=settings,
            mode=mode,
            toolset=toolset,
            state_home=world.state,
        )
    )


def audit_lines(world: World) -> list[dict[str, Any]]:
    lines: list[dict[str, Any]] = []
    for name in os.listdir(world.state):
        # The server makes it when it starts, which a client of the modern era need not wait for.
        with contextlib.suppress(FileNotFoundError), open(f"{world.state}/{name}/{AUDIT}", encoding="ascii") as file:
            lines += [json.loads(line) for line in file]
    return lines


class InProcess:
    """Calls through dispatch, each with all its promises checked."""

    def __init__(self, world: World, **options: Any) -> None:
        self.world = world
        self.yard = open_yard(world, **options)
        self._log_bytes = 0

    def close(self) -> None:
        self.yard.close()

    async def call(self, tool: str, arguments: dict[str, Any]) -> Answer:
        try:
            result = await self.yard.dispatch(
                Call(tool, arguments, surface="test", session="attacker", hidden="/" in tool)
            )
        except ToolyardError as error:
            answer = Answer(error.code, str(error), error.data())
        else:
            parts = [part.data.decode("latin-1") if isinstance(part, Image) else part.text for part in result.parts]
            answer = Answer(0, "\n".join([*parts, json.dumps(result.structured, ensure_ascii=False)]))
        self._one_event(tool, answer.code)
        assert_keeps_quiet(answer)
        return answer

    async def on(self, tool: str, path: object) -> Answer:
        return await self.call(tool, arguments_for(tool, named_by(self.world, tool, path)))

    def _one_event(self, tool: str, code: int) -> None:
        with open(f"{self.yard.state}/{AUDIT}", "rb") as file:
            file.seek(self._log_bytes)
            new = file.read()
        self._log_bytes += len(new)
        events = [json.loads(line) for line in new.splitlines()]
        assert [(event["tool"], event["outcome"], event["code"]) for event in events] == [
            (tool[:MAX_TARGET_CHARS], OUTCOMES[code], code)
        ], "exactly one event a call"
        assert MARKER.encode() not in new


def named_by(world: World, tool: str, path: object) -> object:
    """A resource is named by an absolute path; the tools take relative ones as well."""
    relative = tool == "resources/read" and isinstance(path, str) and not path.startswith("/")
    return f"{world.workspace}/{path}" if relative else path


def assert_keeps_quiet(answer: Answer) -> None:
    assert MARKER not in answer.text + repr(answer.data), "nothing outside is read"
    assert HIDDEN_NAME not in answer.text + repr(answer.data), "nothing outside is listed"


def assert_refused(answer: Answer, code: int) -> None:
    """The right code, in words, with a next step."""
    assert answer.code == code, answer.text[:500]
    assert answer.text.strip()
    assert NEXT_STEP.search(answer.text), f"no next step: {answer.text[:500]}"
    if code == -32602 and answer.data:
        assert answer.data["validation_errors"], "each wrong field is named"


@pytest.fixture
def world(tmp_path):
    return build_world(str(tmp_path))


@pytest.fixture
def victim(world):
    """A fresh world for one case: for what may change something."""
    opened = InProcess(world)
    yield opened
    opened.close()


@pytest.fixture(scope="module")
def shared_victim(tmp_path_factory):
    """One world for a whole table of refusals, which leave it as it was."""
    opened = InProcess(build_world(str(tmp_path_factory.mktemp("world"))))
    yield opened
    opened.close()


@pytest.fixture
def untouched(shared_victim):
    """The shared victim; nothing in its world may differ afterwards, inside the workspace or out."""
    before = shared_victim.world.fingerprint()
    yield shared_victim
    assert shared_victim.world.fingerprint() == before, "nothing was written"


@pytest.fixture
def refused():
    return assert_refused


class OverTheWire:
    """The same calls through a real server; `client` is a StdioClient or a HttpClient."""

    def __init__(self, world: World, client: StdioClient | HttpClient) -> None:
        self.world = world
        self.client = client

    async def on(self, tool: str, path: object) -> Answer:
        return self.call(tool, arguments_for(tool, named_by(self.world, tool, path)))

    def call(self, tool: str, arguments: dict[str, Any]) -> Answer:
        before = len(audit_lines(self.world))
        if tool == "resources/read":
            response = self.client.request("resources/read", arguments)
        else:
            response = self.client.call(tool, **arguments)
        answer = answer_of(response)
        events = audit_lines(self.world)[before:]
        assert [(event["tool"], event["code"]) for event in events] == [(tool, answer.code)]
        assert_keeps_quiet(answer)
        return answer

    def still_answers(self) -> None:
        answer = answer_of(self.client.call("Read", file_path="a.txt"))
        assert answer.code == 0
        assert "alpha" in answer.text


def answer_of(response: dict[str, Any]) -> Answer:
    error = error_in(response)
    if error is not None:
        return Answer(error["code"], error["message"], error.get("data") or {})
    return Answer(0, json.dumps(response["result"], ensure_ascii=False))


def command(world: World, *more: str) -> list[str]:
    config = f"{world.base}/config.yaml"
    with open(config, "w", encoding="utf-8") as file:
        file.write(config_text(world))
    toolyard = [sys.executable, "-m", "toolyard", "mcp"]
    return [*toolyard, "--workspace", world.workspace, "--state", world.state, "--config", config, *more]


def environment(world: World) -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if name in {"PATH", "LANG", "PYTHONPATH"}}
    return {**kept, "HOME": f"{world.base}/home", "XDG_STATE_HOME": world.state, "TOOLYARD_TOKEN": TOKEN}


WIRES = ("stdio 2025-11-25", "stdio 2026-07-28", "http 2025-11-25", "http 2026-07-28")


def served(world: World, wire: str):
    transport, version = wire.split()
    modern = version == "2026-07-28"
    if transport == "stdio":
        with StdioClient(command(world), modern=modern, env=environment(world)) as client:
            yield OverTheWire(world, client)
        return
    with (
        HttpServer(command(world, "--http", "127.0.0.1:0"), env=environment(world)) as server,
        HttpClient(server.url, TOKEN, modern=modern) as client,
    ):
        yield OverTheWire(world, client)


@pytest.fixture(scope="module", params=WIRES)
def wire(request, tmp_path_factory):
    """A server of each kind, one for a whole module."""
    yield from served(build_world(str(tmp_path_factory.mktemp("wire"))), request.param)


@pytest.fixture(scope="module", params=WIRES[:2])
def stdio(request, tmp_path_factory):
    yield from served(build_world(str(tmp_path_factory.mktemp("stdio"))), request.param)


@pytest.fixture(scope="module", params=WIRES[2:])
def http(request, tmp_path_factory):
    yield from served(build_world(str(tmp_path_factory.mktemp("http"))), request.param)

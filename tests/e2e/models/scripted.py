"""A model on the loopback that does what a script says. What is particular to one API is in the files beside this.

A script has one step for each turn, whichever API it is: call a tool by our name, say something, or go wrong in some
way. After the last step the model says `done` and stops. What the model was offered and shown is kept.
"""

from __future__ import annotations

import abc
import contextlib
import http.server
import json
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

REASONS = {
    400: ("INVALID_ARGUMENT", "invalid_request_error", "the request is not right"),
    401: ("UNAUTHENTICATED", "authentication_error", "API key not valid"),
    429: ("RESOURCE_EXHAUSTED", "rate_limit_error", "the quota is exceeded"),
    500: ("INTERNAL", "api_error", "the model fell over"),
}
"""By status: what Google calls it, what the others do, and the message."""


@dataclass(frozen=True)
class Call:
    tool: str
    arguments: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Say:
    text: str


@dataclass(frozen=True)
class Fail:
    status: int


@dataclass(frozen=True)
class Nonsense:
    """A stream that begins well and breaks off in the middle of what is no JSON."""


@dataclass(frozen=True)
class Hang:
    """No answer."""


RENAMED = "ws_"
"""Before the name of a tool that the client has one of its own for."""
Step = Call | Say | Fail | Nonsense | Hang
DONE = Say("done")


@dataclass(frozen=True)
class Request:
    path: str
    body: dict[str, Any]


@dataclass
class ScriptedModel(abc.ABC):
    steps: tuple[Step, ...]
    prefix: str
    """What the client puts before the names of our tools."""
    before: Callable[[int], None] | None = None
    """Called with the number of a turn before it is answered, in a thread of the server's."""
    requests: list[Request] = field(default_factory=list)
    _over: threading.Event = field(default_factory=threading.Event)

    @abc.abstractmethod
    def offered(self, body: dict[str, Any]) -> list[str]:
        """The tools of a request, as the model calls them."""

    @abc.abstractmethod
    def results(self, body: dict[str, Any]) -> list[Any]:
        """The results of tools in a request, in order."""

    @abc.abstractmethod
    def words_of(self, result: Any) -> str:
        """The text of a result."""

    @abc.abstractmethod
    def answer(self, request: Request, step: Call | Say, turn: int) -> tuple[str, bytes]:
        """The content type and the body."""

    @abc.abstractmethod
    def error(self, status: int) -> dict[str, Any]: ...

    def aside(self, request: Request) -> dict[str, Any] | None:
        """The answer to a request that is no part of a conversation."""
        return None

    @property
    def conversation(self) -> dict[str, Any]:
        """The last request of the main conversation."""
        return max((each.body for each in self.requests), key=lambda body: len(self.results(body)))

    @property
    def tools(self) -> list[str]:
        return self.offered(self.conversation)

    @property
    def shown(self) -> list[Any]:
        """What the model was shown of each call, as its API spells it."""
        return self.results(self.conversation)

    @property
    def words(self) -> list[str]:
        """What the model was shown of each call, as text."""
        return [self.words_of(result) for result in self.shown]

    def reply(self, request: Request) -> tuple[int, str, bytes]:
        self.requests.append(request)
        found = self.aside(request)
        if found is not None:
            return 200, "application/json", json.dumps(found).encode()
        turn = len(self.results(request.body))
        offered = self.offered(request.body)
        is_ours = any(name.startswith(self.prefix) for name in offered)
        step = self.steps[turn] if turn < len(self.steps) and is_ours else DONE
        if is_ours and self.before is not None:
            self.before(turn)
        if isinstance(step, Call) and f"{self.prefix}{RENAMED}{step.tool}" in offered:
            step = Call(RENAMED + step.tool, step.arguments)
        match step:
            case Fail(status):
                return status, "application/json", json.dumps(self.error(status)).encode()
            case Nonsense():
                kind, whole = self.answer(request, Say("x" * 100), turn)
                return 200, kind, whole[: len(whole) // 2] + b"\n\ndata: {]nonsense\n\n"
            case Hang():
                self._over.wait()
                return 500, "application/json", b"{}"
            case _:
                return 200, *self.answer(request, step, turn)

    @contextlib.contextmanager
    def serving(self) -> Iterator[str]:
        server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), _handler(self))
        thread = threading.Thread(target=server.serve_forever, args=(0.05,))
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}"
        finally:
            self._over.set()
            server.shutdown()
            thread.join()
            server.server_close()


def events(*items: dict[str, Any], named: bool = False) -> bytes:
    """Server-sent events, with their type as a name where the API has that."""
    lines = [f"event: {item['type']}\n" if named else "" for item in items]
    return "".join(f"{name}data: {json.dumps(item)}\n\n" for name, item in zip(lines, items, strict=True)).encode()


def _handler(model: ScriptedModel) -> type[http.server.BaseHTTPRequestHandler]:
    class Handler(http.server.BaseHTTPRequestHandler):
        def log_message(self, *arguments: object) -> None:
            """Says nothing."""

        def do_HEAD(self) -> None:
            self._send(200, "text/plain", b"")

        def do_GET(self) -> None:
            self._send(404, "application/json", b"{}")

        def do_POST(self) -> None:
            raw = self.rfile.read(int(self.headers.get("content-length", 0)))
            self._send(*model.reply(Request(self.path, json.loads(raw or b"{}"))))

        def _send(self, status: int, kind: str, body: bytes) -> None:
            with contextlib.suppress(BrokenPipeError, ConnectionResetError):
                self.send_response(status)
                self.send_header("content-type", kind)
                self.send_header("content-length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

    return Handler

"""Runs the scripted model in a thread: `with serve_model(script) as server`.

The server owns the thread, its event loop and every connection; leaving the block closes them, even while clients
wait. Scripts run in threads, so they may wait for each other. An exception in a script is sent to the client as an
API error and raised when the block is left. A conversation with unpaired calls or results is refused with the
provider's error before a script sees it.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import contextlib
import threading
from collections.abc import Callable, Generator

from toolyard.testing.mock_model.http import HttpRequest, ServerConnection, listen
from toolyard.testing.mock_model.replies import HttpReply, non_turn_reply, parse_request, reply_to, unpaired_reply
from toolyard.testing.mock_model.requests import Request
from toolyard.testing.mock_model.scripts import Script, ScriptLike, as_script
from toolyard.testing.mock_model.steps import Fail, Hang, Step

_SCRIPT_THREADS = 256
_WAIT_SECONDS = 30.0


class ModelServer:
    """A scripted model on the loopback."""

    def __init__(self, script: ScriptLike, key: str = "", token_count: int | None = None) -> None:
        self.script: Script = as_script(script)
        """May be replaced while the server runs."""
        self.key = key
        """The accepted API key; empty accepts every key."""
        self.token_count = token_count
        """The answer to token count requests; None for an estimate."""
        self.all_requests: list[Request] = []
        """All requests in order, including those that ask for no turn."""
        self.steps: list[Step] = []
        """The steps that were played, in order."""
        self.script_errors: list[Exception] = []
        """The exceptions of scripts."""
        self.port = 0
        self._condition = threading.Condition()
        self._hanging_count = 0
        self._released = asyncio.Event()
        self._executor = concurrent.futures.ThreadPoolExecutor(_SCRIPT_THREADS, "model-script")

    @property
    def url(self) -> str:
        """The address of the server."""
        return f"http://127.0.0.1:{self.port}"

    @property
    def gemini(self) -> str:
        """The base URL for Gemini SDKs."""
        return self.url

    @property
    def openai(self) -> str:
        """The base URL for OpenAI SDKs, for both APIs."""
        return f"{self.url}/v1"

    @property
    def anthropic(self) -> str:
        """The base URL for Anthropic SDKs."""
        return self.url

    @property
    def requests(self) -> list[Request]:
        """The requests that asked for a turn, in order."""
        return [request for request in self.all_requests if request.is_turn]

    @property
    def hanging_requests(self) -> int:
        """The number of requests that wait for `release()`."""
        return self._hanging_count

    @property
    def environment(self) -> dict[str, str]:
        """The variables that point the usual clients to this server."""
        key = self.key or "not-a-key"
        return {
            "GEMINI_API_KEY": key,
            "GOOGLE_GEMINI_BASE_URL": self.gemini,
            "OPENAI_API_KEY": key,
            "OPENAI_BASE_URL": self.openai,
            "ANTHROPIC_API_KEY": key,
            "ANTHROPIC_BASE_URL": self.anthropic,
        }

    def wait_for(self, condition: Callable[[ModelServer], bool], seconds: float = _WAIT_SECONDS) -> None:
        """Waits until `condition` holds; it is checked after every change of this server. Raises TimeoutError."""
        with self._condition:
            if not self._condition.wait_for(lambda: condition(self), seconds):
                raise TimeoutError(f"condition not met within {seconds:g} s; received {len(self.requests)} requests")

    def release(self) -> None:
        """Lets hanging requests continue with the next step."""
        self._loop.call_soon_threadsafe(self._release_hanging)

    def _release_hanging(self) -> None:
        self._released.set()
        self._released = asyncio.Event()

    def start(self, port: int = 0) -> None:
        """Starts the thread and waits until it listens."""
        ready: concurrent.futures.Future[None] = concurrent.futures.Future()
        self._thread = threading.Thread(target=lambda: asyncio.run(self._main(port, ready)), name="model-server")
        self._thread.start()
        ready.result()

    def close(self) -> None:
        """Closes all connections and stops the thread."""
        self._loop.call_soon_threadsafe(self._stopped.set)
        self._thread.join()
        self._executor.shutdown(wait=False, cancel_futures=True)

    async def _main(self, port: int, ready: concurrent.futures.Future[None]) -> None:
        self._loop, self._stopped = asyncio.get_running_loop(), asyncio.Event()
        connections: set[ServerConnection] = set()
        try:
            server = await listen(self._answer, connections, port)
        except OSError as error:
            ready.set_exception(error)
            return
        self.port = server.sockets[0].getsockname()[1]
        ready.set_result(None)
        await self._stopped.wait()
        server.close()
        for connection in list(connections):
            connection.abort()

    async def _answer(self, received: HttpRequest) -> HttpReply:
        request = parse_request(received.method, received.path, received.headers, received.body)
        self._update(lambda: self.all_requests.append(request))
        if not request.is_turn:
            return non_turn_reply(request, self.token_count)
        if self.key and request.key != self.key:
            return reply_to(request, Fail(401))
        if (refused := unpaired_reply(request)) is not None:
            return refused
        while True:
            step = await self._run_script(request)
            self._update(lambda step=step: self.steps.append(step))
            if not isinstance(step, Hang):
                return reply_to(request, step)
            await self._hang()

    async def _run_script(self, request: Request) -> Step:
        try:
            return await self._loop.run_in_executor(self._executor, self.script, request)
        except Exception as error:  # noqa: BLE001 - a script may raise anything; `serve_model` raises it again
            self._update(lambda error=error: self.script_errors.append(error))
            return Fail(500, message=f"the script failed: {error!r}")

    async def _hang(self) -> None:
        self._update(lambda: self._count_hanging(1))
        try:
            await self._released.wait()
        finally:
            self._update(lambda: self._count_hanging(-1))

    def _count_hanging(self, change: int) -> None:
        self._hanging_count += change

    def _update(self, change: Callable[[], None]) -> None:
        with self._condition:
            change()
            self._condition.notify_all()


@contextlib.contextmanager
def serve_model(
    script: ScriptLike, *, key: str = "", port: int = 0, token_count: int | None = None
) -> Generator[ModelServer]:
    """Serves a model that plays the script at `server.url` until the block is left."""
    server = ModelServer(script, key, token_count)
    server.start(port)
    try:
        yield server
    finally:
        server.close()
    if server.script_errors:
        raise server.script_errors[0]

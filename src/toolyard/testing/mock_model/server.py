"""The model in a thread of its own: `with serving(script) as server`.

The server owns the thread, its event loop and every connection; leaving the block closes them all at once, whoever
still waits. Scripts run in threads, so they may wait for each other. An exception of a script is told to who asked as
an error of the API, and raised where the block is left. A conversation in which calls and results do not stand in
pairs is refused in the words of the provider, before any script sees it.
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
    def __init__(self, script: ScriptLike, key: str = "", token_count: int | None = None) -> None:
        self.script: Script = as_script(script)
        """May be replaced while it serves."""
        self.key = key
        """Whoever has another key is turned away; anybody may ask where it is empty."""
        self.token_count = token_count
        """What it says to who asks for a number of tokens; an estimate where it is None."""
        self.all_requests: list[Request] = []
        """All that was sent, in order, other questions than for a turn too."""
        self.steps: list[Step] = []
        """What was done, in order."""
        self.script_errors: list[Exception] = []
        """What scripts raised."""
        self.port = 0
        self._condition = threading.Condition()
        self._hanging_count = 0
        self._released = asyncio.Event()
        self._executor = concurrent.futures.ThreadPoolExecutor(_SCRIPT_THREADS, "model-script")

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def gemini(self) -> str:
        """The base URL as SDKs for Gemini want it."""
        return self.url

    @property
    def openai(self) -> str:
        """The base URL as SDKs of OpenAI want it, for both of its APIs."""
        return f"{self.url}/v1"

    @property
    def anthropic(self) -> str:
        """The base URL as SDKs of Anthropic want it."""
        return self.url

    @property
    def requests(self) -> list[Request]:
        """Those that asked for a turn, in order."""
        return [request for request in self.all_requests if request.is_turn]

    @property
    def hanging_requests(self) -> int:
        """How many wait for an answer that does not come."""
        return self._hanging_count

    @property
    def environment(self) -> dict[str, str]:
        """The variables that lead the usual clients here."""
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
        """Wait until something is so, which is looked at whenever something happens here."""
        with self._condition:
            if not self._condition.wait_for(lambda: condition(self), seconds):
                raise TimeoutError(f"it was not so in {seconds:g} s; {len(self.requests)} requests came")

    def release(self) -> None:
        """Let those that hang go on with the step after."""
        self._loop.call_soon_threadsafe(self._release_hanging)

    def _release_hanging(self) -> None:
        self._released.set()
        self._released = asyncio.Event()

    def start(self, port: int = 0) -> None:
        ready: concurrent.futures.Future[None] = concurrent.futures.Future()
        self._thread = threading.Thread(target=lambda: asyncio.run(self._main(port, ready)), name="model-server")
        self._thread.start()
        ready.result()

    def close(self) -> None:
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
        except Exception as error:  # noqa: BLE001 - a script is anybody's code; what it raises is raised in `serve_model`
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
    """A model that does what the script says, at `server.url` until the block is left."""
    server = ModelServer(script, key, token_count)
    server.start(port)
    try:
        yield server
    finally:
        server.close()
    if server.script_errors:
        raise server.script_errors[0]

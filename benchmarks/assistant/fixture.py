"""What the measures of the assistant stand on: the model's process, the assistant's, a client that keeps time.

The caller owns what it opens; `close()` ends its process. Nothing is waited for without an end: a server that
does not answer in time ends the measurement, and so does an answer that is an error.
"""

from __future__ import annotations

import contextlib
import json
import os
import queue
import subprocess
import sys
import threading
import time
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import IO, Any, cast

from benchmarks.assistant.model_process import arrived
from benchmarks.benchmark import Bench
from benchmarks.lean_client import BenchFault
from benchmarks.module_process import module_command
from toolyard.config.assistant import ASSISTANT_TOOLS
from toolyard.config.settings import environment
from toolyard.core.closeable import Closeable
from toolyard.testing.mcp_client import StdioClient

MODEL = "gemini-2.5-flash"
KEY = "an-unchecked-key"
DONE = "done"
PATIENCE_SECONDS = 120.0
_PING_EVERY = 0.01
_CLOSE_SECONDS = 10
_SHOWN_CHARS = 300


class Process(Closeable):
    """A program of ours that reads its orders from stdin and ends with it."""

    def __init__(self, command: Sequence[str], env: Mapping[str, str] | None = None) -> None:
        self._process = subprocess.Popen(
            list(command), stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=dict(env) if env else None
        )
        self._name = command[-1]
        self._in = cast("IO[str]", self._process.stdin)
        self._out = cast("IO[str]", self._process.stdout)

    @property
    def pid(self) -> int:
        return self._process.pid

    def tell(self, line: str) -> None:
        self._in.write(f"{line}\n")
        self._in.flush()

    def line(self) -> str:
        """The next one that it writes. One that writes none in time is ended."""
        ending = threading.Timer(PATIENCE_SECONDS, self._process.kill)
        ending.start()
        try:
            read = self._out.readline().strip()
        finally:
            ending.cancel()
        if not read:
            raise BenchFault(f"A program of the benchmark ended: {self._name}")
        return read

    def close(self) -> None:
        with contextlib.suppress(BrokenPipeError):
            self._in.close()
        try:
            self._process.wait(_CLOSE_SECONDS)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._out.close()


@dataclass(frozen=True, slots=True)
class Sent:
    """A request as the model got it."""

    at: float
    """When it had come in whole, by `time.monotonic()`."""
    body: bytes


class Model(Process):
    """A model that answers with one text, after `delay` seconds. With a folder it keeps what it is asked."""

    def __init__(self, say: str = DONE, *, delay: float = 0.0, keep: str | None = None) -> None:
        command = module_command("benchmarks.assistant.model_process", "--say", say, "--delay", str(delay))
        super().__init__([*command, *(["--keep", keep] if keep else [])])
        self._keep = keep
        try:
            self.address = self.line()
        except BaseException:
            self.close()
            raise

    def requests(self) -> list[Sent]:
        """All that were kept, in order."""
        if self._keep is None:
            raise ValueError("this model keeps nothing")
        found: list[Sent] = []
        for name in sorted(os.listdir(self._keep)):
            with open(os.path.join(self._keep, name), "rb") as file:
                found.append(Sent(arrived(name), file.read()))
        return found


@dataclass(frozen=True, slots=True)
class Heard:
    """A message of the server's, and when it came, by `time.monotonic()`."""

    at: float
    message: dict[str, Any]

    @property
    def fields(self) -> dict[str, Any]:
        """The structured half of a call's result. BenchFault where it failed."""
        result: dict[str, Any] = self.message.get("result", {})
        if "structuredContent" not in result or result.get("isError"):
            raise BenchFault(f"A call failed: {json.dumps(self.message)[:_SHOWN_CHARS]}")
        return cast("dict[str, Any]", result["structuredContent"])


@dataclass
class Meanwhile:
    """The answers of calls, by their ids, and what pings took on the way, in milliseconds."""

    answers: dict[int, Heard] = field(default_factory=dict[int, Heard])
    pings: list[float] = field(default_factory=list[float])


class Asking(StdioClient):
    """A client that knows when each message came, and waits for none forever."""

    def __init__(self, command: Sequence[str], env: Mapping[str, str]) -> None:
        self._lines: queue.SimpleQueue[tuple[float, bytes]] = queue.SimpleQueue()
        self._reader: threading.Thread | None = None
        self.began = time.monotonic()
        try:
            super().__init__(command, env=env, client_name="bench")
        except BaseException:
            self.close()
            raise

    @property
    def pid(self) -> int:
        return self.process.pid

    def close(self) -> int:
        code = super().close()
        if self._reader is not None:
            self._reader.join()
        return code

    def receive(self) -> dict[str, Any]:
        return self.hear().message

    def hear(self, seconds: float = PATIENCE_SECONDS) -> Heard:
        heard = self.heard_within(seconds)
        if heard is None:
            raise BenchFault(f"The server said nothing for {seconds:g} seconds.")
        return heard

    def heard_within(self, seconds: float) -> Heard | None:
        """The next message, if one comes in that time."""
        if self._reader is None:
            self._reader = threading.Thread(target=self._read, name="bench-reader", daemon=True)
            self._reader.start()
        try:
            at, line = self._lines.get(timeout=max(seconds, 0))
        except queue.Empty:
            return None
        if not line:
            raise BenchFault("The server closed its output.")
        return Heard(at, json.loads(line))

    def begin(self, tool: str, /, **arguments: Any) -> int:
        """Begin a call; its id."""
        return self.send_request("tools/call", {"name": tool, "arguments": arguments})

    def ask(self, tool: str, /, **arguments: Any) -> dict[str, Any]:
        """Call a tool, and the structured half of what it says."""
        return Heard(0.0, self.call(tool, **arguments)).fields

    def ping_until(self, calls: Collection[int]) -> Meanwhile:
        """Ping, again and again, until all of these calls are answered."""
        told, until = Meanwhile(), time.monotonic() + PATIENCE_SECONDS
        while len(told.answers) < len(calls):
            self._ping(told)
            if time.monotonic() > until:
                raise BenchFault(f"{len(calls)} calls were not answered in {PATIENCE_SECONDS:g} seconds.")
        return told

    def ping_for(self, seconds: float) -> Meanwhile:
        """Ping, again and again, while nothing else is asked."""
        told, until = Meanwhile(), time.monotonic() + seconds
        while time.monotonic() < until:
            self._ping(told)
        return told

    def _ping(self, told: Meanwhile) -> None:
        """One ping and a pause after it; answers of calls that come on the way are kept."""
        sent = time.monotonic()
        ping = self.send_request("ping", {})
        while (heard := self.hear()).message.get("id") != ping:
            _keep(heard, told)
        told.pings.append((heard.at - sent) * 1e3)
        rests = time.monotonic() + _PING_EVERY
        while (heard := self.heard_within(rests - time.monotonic())) is not None:
            _keep(heard, told)

    def _read(self) -> None:
        with contextlib.suppress(ValueError):  # closed meanwhile
            for line in iter(self._out.readline, b""):
                self._lines.put((time.monotonic(), line))
        self._lines.put((time.monotonic(), b""))


def _keep(heard: Heard, told: Meanwhile) -> None:
    if "method" not in heard.message:
        told.answers[heard.message["id"]] = heard


@dataclass(frozen=True, slots=True)
class Place:
    """A project, and where its assistant keeps what it keeps."""

    folder: str

    @classmethod
    def of(cls, bench: Bench, name: str) -> Place:
        """A new one, without a rate limit."""
        place = cls(bench.folder(name))
        os.makedirs(place.project)
        with open(place._config, "w", encoding="utf-8") as file:
            json.dump({"assistant": {"rate_limits": dict.fromkeys(ASSISTANT_TOOLS)}}, file)
        return place

    @property
    def project(self) -> str:
        return os.path.join(self.folder, "project")

    @property
    def _config(self) -> str:
        return os.path.join(self.folder, "toolyard.yaml")

    def write(self, name: str, text: str) -> None:
        with open(os.path.join(self.project, name), "w", encoding="utf-8") as file:
            file.write(text)

    def command(self) -> tuple[str, ...]:
        """What starts its assistant, as a user would."""
        state = os.path.join(self.folder, "state")
        options = ("--workspace", self.project, "--config", self._config, "--state", state)
        return (sys.executable, "-m", "toolyard", "assistant", *options)

    def variables(self, model: Model) -> dict[str, str]:
        return {
            "PATH": environment().get("PATH", os.defpath),
            "HOME": self.folder,
            "TOOLYARD_MODEL": f"google:{MODEL}",
            "GEMINI_API_KEY": KEY,
            "GOOGLE_GEMINI_BASE_URL": model.address,
        }

    def ask(self, model: Model) -> Asking:
        """Its assistant, started, with a client in front and that model behind it."""
        return Asking(self.command(), self.variables(model))

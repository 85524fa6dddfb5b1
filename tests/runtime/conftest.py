"""Notebooks to talk to: in this process, or in one of their own where descriptors and endings matter."""

import builtins
import json
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

import toolyard_runtime
from toolyard.codemode.broker import Broker
from toolyard.core.loop_thread import LoopThread
from toolyard_runtime import channel as runtime_channel
from toolyard_runtime.notebook import Notebook

from .calling import Handler

SOURCE = Path(toolyard_runtime.__file__).parent.parent
DEADLINE = 50
BETWEEN_RUNS = "\x1e"
DRIVER = f"""
import json, os, sys
sys.path.insert(0, {str(SOURCE)!r})
from toolyard_runtime.notebook import Notebook
answers, job = int(sys.argv[1]), json.loads(sys.argv[2])
notebook = Notebook()
for code in job["codes"]:
    answer = notebook.run(code)
    with os.fdopen(os.dup(answers), "w") as sink:
        sink.write(json.dumps(answer) + "\\n")
    for fd in job["marked"]:
        os.write(fd, b"\\x1e")
if job["close"]:
    notebook.close()
os._exit(0)
"""


@dataclass
class Talk:
    """What came of some runs: the answers, and what each wrote (the last item: after the last run)."""

    answers: list[dict[str, Any]]
    out: list[str]
    err: list[str]
    exit_code: int


@pytest.fixture
def notebook():
    kept = (sys.modules["__main__"], sys.argv, list(sys.path), sys.stdin, sys.stdout, sys.stderr, builtins.input)
    book = Notebook()
    yield book
    if book._runner is not None:
        book._runner.close()
    sys.modules["__main__"], sys.argv, sys.path[:], sys.stdin, sys.stdout, sys.stderr, builtins.input = kept
    del builtins.display


@pytest.fixture(scope="session")
def font_cache(tmp_path_factory):
    """Made once and ahead: where it is missing matplotlib makes it, and warns on stderr when that takes long."""
    folder = tmp_path_factory.mktemp("matplotlib")
    subprocess.run(
        [sys.executable, "-I", "-c", "import matplotlib.font_manager"],
        env={**os.environ, "MPLCONFIGDIR": str(folder)},
        stderr=subprocess.DEVNULL,
        check=True,
    )
    return folder


@pytest.fixture
def talk(tmp_path, font_cache):
    def run(*codes: str, close: bool = False, marked: tuple[int, ...] = (1, 2), python: tuple[str, ...] = ()) -> Talk:
        answers, sink = os.pipe()
        job = json.dumps({"codes": codes, "close": close, "marked": marked})
        command = [*(python or (sys.executable, "-I")), "-c", DRIVER, str(sink), job]
        environment = {
            **os.environ,
            "MPLBACKEND": "module://toolyard_runtime.matplotlib_backend",
            "MPLCONFIGDIR": str(font_cache),
        }
        process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            pass_fds=[sink],
            cwd=tmp_path,
            env=environment,
        )
        os.close(sink)
        with process, os.fdopen(answers) as source:
            try:
                # Answers are few and small, but for images: read them while the process still runs.
                told = source.read()
                out, err = process.communicate(timeout=DEADLINE)
            finally:
                process.kill()
        return Talk(
            [json.loads(line) for line in told.splitlines()],
            out.decode().split(BETWEEN_RUNS),
            err.decode().split(BETWEEN_RUNS),
            process.returncode,
        )

    return run


@pytest.fixture
def thread():
    with LoopThread() as thread:
        yield thread


@pytest.fixture
def handler():
    return Handler()


@pytest.fixture
def broker(thread, handler, monkeypatch):
    with Broker.open("a", handler, thread.loop) as broker:
        monkeypatch.setenv("TOOLYARD_BROKER", broker.socket_path)
        yield broker
    for channel in runtime_channel._connections.values():
        channel.close()
    runtime_channel._connections.clear()

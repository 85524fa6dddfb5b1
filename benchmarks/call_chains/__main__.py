"""Prints the files that a Read over stdio and an upstream call from sandboxed code pass through.

`python -m benchmarks.call_chains [--json]`. Each request is made twice, and the second one is recorded: the first one
imports modules. Only files of `src/toolyard` on the host count, each once, in the order of their first call.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import tempfile
import time
from dataclasses import asdict, dataclass
from typing import Any

from benchmarks.codemode.fixture import TOOL, Place, server_name
from toolyard.testing.mcp_client import StdioClient, expect_result

MOST_FILES = {"Read over stdio": 20, "Upstream call from sandboxed code": 36}
"""The limit for each chain."""
_QUIET_SECONDS = 4.0
"""Until the snapshot after the calls before has been taken."""
_SIGNAL_SECONDS = 0.3
_RECORDINGS = 3
"""The shortest counts: a check that runs once a second may fall into a recording."""
_Calls = list[tuple[int, str, str]]
_WAIT_SECONDS = 30.0


@dataclass(frozen=True, slots=True)
class Chain:
    """The path of one request."""

    name: str
    limit: int
    files: tuple[str, ...]
    """In the order of their first call."""
    functions: int
    """Different functions that were called."""
    calls: tuple[str, ...]
    """The first call into each file, as `file:function`."""

    @property
    def is_within_limit(self) -> bool:
        return len(self.files) <= self.limit


def traced_read(folder: str) -> Chain:
    """The path of a Read of a small file over stdio."""
    place = Place.of(os.path.join(folder, "read"), {})
    path = os.path.join(place.workspace, "notes.md")
    with open(path, "w", encoding="utf-8") as file:
        file.write("one\ntwo\n")
    return _traced("Read over stdio", folder, place.command("mcp"), "Read", {"file_path": path})


def traced_upstream_call(folder: str) -> Chain:
    """The path of a call to an upstream tool, made by Python code in the sandbox."""
    place = Place.with_servers(os.path.join(folder, "upstream"), 1)
    place.sync()
    code = f"from servers.{server_name(0)} import {TOOL}\nprint(await {TOOL}(a=1, b=2))"
    command = place.command("mcp", "--tools", "code")
    return _traced("Upstream call from sandboxed code", folder, command, "execute_python", {"code": code})


def _traced(name: str, folder: str, command: tuple[str, ...], tool: str, arguments: dict[str, Any]) -> Chain:
    output = os.path.join(folder, f"{tool}.json")
    program = (command[0], "-m", "benchmarks.call_chains.traced_server", output, *command[3:])
    with StdioClient(program) as client:
        for _ in range(2):
            expect_result(client.call(tool, **arguments))
        recordings = [_recorded_call(client, output, tool, arguments) for _ in range(_RECORDINGS)]
    chains = [_chain(name, calls) for calls in recordings]
    return min(chains, key=lambda chain: len(chain.files))


def _recorded_call(client: StdioClient, output: str, tool: str, arguments: dict[str, Any]) -> _Calls:
    """Records one call once the server is quiet."""
    time.sleep(_QUIET_SECONDS)
    client.process.send_signal(signal.SIGUSR1)
    time.sleep(_SIGNAL_SECONDS)
    expect_result(client.call(tool, **arguments))
    client.process.send_signal(signal.SIGUSR2)
    until = time.monotonic() + _WAIT_SECONDS
    while not os.path.exists(output):
        if time.monotonic() > until:
            raise SystemExit(f"the server did not write {output}")
        time.sleep(0.05)
    with open(output, encoding="utf-8") as file:
        calls: _Calls = json.load(file)
    os.unlink(output)
    return calls


def _chain(name: str, calls: _Calls) -> Chain:
    first: dict[str, str] = {}
    for _, path, function in calls:
        if function != "<module>" and not function.startswith("<"):
            first.setdefault(path, f"{path}:{function}")
    functions = {(path, function) for _, path, function in calls}
    return Chain(name, MOST_FILES[name], tuple(first), len(functions), tuple(first.values()))


def main() -> None:
    """Prints both chains; exit code 1 if one is longer than its limit."""
    with tempfile.TemporaryDirectory() as folder:
        chains = [traced_read(folder), traced_upstream_call(folder)]
    if "--json" in sys.argv:
        print(json.dumps([asdict(chain) for chain in chains], indent=2))
    else:
        for chain in chains:
            print(f"{chain.name}: {len(chain.files)} files (limit {chain.limit}), {chain.functions} functions")
            print("".join(f"  {number:>2} {call}\n" for number, call in enumerate(chain.calls, 1)))
    sys.exit(0 if all(chain.is_within_limit for chain in chains) else 1)


if __name__ == "__main__":
    main()

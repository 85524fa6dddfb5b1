"""The reference filesystem server, from npm, kept in the user's cache folder between runs."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from dataclasses import dataclass

from benchmarks.lean_client import BenchFault

PACKAGE = "@modelcontextprotocol/server-filesystem"
_INSTALL_SECONDS = 300
_ENTRY = "dist/index.js"


@dataclass(frozen=True, slots=True)
class Reference:
    node: str
    script: str
    version: str

    def command(self, folder: str) -> tuple[str, ...]:
        return (self.node, self.script, folder)


def install(cache: str) -> Reference:
    """The installed server, fetched by npm when it is not there yet. BenchFault says why it cannot be had."""
    node, npm = shutil.which("node"), shutil.which("npm")
    if node is None or npm is None:
        raise BenchFault(f"node and npm are needed for the reference server ({PACKAGE}); install Node.js 20 or later")
    package = os.path.join(cache, "node_modules", PACKAGE)
    script = os.path.join(package, _ENTRY)
    if not os.path.isfile(script):
        os.makedirs(cache, exist_ok=True)
        _fetch(npm, cache)
    if not os.path.isfile(script):
        raise BenchFault(f"npm installed {PACKAGE} without {_ENTRY}; its layout has changed")
    with open(os.path.join(package, "package.json"), encoding="utf-8") as file:
        version: str = json.load(file)["version"]
    return Reference(node, script, version)


def _fetch(npm: str, cache: str) -> None:
    command = (npm, "install", "--no-audit", "--no-fund", "--prefix", cache, PACKAGE)
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=_INSTALL_SECONDS, check=False)
    except subprocess.TimeoutExpired:
        raise BenchFault(f"npm did not install {PACKAGE} within {_INSTALL_SECONDS} seconds") from None
    if done.returncode:
        last = (done.stderr.strip().splitlines() or ["no message"])[-1]
        raise BenchFault(f"npm could not install {PACKAGE}: {last}")

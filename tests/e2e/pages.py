"""The pages' blocks that need real clients or servers, and the programs their commands expect."""

from __future__ import annotations

import pathlib
import re
import subprocess
from typing import TYPE_CHECKING

from tests.e2e import published

if TYPE_CHECKING:
    from tests.e2e.conftest import Npm, Yard

ROOT = pathlib.Path(__file__).parents[2]
FENCE = re.compile(r"^```([^\n]*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
RUN_SECONDS = 180
_NPX = """#!/bin/sh
[ "$1" = -y ] && shift
package=$1
shift
case $package in
@modelcontextprotocol/inspector) exec {inspector} "$@" ;;
{servers}
*) exit 9 ;;
esac
"""


def blocks(page: pathlib.Path, *kinds: str) -> list[str]:
    return [body for info, body in FENCE.findall(page.read_text()) if info.strip() in kinds]


def programs(npm: Npm, yard: Yard) -> pathlib.Path:
    """A folder for the PATH. What is installed already stands for what npx and uvx would fetch."""
    folder = yard.base / "bin"
    folder.mkdir()
    for name in ("claude", "gemini"):
        (folder / name).symlink_to(npm.program(name))
    (folder / "toolyard").symlink_to(yard.command()[0])
    servers = "\n".join(
        f'{package}) exec {" ".join(published.node_server(package.partition("/server-")[2]))} "$@" ;;'
        for package in published.NPM
    )
    (folder / "npx").write_text(_NPX.format(inspector=npm.program("mcp-inspector"), servers=servers))
    (folder / "uvx").write_text(
        f'#!/bin/sh\nserver=$1\nshift\nexec {published.CACHE}/venvs/$server/bin/$server "$@"\n'
    )
    for name in ("npx", "uvx"):
        (folder / name).chmod(0o755)
    return folder


def run(script: str, npm: Npm, yard: Yard, cwd: pathlib.Path, **more: str) -> str:
    """What the script prints, run in a home of its own; the yard has the folders in place of those below `/tmp`."""
    script = script.replace("/tmp/project", str(yard.workspace)).replace("/tmp/attach", str(yard.base / "attach"))
    environment = yard.environment(npm, CLAUDE_CONFIG_DIR=str(yard.home), GEMINI_CLI_HOME=str(yard.home), **more)
    environment["PATH"] = f"{programs(npm, yard)}:{environment['PATH']}"
    ended = subprocess.run(
        ["bash", "-euo", "pipefail", "-c", script],
        env=environment,
        cwd=cwd,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=RUN_SECONDS,
        check=False,
    )
    assert ended.returncode == 0, ended.stdout + ended.stderr
    return ended.stdout

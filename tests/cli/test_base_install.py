"""What a base install does: `toolyard` with its required packages, without extras and development tools."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.metadata import distribution
from pathlib import Path

import pytest
from packaging.requirements import Requirement

from toolyard.cli.main import toolyard
from toolyard.testing.mcp_client import StdioClient

SOURCE = Path(__file__).parents[2] / "src"
KEY = {"GEMINI_API_KEY": "not-a-key"}


@dataclass(frozen=True)
class Base:
    """A folder, and the interpreter that finds only what a base install has."""

    folder: Path
    python: str

    def command(self, *words: str) -> list[str]:
        return [self.python, "-s", "-m", "toolyard", *words]

    def environment(self, **more: str) -> dict[str, str]:
        site = str(self.folder / "site")
        return {"PATH": os.environ["PATH"], "HOME": str(self.folder), "PYTHONPATH": site, "COLUMNS": "300", **more}

    def run(self, *words: str, **variables: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            self.command(*words),
            env=self.environment(**variables),
            cwd=self.folder / "work",
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )


def required(name: str, known: set[str]) -> Iterator[str]:
    """The distributions that one needs, and what those need, without any extra that was not asked for."""
    for text in distribution(name).requires or ():
        needed = Requirement(text)
        extras = needed.extras or {""}
        if needed.marker is not None and not any(needed.marker.evaluate({"extra": extra}) for extra in extras):
            continue
        if needed.name not in known:
            known.add(needed.name)
            yield needed.name
            yield from required(needed.name, known)


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> Base:
    folder = tmp_path_factory.mktemp("base")
    site = folder / "site"
    for made in (site, folder / "work"):
        made.mkdir()
    for package in SOURCE.iterdir():
        (site / package.name).symlink_to(package)
    for name in required("toolyard", set()):
        files = distribution(name).files or ()
        for top in {file.parts[0] for file in files if ".." not in file.parts}:
            there = Path(str(distribution(name).locate_file(top)))
            if not (site / top).exists():
                (site / top).symlink_to(there)
    return Base(folder, os.path.realpath(sys.executable))


@pytest.mark.parametrize("name", toolyard.list_commands(None))  # type: ignore[arg-type]
def test_every_command_is_there_without_extras(base, name):
    assert base.run(name, "--help").returncode == 0


def test_benchmarks_need_a_checkout_and_the_command_says_so(base):
    measured = base.run("bench", "files", "--quick", "--only", "path")
    assert (measured.returncode, measured.stdout) == (2, "")
    assert "not part of an installed Toolyard" in measured.stderr


def test_a_run_names_the_extra_that_agents_need(base):
    assert base.run("init", "--backend", "gemini").returncode == 0

    ran = base.run("run", "toolyard.yaml", "Do it", **KEY)

    assert ran.returncode != 0
    assert "pip install 'toolyard[agents]'" in ran.stderr


def test_the_assistant_names_its_own_extra(base):
    work = str(base.folder / "work")
    with StdioClient(base.command("assistant"), env=base.environment(**KEY), cwd=work) as client:
        answer = client.call("chat", prompt="Hello")

    assert "pip install 'toolyard[assistant]'" in str(answer)
    assert "toolyard[agents]" not in str(answer)

"""The assistant, attacked by what a model answers: a little that becomes a lot when it is read, kept or told."""

import json
import re
import resource
import time
from collections.abc import Generator
from pathlib import Path

import pytest

from tests.support.assistant_process import Assisted, assisted
from toolyard.testing.mock_model import Say
from toolyard.testing.mock_model.scripts import as_script

pytestmark = pytest.mark.slow  # a start of a server, or several, for each

GIB = 1 << 30


@pytest.fixture(scope="module")
def place(tmp_path_factory) -> Path:
    base = tmp_path_factory.mktemp("answered").resolve()
    for folder in ("project", "home"):
        (base / folder).mkdir()
    (base / "project/a.py").write_text("x = 1\n")
    return base


@pytest.fixture(scope="module")
def served(place) -> Generator[Assisted]:
    """With little memory: without a bound these take that of the whole machine."""
    with assisted(str(place / "project"), Say("yes"), home=str(place / "home")) as started:
        resource.prlimit(started.process.pid, resource.RLIMIT_AS, (3 * GIB, 3 * GIB))
        yield started


def peak_mib(served: Assisted) -> int:
    status = Path(f"/proc/{served.process.pid}/status").read_text()
    found = re.search(r"VmHWM:\s+(\d+)", status)
    assert found is not None
    return int(found[1]) // 1024


def test_a_finding_with_a_very_long_path_takes_little_memory(served):
    finding = {"severity": "high", "file": "/" + "a/" * 80_000, "line": 1, "title": "t"}
    served.model.script = as_script(Say(json.dumps({"summary": "s", "findings": [finding]})))
    started = time.monotonic()
    answered = served.ask("codereview", files=["a.py"], context="c")
    assert time.monotonic() - started < 10
    assert peak_mib(served) < 600
    assert answered["findings"] == []


def test_an_answer_nested_deeply_is_not_a_thousand_times_as_long_when_it_is_told(served, place):
    nested = "[" * 900 + ",".join("0" * 20_000) + "]" * 900
    served.model.script = as_script(Say(f'{{"areas": {{"speed": {nested}}}}}'))
    served.ask("thinkdeep", current_analysis="a", focus_areas=["speed"])
    assert sum(file.stat().st_size for file in (place / "home").rglob("threads.sqlite3*")) < 5_000_000

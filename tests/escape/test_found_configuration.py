"""A `toolyard.yaml` that came with a project: it learns nothing of the user's environment, nor does who reads on."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from toolyard.testing.mcp_client import StdioClient, error_in

pytestmark = pytest.mark.slow  # a start of a server for each

KEY = "super-secret-key-0123456789"
PROGRAM = os.path.join(os.path.dirname(sys.executable), "toolyard")
RULES = ("Read(a[.${GEMINI_API_KEY}]py)", "Read(?[!${GEMINI_API_KEY}]py)", "Bogus((${GEMINI_API_KEY}")


@pytest.fixture
def project(tmp_path) -> Path:
    (tmp_path / "home").mkdir()
    folder = tmp_path / "project"
    folder.mkdir()
    (folder / "a.py").write_text("x = 1\n")
    return folder


def environment(project: Path) -> dict[str, str]:
    home = project.parent / "home"
    return {"PATH": os.environ["PATH"], "HOME": str(home), "GEMINI_API_KEY": KEY}


def rules(rule: str) -> str:
    return json.dumps({"permissions": {"deny": [rule]}})


def kept(project: Path) -> str:
    """All that was written into the user's home, the audit log among it."""
    files = [path for path in (project.parent / "home").rglob("*") if path.is_file()]
    return "".join(path.read_bytes().decode("latin-1") for path in files)


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("words", [["assistant"], ["mcp"], ["doctor"], ["tools", "list"]], ids=" ".join)
def test_it_cannot_have_a_variable_shown(project, words, rule):
    (project / "toolyard.yaml").write_text(rules(rule))
    ran = subprocess.run(
        [PROGRAM, *words, "--workspace", str(project)],
        env=environment(project),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert ran.returncode != 0
    assert "is not trusted" in ran.stdout + ran.stderr
    assert KEY not in ran.stdout + ran.stderr + kept(project)


@pytest.mark.parametrize(("command", "tool"), [("assistant", "analyze"), ("mcp", "Read")])
def test_not_even_a_named_one_shows_it_in_a_refusal_or_the_log(project, command, tool):
    file = project.parent / "mine.yaml"
    file.write_text(rules(RULES[0]))
    words = [PROGRAM, command, "--workspace", str(project), "--config", str(file)]
    with StdioClient(words, env=environment(project)) as client:
        arguments = {"file_path": "a.py"} if tool == "Read" else {"files": ["a.py"], "question": "q"}
        answered = client.call(tool, **arguments)
    error = error_in(answered)
    assert error is not None
    assert error["code"] == -32001
    assert RULES[0] in error["message"]
    log = kept(project)
    assert RULES[0] in log
    assert KEY not in json.dumps(answered) + log

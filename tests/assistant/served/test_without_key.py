"""Without a key: each tool says which variable to set, and what needs no model still answers."""

import subprocess

import pytest

from tests.support.assistant_process import Assisted
from toolyard.testing.mock_model import Say, serve_model


@pytest.fixture
def keyless(project, tmp_path):
    (tmp_path / "home").mkdir()
    with serve_model(lambda _: Say("yes")) as model:
        variables = {
            "PATH": "/usr/bin:/bin",
            "HOME": str(tmp_path / "home"),
            "XDG_STATE_HOME": str(tmp_path / "home" / "state"),
        }
        with Assisted(str(project), model, variables, ()) as served:
            yield served


@pytest.mark.parametrize(
    ("tool", "arguments"), [("chat", {"prompt": "x"}), ("thinkdeep", {"current_analysis": "x"})], ids=lambda x: x
)
def test_what_needs_a_model_says_which_variable_to_set(keyless, tool, arguments):
    fault = keyless.fault(tool, **arguments)

    assert fault["code"] == -32000
    assert "GEMINI_API_KEY" in fault["message"]


def test_analyze_still_gives_the_outline(keyless, project):
    (project / "a.py").write_text("def first():\n    pass\n")

    fields = keyless.ask("analyze", files=["a.py"], question="?")

    assert fields["status"] == "partial"
    assert "def first" in fields["content"]
    assert "GEMINI_API_KEY" in fields["metadata"]["notes"][0]


def test_codereview_still_gives_what_linters_find(keyless, project):
    (project / "a.py").write_text("import os\n")

    fields = keyless.ask("codereview", files=["a.py"], context="?")

    assert fields["status"] == "partial"
    assert [(each["file"], each["line"]) for each in fields["findings"]] == [("a.py", 1)]


def test_debug_still_follows_the_trace(keyless, project):
    (project / "a.py").write_text("def first():\n    raise ValueError\n")

    fields = keyless.ask(
        "debug",
        error_description='Traceback (most recent call last):\n  File "a.py", line 2, in first\nValueError: no',
    )

    assert fields["status"] == "partial"
    assert fields["frames"][0]["path"] == "a.py"
    assert "raise ValueError" in fields["frames"][0]["excerpt"]


def test_a_planted_key_is_a_no_go(keyless, project):
    subprocess.run(["git", "init", "-q", str(project)], check=True)
    planted = "AKIA" + "IOSFODNN7" + "EXAMPLQ"
    (project / "a.py").write_text(f'KEY = "{planted}"\n')

    fields = keyless.ask("precommit", path=".")

    assert (fields["status"], fields["verdict"]) == ("partial", "no-go")
    assert planted not in str(fields)
    secrets = next(check for check in fields["check_results"] if check["name"] == "secrets")
    assert (secrets["outcome"], secrets["details"][0]["path"], secrets["details"][0]["line"]) == ("failed", "a.py", 1)


def test_a_thread_that_began_without_a_model_goes_on_with_one(keyless, project, tmp_path):
    (project / "a.py").write_text("def first():\n    pass\n")
    thread = keyless.ask("analyze", files=["a.py"], question="What is it?")["continuation_id"]
    variables = {**keyless.variables, **keyless.model.environment}

    with Assisted(str(project), keyless.model, variables, ()) as served:
        fields = served.ask("chat", prompt="And now?", continuation_id=thread)

    assert fields["content"] == "yes"
    asked = served.model.requests[-1].user_texts[0]
    assert "What is it?" in asked
    assert "1| def first():" in asked


def test_a_review_without_a_model_reports_secrets(keyless, project):
    token = "ghp_" + "aB3dE5fG7hI9jK1lM2nO4pQ6rS8tU0vW1xY2"
    (project / "a.py").write_text(f"x = 1\nTOKEN = '{token}'\n")

    fields = keyless.ask("codereview", files=["a.py"], context="?")

    found = [each for each in fields["findings"] if each["category"] == "security"]
    assert [(each["severity"], each["file"], each["line"]) for each in found] == [("critical", "a.py", 2)]
    assert "Masked as secrets: a.py:2 (GitHub Token)." in fields["metadata"]["notes"]
    assert token not in str(fields)

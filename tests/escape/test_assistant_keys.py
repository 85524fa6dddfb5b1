"""The provider's key, wherever it turns up: nothing that the assistant sends, keeps, says or logs holds it."""

import json
import os
import subprocess
import sys
from collections.abc import Generator
from pathlib import Path

import pytest

from tests.support.assistant_process import UNLIMITED, Assisted, assisted, emptied, sent
from toolyard.testing.mock_model import Say
from toolyard.testing.mock_model.scripts import as_script

pytestmark = pytest.mark.slow  # a start of a server, or several, for each

KEY = "AIzaSy" + "D4f6h8J0k2L4m6N8p0Q2r4S6t8U0v2W4x"
PIECE = KEY[5:24]
NO_FINDINGS = Say('{"summary": "fine", "findings": []}')
QUOTED = f"400: Incorrect API key provided: {KEY}"
CALLS = {
    "chat": {"prompt": QUOTED},
    "thinkdeep": {"current_analysis": QUOTED, "problem_context": QUOTED, "focus_areas": [QUOTED]},
    "analyze": {"files": ["a.py"], "question": QUOTED},
    "codereview": {"files": ["a.py"], "context": QUOTED, "standards": QUOTED},
    "debug": {
        "error_description": QUOTED, "error_context": QUOTED, "previous_attempts": QUOTED, "runtime_info": QUOTED,
    },
    "precommit": {"path": ".", "original_request": QUOTED},
}  # fmt: skip


@pytest.fixture(scope="module")
def place(tmp_path_factory) -> Path:
    base = tmp_path_factory.mktemp("keys").resolve()
    for folder in ("project", "home"):
        (base / folder).mkdir()
    return base


@pytest.fixture(scope="module")
def running(place) -> Generator[Assisted]:
    file = place / "assistant.yaml"
    file.write_text(json.dumps({"assistant": UNLIMITED}))
    options = ("--config", str(file))
    with assisted(str(place / "project"), Say("yes"), *options, home=str(place / "home"), key=KEY) as served:
        yield served


@pytest.fixture
def served(running) -> Assisted:
    running.model.script = as_script(lambda _: NO_FINDINGS)
    running.model.all_requests.clear()
    return running


@pytest.fixture
def project(running, place) -> Path:
    folder = emptied(place / "project")
    subprocess.run(["git", "init", "-q", str(folder)], check=True)
    (folder / "a.py").write_text("import os\n")
    return folder


def leaks(text: str) -> list[str]:
    return [KEY[at : at + 12] for at in range(len(KEY) - 11) if KEY[at : at + 12] in text]


def kept(place: Path) -> str:
    """Every byte below the home: threads, the audit log."""
    files = [path for path in (place / "home").rglob("*") if path.is_file()]
    assert any(path.name.startswith("threads.sqlite3") for path in files)
    return "".join(path.read_bytes().decode("latin-1") for path in files)


@pytest.mark.parametrize("tool", CALLS)
def test_a_key_in_a_request_is_neither_sent_nor_kept_nor_said(served, project, place, tool):
    answered = served.call(tool, **CALLS[tool])

    assert "result" in answered, answered
    assert "API key provided: ***" in sent(served)
    assert leaks(sent(served)) == leaks(json.dumps(answered)) == leaks(kept(place)) == []


@pytest.mark.parametrize(
    "told", [KEY, PIECE, "".join(f"%{ord(char):02X}" for char in KEY)], ids=["whole", "a piece", "%"]
)
@pytest.mark.parametrize("tool", ["analyze", "codereview", "thinkdeep", "debug"])
def test_a_key_in_a_file_is_neither_sent_nor_kept_nor_said(served, project, place, tool, told):
    (project / "conf.py").write_text(f"import os\n\nPASSWORD = '{told}'\nprint('after', 100 % 7)\n")
    (project / ".env").write_text(f"GEMINI_API_KEY={told}\n")
    words = {
        "analyze": {"question": "what is it"},
        "codereview": {"context": "what is it"},
        "thinkdeep": {"current_analysis": "what is it"},
        "debug": {"error_description": f'  File "/app/conf.py", line 3, in x\nValueError: {told}'},
    }

    answered = served.call(tool, files=["conf.py", ".env"], **words[tool])
    thread = answered["result"]["structuredContent"]["continuation_id"]
    later = served.call("chat", prompt="and now", continuation_id=thread)

    assert "100 % 7" in sent(served)
    assert "***" in sent(served) or "[secret]" in sent(served)
    said = json.dumps([answered, later])
    assert leaks(sent(served)) == leaks(said) == leaks(kept(place)) == []


def test_a_key_in_a_change_is_neither_sent_nor_kept_nor_said(served, project, place):
    (project / "conf.py").write_text(f"# not a secret, says the comment: {PIECE}\nx = '{KEY}'\n")

    answered = served.call("precommit", path=".")

    assert leaks(sent(served)) == leaks(json.dumps(answered)) == leaks(kept(place)) == []


@pytest.mark.parametrize(
    ("tool", "arguments"),
    [
        ("analyze", {"files": [KEY], "question": "?"}),
        ("analyze", {"files": [f"/etc/{KEY}"], "question": "?"}),
        ("precommit", {"path": KEY}),
        ("chat", {"prompt": "?", "continuation_id": KEY}),
    ],
)
def test_a_key_in_the_place_of_a_name_is_neither_said_nor_logged(served, project, place, tool, arguments):
    fault = served.fault(tool, **arguments)

    assert leaks(json.dumps(fault)) == leaks(kept(place)) == []


def test_the_list_of_threads_shows_no_key(served, project, place):
    served.ask("debug", error_description=f"Incorrect API key provided: {KEY}")
    program = os.path.join(os.path.dirname(sys.executable), "toolyard")

    listed = subprocess.run(
        [program, "threads", "list", "--workspace", str(project)],
        env=served.variables, check=True, capture_output=True, text=True, timeout=60,
    )  # fmt: skip

    assert "Incorrect API key" in listed.stdout
    assert leaks(listed.stdout) == []


def test_a_thread_that_was_kept_with_a_key_goes_on_without_it(served, project, tmp_path):
    (tmp_path / "home").mkdir()
    options = ("--config", str(project.parent / "assistant.yaml"))
    with assisted(str(project), Say(f"It is {KEY}."), *options, home=str(tmp_path / "home")) as before:
        thread = before.ask("chat", prompt=f"Is {KEY} a key?")["continuation_id"]  # not one of its own
    with assisted(str(project), Say("yes"), *options, home=str(tmp_path / "home"), key=KEY) as after:
        answered = after.call("chat", prompt="and now", continuation_id=thread)
        whole = after.request("resources/read", {"uri": f"thread://{thread}/1"})

    assert "result" in answered, answered
    assert "Is [secret] a key?" in sent(after)
    assert leaks(sent(after)) == leaks(json.dumps([answered, whole])) == []

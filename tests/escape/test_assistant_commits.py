"""The assistant, asked about a commit that was made to harm it: by what it holds, and by the repository around it."""

import json
import subprocess
import time
from collections.abc import Generator
from pathlib import Path

import pytest

from tests.support.assistant_process import UNLIMITED, Assisted, assisted, emptied, sent
from toolyard.testing.mock_model import Say
from toolyard.testing.mock_model.scripts import as_script

pytestmark = pytest.mark.slow  # a start of a server, or several, for each

TOKEN = "ghp_" + "aB3dE5fG7hI9jK1lM2nO4pQ6rS8tU0vW1xY2"
LINE = f"token={TOKEN}\n"
BODY = "b3BlbnNzaC1rZXkt" + "djEAAAAABG5vbmUAAAAEbm9uZQAAAAAAAAABAAAAMwAAAAtz"
KEY = ["-----BEGIN OPENSSH " + "PRIVATE KEY-----", *[BODY] * 5, "-----END OPENSSH " + "PRIVATE KEY-----"]
NO_FINDINGS = Say('{"summary": "fine", "findings": []}')
SOON = 10.0
QUIET = 0.5


@pytest.fixture(scope="module")
def place(tmp_path_factory) -> Path:
    base = tmp_path_factory.mktemp("attacked").resolve()
    for folder in ("project", "home"):
        (base / folder).mkdir()
    return base


@pytest.fixture(scope="module")
def running(place) -> Generator[Assisted]:
    file = place / "assistant.yaml"
    file.write_text(json.dumps({"assistant": UNLIMITED}))
    with assisted(str(place / "project"), NO_FINDINGS, "--config", str(file), home=str(place / "home")) as served:
        yield served


@pytest.fixture
def project(place) -> Path:
    """A repository with one commit."""
    folder = emptied(place / "project")
    git(folder, "init", "-q", ".")
    (folder / "kept.txt").write_text("one\n")
    git(folder, "add", ".")
    git(folder, "commit", "-qm", "Begin")
    return folder


@pytest.fixture
def served(running, project) -> Assisted:
    running.model.script = as_script(NO_FINDINGS)
    running.model.all_requests.clear()
    return running


def git(folder: Path, *words: str) -> None:
    who = ("-c", "user.name=A", "-c", "user.email=a@localhost")
    subprocess.run(["git", *who, *words], cwd=folder, check=True, capture_output=True)


def cpu_seconds(served: Assisted) -> float:
    words = Path(f"/proc/{served.process.pid}/stat").read_text().split()
    return (int(words[13]) + int(words[14])) / 100


def test_a_call_whose_secrets_are_looked_for_can_be_cancelled(served, project):
    lines = (f"{number}{'api_key' * 140}\n" for number in range(3_000))
    (project / "a.php").write_text("".join(lines))
    call = served.post_call("precommit", path=".")
    begun, deadline = cpu_seconds(served), time.monotonic() + SOON
    while cpu_seconds(served) - begun < 1 and time.monotonic() < deadline:  # until it is at work
        time.sleep(0.05)
    served.notify("notifications/cancelled", {"requestId": call})
    deadline = time.monotonic() + SOON
    while time.monotonic() < deadline:
        before = cpu_seconds(served)
        time.sleep(1)
        if cpu_seconds(served) - before < QUIET / 2:
            return
    pytest.fail("it works on")


def test_the_two_hundred_and_first_filter_of_a_repository_is_not_run_either(served, project):
    (project / "prod.env").write_text("PASS=a-secret-on-disk\n")
    (project / ".git/info/exclude").write_text("prod.env\n")
    with (project / ".git/config").open("a") as config:
        config.write("".join(f'[filter "f{number}"]\n\tclean = cat prod.env\n' for number in range(201)))
    (project / ".gitattributes").write_text("*.txt filter=f200\n")
    (project / "kept.txt").write_text("two\n")
    answer = served.call("precommit", path=".")
    assert "a-secret-on-disk" not in sent(served) + json.dumps(answer)


UNSEEN = {
    "utf-16": lambda project: (project / "c.txt").write_bytes(LINE.encode("utf-16")),
    "a nul": lambda project: (project / "c.txt").write_text(f"{LINE}\0"),
    "called binary, and long": lambda project: (
        (project / ".gitattributes").write_text("*.txt binary\n"),
        (project / "c.txt").write_text(LINE + "x = 1\n" * 100_000),
    ),
    "long by the configuration": lambda project: (
        git(project, "config", "core.bigFileThreshold", "1k"),
        (project / "c.txt").write_text(LINE + "x = 1\n" * 100_000),
    ),
    "very long": lambda project: (project / "c.txt").write_text(LINE + "\0" * 6_000_000),
    "a name": lambda project: (project / f"{TOKEN}.txt").write_text("x\n"),
    "a key in a comment": lambda project: (project / "k.py").write_text("".join(f"# {line}\n" for line in KEY)),
}


ALLOWED = {
    "there": f"a = '{TOKEN}'  # pragma: allowlist secret\n",
    "on the line before": f"# pragma: allowlist nextline secret\na = '{TOKEN}'\n",
    "of another style": f"a = '{TOKEN}';  // pragma: whitelist secret\n",
    "of a whole key": f"# {KEY[0]}  # pragma: allowlist secret\n" + "".join(f"# {line}\n" for line in KEY[1:]),
}


@pytest.mark.parametrize("where", ALLOWED)
def test_whoever_plants_a_secret_cannot_allow_it_by_a_comment(served, project, where):
    (project / "c.py").write_text(ALLOWED[where])
    answer = served.ask("precommit", path=".")
    assert answer["verdict"] == "no-go"
    assert TOKEN not in sent(served) + json.dumps(answer)
    assert BODY not in sent(served) + json.dumps(answer)


@pytest.mark.parametrize("how", UNSEEN)
def test_no_commit_with_a_secret_is_simply_a_go(served, project, how):
    UNSEEN[how](project)
    answer = served.ask("precommit", path=".")
    # Either it was found, or somebody is told that it was not looked into.
    assert any(
        check["outcome"] in ("warned", "failed") for check in answer["check_results"] if check["name"] != "tests"
    )
    assert TOKEN not in sent(served) + json.dumps(answer)
    assert BODY not in sent(served) + json.dumps(answer)

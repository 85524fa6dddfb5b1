"""The assistant, attacked: by the files of a project, the repository that was cloned, the model and its provider."""

import http.server
import json
import os
import subprocess
import sys
import threading
from collections.abc import Generator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.support.assistant_process import UNLIMITED, Assisted, assisted, emptied, sent
from toolyard.testing.mock_model import Hang, Say
from toolyard.testing.mock_model.scripts import as_script

pytestmark = pytest.mark.slow  # a start of a server, or several, for each

DENIED = "a-word-behind-a-rule"
OUTSIDE = "a-word-outside"
KEY = "a-key-of-the-provider-123"
NO_FINDINGS = Say('{"summary": "fine", "findings": []}')


@pytest.fixture(scope="module")
def place(tmp_path_factory) -> Path:
    base = tmp_path_factory.mktemp("attacked").resolve()
    for folder in ("project", "home", "outside"):
        (base / folder).mkdir()
    (base / "outside" / "other.txt").write_text(OUTSIDE)
    return base


@pytest.fixture(scope="module")
def running(place) -> Generator[Assisted]:
    file = place / "assistant.yaml"
    file.write_text(json.dumps({"assistant": UNLIMITED, "permissions": {"deny": ["Read(denied.*)"]}}))
    with ExitStack() as opened:
        options = ("--config", str(file))
        yield opened.enter_context(assisted(str(place / "project"), Say("yes"), *options, home=str(place / "home")))


@pytest.fixture
def project(place) -> Path:
    return emptied(place / "project")


@pytest.fixture
def served(running, project) -> Assisted:
    running.model.script = as_script(Say("yes"))
    running.model.all_requests.clear()
    return running


def git(folder: Path, *words: str) -> None:
    who = ("-c", "user.name=A", "-c", "user.email=a@localhost")
    subprocess.run(["git", *who, *words], cwd=folder, check=True, capture_output=True)


def repository(folder: Path) -> Path:
    git(folder, "init", "-q", ".")
    (folder / "kept.txt").write_text("one\n")
    git(folder, "add", ".")
    git(folder, "commit", "-qm", "Begin")
    return folder


@pytest.mark.parametrize(
    "target", ["denied.txt", "/etc/passwd", "../outside/other.txt", "prod.env", "/proc/self/environ"]
)
def test_a_file_of_a_thread_that_became_a_link_is_not_followed(served, project, target):
    (project / "denied.txt").write_text(DENIED)
    (project / "prod.env").write_text(DENIED)
    (project / "notes.txt").write_text("harmless\n")
    thread = served.ask("analyze", files=["notes.txt"], question="what is it")["continuation_id"]
    (project / "notes.txt").unlink()
    (project / "notes.txt").symlink_to(target)
    served.model.all_requests.clear()
    answer = served.ask("chat", prompt="and now", continuation_id=thread)
    assert [each["path"] for each in answer["skipped"]] == ["notes.txt"]
    assert not any(word in sent(served) for word in (DENIED, OUTSIDE, "root:x", "XDG_STATE_HOME"))


def test_links_that_are_swapped_during_calls_lead_nowhere(served, project, place):
    (project / "prod.env").write_text(DENIED)
    (project / "swapped.txt").write_text("inside\n")
    over = threading.Event()

    def swap() -> None:
        while not over.is_set():
            for target in (place / "outside" / "other.txt", "prod.env"):
                (project / "next").symlink_to(target)
                os.replace(project / "next", project / "swapped.txt")
                (project / "next").write_text("inside\n")
                os.replace(project / "next", project / "swapped.txt")

    swapping = threading.Thread(target=swap)
    swapping.start()
    try:
        for _ in range(30):
            served.call("analyze", files=["swapped.txt"], question="what is it")
            served.call("analyze", files=["."], question="what is it")
    finally:
        over.set()
        swapping.join()
    assert OUTSIDE not in sent(served)
    assert DENIED not in sent(served)


def _alternates(project: Path, other: Path) -> None:
    repository(project)
    (project / ".git/objects/info/alternates").write_text(f"{other}/.git/objects\n")
    blob = subprocess.run(["git", "rev-parse", ":other.txt"], cwd=other, check=True, capture_output=True, text=True)
    git(project, "update-index", "--add", "--cacheinfo", f"100644,{blob.stdout.strip()},taken.txt")


def _worktree(project: Path, other: Path) -> None:
    repository(project)
    git(project, "config", "core.worktree", str(other))


PLANTED = {
    "a pointer": lambda project, other: (project / ".git").write_text(f"gitdir: {other}/.git\n"),
    "a link": lambda project, other: (project / ".git").symlink_to(other / ".git"),
    "another common folder": lambda project, other: (repository(project) / ".git/commondir").write_text(
        f"{other}/.git"
    ),
    "another store of objects": _alternates,
    "another work tree": _worktree,
}


@pytest.mark.parametrize("how", PLANTED)
def test_no_repository_outside_is_read_through_a_planted_one(served, project, tmp_path, how):
    (repository(tmp_path) / "other.txt").write_text(f"{OUTSIDE}\n")
    git(tmp_path, "add", ".")
    PLANTED[how](project, tmp_path)
    answered = served.call("precommit", path=".")
    assert OUTSIDE not in json.dumps(answered) + sent(served)


def test_what_a_repository_wants_to_be_run_is_not_run(served, project, tmp_path):
    repository(project)
    mark = tmp_path / "was-run"
    run = f"touch {mark} {project}/was-run"
    for name in (
        "core.fsmonitor",
        "core.pager",
        "diff.external",
        "diff.x.command",
        "diff.x.textconv",
        "filter.x.clean",
    ):
        git(project, "config", name, run)
    (project / ".gitattributes").write_text("* diff=x filter=x\n")
    (project / "kept.txt").write_text("two\n")
    served.ask("precommit", path=".")
    assert "+two" in sent(served)
    assert not mark.exists()
    assert not (project / "was-run").exists()


@pytest.mark.parametrize("stranger", ["' OR 1=1 --", "*", "", "0" * 32, "../x", "\ud800", "x" * 100_000])
def test_what_is_no_id_of_a_thread_finds_none(served, stranger):
    fault = served.fault("chat", prompt="go on", continuation_id=stranger)
    assert (fault["code"], fault["data"]["reason"]) == (-32602, "unknown_thread")
    assert len(json.dumps(fault)) < 2_000


def test_calls_that_are_cancelled_hold_no_thread(served):
    thread = served.ask("chat", prompt="begin")["continuation_id"]
    served.model.script = as_script(Hang())
    begun = [served.post_call("chat", prompt=f"call {number}", continuation_id=thread) for number in range(10)]
    for call in begun:
        served.notify("notifications/cancelled", {"requestId": call})
    served.model.script = as_script(Say("here"))
    assert served.ask("chat", prompt="go on", continuation_id=thread)["status"] == "success"


@contextmanager
def _redirecting(to: str, status: int) -> Generator[str]:
    class Handler(http.server.BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            self.rfile.read(int(self.headers["content-length"]))
            self.send_response(status)
            self.send_header("location", to)
            self.send_header("content-length", "0")
            self.end_headers()

        def log_message(self, *_: Any) -> None:
            pass

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        listening = threading.Thread(target=server.serve_forever)
        listening.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()
            listening.join()


@pytest.mark.parametrize("api", ["gemini", "openai", "claude"])
def test_a_provider_that_sends_us_elsewhere_is_not_followed_with_the_key(place, project, api):
    with assisted(str(project), Say("caught"), home=str(place / "home"), api=api) as catcher:  # its model catches
        url = catcher.model.environment["ANTHROPIC_BASE_URL"]
        with _redirecting(f"{url}/v1/messages", 307) as begin:
            variables = {
                "GOOGLE_GEMINI_BASE_URL": begin,
                "OPENAI_BASE_URL": f"{begin}/v1",
                "ANTHROPIC_BASE_URL": begin,
                **dict.fromkeys(("GEMINI_API_KEY", "OPENAI_API_KEY", "ANTHROPIC_API_KEY"), KEY),
            }
            with assisted(str(project), Say("no"), home=str(place / "home"), api=api, **variables) as served:
                fault = served.fault("chat", prompt="a question")
        assert fault["code"] == -32603
        assert catcher.model.all_requests == []


WIDENING = (
    {"assistant": {"rate_limits": {"chat": None}}},
    {"assistant": {"limits": {"file_bytes": 99_000_000}}},
    {"assistant": {"storage": "redis://127.0.0.1:1/0"}},
    {"toolyard": {"code_execution": {"mode": "none"}}},
    {"permissions": {"allow": ["Read(/**)"]}},
    {"permissions": {"mode": "bypassPermissions"}},
)


@pytest.mark.parametrize("written", WIDENING, ids=json.dumps)
def test_a_file_that_came_with_the_project_widens_nothing(place, project, written):
    (project / "toolyard.yaml").write_text(json.dumps(written))
    program = os.path.join(os.path.dirname(sys.executable), "toolyard")
    ran = subprocess.run(
        [program, "assistant", "--workspace", str(project)],
        env={"PATH": os.environ["PATH"], "HOME": str(place / "home")},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=30,
        check=False,
    )
    assert ran.returncode != 0
    assert "is not trusted" in ran.stderr

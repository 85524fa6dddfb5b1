"""precommit with a model beside it: git is really run, and the verdict is ours."""

import json
import os
import subprocess

import pytest

from toolyard.testing.model_server import FOREVER, Fail, Say

WHO = {"GIT_AUTHOR_NAME": "a", "GIT_AUTHOR_EMAIL": "a@b", "GIT_COMMITTER_NAME": "a", "GIT_COMMITTER_EMAIL": "a@b"}
PLANTED = "AKIA" + "QYLPMN5HFIQR7XYA"


@pytest.fixture
def git(project):
    def run(*words):
        env = {"PATH": os.environ["PATH"], "HOME": "/nonexistent", "GIT_CONFIG_NOSYSTEM": "1", **WHO}
        subprocess.run(["git", "-C", str(project), *words], check=True, capture_output=True, env=env)

    run("init", "-q", "-b", "main")
    (project / "cart.py").write_text("def total(items):\n    return sum(items)\n")
    run("add", ".")
    run("commit", "-qm", "Begin")
    return run


def review(*findings):
    return Say(json.dumps({"summary": "Looks sound.", "findings": list(findings)}))


def check(fields, name):
    return next(each for each in fields["checks"] if each["name"] == name)


def test_staged_unstaged_and_untracked_changes_reach_the_model(serve, project, git):
    (project / "cart.py").write_text("def total(items):\n    return round(sum(items), 2)\n")
    git("add", "cart.py")
    (project / "cart.py").write_text("def total(items):\n    return round(sum(items), 3)\n")
    (project / "new.py").write_text("made = 'new'\n")
    finding = {"severity": "high", "category": "bug", "file": "cart.py", "line": 2, "title": "rounds", "fix": "no"}
    served = serve(review(finding, {**finding, "line": 99}, {**finding, "file": "elsewhere.py"}))

    fields = served.ask("precommit", path=".", original_request="Round the total")

    asked = served.model.requests[-1].users[-1]
    for expected in ("round(sum(items), 2)", "round(sum(items), 3)", "made = 'new'", "Round the total"):
        assert expected in asked
    assert fields["verdict"] == "go"
    assert fields["findings"] == [finding]
    assert set(fields["files_processed"]) == {"cart.py", "new.py"}
    assert "Looks sound." in fields["content"]
    assert fields["status"] == "success"


def test_only_what_is_asked_for_is_looked_at(serve, project, git):
    (project / "staged.py").write_text("staged = 1\n")
    git("add", "staged.py")
    (project / "untracked.py").write_text("untracked = 1\n")
    served = serve(lambda _: review())

    staged = served.ask("precommit", path=".", include_unstaged=False)
    unstaged = served.ask("precommit", path=".", include_staged=False)

    assert staged["files_processed"] == ["staged.py"]
    assert unstaged["files_processed"] == ["untracked.py"]


def test_a_planted_key_is_a_no_go_whatever_the_model_says_and_never_reaches_it(serve, project, git, servers):
    (project / "settings.py").write_text(f'AWS_KEY = "{PLANTED}"\n')
    served = serve(review())

    fields = served.ask("precommit", path=".")

    assert fields["verdict"] == "no-go"
    assert check(fields, "secrets")["details"][0]["line"] == 1
    assert PLANTED not in json.dumps(fields)
    assert PLANTED not in json.dumps([request.body for request in served.model.requests])
    kept = [path for path in (servers.base / "home").rglob("*") if path.is_file()]
    assert not [path for path in kept if PLANTED.encode() in path.read_bytes()]


def test_a_provider_that_fails_leaves_the_verdict(serve, project, git):
    (project / "new.py").write_text("made = 'new'\n")
    served = serve([Fail(400, times=FOREVER)])

    fields = served.ask("precommit", path=".")

    assert (fields["status"], fields["verdict"], fields["findings"]) == ("partial", "go", [])
    assert "400" in json.dumps(fields["metadata"]["notes"])


def test_nothing_to_commit_is_said_without_asking_anybody(serve, project, git):
    served = serve(review())

    fields = served.ask("precommit", path=".")

    assert fields["verdict"] == "no-go"
    assert "nothing to commit" in fields["content"].lower()
    assert served.model.requests == []


def test_the_thread_of_a_review_goes_on(serve, project, git):
    (project / "new.py").write_text("made = 'new'\n")
    served = serve([review(), Say("Because it is new.")])
    thread = served.ask("precommit", path=".")["continuation_id"]

    served.ask("chat", prompt="Why?", continuation_id=thread)

    assert "made = 'new'" in served.model.requests[-1].users[0]


@pytest.mark.parametrize(("path", "code"), [("..", -32001), ("/", -32001), ("sub", -32602), ("nowhere", -32602)])
def test_what_is_no_root_of_a_repository_here_is_refused(serve, project, git, path, code):
    (project / "sub").mkdir()
    served = serve(review())

    assert served.fault("precommit", path=path)["code"] == code
    assert served.model.requests == []

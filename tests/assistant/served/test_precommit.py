"""precommit with a model beside it: git is really run, and the verdict is ours."""

import json
import os
import re
import subprocess

import pytest

from toolyard.core.tokens import count_tokens
from toolyard.testing.mock_model import FOREVER, Fail, Say

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
    return next(each for each in fields["check_results"] if each["name"] == name)


def test_staged_unstaged_and_untracked_changes_reach_the_model(serve, project, git):
    (project / "cart.py").write_text("def total(items):\n    return round(sum(items), 2)\n")
    git("add", "cart.py")
    (project / "cart.py").write_text("def total(items):\n    return round(sum(items), 3)\n")
    (project / "new.py").write_text("made = 'new'\n")
    finding = {"severity": "high", "category": "bug", "file": "cart.py", "line": 2, "title": "rounds", "fix": "no"}
    served = serve(review(finding, {**finding, "line": 99}, {**finding, "file": "elsewhere.py"}))

    fields = served.ask("precommit", path=".", original_request="Round the total")

    asked = served.model.requests[-1].user_texts[-1]
    for expected in ("round(sum(items), 2)", "round(sum(items), 3)", "made = 'new'", "Round the total"):
        assert expected in asked
    assert (fields["verdict"], fields["checks"], fields["review"]) == ("no-go", "go", "blocking")
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

    assert "made = 'new'" in served.model.requests[-1].user_texts[0]


@pytest.mark.parametrize(("path", "code"), [("..", -32001), ("/", -32001), ("sub", -32602), ("nowhere", -32602)])
def test_what_is_no_root_of_a_repository_here_is_refused(serve, project, git, path, code):
    (project / "sub").mkdir()
    served = serve(review())

    assert served.fault("precommit", path=path)["code"] == code
    assert served.model.requests == []


def numbered(lines):
    return "".join(f"value_{number} = max({number}, {number * 17}, {number})\n" for number in range(lines))


def told_of_lines(fields):
    """How many lines the model saw, and of how many, by the only note."""
    (note,) = fields["metadata"]["notes"]
    found = re.search(r"the model saw ([\d,]+) of ([\d,]+) lines of the diff", note)
    return [int(number.replace(",", "")) for number in found.groups()], note


def lines_shown(served):
    """Of diffs, as the model got them."""
    asked = served.model.requests[-1].user_texts[-1]
    change = asked.partition('<evidence name="change"')[2].partition("\n</evidence")[0]
    return [line for line in change.split("\n")[1:] if not line.startswith(("===", "[..."))]


def test_a_change_that_is_too_long_is_shown_as_far_as_it_goes_and_the_answer_says_how_far(serve, project, git):
    for number in range(100):
        (project / f"m{number:02}.py").write_text(numbered(500))
    served = serve(review())

    fields = served.ask("precommit", path=".")

    shown = lines_shown(served)
    (saw, of), note = told_of_lines(fields)
    assert (fields["status"], fields["verdict"]) == ("partial", "go")
    assert (saw, of) == (len(shown), 100 * 506)
    assert 8_000 < saw < 20_000
    assert "only the beginning of 100 files" in note
    assert len(fields["files_processed"]) == len(fields["skipped"]) == 100
    assert {each["reason"] for each in fields["skipped"]} == {"shown in part: the change is too long for one request"}
    assert fields["findings"] == []


def test_a_file_that_is_too_long_is_cut_where_the_numbers_say(serve, project, git):
    (project / "long.py").write_text(numbered(60_000))
    served = serve(review())

    fields = served.ask("precommit", path=".")

    added = sum(" +value_" in line for line in lines_shown(served))
    assert added > 8_000
    assert f"[... {60_000 - added:,} more lines of this change]" in served.model.requests[-1].user_texts[-1]
    assert told_of_lines(fields)[0] == [added + 6, 60_006]


def test_a_very_long_line_is_shown_by_its_beginning_and_the_answer_says_so(serve, project, git):
    (project / "one.min.js").write_text("var a=1;" * 5_000 + "\n")
    served = serve(review())

    fields = served.ask("precommit", path=".")

    assert fields["status"] == "partial"
    assert fields["metadata"]["notes"] == ["Of 1 very long line the model saw only the beginning."]
    assert fields["files_processed"] == ["one.min.js"]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("model", "window", "leaves_out"), [("google:gemini-pro", 32_768, True), ("openai-chat:gpt-4", 128_000, False)]
)
def test_a_model_with_little_room_is_shown_what_it_has_room_for(fresh, project, git, model, window, leaves_out):
    names = {f"m{number:02}.py" for number in range(100)}
    for name in names:
        (project / name).write_text(numbered(500))
    served = fresh(review(), TOOLYARD_MODEL=model)

    fields = served.ask("precommit", path=".", original_request="Compute the values")

    request = served.model.requests[-1]
    asked = request.user_texts[-1]
    assert window * 0.5 < count_tokens(asked + request.system) < window * 0.8
    (saw, of), note = told_of_lines(fields)
    assert (fields["status"], of, saw) == ("partial", 100 * 506, len(lines_shown(served)))
    unseen = [each["path"] for each in fields["skipped"] if each["reason"].startswith("left out")]
    assert bool(unseen) is leaves_out
    assert (f"nothing of {len(unseen)} files" in note) is leaves_out
    assert set(fields["files_processed"]) == names.difference(unseen)
    assert [name for name in names if (f"+++ b/{name}" in asked) is (name in unseen)] == []


CART = "def total(items):\n    return sum(items)\n\n\ndef mean(items):\n    return total(items) / len(items)\n"
FINDING = {"severity": "medium", "category": "bug", "file": "cart.py", "line": 2, "title": "rounds", "fix": "no"}


@pytest.fixture
def changed(project, git):
    """A change of line 2 in a file of six lines."""
    (project / "cart.py").write_text(CART)
    git("commit", "-qam", "Add mean")
    (project / "cart.py").write_text(CART.replace("sum(items)", "round(sum(items))"))


@pytest.mark.parametrize(
    ("severities", "review_verdict", "verdict"),
    [
        ([], "clear", "go"),
        (["low", "medium"], "concerns", "go"),
        (["high"], "blocking", "no-go"),
        (["low", "critical"], "blocking", "no-go"),
    ],
)
def test_the_verdict_joins_the_checks_and_the_review(serve, changed, severities, review_verdict, verdict):
    findings = [{**FINDING, "severity": each, "title": each} for each in severities]
    served = serve(review(*findings))

    fields = served.ask("precommit", path=".")

    assert (fields["verdict"], fields["checks"], fields["review"]) == (verdict, "go", review_verdict)
    assert fields["content"].startswith(f"Verdict: {verdict}\nchecks: go\nreview: {review_verdict}\n")
    assert ("- review: cart.py:2" in fields["content"]) is (verdict == "no-go")


def test_without_a_review_the_checks_decide_and_the_answer_says_that_there_was_none(serve, changed):
    served = serve([Fail(400, times=FOREVER)])

    fields = served.ask("precommit", path=".")

    assert (fields["verdict"], fields["checks"], fields["review"]) == ("go", "go", "none")


def test_the_model_sees_numbered_hunks_with_their_functions_and_no_verdict(serve, changed):
    served = serve(review())

    served.ask("precommit", path=".")

    asked = served.model.requests[-1].user_texts[-1]
    assert "Verdict" not in asked
    assert "@@ hunk 1, from line 1" in asked
    assert "    1  def total(items):\n      -    return sum(items)\n    2 +    return round(sum(items))" in asked


def test_a_hunk_names_what_encloses_it_and_shows_all_of_it(serve, project, git):
    body = "".join(f"        step_{number} = {number}\n" for number in range(20))
    code = f"class Cart:\n    def total(self):\n{body}        return step_0\n"
    (project / "cart.py").write_text(code)
    git("commit", "-qam", "Add a class")
    (project / "cart.py").write_text(code.replace("return step_0", "return step_1"))
    served = serve(review())

    served.ask("precommit", path=".")

    asked = served.model.requests[-1].user_texts[-1]
    assert "@@ hunk 1, from line 2, in class Cart:" in asked
    assert "    2      def total(self):" in asked
    assert "   23 +        return step_1" in asked


def test_a_hunk_names_no_function_that_only_stands_before_it(serve, project, git):
    first, second = "def first():\n    return 1\n", "    def second(self):\n        return 2\n"
    code = (
        f"import os\n\n\n{first}\n\nclass Cart:\n    size = 1\n\n    def other(self):\n        return 0\n\n{second}"
    )
    (project / "cart.py").write_text(code)
    git("commit", "-qam", "Add functions")
    (project / "cart.py").write_text(code.replace("return 1", "return 11").replace("return 2", "return 22"))
    served = serve(review())

    served.ask("precommit", path=".")

    asked = served.model.requests[-1].user_texts[-1]
    assert [line.partition(", in ")[2] for line in asked.splitlines() if line.startswith("@@")] == [
        "def first():",
        "def second(self):",
    ]


def test_linters_do_not_follow_a_link(serve, project, changed):
    (project / "elsewhere.txt").write_text("this is no code\n")
    (project / "linked.py").symlink_to("elsewhere.txt")
    served = serve(review())

    fields = served.ask("precommit", path=".")

    assert [each for each in check(fields, "lint")["details"] if each["path"] == "linked.py"] == []


def test_a_finding_outside_of_the_change_says_how_the_change_causes_it_or_is_left_out(serve, changed):
    outside = {**FINDING, "line": 1, "title": "its name says nothing of rounding"}
    served = serve(review(outside, {**outside, "title": "another", "cause": "total rounds now"}))

    fields = served.ask("precommit", path=".")

    assert fields["findings"] == [{**outside, "title": "another", "cause": "total rounds now"}]
    assert "Cause: total rounds now" in fields["content"]
    [note] = [note for note in fields["metadata"]["notes"] if "its name says nothing" in note]
    assert "does not say how the change causes it" in note


def test_linters_look_at_what_changed(serve, project, changed):
    (project / "cart.py").write_text(CART.replace("sum(items)", "round(summ(items))"))
    served = serve(review())

    fields = served.ask("precommit", path=".")

    assert (fields["verdict"], fields["checks"]) == ("no-go", "no-go")
    lint = check(fields, "lint")
    assert (lint["outcome"], lint["details"][0]["path"], lint["details"][0]["line"]) == ("failed", "cart.py", 2)
    assert "summ" in lint["details"][0]["text"]


def test_what_linters_say_of_lines_from_before_is_a_warning(serve, project, git):
    (project / "old.py").write_text("print(missing)\n")
    git("add", ".")
    git("commit", "-qm", "Add a mistake")
    (project / "old.py").write_text("print(missing)\nprint(1)\n")
    served = serve(review())

    fields = served.ask("precommit", path=".")

    lint = check(fields, "lint")
    assert (fields["checks"], lint["outcome"], lint["details"][0]["line"]) == ("go", "warned", 1)
    assert "may have been there before" in lint["details"][0]["text"]

"""`toolyard share`: what the user sees of a team's shared work, merges, and finds out about where files came from."""

import json
import shlex

import pytest
from click.testing import CliRunner

from toolyard.cli.main import toolyard
from toolyard.core.errors import ToolyardError

CONFIG = """
toolyard: {workspace: team}
agents:
  - {id: agent_a, backend: {allowed_tools: [Read]}}
  - {id: agent_b}
"""


class Team:
    def __init__(self, path):
        self.path = path
        (path / "team.yaml").write_text(CONFIG)

    def run(self, *words, agent="agent_a"):
        where = ["--config", str(self.path / "team.yaml"), "--state", str(self.path / "state")]
        where += ["--agent", agent] if agent else []
        return CliRunner().invoke(toolyard, [*words, *where])

    def json(self, *words, **options):
        done = self.run(*words, "--json", **options)
        assert done.exception is None or isinstance(done.exception, SystemExit), done.exception
        return json.loads(done.stdout)

    def work(self, agent):
        folder = self.path / "team/agents" / agent / "workspace"
        folder.mkdir(parents=True, exist_ok=True)
        return folder

    def write(self, agent, name, text):
        (self.work(agent) / name).write_text(text)
        assert self.run("snapshot", "create", agent=agent).exit_code == 0


@pytest.fixture
def team(tmp_path):
    return Team(tmp_path.resolve())


def test_a_snapshot_of_one_agent_is_listed_for_the_other(team):
    before = team.json("share", "list")
    team.write("agent_b", "x.txt", "hello")

    after = team.json("share", "list")

    assert [(peer["agent"], bool(peer["snapshot"])) for peer in before] == [("agent_b", False)]
    assert [(peer["agent"], bool(peer["snapshot"])) for peer in after] == [("agent_b", True)]
    assert "agent_b: shared/agent_b (snapshot " in team.run("share", "list").stdout


def test_a_merge_is_rehearsed_made_and_told_where_it_came_from(team):
    team.write("agent_b", "x.txt", "hello")

    rehearsed = team.json("share", "merge", "agent_b", "x.txt", "--dry-run")
    absent = not (team.work("agent_a") / "x.txt").exists()
    done = team.run("share", "merge", "agent_b", "x.txt")
    (origin,) = team.json("share", "origin", "x.txt")

    assert [entry["path"] for entry in rehearsed["added"]] == ["x.txt"]
    assert absent
    assert done.exit_code == 0
    assert "Added:\n  x.txt" in done.stdout
    assert "To undo it: toolyard snapshot restore " in done.stdout
    assert (team.work("agent_a") / "x.txt").read_text() == "hello"
    assert (origin["peer"], origin["outcome"]) == ("agent_b", "added")
    assert "x.txt: added from agent_b" in team.run("share", "origin").stdout


def test_conflicts_are_an_exit_code(team):
    team.write("agent_b", "x.txt", "theirs\n")
    (team.work("agent_a") / "x.txt").write_text("ours\n")

    done = team.run("share", "merge", "agent_b", "x.txt")

    assert done.exit_code == 1
    assert "Conflicts:\n  x.txt (1 conflict to resolve)" in done.stdout


def test_what_a_merge_would_bring_is_shown_and_nothing_is_changed(team):
    team.write("agent_b", "x.txt", "1\n2\n")
    team.run("share", "merge", "agent_b", "x.txt")
    team.write("agent_b", "x.txt", "1\ntwo\n")
    team.write("agent_b", "new.txt", "hello\n")
    (team.work("agent_b") / ".git").mkdir()
    team.write("agent_b", ".git/HEAD", "ref: refs/heads/main\n")

    everything = team.run("share", "diff", "agent_b")
    one = team.run("share", "diff", "agent_b", "new.txt")
    told = team.json("share", "diff", "agent_b", "x.txt")

    assert everything.exit_code == 0, everything.output
    assert everything.stdout.splitlines() == [
        *("A new.txt", "--- /dev/null", "+++ b/new.txt", "@@ -0,0 +1,1 @@", "+hello"),
        *("M x.txt", "--- a/x.txt", "+++ b/x.txt", "@@ -1,2 +1,2 @@", " 1", "-2", "+two"),
    ]
    assert one.stdout.splitlines()[0] == "A new.txt"
    assert "x.txt" not in one.stdout
    assert ("-2\n+two" in told["diff"], told["dry_run"]) == (True, True)
    assert (team.work("agent_a") / "x.txt").read_text() == "1\n2\n"


def test_where_a_merge_would_bring_nothing_that_is_said(team):
    team.write("agent_b", "x.txt", "1\n")
    team.run("share", "merge", "agent_b", "x.txt")

    assert team.run("share", "diff", "agent_b").stdout == "A merge would change nothing.\n"


def test_the_command_that_undoes_a_merge_leaves_everything_else_alone(team):
    team.write("agent_b", "x y.txt", "hello")
    work = team.work("agent_a")
    done = team.run("share", "merge", "agent_b", "**")
    (work / "own.txt").write_text("later")

    (told,) = [line for line in done.stdout.splitlines() if line.startswith("To undo it: ")]
    words = shlex.split(told.removeprefix("To undo it: toolyard"))
    undone = CliRunner().invoke(toolyard, words)

    assert "'x y.txt'" in told
    assert undone.exit_code == 0, undone.output
    assert not (work / "x y.txt").exists()
    assert (work / "own.txt").read_text() == "later"


def test_a_merge_that_changes_nothing_says_nothing_of_undoing(team):
    team.write("agent_b", "x.txt", "hello")
    team.run("share", "merge", "agent_b", "x.txt")

    again = team.run("share", "merge", "agent_b", "x.txt")

    assert again.exit_code == 0
    assert again.stdout.splitlines()[1:] == ["The same on both sides: 1"]


@pytest.mark.parametrize("side", ["ours", "theirs"])
def test_conflicts_are_settled_by_the_side_that_is_asked_for(team, side):
    team.write("agent_b", "x.txt", "theirs\n")
    (team.work("agent_a") / "x.txt").write_text("ours\n")

    done = team.run("share", "merge", "agent_b", "x.txt", f"--{side}")

    assert done.exit_code == 0, done.output
    assert (team.work("agent_a") / "x.txt").read_text() == f"{side}\n"


def test_conflicts_are_not_settled_by_both_sides(team):
    done = team.run("share", "merge", "agent_b", "x.txt", "--ours", "--theirs")

    assert done.exit_code == 2
    assert "--ours or --theirs" in done.output


def test_without_an_agent_it_is_told_who_has_shared_what(team):
    team.write("agent_b", "x.txt", "hello")

    told = team.run("share", "list", agent="").stdout.splitlines()
    facts = team.json("share", "list", agent="")

    assert [line.split()[0] for line in told] == ["agent_a", "agent_b"]
    assert told[0].endswith("has shared nothing yet")
    assert f"{team.path}/team/shared/agent_b" in told[1]
    assert [(one["agent"], bool(one["snapshot"])) for one in facts] == [("agent_a", False), ("agent_b", True)]
    assert facts[1]["files"] == ["x.txt"]


def test_conflicts_that_are_still_marked_are_an_exit_code(team):
    team.write("agent_b", "x.txt", "theirs\n")
    (team.work("agent_a") / "x.txt").write_text("ours\n")
    team.run("share", "merge", "agent_b", "x.txt")

    again = team.run("share", "merge", "agent_b", "x.txt")

    assert again.exit_code == 1
    assert "x.txt (still has conflict markers" in again.stdout


def test_where_nothing_came_from_anywhere_that_is_said(team):
    assert team.run("share", "origin").stdout == "Nothing was merged here yet.\n"
    assert team.run("share", "origin", "x.txt").stdout == "x.txt was not merged from another agent.\n"


def test_looking_as_the_user_does_not_count_as_the_agents_look(team):
    team.write("agent_b", "x.txt", "1")

    team.run("share", "list")
    assert "You have not looked at it before." in team.run("share", "list").stdout


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("share", "merge", "agent_x", "x"), "agent_b"),
        (("share", "merge", "agent_b", "nothing.txt"), "shared nothing yet"),
    ],
)
def test_mistakes_are_told_kindly(team, words, said):
    done = team.run(*words)

    assert isinstance(done.exception, ToolyardError)
    assert said in str(done.exception)


def test_an_agent_alone_is_told_what_sharing_needs(tmp_path):
    work = tmp_path / "work"
    work.mkdir()

    done = CliRunner().invoke(toolyard, ["share", "list", "--workspace", str(work), "--state", str(tmp_path / "s")])

    assert isinstance(done.exception, ToolyardError)
    assert "no other agents" in str(done.exception)


@pytest.mark.parametrize("command", ["list", "merge", "diff", "origin"])
def test_help_has_an_example(command):
    said = CliRunner().invoke(toolyard, ["share", command, "--help"]).output

    assert "Example" in said
    assert f"toolyard share {command}" in said

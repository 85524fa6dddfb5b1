"""`toolyard exec --fork`: code and commands that change nothing of the workspace."""

import json
import os
import signal
import subprocess
import sys
import time

import pytest
from click.testing import CliRunner

from tests.support.unprivileged import OrdinaryUser, why_not
from toolyard.cli.main import toolyard

SECONDS = 50
PROJECT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.realpath(__file__))))
NO_NAMESPACES = "its own mount namespace"
NO_OVERLAY = """
import sys
from toolyard.snapshots.forks import forks

def refused(*_, **__):
    raise OSError(22, "Invalid argument")

forks.mount_overlay = refused
from toolyard.cli.main import main
sys.argv[0] = "toolyard"
main()
"""
SHOP = '''
def note(where: str, text: str) -> str:
    """Write a note."""
    with open(where, "w") as file:
        file.write(text)
    return "noted"
'''


class Runner:
    def __init__(self, base):
        self.base = base
        self.workspace = base / "ws"
        (self.workspace / "sub").mkdir(parents=True)
        (self.workspace / "a.txt").write_text("a\n")
        (self.workspace / "sub" / "b.txt").write_text("b\n")
        self.where = ["--workspace", str(self.workspace), "--state", str(base / "state")]
        self.program = ["-m", "toolyard"]

    def line(self, *words):
        return [sys.executable, *self.program, *words, *self.where]

    def __call__(self, *words, code=0, config=None):
        if config is not None:
            (self.base / "config.json").write_text(json.dumps(config))
            words = (*words, "--config", str(self.base / "config.json"))
        done = subprocess.run(
            self.line(*words),
            cwd=self.workspace,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            check=False,
            text=True,
            timeout=SECONDS,
        )
        if NO_NAMESPACES in done.stderr:
            pytest.skip(done.stderr)
        assert done.returncode == code, done.stdout + done.stderr
        return done

    def aside(self, *words):
        """What a command says that makes no fork: it can run in this process."""
        ran = CliRunner().invoke(toolyard, [*words, *self.where], catch_exceptions=False)
        assert ran.exit_code == 0, ran.output
        return ran.stdout

    def tree(self):
        """Every file of the workspace, with its content."""
        paths = (path for path in self.workspace.rglob("*") if path.is_file())
        return {str(path.relative_to(self.workspace)): path.read_text() for path in paths}

    def forks(self):
        """What lies in the folders of forks."""
        return [name for folder in (self.base / "state").glob("*/forks/forks") for name in os.listdir(folder)]


@pytest.fixture
def run(tmp_path):
    return Runner(tmp_path.resolve())


def test_what_a_command_changes_is_listed_and_thrown_away(run):
    before = run.tree()
    done = run(
        "exec", "--fork", "--bash", "-c", "pwd; cat a.txt; echo more >> a.txt; rm -r sub; echo n > new; cat new"
    )
    assert done.stdout == f"{run.workspace}\na\nn\n"
    *listed, said = done.stderr.splitlines()
    assert listed == ["M a.txt", "A new", "D sub", "D sub/b.txt"]
    assert said.startswith("[These changes were made in a fork of snapshot ")
    assert (run.tree(), run.forks()) == (before, [])


def test_python_runs_in_one_too_and_json_tells_the_changes(run):
    before = run.tree()
    done = run("exec", "--fork", "--json", "-c", "open('a.txt', 'w').write('other'); 20 + 22")
    fields = json.loads(done.stdout)
    (newest,) = json.loads(run.aside("snapshot", "list", "--json"))
    assert fields["value"] == "42"
    assert fields["fork"].pop("how") in {"mounted", "shared", "copied"}
    told = {"snapshot": newest["id"], "missing": [], "kept": None}
    assert fields["fork"] == {**told, "changes": [{"path": "a.txt", "what": "M"}]}
    assert done.stderr.startswith("M a.txt\n")
    assert run.tree() == before


def test_a_run_that_changes_nothing_says_so(run):
    assert run("exec", "--fork", "-c", "1").stderr.startswith("[Nothing was changed in the fork of snapshot ")


def test_an_older_snapshot_can_be_forked(run):
    first = json.loads(run.aside("snapshot", "create", "--json"))["id"]
    (run.workspace / "a.txt").write_text("changed since\n")
    before = run.tree()
    assert run("exec", "--fork", first[:6], "--bash", "-c", "cat a.txt; echo x > a.txt").stdout == "a\n"
    assert run("exec", "--fork", "latest", "--bash", "-c", "cat a.txt").stdout == "a\n"
    assert run.tree() == before
    assert 'There is no snapshot "beef"' in run("exec", "--fork", "beef", "-c", "1", code=1).stderr


def test_what_is_kept_can_be_looked_at_and_brought_into_the_workspace(run):
    before = run.tree()
    done = run("exec", "--fork", "--keep", "--json", "--bash", "-c", "echo new > a.txt; rm -r sub; echo n > new")
    fork = json.loads(done.stdout)["fork"]
    assert f"Kept as snapshot {fork['kept']}." in done.stderr
    assert run.tree() == before
    shown = run.aside("snapshot", "diff", fork["snapshot"], fork["kept"], "--stat")
    assert [line[:1] for line in shown.splitlines()[:-1]] == ["M", "A", "D", "D"]
    run.aside("snapshot", "restore", fork["kept"], "a.txt")
    assert run.tree() == {**before, "a.txt": "new\n"}
    run.aside("snapshot", "restore", fork["kept"])
    assert run.tree() == {"a.txt": "new\n", "new": "n\n"}


def test_the_policy_of_the_workspace_holds_in_it(run):
    (run.workspace / ".git").mkdir()
    (run.workspace / ".git" / "config").write_text("[core]\n")
    (run.workspace / "secret.txt").write_text("hidden")
    config = {"permissions": {"deny": ["Read(secret.txt)"]}}
    done = run("exec", "--fork", "--bash", "-c", "cat secret.txt; echo x >> .git/config", code=1, config=config)
    assert "hidden" not in done.stdout
    assert "Read-only file system" in done.stderr
    assert "[Nothing was changed in the fork" in done.stderr


def test_the_audit_log_is_that_of_the_workspace(run):
    run("exec", "--fork", "--bash", "-c", "true")
    events = [json.loads(line) for line in run.aside("audit", "--json").splitlines()]
    assert [event["tool"] for event in events] == ["fork", "execute_bash"]
    assert "fork of snapshot" in events[0]["reason"]
    assert "hash chain verified" in run.aside("audit", "--verify")
    assert len(os.listdir(run.base / "state")) == 1


def test_tools_that_run_outside_the_sandbox_work_in_the_fork(run):
    (run.base / "shop.py").write_text(SHOP)
    config = {"toolyard": {"available_custom_tools": [{"group": "shop", "path": "shop.py"}]}}
    places = ("relative.txt", str(run.workspace / "absolute.txt"))
    calls = "".join(f"print(await note(where={place!r}, text='t'))\n" for place in places)
    run("sync", config=config)
    before = run.tree()
    done = run("exec", "--fork", "-c", f"from tools.shop import note\n{calls}", config=config)
    assert done.stdout == "noted\nnoted\n"
    assert done.stderr.splitlines()[:-1] == ["A absolute.txt", "A relative.txt"]
    assert run.tree() == before


def test_figures_are_kept_in_the_workspace_itself(run):
    code = "import matplotlib.pyplot as p; p.plot([1, 2]); p.show()"
    run("exec", "--fork", "--images", str(run.workspace / "kept"), "-c", code)
    assert (run.workspace / "kept" / "image-1.png").read_bytes().startswith(b"\x89PNG")


def test_what_an_agent_of_several_does_in_a_fork_is_neither_shared_nor_mixed_with_links(run):
    agents = [{"id": "ada", "backend": {}}, {"id": "ben", "backend": {}}]
    config = {"toolyard": {"workspace": "root"}, "agents": agents}
    run.where = run.where[2:]
    code = "echo draft > plan.md; ls -d memory/ skills/ shared/"
    done = run("exec", "--agent", "ada", "--fork", "--keep", "--bash", "-c", code, config=config)
    assert done.stdout == "memory/\nshared/\nskills/\n"
    first, said = done.stderr.splitlines()
    assert (first, said[: len("[Kept as snapshot")]) == ("A plan.md", "[Kept as snapshot")
    assert not [*(run.base / "root").rglob("plan.md")]


def test_a_copy_takes_the_place_of_an_overlay_and_is_told(run):
    before = run.tree()
    run.program = ["-c", NO_OVERLAY]
    done = run("exec", "--fork", "--keep", "--bash", "-c", "echo x > a.txt; rm sub/b.txt")
    assert "[The fork is a copy: this machine does not allow overlay mounts: Invalid argument.]" in done.stderr
    assert done.stderr.splitlines()[1:3] == ["M a.txt", "D sub/b.txt"]
    assert (run.tree(), run.forks()) == (before, [])


def started(run, *words):
    """A run that goes on, once it has."""
    process = subprocess.Popen(
        run.line("exec", "--fork", "--bash", "-c", "echo x > begun; sleep 300", *words),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    until = time.monotonic() + SECONDS
    state = run.base / "state"
    while not [*state.glob("*/forks/forks/*/upper/begun"), *state.glob("*/forks/forks/*/tree/begun")]:
        if process.poll() is not None or time.monotonic() > until:
            process.kill()
            said = "".join(process.communicate())
            if NO_NAMESPACES in said:
                pytest.skip(said)
            pytest.fail(said)
        time.sleep(0.02)
    return process


def test_an_interrupted_run_leaves_nothing_behind(run):
    before = run.tree()
    with started(run) as process:
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=SECONDS)
    assert process.returncode == 130
    assert "A begun\n" in err
    assert (run.tree(), run.forks()) == (before, [])


def test_what_a_killed_run_left_goes_with_the_next(run):
    before = run.tree()
    with started(run) as process:
        process.kill()
        process.communicate(timeout=SECONDS)
    with open("/proc/self/mountinfo") as table:
        assert str(run.base) not in table.read()
    (left,) = run.forks()
    assert run.tree() == before
    run("exec", "--fork", "-c", "1")
    assert run.forks() == [], left


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--keep", "-c", "1"), "--keep needs --fork."),
        (("--fork", "script.py"), "script.py was read as the SNAPSHOT of --fork."),
    ],
)
def test_wrong_use_is_told(run, words, said):
    assert said in run("exec", *words, code=2).stderr


def test_a_workspace_that_toolyard_runs_from_is_refused(run):
    run.where[1] = os.path.join(PROJECT, "src")
    assert "Toolyard itself is installed inside" in run("exec", "--fork", "-c", "1", code=2).stderr


def test_a_container_which_would_see_the_workspace_itself_is_refused(run):
    config = {"toolyard": {"code_execution": {"mode": "docker"}}}
    assert "not the fork" in run("exec", "--fork", "-c", "1", config=config, code=2).stderr


@pytest.mark.slow
@pytest.mark.skipif(bool(why_not()), reason=why_not())
@pytest.mark.timeout(120)
def test_an_ordinary_user_has_forks():
    program = f"{sys.executable} -m toolyard"
    script = f"""
        mkdir ws ws/d; cd ws; echo a > a; echo b > d/b
        {program} exec --state ../state --fork --bash -c 'rm -r d; mkdir d; echo z > d/z; mv a c'
        cat a d/b
    """
    with OrdinaryUser(PROJECT) as user:
        if why := user.why_not():
            pytest.skip(why)
        done = user.run(["bash", "-c", script], seconds=90)
    if NO_NAMESPACES in done.stderr:
        pytest.skip(done.stderr)
    assert done.stdout == "a\nb\n", done.stderr
    assert done.stderr.splitlines()[:-1] == ["D a", "A c", "D d/b", "A d/z"]

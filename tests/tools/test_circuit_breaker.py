"""Destructive commands through the whole product. What fails here may delete its workspace, and nothing else."""

import os
import subprocess
import sys

import pytest

from toolyard.core.calls import Call
from toolyard.core.errors import SecurityError
from toolyard.core.permission_modes import PermissionMode

pytestmark = pytest.mark.destructive

FILES = ("a.txt", ".env", ".git/HEAD")
WHOLE = [".env", ".git", "a.txt"]
EVERYTHING = "rm -rf ./* .git .env"
ASKS = "needs an explicit yes in every mode"


@pytest.fixture
def filled(open_bench):
    def opened(mode=None, **config):
        bench = open_bench(mode, **config)
        for name in FILES:
            bench.write(name, "mine")
        return bench

    return opened


def left(bench):
    return sorted(os.listdir(bench.path))


@pytest.mark.parametrize("mode", PermissionMode)
@pytest.mark.parametrize(
    ("tool", "more"), [("Bash", {}), ("Bash", {"run_in_background": True}), ("execute_bash", {})]
)
async def test_nothing_is_deleted_where_nobody_can_be_asked(filled, mode, tool, more):
    bench = filled(mode, permissions={"allow": ["Bash(*)", "*"]})
    refused = await bench.fails(SecurityError, tool, command=EVERYTHING, **more)
    assert left(bench) == WHOLE
    assert ASKS in refused.message or mode is PermissionMode.PLAN
    assert "No one can approve it here" in refused.message or mode is PermissionMode.PLAN


@pytest.mark.parametrize("mode", [PermissionMode.STRICT, PermissionMode.BYPASS])
async def test_the_question_says_what_would_be_lost_and_the_answer_counts(filled, mode):
    bench = filled(mode)
    asked = []

    async def answer(action, decision):
        asked.append(decision.reason)
        return len(asked) > 1

    call = Call("Bash", {"command": "rm -rf ./*"}, "test", ask=answer)
    with pytest.raises(SecurityError, match="The answer was no"):
        await bench.yard.dispatch(call)
    assert left(bench) == WHOLE
    await bench.yard.dispatch(call)
    assert left(bench) == [".env", ".git"]
    assert f"deletes everything in the workspace {os.path.realpath(bench.path)}" in asked[0]
    assert len(asked) == 2


async def test_a_command_is_judged_from_the_folder_that_the_last_one_ended_in(filled):
    bench = filled()
    await bench.call("Bash", command="mkdir -p build/x && cd build")
    await bench.call("Bash", command="rm -rf *")
    assert left(bench) == [*WHOLE, "build"]
    await bench.call("Bash", command="cd ..")
    await bench.fails(SecurityError, "Bash", command="rm -rf *")
    assert left(bench) == [*WHOLE, "build"]


async def test_the_switch_lets_it_run_unasked(filled):
    bench = filled(toolyard={"code_execution": {"allow_destructive": True}})
    await bench.call("Bash", command="rm -rf ./*")
    assert left(bench) == [".env", ".git"]


async def test_a_tool_does_not_move_a_home_or_the_repository_away_unasked(filled, tmp_path):
    bench = filled(PermissionMode.BYPASS)
    for source in (f"{tmp_path}/home", f"{bench.path}/.git"):
        refused = await bench.fails(SecurityError, "move_file", source=source, destination=f"{tmp_path}/moved")
        assert ASKS in refused.message
    assert left(bench) == WHOLE
    assert (tmp_path / "home").is_dir()


@pytest.mark.parametrize("mode", ["strict", "bypassPermissions"])
def test_the_command_line_refuses_it_too(tmp_path, mode):
    (tmp_path / "ws" / ".git").mkdir(parents=True)
    (tmp_path / "ws" / "a.txt").write_text("mine")
    done = subprocess.run(
        (
            *(sys.executable, "-m", "toolyard", "exec", "--state", str(tmp_path / "state")),
            *("--permission-mode", mode, "--bash", "-c", "find . -delete"),
        ),
        cwd=tmp_path / "ws",
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode != 0
    assert ASKS in done.stderr
    assert sorted(os.listdir(tmp_path / "ws")) == [".git", "a.txt"]

"""Writable context paths have snapshots of their own, which the command line reaches as any folder's."""

import json

import pytest
from click.testing import CliRunner

from toolyard.cli.main import toolyard
from toolyard.core.calls import Call
from toolyard.core.errors import SystemFault, ToolError


@pytest.fixture
def context(spot):
    folder = spot.folder / "context"
    folder.mkdir()
    (folder / "precious.txt").write_text("precious")
    return folder


def opened(spot, context, permission="write", **section):
    paths = [{"path": str(context), "permission": permission}]
    section = {"watch": False, **section}
    return spot.yard(orchestrator={"context_paths": paths}, snapshots=section, mode="bypassPermissions")


async def call(yard, tool, /, **arguments):
    return await yard.dispatch(Call(tool, arguments, "test", session="s"))


def run(spot, *words):
    return CliRunner().invoke(toolyard, [*words, "--state", str(spot.folder / "yards")])


@pytest.mark.parametrize("way", ["Bash", "Write"])
async def test_what_is_destroyed_in_a_context_path_comes_back(spot, context, way):
    yard = opened(spot, context)
    path = str(context / "precious.txt")
    if way == "Bash":
        await call(yard, "Bash", command=f"rm {path}")
    else:
        await call(yard, "Read", file_path=path)
        await call(yard, "Write", file_path=path, content="overwritten")
    yard.close()
    listed = json.loads(run(spot, "snapshot", "list", "--workspace", str(context), "--json").stdout)
    assert "before a change" in {each["reason"] for each in listed}
    undone = run(spot, "snapshot", "restore", listed[-1]["id"], "--workspace", str(context))
    assert undone.exit_code == 0, undone.output
    assert (context / "precious.txt").read_text() == "precious"
    collected = run(spot, "snapshot", "gc", "--keep", "1", "--yes", "--workspace", str(context))
    assert collected.exit_code == 0, collected.output


async def test_one_that_is_only_read_has_none(spot, context):
    yard = opened(spot, context, permission="read")
    await call(yard, "Bash", command="touch new")
    assert yard.contexts == ()


async def test_a_context_path_without_a_snapshot_is_announced_and_refused_as_the_workspace_is(spot, context):
    (spot.root / "a.txt").unlink()
    for name in range(20):
        (context / f"{name}.txt").write_text("x")
    yard = opened(spot, context, most_files=10)
    with pytest.raises(ToolError, match=f"Nothing was run yet.*{context}.*most_files"):
        await call(yard, "Bash", command=f"rm {context}/precious.txt")
    yard.close()
    strict = opened(spot, context, most_files=10, required=True)
    with pytest.raises(SystemFault, match=r"snapshots\.required"):
        await call(strict, "Write", file_path=str(context / "new.txt"), content="x")
    assert (context / "precious.txt").exists()

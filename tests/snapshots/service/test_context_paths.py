"""Writable context paths have snapshots of their own, which the command line reaches as any folder's."""

import json

import pytest
from click.testing import CliRunner

from toolyard.cli.main import toolyard
from toolyard.core.calls import Call
from toolyard.core.errors import SecurityError, SystemFault, ToolError, ValidationError


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
    assert yard.context_snapshots == ()


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


async def test_an_agent_lists_compares_and_restores_the_snapshots_of_a_context_path(spot, context):
    yard = opened(spot, context)
    path = context / "precious.txt"
    await call(yard, "Read", file_path=str(path))
    await call(yard, "Write", file_path=str(path), content="overwritten")
    listed = (await call(yard, "snapshot_list", context=str(context))).structured["snapshots"]
    first = listed[-1]["id"]
    assert listed[-1]["reason"] == "before a change"
    shown = await call(yard, "snapshot_show", snapshot=first, path="precious.txt", context="context")
    assert shown.structured["bytes"] == len("precious")
    compared = await call(yard, "snapshot_diff", before=first, context=str(context))
    assert [each["path"] for each in compared.structured["changes"]] == ["precious.txt"]
    for named in (["precious.txt"], [str(path)], None):
        path.write_text("overwritten")
        await call(yard, "snapshot_restore", snapshot=first, paths=named, context=str(context))
        assert path.read_text() == "precious"
    made = await call(yard, "snapshot_create", reason="mine", context="context")
    assert (await call(yard, "snapshot_list", context="context")).structured["snapshots"][0]["id"] == made.structured[
        "id"
    ]


async def test_the_policy_holds_in_the_snapshots_of_a_context_path(spot, context):
    (context / "secret.txt").write_text("secret")
    (context / "locked.txt").write_text("old")
    paths = [{"path": str(context), "permission": "write"}]
    yard = spot.yard(
        orchestrator={"context_paths": paths},
        snapshots={"watch": False},
        permissions={"deny": [f"Read({context}/secret.txt)", f"Write({context}/locked.txt)"]},
    )
    made = (await call(yard, "snapshot_create", context=str(context))).structured["id"]
    (context / "secret.txt").write_text("changed")
    (context / "locked.txt").write_text("new")
    with pytest.raises(SecurityError):
        await call(yard, "snapshot_show", path="secret.txt", context=str(context))
    compared = (await call(yard, "snapshot_diff", before=made, context=str(context))).structured
    assert ([each["path"] for each in compared["changes"]], compared["hidden"]) == (["locked.txt"], 1)
    await call(yard, "snapshot_restore", snapshot=made, context=str(context))
    assert (context / "locked.txt").read_text() == "new"
    with pytest.raises(SecurityError, match="outside"):
        await call(yard, "snapshot_show", path=str(spot.root), context=str(context))


@pytest.mark.parametrize("name", ["elsewhere", "/etc", ".."])
async def test_a_folder_that_is_no_writable_context_path_is_refused_with_those_that_are(spot, context, name):
    yard = opened(spot, context)
    for tool, more in (("snapshot_list", {}), ("snapshot_restore", {"snapshot": "latest"})):
        with pytest.raises(ValidationError, match=f"not a writable context path.*{context}"):
            await call(yard, tool, context=name, **more)

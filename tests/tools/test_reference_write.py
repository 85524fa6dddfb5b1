"""write_file, edit_file, create_directory, move_file."""

import os

import pytest

from toolyard.core.errors import FieldError, SecurityError, ToolError, ValidationError
from toolyard.core.permission_modes import PermissionMode


async def test_write_file_creates_and_replaces(bench):
    path = os.path.join(bench.path, "new/a.txt")
    result = await bench.call("write_file", path=path, content="one\n")
    assert (result.text, result.structured) == (f"Successfully wrote to {path}", {"content": result.text})
    await bench.call("write_file", path=path, content="zwei: ü")
    assert bench.read("new/a.txt") == "zwei: ü".encode()


async def test_edit_file_answers_with_a_diff_and_keeps_line_ends(bench):
    path = bench.write("a.txt", "one\r\ntwo\r\nthree\r\n")
    edits = [{"oldText": "one\ntwo", "newText": "1\n2"}, {"oldText": "2", "newText": "22"}]
    expected = (
        f"```diff\nIndex: {path}\n{'=' * 67}\n--- {path}\toriginal\n+++ {path}\tmodified\n"
        "@@ -1,3 +1,3 @@\n-one\n-two\n+1\n+22\n three\n```\n\n"
    )
    assert (await bench.call("edit_file", path="a.txt", edits=edits)).structured == {"content": expected}
    assert bench.read("a.txt") == b"1\r\n22\r\nthree\r\n"


async def test_a_dry_run_shows_the_same_diff_and_writes_nothing(bench):
    bench.write("a.txt", "one\n")
    arguments = {"path": "a.txt", "edits": [{"oldText": "one", "newText": "two"}]}
    preview = await bench.call("edit_file", **arguments, dryRun=True)
    assert bench.read("a.txt") == b"one\n"
    assert await bench.call("edit_file", **arguments) == preview


async def test_a_dry_run_only_reads(open_bench):
    bench = open_bench(PermissionMode.PLAN)
    bench.write("a.txt", "one\n")
    arguments = {"path": "a.txt", "edits": [{"oldText": "one", "newText": "two"}]}
    assert "+two" in (await bench.call("edit_file", **arguments, dryRun=True)).text
    await bench.fails(SecurityError, "edit_file", **arguments)


async def test_a_diff_with_backticks_gets_a_longer_fence(bench):
    bench.write("a.md", "```\n")
    result = await bench.call("edit_file", path="a.md", edits=[{"oldText": "```", "newText": "````"}])
    assert result.text.startswith("`````diff\n")
    assert result.text.endswith("\n`````\n\n")


async def test_edits_are_made_all_or_none_and_say_what_is_near(bench):
    bench.write("a.txt", "alpha\nbeta beta\nold_string here\n")
    edits = [{"oldText": "alpha", "newText": "x"}, {"oldText": "old_strings here", "newText": "y"}]
    error = await bench.fails(ToolError, "edit_file", path="a.txt", edits=edits)
    assert error.message.startswith("Edit 2 of 2: oldText was not found in the file. The closest text is on line 3")
    assert error.message.endswith("     3\told_string here\n")
    assert error.hint == "Send oldText exactly as the file has it, without the line numbers."
    assert bench.read("a.txt") == b"alpha\nbeta beta\nold_string here\n"


async def test_an_edit_names_one_place(bench):
    bench.write("a.txt", "beta beta\n")
    error = await bench.fails(ToolError, "edit_file", path="a.txt", edits=[{"oldText": "beta", "newText": "x"}])
    assert "oldText occurs 2 times" in error.message
    assert error.hint == "Add lines before or after it so that it names one place."


@pytest.mark.parametrize(
    ("edit", "field", "fault"),
    [
        ({"oldText": "a", "newText": "a"}, "edits.0.newText", "is the same as oldText, so there is nothing to do"),
        ({"oldText": "\ud800", "newText": "a"}, "edits.0.oldText", "is not valid Unicode"),
        ({"oldText": "", "newText": "b"}, "oldText", "is empty, and the file is not. Nothing was written."),
        ({"oldText": "a"}, "edits.0.newText", "is required"),
        ({"old_text": "a", "newText": "b"}, "edits.0.oldText", "is required"),
    ],
)
async def test_edits_that_cannot_be_meant_name_their_argument(bench, edit, field, fault):
    bench.write("a.txt", "a")
    error = await bench.fails(ValidationError, "edit_file", path="a.txt", edits=[edit])
    assert error.fields[0] == FieldError(field, fault)
    assert bench.read("a.txt") == b"a"


async def test_no_edits_are_refused_and_so_is_a_file_that_is_not_there(bench):
    await bench.fails(ValidationError, "edit_file", path="a.txt", edits=[])
    for dry in (True, False):
        await bench.fails(ToolError, "edit_file", path="a.txt", edits=[{"oldText": "a", "newText": "b"}], dryRun=dry)
    assert bench.names() == []


async def test_create_directory_makes_parents_and_leaves_what_is_there(bench):
    for _ in range(2):
        result = await bench.call("create_directory", path="a/b/c")
        assert result.structured == {"content": "Successfully created directory a/b/c"}
    assert bench.names() == ["a", "a/b", "a/b/c"]
    bench.write("file")
    await bench.fails(ToolError, "create_directory", path="file")


async def test_move_file_renames_files_and_folders(bench):
    bench.write("a/x.txt", "x")
    result = await bench.call("move_file", source="a/x.txt", destination="a/y.txt")
    assert result.structured == {"content": "Successfully moved a/x.txt to a/y.txt"}
    await bench.call("move_file", source="a", destination="b/c")
    assert bench.names() == ["b", "b/c", "b/c/y.txt"]


@pytest.mark.parametrize(
    ("source", "destination", "kind"),
    [
        ("gone", "new", ToolError),
        ("a", "b", ToolError),
        ("a", "a", ToolError),
        ("folder", "folder/inside", ValidationError),
        (".", "new", ToolError),
        ("link", "new", ToolError),
        ("a", "link", ToolError),
        ("a", "../out", SecurityError),
        ("../out", "new", SecurityError),
        ("a", "out/new", SecurityError),
        ("a", "b/new", ToolError),
        ("", "new", ValidationError),
        ("a", "", ValidationError),
    ],
)
async def test_a_move_that_would_lose_or_escape_changes_nothing(bench, source, destination, kind):
    bench.write("a", "A")
    bench.write("b", "B")
    bench.write("folder/x")
    os.symlink("a", f"{bench.path}/link")
    os.symlink("..", f"{bench.path}/out")
    before = bench.names()
    await bench.fails(kind, "move_file", source=source, destination=destination)
    assert bench.names() == before
    assert (bench.read("a"), bench.read("b"), os.readlink(f"{bench.path}/link")) == (b"A", b"B", "a")


async def test_a_file_is_moved_through_a_linked_folder_but_a_link_is_not_moved(bench):
    bench.write("real/x", "X")
    os.symlink("real", f"{bench.path}/alias")
    await bench.call("move_file", source="alias/x", destination="y")
    assert bench.names() == ["alias", "real", "y"]
    error = await bench.fails(ToolError, "move_file", source="alias", destination="z")
    assert error.hint == f"If that is meant, move {bench.path}/real."


@pytest.mark.parametrize("held", ["repo/.git/hooks/pre-commit", "repo/deep/sub/.git/config", "repo/x.lock"])
async def test_a_folder_that_holds_a_protected_path_is_not_moved(open_bench, held):
    bench = open_bench(permissions={"protected_paths": ["*.lock"]})
    bench.write(held)
    bench.write("repo/other.txt")
    error = await bench.fails(SecurityError, "move_file", source="repo", destination="moved")
    assert error.message.startswith("repo cannot be moved because of its content. Writing ")
    assert os.path.exists(f"{bench.path}/{held}")
    assert not os.path.exists(f"{bench.path}/moved")


async def test_nothing_is_put_in_a_protected_place_by_moving_the_folder_around_it(open_bench):
    bench = open_bench(permissions={"protected_paths": ["/stage-*/prod/key"]})
    bench.write("tmp/prod/key", "evil")
    await bench.fails(SecurityError, "move_file", source="tmp", destination="stage-1")
    assert bench.names() == ["tmp", "tmp/prod", "tmp/prod/key"]


async def test_a_folder_is_not_moved_to_read_what_a_rule_hides_in_it(open_bench):
    bench = open_bench(permissions={"deny": ["Read(src/secret.txt)"]})
    bench.write("src/secret.txt", "s")
    bench.write("src/a.txt")
    await bench.fails(SecurityError, "move_file", source="src", destination="src2")
    assert bench.names() == ["src", "src/a.txt", "src/secret.txt"]


async def test_an_ordinary_folder_moves_beside_protected_ones(open_bench):
    bench = open_bench(permissions={"protected_paths": ["*.lock"], "deny": ["Read(src/secret.txt)"]})
    bench.write("src/a/b.txt")
    bench.write("src/secret.txt")
    await bench.call("move_file", source="src/a", destination="lib")
    assert bench.names() == ["lib", "lib/b.txt", "src", "src/secret.txt"]


async def test_moving_a_folder_asks_once_for_the_folder_and_again_for_what_a_rule_names(open_bench):
    bench = open_bench(PermissionMode.DEFAULT, permissions={"ask": ["Write(*.env)"]})
    for name in ("a", "b", "x.env"):
        bench.write(f"src/{name}")
    asked = []

    async def yes(action, decision):
        asked.append((action.kind.value, os.path.relpath(action.path, bench.path)))
        return True

    await bench.call("move_file", source="src", destination="lib", ask=yes)
    assert asked == [("write", "src"), ("write", "lib"), ("write", "src/x.env"), ("write", "lib/x.env")]
    assert bench.names() == ["lib", "lib/a", "lib/b", "lib/x.env"]


async def test_a_folder_that_another_root_lies_in_is_not_moved(open_bench, tmp_path):
    (tmp_path / "ws/outer/inner").mkdir(parents=True)
    context = {"path": str(tmp_path / "ws/outer/inner"), "permission": "write"}
    bench = open_bench(orchestrator={"context_paths": [context]})
    await bench.fails(ToolError, "move_file", source="outer", destination="new")
    assert bench.names() == ["outer", "outer/inner"]


async def test_nothing_is_changed_in_plan_mode(open_bench):
    bench = open_bench(PermissionMode.PLAN)
    bench.write("a", "A")
    await bench.fails(SecurityError, "write_file", path="a", content="x")
    await bench.fails(SecurityError, "create_directory", path="b")
    await bench.fails(SecurityError, "move_file", source="a", destination="b")
    assert (bench.names(), bench.read("a")) == (["a"], b"A")

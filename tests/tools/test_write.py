"""Write, Edit and MultiEdit, through dispatch."""

import asyncio
import os
import stat

import pytest

from toolyard.core.calls import Result, Text
from toolyard.core.errors import FieldError, SecurityError, ToolError, ValidationError


def hunk(old_start, old_lines, new_start, new_lines, *lines):
    """A hunk of a structured patch, as Claude Code spells it."""
    return {
        "oldStart": old_start,
        "oldLines": old_lines,
        "newStart": new_start,
        "newLines": new_lines,
        "lines": list(lines),
    }


async def test_write_creates_a_file_with_its_folders_and_replaces_it(bench):
    assert await bench.call("Write", file_path="new/a.txt", content="a\nb") == Result(
        (Text("Created new/a.txt (2 lines, 3 bytes)."),),
        {"path": "new/a.txt", "created": True, "bytes": 3, "lines": 2, "structuredPatch": []},
    )
    assert await bench.call("Write", file_path=f"{bench.path}/new/a.txt", content="") == Result(
        (Text("Replaced new/a.txt (0 lines, 0 bytes)."),),
        {
            "path": "new/a.txt",
            "created": False,
            "bytes": 0,
            "lines": 0,
            "structuredPatch": [hunk(1, 2, 1, 0, "-a", "-b", "\\ No newline at end of file")],
        },
    )
    assert await bench.call("Write", file_path="new/a.txt", content="a") == Result(
        (Text("Replaced new/a.txt (1 line, 1 byte)."),),
        {
            "path": "new/a.txt",
            "created": False,
            "bytes": 1,
            "lines": 1,
            "structuredPatch": [hunk(1, 0, 1, 1, "+a", "\\ No newline at end of file")],
        },
    )
    assert bench.names() == ["new", "new/a.txt"]


async def test_write_refuses_a_file_that_changed_since_it_was_read(bench):
    path = bench.write("a.txt", "mine")
    await bench.call("Read", file_path="a.txt")
    bench.write("a.txt", "theirs")
    error = await bench.fails(ToolError, "Write", file_path=path, content="clobbered")
    assert error.message == "a.txt has changed since it was last read; nothing was written."
    assert (error.hint, bench.read("a.txt")) == ("Read it again, then write.", b"theirs")
    await bench.call("Read", file_path="a.txt")
    await bench.call("Write", file_path="a.txt", content="new")
    assert bench.read("a.txt") == b"new"


async def test_write_refuses_a_file_that_the_session_has_not_read(bench):
    bench.write("a.txt", "the user's own work\n")
    error = await bench.fails(ToolError, "Write", file_path="a.txt", content="x")
    assert error.message == "a.txt exists and has not been read in this session; nothing was written."
    assert error.hint == "Read it first, then write. Edit changes a part of it."
    await bench.call("Read", file_path="a.txt", caller="other")
    await bench.fails(ToolError, "Write", file_path="a.txt", content="x")
    assert bench.read("a.txt") == b"the user's own work\n"
    await bench.call("Read", file_path="a.txt", limit=1)
    await bench.call("Write", file_path="a.txt", content="x")
    assert bench.read("a.txt") == b"x"


async def test_an_edit_is_no_reading(bench):
    bench.write("a.txt", "one\n" + "much that was never shown\n" * 100)
    await bench.call("Edit", file_path="a.txt", old_string="one", new_string="1")
    error = await bench.fails(ToolError, "Write", file_path="a.txt", content="x")
    assert "has not been read in this session" in error.message


async def test_whoever_read_a_file_may_write_it_after_an_edit_unless_somebody_else_changed_it(bench):
    bench.write("a.txt", "one\n")
    await bench.call("Read", file_path="a.txt")
    await bench.call("Edit", file_path="a.txt", old_string="one", new_string="two")
    await bench.call("Write", file_path="a.txt", content="three\n")
    bench.write("a.txt", "three\nand what the user added\n")
    await bench.call("Edit", file_path="a.txt", old_string="three", new_string="four")
    error = await bench.fails(ToolError, "Write", file_path="a.txt", content="x")
    assert error.message == "a.txt has changed since it was last read; nothing was written."


async def test_an_empty_file_can_be_written_unread(bench):
    bench.write("a.txt", "")
    await bench.call("Write", file_path="a.txt", content="x")
    assert bench.read("a.txt") == b"x"


async def test_a_binary_file_that_cannot_be_read_is_not_replaced_and_the_hint_says_what_to_do(bench):
    bench.write("a.bin", b"\x7fELF\0\0\1")
    error = await bench.fails(ToolError, "Write", file_path="a.bin", content="x")
    assert error.hint.startswith("Read cannot show it, because it is binary.")


async def test_the_configuration_can_allow_writing_unread(open_bench):
    bench = open_bench(limits={"overwrite_unread": True})
    bench.write("a.txt", "old")
    await bench.call("Write", file_path="a.txt", content="new")
    assert bench.read("a.txt") == b"new"


async def test_write_file_keeps_the_contract_of_the_reference_server_and_replaces_what_is_there(bench):
    bench.write("a.txt", "old")
    await bench.call("write_file", path="a.txt", content="new")
    assert bench.read("a.txt") == b"new"


async def test_a_long_patch_has_whole_hunks_and_says_that_some_are_missing(bench):
    lines = [f"line {number}" for number in range(2_000)]
    bench.write("a.txt", "\n".join(lines))
    await bench.call("Read", file_path="a.txt")
    lines[5], lines[1_000:] = "changed", ["x" * 20] * 1_000
    result = await bench.call("Write", file_path="a.txt", content="\n".join(lines))
    assert result.structured["patch_truncated"] is True
    assert result.structured["structuredPatch"] == []  # so far apart that it is one block
    lines[5] = "again"
    result = await bench.call("Write", file_path="a.txt", content="\n".join(lines))
    assert "patch_truncated" not in result.structured
    assert [part["oldStart"] for part in result.structured["structuredPatch"]] == [3]


async def test_a_patch_shows_no_lines_of_binary_content(open_bench):
    bench = open_bench(limits={"overwrite_unread": True})
    bench.write("a.bin", b"\x7fELF\0\0\1")
    result = await bench.call("Write", file_path="a.bin", content="text\n")
    assert (result.structured["structuredPatch"], result.structured["patch_truncated"]) == ([], True)


async def test_multi_edit_carries_one_patch_for_all_its_edits(bench):
    bench.write("a.txt", "".join(f"{number}\n" for number in range(1, 21)))
    edits = [{"old_string": "2\n3", "new_string": "two\n3"}, {"old_string": "19", "new_string": "nineteen"}]
    result = await bench.call("MultiEdit", file_path="a.txt", edits=edits)
    assert result.structured["structuredPatch"] == [
        hunk(1, 5, 1, 5, " 1", "-2", "+two", " 3", " 4", " 5"),
        hunk(16, 5, 16, 5, " 16", " 17", " 18", "-19", "+nineteen", " 20"),
    ]


async def test_a_file_that_was_only_touched_can_be_written(bench):
    path = bench.write("a.txt", "same")
    await bench.call("Read", file_path="a.txt")
    bench.write("a.txt", "same", mtime=1_000)
    await bench.call("Write", file_path=path, content="new")
    assert bench.read("a.txt") == b"new"


async def test_what_one_session_read_does_not_speak_for_another(bench):
    bench.write("a.txt", "old")
    await bench.call("Read", file_path="a.txt", caller="one")
    bench.write("a.txt", "newer")
    await bench.call("Read", file_path="a.txt", caller="two")
    await bench.fails(ToolError, "Write", file_path="a.txt", content="x", caller="one")
    await bench.call("Write", file_path="a.txt", content="x", caller="two")


async def test_a_file_keeps_its_mode(bench):
    path = bench.write("run.sh", "old")
    os.chmod(path, 0o755)
    await bench.call("Read", file_path="run.sh")
    await bench.call("Write", file_path="run.sh", content="one")
    await bench.call("Edit", file_path="run.sh", old_string="one", new_string="two")
    assert (stat.S_IMODE(os.stat(path).st_mode), bench.read("run.sh")) == (0o755, b"two")


async def test_edit_replaces_the_one_place_and_shows_it(bench):
    bench.write("a.txt", "one\ntwo\nthree\n")
    snippet = "     1\tone\n     2\t2\n     3\tthree"
    assert await bench.call("Edit", file_path="a.txt", old_string="two", new_string="2") == Result(
        (Text(f"Edited a.txt: 1 replacement.\n{snippet}"),),
        {
            "path": "a.txt",
            "created": False,
            "replacements": [1],
            "snippet": snippet,
            "structuredPatch": [hunk(1, 3, 1, 3, " one", "-two", "+2", " three")],
        },
    )
    assert bench.read("a.txt") == b"one\n2\nthree\n"


async def test_edit_wants_one_place_unless_it_is_told_to_replace_all(bench):
    bench.write("a.txt", "x\nx\n")
    error = await bench.fails(ToolError, "Edit", file_path="a.txt", old_string="x", new_string="y")
    assert error.message.startswith("old_string occurs 2 times, and must occur once: on lines 1, 2.")
    assert ("replace_all" in error.hint, bench.read("a.txt")) == (True, b"x\nx\n")
    result = await bench.call("Edit", file_path="a.txt", old_string="x", new_string="y", replace_all=True)
    assert (result.structured["replacements"], bench.read("a.txt")) == ([2], b"y\ny\n")


async def test_an_edit_that_misses_shows_the_closest_text(bench):
    bench.write("a.py", "def f():\n    return 1\n")
    error = await bench.fails(
        ToolError, "Edit", file_path="a.py", old_string="def f():\n\treturn 1", new_string="def f():\n\treturn 2"
    )
    assert "the indentation differs: the file uses spaces, old_string tabs" in error.message
    assert "     1\tdef f():\n     2\t    return 1" in error.message
    assert bench.read("a.py") == b"def f():\n    return 1\n"


async def test_edits_leave_line_ends_and_other_bytes_alone(bench):
    bench.write("crlf", b"a\r\nb\r\nc\r\n")
    await bench.call("Edit", file_path="crlf", old_string="a\nb", new_string="x\ny\nz")
    assert bench.read("crlf") == b"x\r\ny\r\nz\r\nc\r\n"
    bench.write("latin", b"caf\xe9 one \xff")
    await bench.call("Edit", file_path="latin", old_string="one", new_string="two")
    assert bench.read("latin") == b"caf\xe9 two \xff"


async def test_an_empty_old_string_writes_a_new_file_and_never_an_old_one(bench):
    result = await bench.call("Edit", file_path="new", old_string="", new_string="x")
    assert (result.structured["created"], bench.read("new")) == (True, b"x")
    await bench.fails(ValidationError, "Edit", file_path="new", old_string="", new_string="y")
    assert bench.read("new") == b"x"


async def test_multi_edit_works_on_the_result_of_the_edit_before(bench):
    bench.write("a.txt", "one\n")
    twice = {"old_string": "two", "new_string": "3", "replace_all": True}
    edits = [{"old_string": "one", "new_string": "two two"}, twice]
    result = await bench.call("MultiEdit", file_path="a.txt", edits=edits)
    assert (result.structured["replacements"], bench.read("a.txt")) == ([1, 2], b"3 3\n")


async def test_multi_edit_makes_all_edits_or_none(bench):
    bench.write("a.txt", "one\n")
    edits = [{"old_string": "one", "new_string": "two"}, {"old_string": "gone", "new_string": "x"}]
    error = await bench.fails(ToolError, "MultiEdit", file_path="a.txt", edits=edits)
    assert error.message.startswith("Edit 2 of 2: old_string was not found")
    assert "None of the edits was written." in error.message
    assert bench.read("a.txt") == b"one\n"


async def test_forty_edits_at_once_are_all_kept(bench):
    bench.write("a.txt", "".join(f"<{n}>\n" for n in range(40)))
    calls = [bench.call("Edit", file_path="a.txt", old_string=f"<{n}>", new_string=f"[{n}]") for n in range(40)]
    await asyncio.gather(*calls)
    assert bench.read("a.txt") == "".join(f"[{n}]\n" for n in range(40)).encode()


@pytest.mark.parametrize(
    ("tool", "arguments", "fields"),
    [
        ("Write", {"file_path": "a"}, [("content", "is required")]),
        ("Write", {"file_path": "a", "content": "\ud800"}, [("content", "is not valid Unicode")]),
        ("Write", {"file_path": " ", "content": ""}, [("file_path", "is empty")]),
        (
            "Edit",
            {"file_path": "a", "old_string": "x", "new_string": "x"},
            [("new_string", "is the same as old_string, so there is nothing to do")],
        ),
        ("Edit", {"file_path": "a", "old_string": "x"}, [("new_string", "is required")]),
        ("MultiEdit", {"file_path": "a", "edits": [{"old_string": "x"}]}, [("edits.0.new_string", "is required")]),
        (
            "MultiEdit",
            {"file_path": "a", "edits": [{"old_string": "\udfff", "new_string": "x"}]},
            [("edits.0.old_string", "is not valid Unicode")],
        ),
    ],
)
async def test_arguments_that_cannot_be_right_are_named(bench, tool, arguments, fields):
    error = await bench.fails(ValidationError, tool, **arguments)
    assert error.fields == tuple(FieldError(*pair) for pair in fields)
    assert bench.names() == []


@pytest.mark.parametrize("path", ["../out", "/etc/new", ".git/hooks/pre-commit", ".git/config", "toolyard.yaml"])
async def test_nothing_is_written_outside_or_over_what_is_protected(bench, path):
    edits = [{"old_string": "", "new_string": "x"}]
    await bench.fails(SecurityError, "Write", file_path=path, content="x")
    await bench.fails(SecurityError, "Edit", file_path=path, **edits[0])
    await bench.fails(SecurityError, "MultiEdit", file_path=path, edits=edits)
    assert bench.names() == []


async def test_too_much_is_not_written(open_bench):
    bench = open_bench(limits={"file_bytes": 10})
    await bench.fails(ValidationError, "Write", file_path="a", content="x" * 11)
    assert bench.names() == []

"""Grep, Glob and LS, through dispatch."""

import os

import pytest

from toolyard.core.calls import Result, Text
from toolyard.core.errors import SecurityError, ToolError, ValidationError


@pytest.fixture
def filled(bench):
    bench.write("src/old.py", "import os\nfoo = 1\n", mtime=1_000)
    bench.write("src/new.ts", "foo bar\nFOO\nbaz\n", mtime=2_000)
    bench.write(".gitignore", "ignored/\n", mtime=500)
    bench.write("ignored/z.py", "foo\n", mtime=3_000)
    return bench


async def grep(bench, **arguments):
    return (await bench.call("Grep", **arguments)).structured


async def test_grep_lists_files_the_newest_first_and_respects_gitignore(filled):
    files = ["src/new.ts", "src/old.py"]
    assert await filled.call("Grep", pattern="foo") == Result(
        (Text("\n".join(files)),),
        {"mode": "files_with_matches", "files": files, "matches": 2, "truncated": False},
    )


async def test_grep_shows_matching_lines_with_their_numbers(filled):
    content = "src/new.ts:1:foo bar\nsrc/old.py:2:foo = 1"
    assert await filled.call("Grep", pattern="foo", output_mode="content") == Result(
        (Text(content),),
        {
            "mode": "content",
            "files": ["src/new.ts", "src/old.py"],
            "matches": 2,
            "truncated": False,
            "content": content,
        },
    )


async def test_grep_counts(filled):
    found = await grep(filled, pattern="foo", output_mode="count", **{"-i": True})
    assert (found["content"], found["matches"]) == ("src/new.ts:2\nsrc/old.py:1", 3)


@pytest.mark.parametrize(
    ("options", "content"),
    [
        ({"-n": False}, "src/new.ts:FOO"),
        ({"-A": 1}, "src/new.ts:2:FOO\nsrc/new.ts-3-baz"),
        ({"-B": 1}, "src/new.ts-1-foo bar\nsrc/new.ts:2:FOO"),
        ({"-C": 1}, "src/new.ts-1-foo bar\nsrc/new.ts:2:FOO\nsrc/new.ts-3-baz"),
        ({"context": 1}, "src/new.ts-1-foo bar\nsrc/new.ts:2:FOO\nsrc/new.ts-3-baz"),
    ],
)
async def test_grep_shows_lines_around_a_match(filled, options, content):
    assert (await grep(filled, pattern="FOO", output_mode="content", **options))["content"] == content


@pytest.mark.parametrize(
    ("options", "files"),
    [
        ({"glob": "*.py"}, ["src/old.py"]),
        ({"glob": "*.{py,ts}"}, ["src/new.ts", "src/old.py"]),
        ({"type": "ts"}, ["src/new.ts"]),
        ({"path": "src/old.py"}, ["src/old.py"]),
        ({"glob": None, "type": None}, ["src/new.ts", "src/old.py"]),
        ({"head_limit": 1}, ["src/new.ts"]),
        ({"head_limit": 1, "offset": 1}, ["src/old.py"]),
        ({"head_limit": 0}, ["src/new.ts", "src/old.py"]),
    ],
)
async def test_grep_looks_where_it_is_told(filled, options, files):
    assert (await grep(filled, pattern="foo", **options))["files"] == files


async def test_grep_matches_across_lines_only_when_asked(filled):
    found = await grep(filled, pattern="os\\nfoo", multiline=True, output_mode="content")
    assert found["content"] == "src/old.py:1:import os\nsrc/old.py:2:foo = 1"
    assert (await filled.call("Grep", pattern="os.foo")).text == "No matches found."


async def test_what_grep_leaves_out_is_said(filled):
    result = await filled.call("Grep", pattern="foo", head_limit=1)
    assert result.structured["truncated"]
    assert result.text == f"src/new.ts\n\n[{result.structured['note']}]"


async def test_a_pattern_is_never_taken_for_an_option(filled):
    filled.write("dash.txt", "--version here\n")
    assert (await grep(filled, pattern="--version"))["files"] == ["dash.txt"]


async def test_glob_lists_files_the_newest_first_and_respects_gitignore(filled):
    files = ["src/new.ts", "src/old.py"]
    assert await filled.call("Glob", pattern="**/*.{py,ts}") == Result(
        (Text("\n".join(files)),), {"files": files, "total": 2, "truncated": False}
    )
    assert (await filled.call("Glob", pattern="*.py", path="src")).structured["files"] == ["src/old.py"]
    assert (await filled.call("Glob", pattern=f"{filled.path}/src/*.py")).structured["files"] == ["src/old.py"]
    assert (await filled.call("Glob", pattern="*.rs")).text == "No files found."


async def test_glob_says_what_it_leaves_out(open_bench):
    bench = open_bench(limits={"list_entries": 1})
    bench.write("old", mtime=1_000)
    bench.write("new", mtime=2_000)
    found = (await bench.call("Glob", pattern="*")).structured
    assert (found["files"], found["total"], found["truncated"]) == (["new"], 2, True)
    assert found["note"]


async def test_ls_shows_a_tree(filled):
    os.symlink("src", f"{filled.path}/link")
    tree = ".gitignore\nignored/\n  z.py\nlink -> src\nsrc/\n  new.ts\n  old.py"
    assert await filled.call("LS") == Result(
        (Text(f"./\n{tree}"),), {"path": ".", "tree": tree, "entries": 7, "truncated": False}
    )


async def test_ls_leaves_out_what_is_ignored_by_name(filled):
    found = (await filled.call("LS", ignore=["ignored", "*.py", ".*"])).structured
    assert found == {"path": ".", "tree": "src/\n  new.ts", "entries": 2, "truncated": False}
    assert (await filled.call("LS", path="src")).text == "src/\nnew.ts\nold.py"


async def test_ls_of_an_empty_folder_says_so(bench):
    assert (await bench.call("LS")).text == "./\n(empty)"


async def test_what_a_rule_hides_is_found_by_nothing(open_bench):
    bench = open_bench(permissions={"deny": ["Read(secret/**)"]})
    bench.write("secret/key", "foo")
    bench.write("open", "foo")
    assert (await grep(bench, pattern="foo"))["files"] == ["open"]
    assert (await bench.call("Glob", pattern="**/*")).structured["files"] == ["open"]
    assert (await bench.call("LS")).structured["tree"] == "open"
    for tool, arguments in (("Grep", {"pattern": "foo"}), ("Glob", {"pattern": "*"}), ("LS", {})):
        await bench.fails(SecurityError, tool, path="secret", **arguments)


@pytest.mark.parametrize(
    ("tool", "arguments", "kind"),
    [
        ("Grep", {}, ValidationError),
        ("Grep", {"pattern": ""}, ValidationError),
        ("Grep", {"pattern": "("}, ValidationError),
        ("Grep", {"pattern": "x", "output_mode": "lines"}, ValidationError),
        ("Grep", {"pattern": "x", "-A": -1}, ValidationError),
        ("Grep", {"pattern": "x", "type": "no-such-type"}, ValidationError),
        ("Grep", {"pattern": "x", "path": "gone"}, ToolError),
        ("Grep", {"pattern": "x", "path": ".."}, SecurityError),
        ("Glob", {"pattern": ""}, ValidationError),
        ("Glob", {"pattern": "../*"}, SecurityError),
        ("Glob", {"pattern": "/etc/*"}, SecurityError),
        ("Glob", {"pattern": "*", "path": "/etc"}, SecurityError),
        ("LS", {"path": "/etc"}, SecurityError),
        ("LS", {"path": "gone"}, ToolError),
        ("LS", {"path": ".gitignore"}, ToolError),
        ("LS", {"ignore": ["{a,b}" * 20]}, ValidationError),
        ("LS", {"ignore": "x"}, ValidationError),
    ],
)
async def test_searches_that_cannot_be_made_are_refused(filled, tool, arguments, kind):
    await filled.fails(kind, tool, **arguments)

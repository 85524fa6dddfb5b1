"""The listings, search_files, get_file_info and list_allowed_directories."""

import json
import os
import re

import pytest

from toolyard.core.errors import SecurityError, ToolError, ValidationError
from toolyard.core.permission_modes import PermissionMode
from toolyard.tools.reference.list import size_text


@pytest.fixture
def filled(bench):
    bench.write("b.txt", "hello")
    bench.write("a/deep/y.py", "y")
    bench.write("a/x.py", "x" * 1536)
    os.mkdir(f"{bench.path}/empty")
    os.symlink("/etc", f"{bench.path}/out")
    return bench


async def told(bench, tool, **arguments):
    result = await bench.call(tool, **arguments)
    assert result.structured == {"content": result.text}
    return result.text


async def test_a_folder_is_listed_by_name_with_its_kinds(filled):
    assert await told(filled, "list_directory", path=".") == "[DIR] a\n[FILE] b.txt\n[DIR] empty\n[FILE] out"
    assert await told(filled, "list_directory", path="empty") == ""


async def test_sizes_come_in_columns_with_their_sum(filled):
    assert await told(filled, "list_directory_with_sizes", path="a") == (
        "[DIR] deep                           \n"
        "[FILE] x.py                              1.50 KB\n"
        "\n"
        "Total: 1 files, 1 directories\n"
        "Combined size: 1.50 KB"
    )
    filled.write("a/Big.bin", b"." * 4096)
    lines = (await told(filled, "list_directory_with_sizes", path="a", sortBy="size")).split("\n")
    assert [line.split()[1] for line in lines[:3]] == ["Big.bin", "x.py", "deep"]
    lines = (await told(filled, "list_directory_with_sizes", path="a")).split("\n")
    assert [line.split()[1] for line in lines[:3]] == ["Big.bin", "deep", "x.py"]


async def test_the_size_behind_a_link_is_not_told(filled):
    os.symlink("/etc/passwd", f"{filled.path}/a/link")
    text = await told(filled, "list_directory_with_sizes", path="a")
    assert "[FILE] link                                  0 B\n" in text


@pytest.mark.parametrize(
    ("size", "text"),
    [
        (0, "0 B"),
        (1023, "1023 B"),
        (1024, "1.00 KB"),
        (1024**2, "1.00 MB"),
        (1024**3 - 1, "1024.00 MB"),
        (1024**5, "1024.00 TB"),
    ],
)
def test_sizes_are_told_in_the_largest_unit_that_fits(size, text):
    assert size_text(size) == text


async def test_a_tree_is_json_in_which_folders_have_children(filled):
    text = await told(filled, "directory_tree", path=".")
    tree = [
        {
            "name": "a",
            "type": "directory",
            "children": [
                {"name": "deep", "type": "directory", "children": [{"name": "y.py", "type": "file"}]},
                {"name": "x.py", "type": "file"},
            ],
        },
        {"name": "b.txt", "type": "file"},
        {"name": "empty", "type": "directory", "children": []},
        {"name": "out", "type": "file"},
    ]
    assert text == json.dumps(tree, indent=2)


@pytest.mark.parametrize(
    ("patterns", "kept"),
    [
        (["deep"], ["a", "x.py", "b.txt", "empty", "out"]),
        (["*.py", "empty"], ["a", "deep", "b.txt", "out"]),
        (["deep/y.py"], ["a", "deep", "x.py", "b.txt", "empty", "out"]),
        (["**"], []),
    ],
)
async def test_excluded_names_stay_out_of_a_tree(filled, patterns, kept):
    text = await told(filled, "directory_tree", path=".", excludePatterns=patterns)
    assert re.findall(r'"name": "(.*)"', text) == kept


async def test_a_tree_that_is_too_long_keeps_its_upper_levels_and_says_so(open_bench):
    bench = open_bench(limits={"output_chars": 600})
    bench.write("a/b/c/d/e/f", "")
    bench.write("z", "")
    result = await bench.call("directory_tree", path=".")
    assert re.findall(r'"name": "(.*)"', result.structured["content"]) == ["a", "b", "c", "z"]
    assert len(result.structured["content"]) <= 600
    assert result.structured["note"] == "3 more entries are left out."
    json.loads(result.structured["content"])


async def test_a_very_deep_tree_is_no_trouble(bench):
    fd = os.open(bench.path, os.O_RDONLY)
    for _ in range(400):
        os.mkdir("d", dir_fd=fd)
        below = os.open("d", os.O_RDONLY, dir_fd=fd)
        os.close(fd)
        fd = below
    os.close(fd)
    result = await bench.call("directory_tree", path=".")
    assert len(result.structured["content"]) <= bench.yard.limits.output_chars
    await bench.call("move_file", source="d", destination="e")
    assert sorted(os.listdir(bench.path)) == ["e"]


async def test_names_are_found_by_pattern_with_full_paths(filled):
    root = filled.path
    assert await told(filled, "search_files", path=".", pattern="**/*.py") == f"{root}/a/deep/y.py\n{root}/a/x.py"
    assert await told(filled, "search_files", path="a", pattern="*.py") == f"{root}/a/x.py"
    assert await told(filled, "search_files", path="a", pattern="**/deep") == f"{root}/a/deep"
    excluded = {"path": ".", "pattern": "**/*.py", "excludePatterns": ["deep"]}
    assert await told(filled, "search_files", **excluded) == f"{root}/a/x.py"
    assert await told(filled, "search_files", path=".", pattern="*.rs") == "No matches found"


async def test_long_listings_and_searches_say_what_is_left_out(open_bench):
    bench = open_bench(limits={"list_entries": 3, "output_chars": 40})
    for name in "abcd":
        bench.write(name)
    result = await bench.call("list_directory", path=".")
    assert result.structured["content"] == "[FILE] a\n[FILE] b\n[FILE] c"
    assert "first 3 entries" in result.structured["note"]
    bench = open_bench(limits={"output_chars": len(bench.path) + 4})
    result = await bench.call("search_files", path=".", pattern="*")
    assert result.structured["content"] == f"{bench.path}/a"
    assert result.structured["note"].startswith("3 more matches are left out")


async def test_what_a_rule_hides_is_in_no_listing(open_bench):
    bench = open_bench(permissions={"deny": ["Read(secret*)"]})
    bench.write("secret.txt")
    bench.write("open.txt")
    for tool in ("list_directory", "list_directory_with_sizes", "directory_tree"):
        assert "secret" not in await told(bench, tool, path=".")
    assert await told(bench, "search_files", path=".", pattern="*") == f"{bench.path}/open.txt"
    await bench.fails(SecurityError, "get_file_info", path="secret.txt")


async def test_what_is_known_of_a_file_is_told(filled):
    path = filled.write("info", "12345", mtime=1_700_000_000)
    os.chmod(path, 0o640)
    facts = dict(line.split(": ", 1) for line in (await told(filled, "get_file_info", path="info")).split("\n"))
    date = "Tue Nov 14 2023 22:13:20 GMT+0000 (Coordinated Universal Time)"
    assert re.fullmatch(r"unknown|\w{3} \w{3} \d\d \d{4} [\d:]{8} GMT\+0000 \(.*\)", facts.pop("created"))
    assert facts == {
        "size": "5",
        "modified": date,
        "accessed": date,
        "isDirectory": "false",
        "isFile": "true",
        "permissions": "640",
    }
    assert "isDirectory: true\nisFile: false" in await told(filled, "get_file_info", path="empty")
    os.mkfifo(f"{filled.path}/pipe")
    assert "isDirectory: false\nisFile: false" in await told(filled, "get_file_info", path="pipe")


@pytest.mark.parametrize("tool", ["list_directory", "list_directory_with_sizes", "directory_tree", "get_file_info"])
async def test_what_is_not_there_or_leads_out_is_refused(filled, tool):
    await filled.fails(ToolError, tool, path="gone")
    await filled.fails(SecurityError, tool, path="out")
    await filled.fails(SecurityError, tool, path="/etc")
    await filled.fails(ValidationError, tool, path="")
    await filled.fails(ValidationError, tool)
    if tool != "get_file_info":
        await filled.fails(ToolError, tool, path="b.txt")


@pytest.mark.parametrize("pattern", ["", "{a,b}" * 20, "x" * 3_000])
async def test_patterns_that_cannot_be_are_refused(filled, pattern):
    await filled.fails(ValidationError, "search_files", path=".", pattern=pattern)
    await filled.fails(ValidationError, "search_files", path=".", pattern="*", excludePatterns=[pattern])
    await filled.fails(ValidationError, "directory_tree", path=".", excludePatterns=[pattern])


async def test_the_open_folders_are_listed_without_touching_any(open_bench, tmp_path):
    (tmp_path / "beside").mkdir()
    context = {"path": str(tmp_path / "beside")}
    bench = open_bench(orchestrator={"context_paths": [context]})
    expected = f"Allowed directories:\n{bench.path}\n{tmp_path}/beside"
    assert await told(bench, "list_allowed_directories") == expected
    bench = open_bench(PermissionMode.BYPASS)
    assert await told(bench, "list_allowed_directories") == f"Allowed directories:\n{bench.path}\n/"
    await bench.fails(ValidationError, "list_allowed_directories", path=".")

"""The workspace's files as resources, through dispatch."""

import base64
import os

import pytest

from toolyard.core.errors import SecurityError, ToolError, ValidationError
from toolyard.tools.resources import LIST_RESOURCES, READ_RESOURCE


async def test_files_are_listed_with_their_uris_and_types(bench):
    bench.write("a b.txt")
    bench.write("src/x.py")
    os.mkdir(f"{bench.path}/empty")
    assert (await bench.call(LIST_RESOURCES)).structured == {
        "resources": [
            {"uri": f"file://{bench.path}/a%20b.txt", "name": "a b.txt", "media_type": "text/plain"},
            {"uri": f"file://{bench.path}/src/x.py", "name": "src/x.py", "media_type": "text/x-python"},
        ]
    }


async def test_many_files_are_listed_page_by_page(bench):
    names = sorted(f"f{n:03}" for n in range(450))
    for name in names:
        bench.write(name)
    listed, after = [], ""
    while True:
        page = (await bench.call(LIST_RESOURCES, after=after)).structured
        listed += [entry["name"] for entry in page["resources"]]
        if "next" not in page:
            break
        after = page["next"]
    assert listed == names


async def test_a_text_is_read_as_text_and_other_files_as_bytes(bench):
    bench.write("ü.txt", "grün\n")
    bench.write("x.bin", b"\0\1")
    uris = {entry["name"]: entry["uri"] for entry in (await bench.call(LIST_RESOURCES)).structured["resources"]}
    assert (await bench.call(READ_RESOURCE, uri=uris["ü.txt"])).structured == {
        "text": "grün\n",
        "media_type": "text/plain",
    }
    assert (await bench.call(READ_RESOURCE, uri=uris["x.bin"])).structured == {
        "blob": base64.b64encode(b"\0\1").decode(),
        "media_type": "application/octet-stream",
    }


async def test_what_a_rule_hides_is_neither_listed_nor_read(open_bench):
    bench = open_bench(permissions={"deny": ["Read(secret)"]})
    bench.write("secret")
    assert (await bench.call(LIST_RESOURCES)).structured == {"resources": []}
    await bench.fails(SecurityError, READ_RESOURCE, uri=f"file://{bench.path}/secret")


@pytest.mark.parametrize(
    ("uri", "kind"),
    [
        ("http://host/a", ValidationError),
        ("file://elsewhere/a", ValidationError),
        ("file:///etc/passwd", SecurityError),
        ("file:///etc/passwd?x", ValidationError),
        ("file:///{ws}/%2e%2e/out", SecurityError),
        ("file:///{ws}/a%00b", ValidationError),
        ("file:///{ws}/gone", ToolError),
        ("", ValidationError),
    ],
)
async def test_a_uri_that_names_no_file_of_ours_is_refused(bench, uri, kind):
    await bench.fails(kind, READ_RESOURCE, uri=uri.replace("/{ws}", bench.path))


async def test_what_was_read_as_a_resource_is_known_to_write(bench):
    path = bench.write("a.txt", "mine")
    await bench.call(READ_RESOURCE, uri=f"file://{path}")
    bench.write("a.txt", "theirs")
    await bench.fails(ToolError, "Write", file_path="a.txt", content="x")

"""The workspace's files as resources, over the wire."""

from __future__ import annotations

import base64
import os

import pytest

pytestmark = pytest.mark.slow  # a start of the server for each test, in every era

PAGE = 200
PNG = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
)


def read(client, uri):
    return client.request("resources/read", {"uri": uri})


def test_the_template_covers_every_file_of_the_workspace(place, modern):
    with place.stdio(modern=modern) as client:
        templates = client.request("resources/templates/list")["result"]["resourceTemplates"]
    assert templates == [
        {
            "name": "file",
            "description": "A file of the workspace",
            "uriTemplate": f"file://{place.workspace}/{{+path}}",
        },
        {"name": "skill", "description": "A file of a skill", "uriTemplate": "skill://{owner}/{name}/{+path}"},
    ]


def test_pages_follow_each_other_without_gaps_or_repeats(place, modern):
    names = sorted(f"folder/{number:04}.txt" for number in range(2 * PAGE + 5))
    for name in names:
        place.write(name, "x")
    pages: list[list[str]] = []
    with place.stdio(modern=modern) as client:
        cursor: dict[str, str] = {}
        while True:
            result = client.request("resources/list", cursor)["result"]
            pages.append([found["name"] for found in result["resources"]])
            if "nextCursor" not in result:
                break
            cursor = {"cursor": result["nextCursor"]}
    assert [len(page) for page in pages] == [PAGE, PAGE, 5]
    assert [name for page in pages for name in page] == names


def test_text_comes_as_text_and_bytes_as_base64(place, modern):
    text, image = place.write("a.py", "print(1)\n"), place.write("dot.png", PNG)
    with place.stdio(modern=modern) as client:
        found = [read(client, f"file://{path}")["result"]["contents"] for path in (text, image)]
    assert found == [
        [{"uri": f"file://{text}", "text": "print(1)\n", "mimeType": "text/x-python"}],
        [{"uri": f"file://{image}", "blob": base64.b64encode(PNG).decode(), "mimeType": "image/png"}],
    ]


def test_names_that_need_quoting_can_be_read_as_they_were_listed(place, modern):
    names = ["a b.txt", "100%.txt", "caf\u00e9.txt", "hash#1.txt", "what?.txt"]
    for name in names:
        place.write(name, name)
    with place.stdio(modern=modern) as client:
        listed = client.request("resources/list")["result"]["resources"]
        shown = {found["name"]: read(client, found["uri"])["result"]["contents"][0]["text"] for found in listed}
    assert shown == {name: name for name in names}


def test_what_is_no_file_of_the_workspace_is_refused(place, modern):
    os.symlink("/etc/passwd", os.path.join(place.workspace, "link"))
    codes = {
        "file:///etc/passwd": -32001,
        "file://{ws}/../../etc/passwd": -32001,
        "file://{ws}/%2e%2e/state": -32001,
        "file://{ws}-evil/a.txt": -32001,
        "file://{ws}/link": -32001,
        "file://elsewhere.example{ws}/a.txt": -32602,
        "http://localhost{ws}/a.txt": -32602,
        "file://{ws}/a%00.txt": -32602,
        "": -32602,
        "file://[": -32602,
        "file://{ws}/missing.txt": -32603,
        "file://{ws}": -32603,
    }
    with place.stdio(modern=modern) as client:
        answers = {uri: read(client, uri.replace("{ws}", place.workspace)) for uri in codes}
        assert "result" in client.request("resources/list")
    assert {uri: answer["error"]["code"] for uri, answer in answers.items()} == codes
    named = {uri: answer["error"]["data"]["uri"] for uri, answer in answers.items()}
    assert named == {uri: uri.replace("{ws}", place.workspace) for uri in codes}


def test_every_listing_and_reading_is_recorded(place):
    path = place.write("a.txt", "x")
    with place.stdio() as client:
        client.request("resources/list")
        read(client, f"file://{path}")
    assert [(event.tool, event.target) for event in place.events()] == [
        ("resources/list", place.workspace),
        ("resources/read", path),
    ]

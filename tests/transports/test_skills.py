"""Skills over the wire: as resources, and with their manifests as the protocol's extension for skills has them."""

from __future__ import annotations

import base64
import hashlib
import os

import pytest

pytestmark = pytest.mark.slow  # a start of the server for each test, in every era

PAGE = "---\nname: {name}\ndescription: Does it.\nmetadata:\n  level: 3\n---\n# How\n"
FILES = {"SKILL.md": PAGE.format(name="pdf-forms"), "references/a b.md": "more", "scripts/go.py": "print(1)\n"}
PNG = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
)
UNKNOWN = -32602


@pytest.fixture
def skill(place):
    for path, text in FILES.items():
        place.write(f"skills/community/pdf_forms/{path}", text)
    place.write("skills/community/pdf_forms/dot.png", PNG)
    place.write("skills/community/pdf_forms/.hidden", "x")
    return "skill://community/pdf-forms"


def test_the_page_of_a_skill_is_listed_and_every_file_of_it_read(place, modern, skill):
    with place.stdio(modern=modern) as client:
        listed = client.request("resources/list")["result"]["resources"]
        read = {
            path: client.request("resources/read", {"uri": f"{skill}/{path}"})["result"]["contents"][0]
            for path in ("SKILL.md", "references/a%20b.md", "scripts/go.py", "dot.png")
        }
    assert [found for found in listed if found["uri"].startswith("skill:")] == [
        {
            "uri": f"{skill}/SKILL.md",
            "name": "pdf-forms",
            "description": "Does it.",
            "mimeType": "text/markdown",
        }
    ]
    assert read["SKILL.md"]["text"] == FILES["SKILL.md"]
    assert read["references/a%20b.md"]["text"] == "more"
    assert read["scripts/go.py"]["mimeType"] == "text/x-python"
    assert base64.b64decode(read["dot.png"]["blob"]) == PNG


INSIDE = [
    "",
    "gone/SKILL.md",
    "pdf-forms",
    "pdf-forms/",
    "pdf-forms/.hidden",
    "pdf-forms/../pdf_forms/SKILL.md",
    "pdf-forms/%2e%2e/%2e%2e/%2e%2e/secret",
    "pdf-forms//SKILL.md",
    "pdf_forms/SKILL.md",
]


def test_what_is_no_file_of_a_skill_is_unknown(place, modern, skill):
    place.write("secret", "s")
    uris = [f"skill://community/{inside}" for inside in INSIDE]
    with place.stdio(modern=modern) as client:
        errors = [client.request("resources/read", {"uri": uri})["error"] for uri in uris]
    assert [(error["code"], error["data"]["uri"]) for error in errors] == [(UNKNOWN, uri) for uri in uris]


def test_the_manifest_of_a_skill_is_whole_and_true(place, modern, skill):
    with place.stdio(modern=modern) as client:
        listed = client.request("skills/list")["result"]
        (entry,) = listed["skills"]
        got = client.request("skills/get", {"uri": f"{skill}/SKILL.md"})["result"]
    assert entry == got["skill"]
    assert entry["uri"] == f"{skill}/SKILL.md"
    assert entry["frontmatter"] == {"name": "pdf-forms", "description": "Does it.", "metadata": {"level": 3}}
    data = {**{path: text.encode() for path, text in FILES.items()}, "dot.png": PNG}
    assert {(file["uri"], file["digest"], file["size"]) for file in entry["resources"]} == {
        (f"{skill}/{path.replace(' ', '%20')}", f"sha256:{hashlib.sha256(content).hexdigest()}", len(content))
        for path, content in data.items()
    }
    for result in (listed, got):
        said = {key: result.get(key) for key in ("resultType", "ttlMs", "cacheScope")}
        assert said == (
            {"resultType": "complete", "ttlMs": 0, "cacheScope": "private"} if modern else dict.fromkeys(said)
        )


def test_a_skill_that_nobody_serves_is_unknown(place, modern, skill):
    with place.stdio(modern=modern) as client:
        for uri in ("skill://community/gone/SKILL.md", f"{skill}/scripts/go.py", "file:///etc/passwd", ""):
            assert client.request("skills/get", {"uri": uri})["error"]["code"] == UNKNOWN
        assert client.request("skills/get", {})["error"]["code"] == UNKNOWN


def test_skills_are_told_page_by_page(place, modern):
    names = [f"s{number:03}" for number in range(120)]
    for name in names:
        place.write(f"skills/a/{name}/SKILL.md", PAGE.format(name=name))
    found: list[list[str]] = []
    with place.stdio(modern=modern) as client:
        cursor: dict[str, str] = {}
        while True:
            result = client.request("skills/list", cursor)["result"]
            found.append([entry["frontmatter"]["name"] for entry in result["skills"]])
            if "nextCursor" not in result:
                break
            cursor = {"cursor": result["nextCursor"]}
    assert [len(page) for page in found] == [50, 50, 20]
    assert [name for page in found for name in page] == names


def test_a_skill_with_a_link_or_a_broken_page_has_no_manifest(place, modern, skill):
    os.symlink("/etc/passwd", f"{place.workspace}/skills/community/pdf_forms/link")
    place.write("skills/community/broken/SKILL.md", "no header")
    place.write("skills/community/shouting/SKILL.md", PAGE.format(name="NO NAME"))
    with place.stdio(modern=modern) as client:
        assert client.request("skills/list")["result"]["skills"] == []
        listed = client.request("resources/list")["result"]["resources"]
        assert client.request("resources/read", {"uri": f"{skill}/link"})["error"]["code"] == -32001
    assert [found["uri"] for found in listed if found["uri"].startswith("skill:")] == [f"{skill}/SKILL.md"]


def test_what_the_policy_hides_is_not_served(place, modern, skill):
    place.write("toolyard.yaml", "permissions: {deny: ['Read(skills/community/pdf_forms/scripts/**)']}\n")
    with place.stdio(modern=modern) as client:
        assert client.request("skills/list")["result"]["skills"] == []
        codes = [
            client.request("resources/read", {"uri": f"{skill}/{path}"}).get("error", {}).get("code")
            for path in ("SKILL.md", "scripts/go.py")
        ]
    assert codes == [None, -32001]


def test_a_page_that_the_policy_hides_is_not_even_listed(place, modern, skill):
    place.write("toolyard.yaml", "permissions: {deny: ['Read(skills/community/pdf_forms/SKILL.md)']}\n")
    with place.stdio(modern=modern) as client:
        listed = client.request("resources/list")["result"]["resources"]
        read = client.request("resources/read", {"uri": f"{skill}/SKILL.md"})["error"]["code"]
    assert ([found for found in listed if found["uri"].startswith("skill:")], read) == ([], UNKNOWN)


def test_only_the_later_era_hears_of_the_extension(place):
    with place.stdio(modern=True) as client:
        said = client.request("server/discover")["result"]["capabilities"]
    assert said["extensions"] == {"io.modelcontextprotocol/skills": {}}


def test_who_gets_no_files_gets_skills(place, modern, skill):
    place.write("a.txt", "x")
    with place.stdio("--tools", "minimal", modern=modern) as client:
        listed = client.request("resources/list")["result"]["resources"]
        page = client.request("resources/read", {"uri": f"{skill}/SKILL.md"})["result"]["contents"][0]["text"]
        refused = client.request("resources/read", {"uri": f"file://{place.workspace}/a.txt"})["error"]["code"]
    assert ([found["uri"] for found in listed], page, refused) == ([f"{skill}/SKILL.md"], FILES["SKILL.md"], UNKNOWN)

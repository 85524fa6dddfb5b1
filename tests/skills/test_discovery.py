"""Every skill is listed, also one that cannot be read, with the reason; attached ones are only read."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.support.descriptors import open_now
from toolyard.core.errors import ToolError, ValidationError
from toolyard.files.roots import Root
from toolyard.skills import Skill, discovery, find_skill, list_skills, save
from toolyard.skills.skill_md import module_name, one_line, page_name, parse_page, render_page
from toolyard.skills.store import load_skill_files


def put(folder: Path, page: str | bytes) -> None:
    folder.mkdir(parents=True)
    (folder / "SKILL.md").write_bytes(page.encode() if isinstance(page, str) else page)


def test_skills_come_in_the_order_in_which_they_are_found(root: Root) -> None:
    for owner in ("z", "a", "b"):
        save(root, owner, Skill("both", "x = 1", f"Of {owner}."))
    put(Path(root.path) / "skills/community/both", "---\nname: both\ndescription: Of all.\n---\n")
    assert [entry.owner for entry in list_skills(root, "b")] == ["b", "community", "a", "z"]
    assert [entry.importable for entry in list_skills(root, "b")] == [True, False, True, True]
    for asked, owner in (("both", "b"), ("z/both", "z"), ("community/both", "community")):
        found = find_skill(root, asked, "b")
        assert found is not None
        assert found.owner == owner
    assert find_skill(root, "none") is None


def test_listing_leaves_nothing_open_whether_a_skill_was_saved_put_there_or_damaged(root: Root) -> None:
    save(root, "a", Skill("saved", "x = 1", "Saved."))
    put(Path(root.path) / "skills/a/put", "---\nname: put\ndescription: By hand.\n---\n")
    put(Path(root.path) / "skills/a/damaged", b"\xff")
    before = open_now()
    assert [entry.name for entry in list_skills(root, "a")] == ["damaged", "put", "saved"]
    assert open_now() == before


def test_whoever_makes_folders_without_end_hides_only_its_own(
    root: Root, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(discovery, "_MAX_SKILLS", 3)
    put(tmp_path / "home/skills/mine", "---\nname: mine\ndescription: The user's.\n---\n")
    put(Path(root.path) / "skills/z/good", "---\nname: good\ndescription: A peer's.\n---\n")
    for number in range(20):
        (Path(root.path) / f"skills/community/junk{number}").mkdir(parents=True)

    listed = list_skills(root, "b", [str(tmp_path / "home/skills")])

    assert [entry.name for entry in listed if not entry.fault] == ["good", "mine"]
    assert len(listed) == 5


def test_a_skill_of_folders_without_end_is_not_walked_to_the_end(root: Root) -> None:
    folder = Path(root.path) / "skills/a/wide"
    put(folder, "---\nname: wide\ndescription: x\n---\n")
    for number in range(600):
        (folder / f"f{number}").mkdir()

    with pytest.raises(ToolError, match="larger than a skill may be"):
        load_skill_files(root, "a", "wide")


@pytest.mark.parametrize(
    ("page", "fault"),
    [
        ("no header", "does not begin with a header"),
        ("---\nname: x\n---\n", "no `description`"),
        ("---\ndescription: x\n---\n", "no `name`"),
        ("---\n- a\n---\n", "no names and values"),
        ("---\nname: [\n---\n", "cannot be read"),
        ("---\nname: !!python/name:os.system x\ndescription: d\n---\n", "cannot be read"),
        ("---\nname: a\nname: b\ndescription: d\n---\n", "cannot be read"),
        ("---\nname: x\ndescription: " + "y" * 30_000 + "\n---\n", "more than 20,000"),
        (b"---\nname: \xff\n---\n", "not UTF-8"),
    ],
)
def test_a_page_that_cannot_be_read_is_listed_with_the_reason(root: Root, page: str | bytes, fault: str) -> None:
    put(Path(root.path) / "skills/a/broken", page)
    save(root, "a", Skill("good", "x = 1", "Says x."))
    broken, good = list_skills(root)
    assert fault in broken.fault
    assert not broken.importable
    assert (good.fault, good.description) == ("", "Says x.")


def test_odd_things_among_the_skills_are_said_or_left_out(root: Root, tmp_path: Path) -> None:
    (tmp_path / "skills/a/empty").mkdir(parents=True)
    (tmp_path / "skills/a/bad-name").mkdir()
    (tmp_path / "skills/a/bad-name/SKILL.md").write_text("---\nname: bad-name\ndescription: d\n---\n")
    (tmp_path / "skills/a/.hidden").mkdir()
    (tmp_path / "skills/a/__pycache__").mkdir()
    (tmp_path / "skills/a/file.py").write_text("")
    (tmp_path / "skills/a/link").symlink_to("/etc")
    put(tmp_path / "skills/a/leads", "")
    (tmp_path / "skills/a/leads/SKILL.md").unlink()
    (tmp_path / "skills/a/leads/SKILL.md").symlink_to("/etc/passwd")
    assert {entry.name: entry.fault.partition(".")[0][:40] for entry in list_skills(root)} == {
        "bad-name": "name: is not a valid skill name",
        "empty": "it has no SKILL",
        "leads": "skills/a/leads/SKILL",
    }


def test_a_page_that_bends_the_rules_is_shown_with_remarks(root: Root) -> None:
    put(
        Path(root.path) / "skills/a/x",
        "---\nname: My Skill\ndescription: d\nmodel: m\ncompatibility: ''\nmetadata: 3\n---\nBody",
    )
    (entry,) = list_skills(root)
    assert (entry.title, entry.fault) == ("My Skill", "")
    assert [remark.partition(":")[0] for remark in entry.remarks] == ["name", "compatibility", "metadata", "model"]


def test_a_colon_that_is_not_quoted_is_let_pass_with_a_remark(root: Root) -> None:
    put(Path(root.path) / "skills/a/x", '---\nname: x\ndescription: Use when: the "sky" falls\nlicense: MIT\n---\n')
    (entry,) = list_skills(root)
    assert (entry.description, entry.fault) == ('Use when: the "sky" falls', "")
    assert entry.remarks == ("header: is not valid YAML; put values with a colon in quotes",)


def test_folders_of_other_programs_are_attached_and_never_written(root: Root, tmp_path: Path) -> None:
    theirs = tmp_path / "home/.claude/skills"
    put(theirs / "pdf-tools", "---\nname: pdf-tools\ndescription: >\n  Reads\n  PDFs.\nlicense: MIT\n---\n# How\n")
    put(theirs / "broken", "x")
    (theirs / "link").symlink_to("/etc")
    theirs.chmod(0o555)
    (tmp_path / "skills").mkdir()
    before = sorted(str(path) for path in tmp_path.rglob("*"))
    listed = list_skills(root, attached=[str(theirs), str(tmp_path / "nowhere")])
    assert [(entry.name, entry.description, bool(entry.fault)) for entry in listed] == [
        ("broken", "", True), ("pdf-tools", "Reads PDFs.", False), ("", "", True),
    ]  # fmt: skip
    assert all(entry.attached for entry in listed)
    assert listed[1].path == str(theirs / "pdf-tools")
    assert sorted(str(path) for path in tmp_path.rglob("*")) == before
    theirs.chmod(0o755)


@settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.text(max_size=300))
def test_any_description_can_be_written_and_read(text: str) -> None:
    described = one_line(text)
    if not described:
        return
    page = parse_page(render_page("a-b", described, "# Body\n---\nmore\n"))
    assert (page.name, page.description, page.body) == ("a-b", described, "\n# Body\n---\nmore\n")


@settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.text(min_size=1, max_size=100))
def test_any_description_makes_a_skill_that_can_be_read_and_run(text: str) -> None:
    try:
        files = Skill("s", "x = 1", text).files("a")
    except ValidationError:
        return
    assert parse_page(files["SKILL.md"].decode()).faults == ()
    exec(compile(files["__init__.py"], "s", "exec"), made := {})
    assert (made["__doc__"], made["x"]) == (one_line(text), 1)


@settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.text(max_size=200))
def test_no_page_does_more_than_be_refused(text: str) -> None:
    try:
        parse_page(f"---\n{text}\n---\n")
    except ValidationError:
        return


def test_names_have_one_spelling_in_each_world() -> None:
    assert page_name("create_website") == "create-website"
    assert module_name("create-website") == "create_website"
    assert page_name("__Odd__Name_") == "odd-name"


def test_a_skill_among_the_owners_is_no_owner(root: Root, tmp_path: Path) -> None:
    (tmp_path / "skills/pdf/scripts").mkdir(parents=True)
    (tmp_path / "skills/pdf/SKILL.md").write_text("---\nname: pdf\ndescription: d\n---\n")
    assert list_skills(root, "a") == ()
    assert [entry.name for entry in list_skills(root, "a", [str(tmp_path / "skills")])] == ["pdf"]

"""`toolyard skill`: what agents kept, seen, checked and curated by the user."""

from __future__ import annotations

import json
import os
import zipfile
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from toolyard.cli.main import toolyard
from toolyard.core.errors import ToolyardError
from toolyard.files.roots import Root
from toolyard.skills import Skill, save
from toolyard.skills.usage_stats import UsageStats
from toolyard.storage.audit_reader import read
from toolyard.storage.state_folder import ensure_state_dir, state_dir

ADD = 'def add(a, b):\n    """Adds.\n\n    >>> add(1, 2)\n    3\n    """\n    return a + b\n'
PAGE = "---\nname: pdf-forms\ndescription: Fills forms.\n---\n"


class Line:
    """The command line, on a workspace with skills."""

    def __init__(self, base: Path) -> None:
        self.base, self.workspace = base, base / "ws"
        self.workspace.mkdir()

    def save(self, agent: str = "a", name: str = "add_up", code: str = ADD) -> None:
        root = Root(str(self.workspace))
        save(root, agent, Skill(name, code, "Adds two numbers."))
        root.close()

    def run(self, *words: str, code: int = 0, only: str = "output") -> str:
        """What the command says on both streams, or on `only` one of them."""
        where = ("--workspace", str(self.workspace), "--state", str(self.base / "state"))
        ran = CliRunner().invoke(toolyard, ["skill", *words, *where])
        ended, said = ran.exit_code, str(getattr(ran, only))
        if isinstance(ran.exception, ToolyardError):  # which the program's entry point prints
            ended = 2 if ran.exception.kind in {"config", "validation"} else 1
            said += str(ran.exception)
        elif ran.exception is not None and not isinstance(ran.exception, SystemExit):
            raise ran.exception
        assert ended == code, said
        return said

    def json(self, *words: str, code: int = 0) -> Any:
        return json.loads(self.run(*words, "--json", code=code, only="stdout"))


@pytest.fixture
def line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Line:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path))
    return Line(tmp_path.resolve())


def test_an_empty_workspace_says_how_a_skill_is_kept(line: Line) -> None:
    assert "save_skill(name, code, description)" in line.run("list")
    assert line.run("list", "--json").startswith("[]")


def test_the_agents_own_come_first(line: Line) -> None:
    for owner in ("b", "a", "community"):
        folder = line.workspace / f"skills/{owner}/add_up"
        folder.mkdir(parents=True)
        (folder / "SKILL.md").write_text(PAGE)
    assert [entry["owner"] for entry in line.json("list", "--agent", "b")] == ["b", "community", "a"]
    assert [entry["owner"] for entry in line.json("list", "--owner", "community")] == ["community"]


def test_how_often_each_was_used_and_by_whomever_is_told(line: Line) -> None:
    for name in ("add_up", "seldom", "never"):
        line.save(name=name)
    state = Root(ensure_state_dir(state_dir(str(line.base / "state"), str(line.workspace))))
    for agent in ("a", "b", "b"):
        UsageStats(state).add("a/add_up", agent)
    UsageStats(state).add("a/seldom", "a")
    state.close()

    said = line.run("list").splitlines()
    (often,) = (text for text in said if text.startswith("a/add_up"))
    (once,) = (text for text in said if text.startswith("a/seldom"))
    (never,) = (text for text in said if text.startswith("a/never"))

    assert "version 1, saved by a, used 3 times" in often
    assert ("used 3 times" in often, "used once" in once, "used" in never) == (True, True, False)
    assert {entry["name"]: entry["uses"] for entry in line.json("list")} == {"add_up": 3, "seldom": 1, "never": 0}
    assert line.json("show", "add_up")["uses"] == 3


def test_a_skill_is_shown_whole_with_its_versions(line: Line) -> None:
    line.save(code="x = 1")
    line.save()
    said = line.run("show", "add_up")
    for part in ("skills.a.add_up", "version 2", "version 1", "SKILL.md, __init__.py", "return a + b"):
        assert part in said
    first = line.json("show", "a/add_up", "--version", "1")
    assert ("x = 1" in first["__init__.py"], [each["number"] for each in first["versions"]]) == (True, [1, 2])
    assert line.json("show", "a/add_up", "--version", "2")["__init__.py"].endswith("return a + b\n")
    assert "Version 7 of a/add_up is no longer stored" in line.run("show", "a/add_up", "--version", "7", code=1)
    assert 'Did you mean "add_up"?' in line.run("show", "add_op", code=2)


def test_a_promotion_is_not_guessed_and_not_repeated(line: Line) -> None:
    line.save("writer")
    line.save("reviewer")
    assert "several owners have a skill 'add_up': " in line.run("promote", "add_up", code=2)
    assert "Promoted writer/add_up" in line.run("promote", "writer/add_up")
    assert "is already promoted" in line.run("promote", "writer/add_up")
    assert [each["number"] for each in line.json("show", "community/add_up")["versions"]] == [1]
    assert "by hand  from writer/add_up" in line.run("show", "community/add_up")
    line.run("remove", "reviewer/add_up")
    assert "writer/add_up is already promoted" in line.run("promote", "add_up")  # the agent's, not everybody's


def test_what_agents_wrote_cannot_speak_to_the_terminal(line: Line) -> None:
    line.save(code='"""Doc."""\nx = "\x1b[31m"')
    for words in (("list",), ("show", "add_up"), ("list", "--json"), ("show", "add_up", "--json")):
        assert "\x1b" not in line.run(*words)


def test_each_skill_is_checked_and_its_example_run(line: Line) -> None:
    line.save()
    line.save(name="wrong", code=ADD.replace("    3\n", "    4\n"))
    line.save(name="lost", code="import nowhere_at_all")
    (line.workspace / "skills/a/broken").mkdir()
    assert "passes, its example ran" in line.run("validate", "add_up")
    checked = {each["skill"]: each for each in line.json("validate", code=1)}
    assert {name: each["ok"] for name, each in checked.items()} == {
        "a/add_up": True,
        "a/wrong": False,
        "a/lost": False,
        "a/broken": False,
    }
    assert checked["a/add_up"]["ran"] is True
    assert "Expected:" in checked["a/wrong"]["faults"][0]
    assert "nowhere_at_all" in checked["a/lost"]["faults"][0]


def test_a_folder_is_checked_before_it_is_imported(line: Line) -> None:
    folder = line.base / "pdf-forms"
    folder.mkdir()
    (folder / "SKILL.md").write_text(
        f"{PAGE}## Example\n```python\nfrom skills.pdf_forms import x\nassert x == 1\n```\n"
    )
    (folder / "__init__.py").write_text('"""Doc."""\nx = 1\n')
    assert "passes, its example ran" in line.run("validate", str(folder))
    (folder / "__init__.py").write_text('"""Doc."""\nx = 2\n')
    assert "AssertionError" in line.run("validate", str(folder), code=1)
    assert list(line.workspace.glob("skills/*/[!.]*")) == []


def test_a_folder_of_skills_is_checked_one_by_one(line: Line) -> None:
    for name, page in (("pdf", PAGE.replace("pdf-forms", "pdf")), ("broken", "no page")):
        folder = line.base / "downloads" / name
        folder.mkdir(parents=True)
        (folder / "SKILL.md").write_text(page)
    checked = line.json("validate", str(line.base / "downloads"), code=1)
    assert [(os.path.basename(each["skill"]), each["ok"]) for each in checked] == [("broken", False), ("pdf", True)]
    (line.base / "empty").mkdir()
    assert "there is no skill" in line.run("validate", str(line.base / "empty"), code=2)


def test_a_promoted_skill_is_everybodys_and_the_log_says_so(line: Line) -> None:
    line.save()
    assert line.json("promote", "a/add_up") == {"path": "skills/community/add_up"}
    assert "already a community skill" in line.run("promote", "community/add_up", code=2)
    line.save("b", code=ADD.replace("    3\n", "    4\n"))
    assert "Expected:" in line.run("promote", "b/add_up", "--replace", code=2)
    line.save("b")
    assert "not from b" in line.run("promote", "b/add_up", code=1)
    line.run("promote", "b/add_up", "--replace")
    (state,) = [path.parent for path in (line.base / "state").rglob("audit*") if path.is_file()][:1]
    assert any("Promoted a/add_up." in item.event.reason + item.event.target for item in read(str(state)))


def test_what_is_removed_can_be_brought_back_as_it_says(line: Line) -> None:
    line.save(code="x = 1")
    line.save(code="x = 2")
    said = line.run("remove", "add_up")
    assert "`toolyard skill restore a/add_up 2 " in said
    assert "No skills are stored" in line.run("list")
    line.run("restore", "a/add_up", "2")
    assert "x = 2" in (line.workspace / "skills/a/add_up/__init__.py").read_text()
    line.run("restore", "add_up", "1")
    assert "x = 1" in (line.workspace / "skills/a/add_up/__init__.py").read_text()
    assert "is no longer stored" in line.run("restore", "a/none", "1", code=1)


def _page(line: Line, folder: str, title: str) -> None:
    (line.workspace / "skills" / folder).mkdir(parents=True)
    (line.workspace / "skills" / folder / "SKILL.md").write_text(PAGE.replace("pdf-forms", title))


def test_a_folder_is_meant_before_a_page_that_only_has_its_name_as_title(line: Line) -> None:
    _page(line, "a/fake", "real")
    _page(line, "b/real", "other")
    assert line.json("show", "real")["owner"] == "b"
    assert os.path.basename(line.json("export", "real", "out")["path"]) == "real"
    assert line.json("remove", "real")["skill"] == "b/real"
    said = line.run("remove", "real", code=2)
    assert "'real'; it is the title of a/fake" in said
    assert (line.workspace / "skills/a/fake").is_dir()
    assert line.json("show", "real")["name"] == "fake"


def test_a_title_that_several_have_names_none_of_them(line: Line) -> None:
    _page(line, "a/one", "same")
    _page(line, "a/two", "same")
    _page(line, "b/one", "same")
    assert "a/one, a/two, b/one" in line.run("show", "same", code=2)
    assert "a/one, a/two, b/one" in line.run("export", "same", "out", code=2)
    assert line.json("show", "b/same")["name"] == "one"


def test_of_several_owners_skills_none_is_removed_by_chance(line: Line) -> None:
    line.save()
    line.save("b")
    assert "a/add_up, b/add_up" in line.run("remove", "add_up", code=2)
    assert line.json("remove", "b/add_up")["skill"] == "b/add_up"
    assert line.json("remove", "add_up")["skill"] == "a/add_up"


@pytest.mark.parametrize("target", ["out", "add.zip", "add.skill"])
def test_what_is_exported_can_be_imported(line: Line, target: str) -> None:
    line.save()
    path = line.json("export", "add_up", target)["path"]
    assert os.path.basename(path) == ("add-up" if target == "out" else target)
    assert (
        "SKILL.md" in os.listdir(path) if target == "out" else "add-up/SKILL.md" in zipfile.ZipFile(path).namelist()
    )
    assert line.json("import", target, "--agent", "b")[0]["path"] == "skills/b/add_up"
    assert line.json("import", path)[0]["path"] == "skills/community/add_up"
    assert line.run("export", "add_up", path if target != "out" else "out", code=1)  # nothing is replaced


def test_a_folder_of_skills_is_imported_whole_and_what_fails_is_said(line: Line) -> None:
    theirs = line.base / ".claude/skills"
    for name, page in {"pdf-forms": PAGE, "broken": "no header"}.items():
        (theirs / name).mkdir(parents=True)
        (theirs / name / "SKILL.md").write_text(page)
    (theirs / "pdf-forms/run.py").write_text("import nowhere_at_all")
    said = line.run("import", "~/.claude/skills", code=1)
    assert "pdf-forms -> skills/community/pdf_forms" in said
    assert "nowhere_at_all" in said
    assert "broken: SKILL.md: does not begin with a header" in said
    assert "holds 2 skills" in line.run("import", str(theirs), "--name", "x", code=2)
    assert "contains no skill" in line.run("import", str(line.base / "ws"), code=2)
    assert "neither a folder nor an archive" in line.run("import", "nowhere", code=2)


def test_a_skill_that_is_as_it_was_is_imported_without_a_new_version(line: Line) -> None:
    theirs = line.base / "pdf-forms"
    theirs.mkdir()
    (theirs / "SKILL.md").write_text(PAGE)
    assert "as it was" not in line.run("import", str(theirs))
    said = line.run("import", str(theirs))
    assert "pdf-forms -> skills/community/pdf_forms, unchanged" in said
    assert len(line.json("show", "pdf_forms")["versions"]) == 1
    (theirs / "SKILL.md").write_text(PAGE + "More.\n")
    assert line.json("import", str(theirs))[0]["unchanged"] is False
    assert len(line.json("show", "pdf_forms")["versions"]) == 2


def test_an_attached_skill_is_shown_and_not_changed(line: Line) -> None:
    theirs = line.base / ".claude/skills/pdf-forms"
    theirs.mkdir(parents=True)
    (theirs / "SKILL.md").write_text(PAGE)
    config = line.base / "team.yaml"
    config.write_text("toolyard: {skill_folders: ['~/.claude/skills']}\n")
    assert str(theirs) in line.run("list", "--config", str(config))
    for name in ("pdf-forms", "claude/pdf-forms", str(theirs)):
        assert "Fills forms." in line.run("show", name, "--config", str(config))
    assert "only read" in line.run("remove", "pdf-forms", "--config", str(config), code=2)
    assert "passes" in line.run("validate", "pdf-forms", "--config", str(config))


@pytest.mark.parametrize("word", ["list", "show", "validate", "promote", "remove", "restore", "import", "export"])
def test_every_command_shows_an_example(word: str) -> None:
    said = CliRunner().invoke(toolyard, ["skill", word, "--help"]).output
    assert f"toolyard skill {word}" in said.split("Example:")[1]

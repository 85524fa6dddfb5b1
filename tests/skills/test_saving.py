"""Skills are kept as folders that any reader of the format and any Python can use."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from toolyard.core.errors import SystemFault, ValidationError
from toolyard.files.roots import Root
from toolyard.skills import Skill, save


def header(page: str) -> dict[str, str]:
    return yaml.safe_load(page.split("---")[1])


def test_a_skill_can_be_imported_and_read_about(root: Root, tmp_path: Path) -> None:
    skill = Skill("add_up", "def add(a, b):\n    return a + b\n", 'Adds "two" numbers:\nquickly \\ well')
    assert save(root, "agent_a", skill) == "skills/agent_a/add_up"
    page = (tmp_path / "skills/agent_a/add_up/SKILL.md").read_text()
    assert header(page) == {"name": "add-up", "description": 'Adds "two" numbers: quickly \\ well'}
    code = "from skills.agent_a.add_up import add, __doc__ as doc; print(add(1, 2), doc)"
    ran = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=True)
    assert ran.stdout == '3 Adds "two" numbers: quickly \\ well\n'


def test_a_docstring_of_its_own_stays(root: Root, tmp_path: Path) -> None:
    save(root, "a", Skill("s", '"""Mine."""\nx = 1', "Theirs."))
    assert (tmp_path / "skills/a/s/__init__.py").read_text() == '"""Mine."""\nx = 1\n'


def test_a_skill_of_the_same_name_is_replaced(root: Root, tmp_path: Path) -> None:
    for value in (1, 2):
        save(root, "a", Skill("s", f"x = {value}", "Says x."))
    assert "x = 2" in (tmp_path / "skills/a/s/__init__.py").read_text()
    assert sorted(path.name for path in (tmp_path / "skills/a/s").iterdir()) == ["SKILL.md", "__init__.py"]


@pytest.mark.parametrize(
    "name",
    ["", "../up", "a/b", "a.b", "class", "1st", "a b", "é", "x" * 65, "__import__ ", "__init__", "community", ".."],
)
def test_a_name_that_could_lead_elsewhere_is_refused(name: str) -> None:
    with pytest.raises(ValidationError, match="not a valid skill name"):
        Skill(name, "x = 1", "Says x.")


@pytest.mark.parametrize(
    ("code", "description", "fault"),
    [
        ("x = (", "d", "not valid Python"),
        ("x" * 100_001, "d", "too long"),
        ("x", " ", "1 to"),
        ("x", "d" * 1_025, "1 to"),
    ],
)
def test_what_cannot_be_a_skill_is_refused(code: str, description: str, fault: str) -> None:
    with pytest.raises(ValidationError, match=fault):
        Skill("s", code, description)


@pytest.mark.parametrize("link", ["skills", "skills/a", "skills/a/s"])
def test_no_link_leads_a_skill_elsewhere(root: Root, tmp_path: Path, link: str) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (tmp_path / link).parent.mkdir(parents=True, exist_ok=True)
    (tmp_path / link).symlink_to(elsewhere)
    with pytest.raises(SystemFault, match="plain folder"):
        save(root, "a", Skill("s", "x = 1", "Says x."))
    assert list(elsewhere.iterdir()) == []


def test_a_skill_cannot_take_the_name_of_an_agent(root: Root) -> None:
    save(root, "b", Skill("s", "x = 1", "Says x."))
    with pytest.raises(ValidationError, match="there is a folder skills/b"):
        save(root, "a", Skill("b", "x = 1", "Says x."))

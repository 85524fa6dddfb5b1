"""A skill is checked without running or importing anything; its example is for a sandbox to run."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from toolyard.core.errors import ValidationError
from toolyard.files.roots import Root
from toolyard.skills import Skill, SkillChecks, check_skill, save, versions
from toolyard.skills.import_check import ImportResolver, is_installed, required_imports
from toolyard.skills.skill_files import SkillFile, tree_from_bytes
from toolyard.skills.validation import ExampleResult


@pytest.fixture
def checks(root: Root, tmp_path: Path) -> SkillChecks:
    for path, text in {
        "servers/disk/__init__.py": "def __getattr__(name): ...\n",
        "servers/disk/read_file.py": "def read_file(): ...\n",
        ".toolyard/tools/web/screenshot.py": "",
        "skills/community/shared/__init__.py": "def go(): ...\n",
        "skills/b/theirs/__init__.py": "",
    }.items():
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text(text)
    return SkillChecks(ImportResolver(root, "a"))


def faults(checks: SkillChecks, code: str, others: dict[str, bytes] | None = None) -> tuple[str, ...]:
    made = tree_from_bytes({**Skill("s", f'"""Doc."""\n{code}', "Says x.").files("a"), **(others or {})})
    return check_skill(checks, "s", made, "a").faults


@pytest.mark.parametrize(
    "code",
    [
        "import os, os.path, json.decoder, xml.etree.ElementTree as et, collections.abc",
        "import yaml, pydantic.fields",
        "from toolyard_runtime import calls\nfrom _massgen_runtime import save_skill",
        "import servers.disk as disk\nfrom servers.disk import read_file",
        "from servers.disk.read_file import read_file",
        "from servers import disk",
        "import tools.web\nfrom tools.web import screenshot",
        "from skills.shared import go\nfrom skills.community.shared import go",
        "from skills import shared\nimport skills.theirs",
        "from skills.a.s import x\nfrom skills.s import x",
        "try:\n    import nowhere\nexcept ImportError:\n    nowhere = None",
        "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    import nowhere",
        "async def f():\n    from servers.disk import read_file\n    return await read_file(path='x')",
        "from . import helper\nfrom .helper import x\nfrom .parts.deep import y",
    ],
)
def test_imports_that_lead_somewhere_are_found(checks: SkillChecks, code: str) -> None:
    others = {"helper.py": b"x = 1", "parts/deep.py": b"y = 1\nfrom ..helper import x\n"}
    assert faults(checks, code, others) == ()


@pytest.mark.parametrize(
    ("code", "fault"),
    [
        ("import nowhere.at.all", "line 2: there is no module nowhere.at.all"),
        ("import json.nothing", "there is no module json.nothing"),
        ("import os.nothing", "there is no module os.nothing"),
        ("def f():\n    from nowhere import x", "line 3: there is no module nowhere"),
        ("import servers.dusk", "there is no servers.dusk in the workspace"),
        ("from servers.disk import read_fil", "servers.disk has no read_fil"),
        ("from tools.web import screenshoot", "tools.web has no screenshoot"),
        ("from skills.community.theirs import x", "there is no skills.community.theirs"),
        ("from skills.shared import gone", "skills.shared has no gone"),
        ("from skills.b.s import x", "there is no skills.b.s"),
        ("from .nothing import x", "there is no module .nothing in the skill"),
        ("from ..up import x", "..up leads out of the skill"),
        ("try:\n    import nowhere\nexcept OSError:\n    pass", "there is no module nowhere"),
        ("try:\n    pass\nexcept ImportError:\n    pass\nelse:\n    import nowhere", "there is no module nowhere"),
    ],
)
def test_imports_that_lead_nowhere_are_named(checks: SkillChecks, code: str, fault: str) -> None:
    (found,) = faults(checks, code)
    assert fault in found


def test_links_are_no_tools(checks: SkillChecks, tmp_path: Path) -> None:
    (tmp_path / "servers/disk/leads.py").symlink_to("/etc/passwd")
    (tmp_path / "servers/link").symlink_to("disk")
    assert faults(checks, "from servers.disk import leads") != ()
    assert faults(checks, "import servers.link") != ()


def test_nothing_is_imported_to_find_out(
    checks: SkillChecks, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    package = tmp_path / "installed/loud"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text("raise SystemExit('imported')")
    monkeypatch.syspath_prepend(str(package.parent))
    assert faults(checks, "import loud.inner") == ()
    assert "loud" not in sys.modules


def test_what_lies_in_the_current_folder_alone_is_not_installed(
    checks: SkillChecks, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "near_by.py").write_text("x = 1")
    (tmp_path / "pytest.py").write_text("x = 1")  # which is installed, too
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend("")
    (fault,) = faults(checks, "import near_by")
    assert "near_by is in the author's folder, which others do not have" in fault
    assert faults(checks, "import pytest\nimport json.decoder\nimport sys") == ()
    monkeypatch.chdir("/")
    assert "there is no module near_by here" in faults(checks, "import near_by")[0]


def test_each_lack_is_said(checks: SkillChecks) -> None:
    tree = {"__init__.py": SkillFile(b"x = 1"), "helper.py": SkillFile(b"x = ("), "bad.py": SkillFile(b"\xff")}
    report = check_skill(checks, "s", tree)
    assert [fault.partition(":")[0] for fault in report.faults] == [
        "it has no SKILL.md",
        "helper.py is not valid Python",
        "bad.py is not UTF-8 text",
        "__init__.py has no docstring that says what it does",
    ]
    assert "no example" in report.remarks[0]
    page = {"SKILL.md": SkillFile(b"---\nname: other\ndescription: d\n---\n")}
    assert check_skill(checks, "s", page).remarks == ("SKILL.md calls it other, its folder s",)
    assert check_skill(checks, "s", page).faults == ()


DOCTEST = '''"""Doc."""

def add(a, b):
    """Adds.

    >>> add(1, 2)
    3
    """
    return a + b
'''


def sandbox(root: Root) -> object:
    def run(code: str) -> ExampleResult:
        wrapped = f"import asyncio, ast\nexec(compile({code!r}, 'x', 'exec'))"
        ended = subprocess.run(
            [sys.executable, "-c", wrapped], cwd=root.path, capture_output=True, text=True, timeout=50, check=False
        )
        return ExampleResult(ended.returncode == 0, ended.stdout + ended.stderr)

    return run


def test_a_doctest_is_an_example_that_a_sandbox_runs(checks: SkillChecks, root: Root) -> None:
    trying = SkillChecks(checks.resolver, sandbox(root), needs_example=True)
    assert save(root, "a", Skill("s", DOCTEST, "Adds."), trying) == "skills/a/s"
    wrong = DOCTEST.replace("    3\n", "    4\n")
    with pytest.raises(ValidationError, match=r"(?s)example .* failed:.*Expected"):
        save(root, "a", Skill("s", wrong, "Adds."), trying)
    assert [version.number for version in versions(root, "a", "s")] == [1]
    with pytest.raises(ValidationError, match="failed"):
        save(root, "a", Skill("t", wrong, "Adds."), trying)
    assert versions(root, "a", "t") == ()
    assert list((Path(root.path) / "skills/a/.versions/.trying").iterdir()) == []
    assert not (Path(root.path) / "skills/a/t").exists()
    assert "    3\n" in (Path(root.path) / "skills/a/s/__init__.py").read_text()


def test_a_section_of_the_page_is_an_example_too(checks: SkillChecks) -> None:
    page = (
        "---\nname: s\ndescription: d\n---\n# S\n```python\nnot this\n```\n## Example of use\nSo:\n\n"
        "````python\nfrom skills.s import x\n# ## not a heading\nprint('```')\n````\n## More\n"
    )
    report = check_skill(
        checks, "s", {"SKILL.md": SkillFile(page.encode()), "__init__.py": SkillFile(b'"""Doc."""\nx = 1\n')}
    )
    assert report.example is not None
    assert (report.example.code, report.example.where) == (
        "from skills.s import x\n# ## not a heading\nprint('```')\n",
        "SKILL.md",
    )
    assert report.remarks == ()


def test_an_example_that_waits_is_run_line_by_line(checks: SkillChecks) -> None:
    code = '"""Doc.\n\n>>> for n in range(2):\n...     print(await go(n))\n0\n1\n"""\nasync def go(n): return n\n'
    report = check_skill(checks, "s", tree_from_bytes(Skill("s", code, "Goes.").files("a")), "a")
    assert report.example is not None
    assert report.example.code == "from skills.a.s import *\nfor n in range(2):\n    print(await go(n))\n"


def test_what_does_not_pass_is_not_saved(checks: SkillChecks, root: Root, tmp_path: Path) -> None:
    with pytest.raises(ValidationError, match=r"no module nowhere.*Correct it"):
        save(root, "a", Skill("s", "import nowhere", "Goes."), checks)
    with pytest.raises(ValidationError, match="no example"):
        save(root, "a", Skill("s", "x = 1", "Goes."), SkillChecks(checks.resolver, needs_example=True))
    assert not (tmp_path / "skills/a/s").exists()
    assert save(root, "a", Skill("s", "import nowhere", "Goes.")) == "skills/a/s"


def test_a_sandbox_with_other_packages_is_asked_itself(root: Root) -> None:
    only_numpy = SkillChecks(ImportResolver(root, "a", installed=lambda module: module == "numpy"))
    assert faults(only_numpy, "import numpy") == ()
    assert faults(only_numpy, "import yaml") != ()


@settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.text(alphabet="abcdefgh.", min_size=1, max_size=30))
def test_any_name_is_installed_or_not(name: str) -> None:
    assert is_installed(name) in {True, False}


@settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.text(max_size=100))
def test_any_code_has_imports_or_none(code: str) -> None:
    try:
        tree = ast.parse(f"import a\n{code}")
    except (SyntaxError, ValueError):
        return
    assert next(iter(required_imports(tree))).module == "a"

"""The format's own validator accepts what is written here."""

from __future__ import annotations

import json
import pathlib
import subprocess

from tests.e2e import published
from toolyard.files.roots import Root
from toolyard.skills import Skill, export_skill, save


def test_an_exported_skill_is_one_to_the_formats_own_validator(tmp_path: pathlib.Path) -> None:
    validator = published.python_server("skills-ref", "agentskills")
    description = 'Says: "hi" # no comment \\ 👩\u200d🚀\tand\nmore'
    (tmp_path / "out").mkdir()
    root = Root(str(tmp_path))
    save(root, "agent-a", Skill("create_web__Site", "x = 1", description))
    folder = export_skill(root, "agent-a", "create_web__Site", str(tmp_path / "out"))
    root.close()
    for command in (["validate", folder], ["read-properties", folder]):
        ended = subprocess.run([validator, *command], capture_output=True, text=True, timeout=60, check=False)
        assert ended.returncode == 0, ended.stdout + ended.stderr
    assert json.loads(ended.stdout) == {
        "name": "create-web-site",
        "description": 'Says: "hi" # no comment \\ 👩\u200d🚀 and more',
    }

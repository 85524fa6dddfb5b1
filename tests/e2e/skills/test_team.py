"""One agent keeps and promotes a skill; another, in a process of its own, finds it with ripgrep and uses it."""

from __future__ import annotations

import json
import pathlib
import subprocess
import sys
from dataclasses import dataclass

import pytest

from toolyard.testing.mcp_client import StdioClient

TOOLYARD = str(pathlib.Path(sys.executable).with_name("toolyard"))
CONFIG = "toolyard: {workspace: team}\nagents: [{id: agent_a}, {id: agent-b}]\n"
SKILL = '''
import pathlib

async def create_website(project_name: str, style_reference: str):
    """Create a modern website in the style of a reference.

    >>> await create_website("/tmp/example", "plain")
    """
    folder = pathlib.Path(project_name)
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "index.html").write_text(f"<h1>{style_reference}</h1>")
    return f"Website created at {project_name}/"
'''
KEEP = f"""
from _massgen_runtime import promote_skill, save_skill
print(save_skill(
    name="create_modern_website",
    code={SKILL!r},
    description="Create a modern website by analyzing a reference site",
))
"""
PROMOTE = "from _massgen_runtime import promote_skill\nprint(promote_skill('create_modern_website'))"
USE = """
from skills.create_modern_website import create_website
print(await create_website(project_name="my_project", style_reference="bold"))
"""


@dataclass(frozen=True)
class Team:
    base: pathlib.Path

    def command(self, *words: str) -> list[str]:
        return [TOOLYARD, *words, "--config", str(self.base / "team.yaml"), "--state", str(self.base / "state")]

    def run(self, *words: str, code: int = 0) -> str:
        ran = subprocess.run(
            self.command(*words), capture_output=True, text=True, timeout=60, check=False, cwd=self.base
        )
        assert ran.returncode == code, ran.stdout + ran.stderr
        return ran.stdout + (ran.stderr if code else "")

    def python(self, agent: str, code: str, ends: int = 0) -> str:
        return self.run("exec", "--agent", agent, "-c", code, code=ends).strip()

    def bash(self, agent: str, command: str, ends: int = 0) -> str:
        return self.run("exec", "--agent", agent, "--bash", "-c", command, code=ends).strip()


@pytest.fixture
def team(tmp_path: pathlib.Path) -> Team:
    (tmp_path / "team.yaml").write_text(CONFIG)
    return Team(tmp_path.resolve())


@pytest.mark.timeout(180)
def test_what_one_agent_keeps_another_finds_and_uses(team: Team) -> None:
    assert team.python("agent_a", KEEP) == "skills/agent_a/create_modern_website"
    found = team.bash("agent-b", 'rg "create.*website" skills/ -i -l | sort')
    assert "skills/agent_a/create_modern_website/SKILL.md" in found.splitlines()
    assert team.python("agent-b", USE) == "Website created at my_project/"
    assert team.python("agent_a", PROMOTE) == "skills/community/create_modern_website"
    assert team.python("agent-b", USE.replace("from skills.", "from skills.community.")) == (
        "Website created at my_project/"
    )
    made = team.base / "team/agents/agent-b/workspace/my_project/index.html"
    assert made.read_text() == "<h1>bold</h1>"
    uses = {
        f"{entry['owner']}/{entry['name']}": entry["uses"]
        for entry in json.loads(team.run("skill", "list", "--json"))
    }
    assert uses == {"community/create_modern_website": 1, "agent_a/create_modern_website": 1}
    assert "passes, its example ran" in team.run("skill", "validate", "community/create_modern_website")


@pytest.mark.timeout(180)
def test_nobody_writes_anothers_skills(team: Team) -> None:
    team.python("agent_a", KEEP)
    for path in ("skills/agent_a/create_modern_website/__init__.py", "skills/agent_a/new", "skills/new"):
        assert "Read-only" in team.bash("agent-b", f"touch {path}", ends=1)
    team.bash("agent-b", "touch skills/agent-b/mine skills/community/ours")
    refused = team.python("agent-b", PROMOTE, ends=1)
    assert "There is no skill agent-b/create_modern_website" in refused


@pytest.mark.timeout(180)
def test_a_client_of_another_agent_is_served_the_skill(team: Team) -> None:
    team.python("agent_a", f"{KEEP}\n{PROMOTE}")
    with StdioClient(team.command("mcp", "--agent", "agent-b", "--tools", "code")) as client:
        listed = [found["uri"] for found in client.request("resources/list")["result"]["resources"]]
        page = client.request("resources/read", {"uri": "skill://community/create-modern-website/SKILL.md"})
        ran = client.call("execute_python", code=USE)
    assert [uri for uri in listed if uri.startswith("skill:")] == [
        "skill://agent_a/create-modern-website/SKILL.md",
        "skill://community/create-modern-website/SKILL.md",
    ]
    assert "from skills.community.create_modern_website import *" in page["result"]["contents"][0]["text"]
    assert "Website created at my_project/" in json.dumps(ran)

"""The folders of a team in a container: an agent's own to write, what is shared to read, the others' not at all."""

from toolyard.app.toolsets import Toolset
from toolyard.app.yard import Yard
from toolyard.app.yard_options import YardOptions
from toolyard.cli.common.resolve_workspace import resolve_workspace
from toolyard.config.settings import Settings
from toolyard.core.calls import Call
from toolyard.sandbox.selection import SandboxChoice
from toolyard.sandbox.spec import Tier

TEAM = """
toolyard: {workspace: root}
agents: [{id: a, memory: {allow_read_from: [b]}}, {id: b}, {id: c}]
"""
TRYING = """
for f in memory/x tasks/x skills/a/x skills/community/x servers/x tools/x skills/b/x shared/x {root}/agents/b/memory/x
do (echo new > $f) 2> /dev/null && echo "wrote $f"; done
cat {root}/agents/b/memory/note.md {root}/agents/c/memory/note.md
"""


async def test_an_agent_reaches_its_own_and_what_it_may(subject, tmp_path, monkeypatch):
    base = tmp_path.resolve()
    (base / "team.yaml").write_text(TEAM)
    monkeypatch.setattr(Yard, "_select_sandbox", lambda _: SandboxChoice(Tier.DOCKER, subject.make))
    place = resolve_workspace(None, str(base / "team.yaml"), "a")
    settings = Settings(*(str(base / name) for name in ("home", "state", "temp", "documents")))
    with Yard.open(YardOptions(place.workspace, place.config, settings, agent="a", toolset=Toolset.CODE)) as yard:
        for agent in "bc":
            (base / f"root/agents/{agent}/memory/note.md").write_text(f"note of {agent}")
        command = TRYING.format(root=base / "root")
        shown = (await yard.dispatch(Call("execute_bash", {"command": command}, "test"))).text

    written = {line.removeprefix("wrote ") for line in shown.splitlines() if line.startswith("wrote ")}
    assert written == {"memory/x", "tasks/x", "skills/a/x", "skills/community/x"}
    assert "note of b" in shown
    assert "note of c" not in shown
    assert (base / "root/agents/a/memory/x").read_text() == "new\n"
    assert not (base / "root/agents/b/memory/x").exists()

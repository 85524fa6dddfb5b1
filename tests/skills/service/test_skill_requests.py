"""Code in the sandbox keeps skills: checked there first, refused with what to mend, recorded."""

from __future__ import annotations

import asyncio
import functools
import os
import threading
from pathlib import Path

import pytest

from toolyard.app.yard import Yard
from toolyard.codemode import skill_requests
from toolyard.core.actions import Action, Decision
from toolyard.core.calls import Call
from toolyard.sandbox.probe import SandboxPrograms
from toolyard.sandbox.selection import SandboxChoice
from toolyard.sandbox.spec import Tier
from toolyard.skills import example_runner
from toolyard.storage.audit_reader import read

from .conftest import Place, told

ADD = '''def add(a, b):
    """Adds.

    >>> add(1, 2)
    3
    """
    return a + b
'''


def keep(code: str, name: str = "add_up", runtime: str = "toolyard_runtime") -> str:
    return f"from {runtime} import save_skill\nprint(save_skill({name!r}, {code!r}, 'Adds two numbers.'))"


@pytest.mark.parametrize("runtime", ["toolyard_runtime", "_massgen_runtime"])
async def test_a_skill_whose_example_holds_is_kept_and_can_be_used_in_the_same_run(
    place: Place, runtime: str
) -> None:
    yard = place.open()
    use = (
        "from skills.add_up import add\nprint(add(2, 3))\nfrom skills.a.add_up import add as same\nprint(same is add)"
    )
    assert await told(yard, f"{keep(ADD, runtime=runtime)}\n{use}") == "skills/a/add_up\n5\nFalse"
    assert place.events(yard)[0] == ("save_skill", "allow", "ok")
    assert "Version 1, " in next(iter(read(yard.state))).event.reason


@pytest.mark.parametrize(
    ("code", "reason"),
    [
        (ADD.replace("    3\n", "    4\n"), "Expected:\n    4"),
        ("import nowhere_at_all", "there is no module nowhere_at_all here"),
        ("from servers.github import create_issue", "there is no servers.github in the workspace"),
        ("from skills.nobody import x", "there is no skills.nobody"),
        ("def f(:", "is not valid Python"),
        ('"""Doc.\n\n>>> import os; os._exit(3)\n"""', "exit code 3"),
        ('"""Doc.\n\n>>> await go()\n"""\nasync def go(): raise OSError("of its own")', "OSError: of its own"),
    ],
)
async def test_what_does_not_hold_is_refused_with_the_reason_and_changes_nothing(
    place: Place, code: str, reason: str
) -> None:
    yard = place.open()
    await told(yard, keep("x = 1"))
    said = await told(yard, keep(code))
    assert reason in said
    assert "InvalidArguments" in said
    assert "x = 1" in (place.workspace / "skills/a/add_up/__init__.py").read_text()
    assert not (place.workspace / "skills/a/.versions/add_up/1").exists()
    assert place.events(yard)[-2] == ("save_skill", "allow", "invalid")


@pytest.mark.parametrize("name", ["a/b", "../up", "class", "", "community", "x.y"])
async def test_a_name_that_could_lead_elsewhere_is_refused(place: Place, name: str) -> None:
    yard = place.open()
    said = await told(yard, keep("x = 1", name))
    assert "is not a valid skill name" in said
    assert place.events(yard)[0] == ("save_skill", "", "invalid")
    assert "such as create_website" in said
    assert not (place.workspace / "skills").exists()


async def test_what_lies_in_the_authors_folder_alone_is_no_module_for_others(place: Place) -> None:
    (place.workspace / "helper_of_mine.py").write_text("x = 1\n")
    (place.workspace / "package_of_mine").mkdir()
    (place.workspace / "package_of_mine/inner.py").write_text("x = 1\n")
    (place.workspace / "yaml.py").write_text("x = 1\n")  # which is installed, too
    yard = place.open()
    assert await told(yard, keep("import yaml\nimport json.decoder")) == "skills/a/add_up"
    for near in ("helper_of_mine", "package_of_mine.inner"):
        said = await told(yard, keep(f"import {near}"))
        assert f"{near} is in the author's folder, which others do not have: put it into the skill" in said
    for missing in ("helper_of_hers", "json.nothing"):
        assert f"no module {missing}" in await told(yard, keep(f"import {missing}"))


async def test_an_example_that_never_ends_is_ended(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(example_runner, "EXAMPLE_SECONDS", 0.5)
    said = await told(place.open(), keep('"""Doc.\n\n>>> while True: pass\n"""'))
    assert "It took longer than 0.5 seconds." in said
    assert not (place.workspace / "skills/a/add_up").exists()


async def test_what_an_example_writes_is_not_left_among_the_agents_files(place: Place) -> None:
    example = (
        ">>> import os; os.path.basename(os.getcwd())[:17], open('made', 'w').close()\n('toolyard-example-', None)"
    )
    assert await told(place.open(), keep(f'"""Doc.\n\n{example}\n"""')) == "skills/a/add_up"
    assert sorted(os.listdir(place.workspace)) == ["skills"]


async def test_an_example_may_keep_a_skill_itself(place: Place) -> None:
    inner = "from toolyard_runtime import save_skill\n>>> save_skill('inner', 'x = 1', 'Says x.')\n'skills/a/inner'"
    assert await told(place.open(), keep(f'"""Doc.\n\n>>> {inner}\n"""')) == "skills/a/add_up"


@pytest.mark.timeout(120)
async def test_examples_that_keep_themselves_come_to_an_end(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(skill_requests, "_TURN_SECONDS", 1.0)
    code = (
        '"""Doc.\n\n>>> import pathlib, toolyard_runtime\n'
        ">>> code = pathlib.Path(__file__).read_text()\n"
        ">>> toolyard_runtime.save_skill('add_up', code, 'Keeps itself.')\n'skills/a/add_up'\n\"\"\"\n"
    )
    yard = place.open()
    said = await told(yard, keep(code))
    assert "other skills are being saved or checked" in said
    assert await told(yard, keep("x = 1", "after")) == "skills/a/after"


@pytest.mark.timeout(120)
async def test_more_skills_than_there_are_turns_are_kept_at_once(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(skill_requests, "_TURN_SECONDS", 60.0)
    yard = place.open()
    said = await asyncio.gather(*(told(yard, keep(ADD, f"add_{number}")) for number in range(9)))
    assert said == [f"skills/a/add_{number}" for number in range(9)]


async def test_an_example_stops_when_whoever_keeps_it_is_stopped(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun, ended = threading.Event(), threading.Event()
    ran = example_runner._SandboxRunner.run

    def watched(self, code):
        begun.set()
        try:
            return ran(self, code)
        finally:
            ended.set()

    monkeypatch.setattr(example_runner._SandboxRunner, "run", watched)
    yard = place.open()
    saving = asyncio.create_task(told(yard, keep('"""Doc.\n\n>>> import time; time.sleep(25)\n"""')))
    assert await asyncio.to_thread(begun.wait, 30)
    saving.cancel()
    assert await asyncio.to_thread(ended.wait, 20)
    with pytest.raises(asyncio.CancelledError):
        await saving
    assert not (place.workspace / "skills/a/add_up").exists()


async def test_what_the_policy_denies_is_refused_and_recorded(place: Place) -> None:
    yard = place.open(permissions={"deny": ["Write(skills/**)"]})
    assert "PermissionError" in await told(yard, keep("x = 1"))
    assert place.events(yard)[0] == ("save_skill", "deny", "denied")


async def test_where_the_policy_asks_the_caller_is_asked(place: Place) -> None:
    asked: list[str] = []

    async def answer(action: Action, decision: Decision) -> bool:
        asked.append(action.tool)
        return action.tool != "promote_skill"

    yard = place.open(permissions={"ask": ["Write(skills/**)"]})
    assert await told(yard, keep("x = 1"), answer) == "skills/a/add_up"
    promote = "from toolyard_runtime import promote_skill\npromote_skill('add_up')"
    assert "PermissionError" in await told(yard, promote, answer)
    assert asked == ["save_skill", "promote_skill"]
    assert "PermissionError" in await told(yard, keep("x = 2"))  # nobody to ask


PROMOTE = "from toolyard_runtime import promote_skill\nprint(promote_skill('add_up'{more}))"


async def test_a_promoted_skill_is_everybodys(place: Place) -> None:
    a, b = place.open("a"), place.open("b")
    await told(a, keep(ADD))
    assert await told(a, PROMOTE.format(more="")) == "skills/community/add_up"
    assert await told(b, "from skills.community.add_up import add\nprint(add(1, 1))") == "2"
    assert ("promote_skill", "allow", "ok") in place.events(a)
    await told(b, keep(ADD))
    assert "not from b" in await told(b, PROMOTE.format(more=""))
    assert await told(b, PROMOTE.format(more=", replace=True")) == "skills/community/add_up"


async def test_a_skill_that_was_edited_into_nonsense_is_not_promoted(place: Place) -> None:
    yard = place.open()
    await told(yard, keep(ADD))
    module = place.workspace / "skills/a/add_up/__init__.py"
    module.write_text(module.read_text().replace("a + b", "a - b"))
    assert "Expected" in await told(yard, PROMOTE.format(more=""))
    assert not (place.workspace / "skills/community").exists()
    assert "There is no skill b/add_up" in await told(place.open("b"), PROMOTE.format(more=""))


def attach(folder: Path) -> None:
    (folder / "pdf-forms").mkdir(parents=True)
    (folder / "pdf-forms/SKILL.md").write_text("---\nname: pdf-forms\ndescription: Fills forms.\n---\n")
    (folder / "pdf-forms/__init__.py").write_text("def fill(): return 'filled'\n")


@pytest.mark.parametrize("where", ["ws/.claude/skills", "home/.claude/skills"])
async def test_skills_are_listed_and_those_of_attached_folders_can_be_used(place: Place, where: str) -> None:
    attach(place.folder / where)
    yard = place.open(toolyard={"skill_folders": [str(place.folder / where)]})
    await told(yard, keep(ADD))
    await told(yard, PROMOTE.format(more=""))
    listed = "from toolyard_runtime import list_skills\nfor skill in list_skills(): print(skill.module, skill.path)"
    assert (await told(yard, listed)).splitlines() == [
        "skills.a.add_up skills/a/add_up",
        "skills.community.add_up skills/community/add_up",
        f"skills.pdf_forms {place.folder / where}/pdf-forms",
    ]
    assert await told(yard, "from skills.pdf_forms import fill\nprint(fill())") == "filled"
    assert await told(yard, keep("from skills.pdf_forms import fill", "uses_it")) == "skills/a/uses_it"
    hurt = f"open({str(place.folder / where / 'pdf-forms/__init__.py')!r}, 'w')"
    assert "Read-only" in await told(yard, hurt)


async def test_an_agent_whose_name_is_no_python_keeps_and_uses_its_own(place: Place) -> None:
    yard = place.open("agent-1.x")
    assert await told(yard, keep(ADD)) == "skills/agent-1.x/add_up"
    assert "from skills.add_up import *" in (place.workspace / "skills/agent-1.x/add_up/SKILL.md").read_text()
    await told(place.open("other"), keep("x = 1"))
    assert await told(yard, "from skills.add_up import add\nprint(add(1, 1))") == "2"


async def test_a_skill_is_found_with_ripgrep(place: Place) -> None:
    yard = place.open()
    await told(yard, keep(ADD))
    await told(yard, keep(ADD))  # which makes a version of the first
    call = Call("execute_bash", {"command": "rg 'adds.*numbers' skills/ -i -l | sort"}, "test", agent="a")
    found = (await yard.dispatch(call)).structured["stdout"].split()
    assert found == ["skills/a/add_up/SKILL.md", "skills/a/add_up/__init__.py"]


async def test_the_sandbox_of_the_caller_stays_when_there_is_something_new_to_hide(place: Place) -> None:
    yard = place.open(permissions={"deny": ["Read(secret*)"]})
    wait = "import os, time\nopen('begun', 'w').close()\nwhile not os.path.exists('go'): time.sleep(0.01)\n"
    running = asyncio.create_task(told(yard, wait + keep(ADD)))
    while not (place.workspace / "begun").exists():
        await asyncio.sleep(0.01)
    (place.workspace / "secret.txt").write_text("s")  # a run that begins now gets a new sandbox
    (place.workspace / "go").touch()
    assert await running == "skills/a/add_up"


@pytest.mark.parametrize("tier", [Tier.NAMESPACES, Tier.LANDLOCK, Tier.NONE])
async def test_skills_are_kept_and_used_in_every_kind_of_sandbox(
    place: Place, tier: Tier, monkeypatch: pytest.MonkeyPatch
) -> None:
    means = SandboxPrograms.find_programs()
    monkeypatch.setattr(
        Yard, "_select_sandbox", lambda _: SandboxChoice(tier, functools.partial(means.make_sandbox, tier))
    )
    attach(place.folder / "home/.claude/skills")
    yard = place.open("agent-1", toolyard={"skill_folders": [str(place.folder / "home/.claude/skills")]})
    use = (
        "from skills.add_up import add\nfrom skills.community.add_up import add as shared\n"
        "from skills.pdf_forms import fill\nprint(add(1, 1), shared(1, 2), fill())"
    )
    promote = "from toolyard_runtime import promote_skill\npromote_skill('add_up')"
    assert await told(yard, f"{keep(ADD)}\n{promote}\n{use}") == "skills/agent-1/add_up\n2 3 filled"
    assert "Expected" in await told(yard, keep(ADD.replace("    3\n", "    4\n")))


async def test_what_is_no_text_is_refused(place: Place) -> None:
    yard = place.open()
    for arguments in ("3, 'x = 1', 'd'", "'s', 3, 'd'", "'s', 'x = 1', None"):
        assert "has to be text" in await told(
            yard, f"from toolyard_runtime import save_skill\nsave_skill({arguments})"
        )
    assert [event[2] for event in place.events(yard) if event[0] == "save_skill"] == ["invalid"] * 3

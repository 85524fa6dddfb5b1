"""Commands see what peers share: read-only, and always the newest, in the sandbox that runs already."""

import pytest

from toolyard.app.yard import Yard
from toolyard.config.loader import load_config
from toolyard.core.errors import SystemFault
from toolyard.sandbox.backends.bubblewrap import bubblewrap_sandbox, find_bubblewrap
from toolyard.sandbox.backends.landlock import landlock_sandbox
from toolyard.sandbox.backends.namespaces import find_unshare, namespaces_sandbox
from toolyard.sandbox.selection import SandboxChoice
from toolyard.sandbox.spec import Tier

TIERS = [
    (Tier.BUBBLEWRAP, lambda: bubblewrap_sandbox(find_bubblewrap())),
    (Tier.NAMESPACES, lambda: namespaces_sandbox(find_unshare())),
    (Tier.LANDLOCK, landlock_sandbox),
]


@pytest.fixture(params=TIERS, ids=[tier.name for tier, _ in TIERS])
def every_sandbox(request, monkeypatch):
    tier, make = request.param
    try:
        make().close()
    except SystemFault as fault:
        pytest.skip(str(fault))
    monkeypatch.setattr(Yard, "_select_sandbox", lambda _: SandboxChoice(tier, make))


async def run(agent, command):
    return (await agent.call("Bash", command=command)).text


@pytest.mark.usefixtures("every_sandbox")
async def test_commands_see_the_newest_without_a_new_sandbox(a, b):
    await b.write("x.txt", "first")
    await b.share()
    first = await run(a, 'cat shared/agent_b/x.txt; echo kept > "${TMPDIR:-/tmp}/mark"')
    for number in range(4):
        await b.write("x.txt", f"text {number}")
        await b.write("deep/er.txt", f"deeper {number}")
        await b.share()
        said = await run(a, 'cat shared/agent_b/x.txt shared/agent_b/deep/er.txt "${TMPDIR:-/tmp}/mark"')

        assert f"text {number}deeper {number}kept" in said
    assert "first" in first


@pytest.mark.usefixtures("every_sandbox")
async def test_commands_cannot_write_there(team, a, b):
    await b.write("x.txt", "b's")
    await b.share()

    said = await run(
        a,
        "echo a > shared/agent_b/x.txt; echo a > shared/agent_b/new; rm shared/agent_b/x.txt; "
        "chmod 777 shared/agent_b/x.txt; mv shared/agent_b shared/agent_c; ln shared/agent_b/x.txt mine; "
        "test -e mine && echo a > mine; true",
    )

    assert "Read-only file system" in said or "Permission denied" in said
    assert (team.root / "shared/agent_b/x.txt").read_text() == "b's"
    assert not (team.root / "shared/agent_c").exists()
    assert not (team.root / "shared/agent_b/new").exists()


async def test_commands_search_only_what_is_published_now(a, b):
    for number in range(5):
        await b.write("x.txt", f"needle {number}")
        await b.share()

    said = await run(a, "grep -rn needle shared/")

    assert said.count("needle") == 1


@pytest.mark.usefixtures("every_sandbox")
async def test_a_link_of_the_peer_shows_commands_nothing_that_is_not_theirs(team, a, b):
    (team.root / "agents/agent_b/memory/own.txt").write_text("b's own memory")
    (team.path / "outside.txt").write_text("the user's own")
    (b.work / "memory_link").symlink_to(team.root / "agents/agent_b/memory/own.txt")
    (b.work / "outside_link").symlink_to(team.path / "outside.txt")
    (b.work / "up").symlink_to("../../../outside.txt")
    (b.work / "live").symlink_to(b.work / "x.txt")
    await b.write("x.txt", "unpublished")
    await b.share()

    said = await run(a, "cd shared/agent_b; cat memory_link outside_link up live; cat -- x.txt")

    assert "b's own memory" not in said
    assert "the user's own" not in said
    assert said.count("unpublished") == 1


async def test_what_a_rule_hides_is_not_there_for_commands(team):
    config = team.path / "toolyard.yaml"
    config.write_text(config.read_text() + "permissions: {presets: [secrets], deny: ['Read(/private/**)']}\n")
    team.config = load_config(str(config))
    a, b = team.open("agent_a"), team.open("agent_b")
    await b.write("open.txt", "open")
    await b.share()
    assert "open" in await run(a, 'cat shared/agent_b/open.txt; echo kept > "${TMPDIR:-/tmp}/mark"')
    (b.work / ".env").write_text("TOKEN=hidden")
    (b.work / "private").mkdir()
    (b.work / "private/key").write_text("hidden")
    await b.write("open.txt", "open again")
    await b.share()

    said = await run(
        a, 'cat shared/agent_b/.env shared/agent_b/private/key; grep -r hidden shared/; cat "${TMPDIR:-/tmp}/mark"'
    )

    assert "hidden" not in said.replace("grep -r hidden", "")
    assert "kept" in said, "nothing new has to be hidden, so the sandbox stays"


async def test_what_commands_change_is_published_too(a, b):
    await run(b, "mkdir -p out && echo made by a command > out/x.txt")
    b.yard.snapshots.flush()
    assert b.yard.sharing.flush(30)

    assert "made by a command" in await a.read("shared/agent_b/out/x.txt")

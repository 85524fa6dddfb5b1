"""Shell commands that try to get out of the sandbox, and the same without one, where they do."""

import pytest

from tests.support.attacks.commands import COMMANDS
from tests.support.attacks.control import Arena, why_not_here
from tests.support.attacks.mcp_calls import MARKER
from toolyard.sandbox.spec import Tier

pytestmark = pytest.mark.destructive


def named(attack):
    return attack.name.replace(" ", "-")


@pytest.fixture(scope="module", autouse=True)
def secrets_in_the_environment():
    with pytest.MonkeyPatch.context() as patch:
        for name in ("TOOLYARD_TOKEN", "SOME_API_KEY"):
            patch.setenv(name, MARKER)
        yield


@pytest.fixture(scope="module")
def sandboxed(tmp_path_factory):
    with Arena(str(tmp_path_factory.mktemp("scene")), sandboxed=True) as arena:
        yield arena


@pytest.fixture(scope="module")
def unwalled(tmp_path_factory):
    with Arena(str(tmp_path_factory.mktemp("scene")), sandboxed=False) as arena:
        yield arena


def test_the_attacks_meet_the_sandbox_of_choice(sandboxed, unwalled):
    tiers = [arena.yard.sandboxes.get_sandbox().sandbox.tier for arena in (sandboxed, unwalled)]
    assert tiers == [Tier.BUBBLEWRAP, Tier.NONE]


@pytest.mark.parametrize("attack", COMMANDS, ids=named)
async def test_a_command_does_not_get_out(sandboxed, attack):
    await sandboxed.holds(attack)


@pytest.mark.parametrize("attack", COMMANDS, ids=named)
async def test_the_same_command_gets_out_without_a_sandbox(unwalled, attack):
    if (reason := why_not_here(attack)) is not None:
        pytest.skip(reason)
    await unwalled.succeeds(attack)

"""What an agent of a team reaches, once more as an ordinary user, when the tests are run by root."""

import os

import pytest

from tests.support.unprivileged import OrdinaryUser, why_not

HERE = os.path.dirname(os.path.realpath(__file__))
PROJECT = os.path.dirname(os.path.dirname(HERE))
FEWEST = 30
SECONDS = 200

pytestmark = pytest.mark.skipif(bool(why_not()), reason=why_not())


@pytest.mark.slow
@pytest.mark.timeout(SECONDS + 20)
@pytest.mark.parametrize("suite", ["test_agent_setup.py", "test_fresh_start.py"])
def test_the_suite_passes_as_an_ordinary_user(suite):
    fewest = FEWEST if suite == "test_agent_setup.py" else FEWEST // 2
    with OrdinaryUser(PROJECT) as user:
        if why := user.why_not():
            pytest.skip(why)
        assert user.passed(PROJECT, f"{HERE}/{suite}", seconds=SECONDS) >= fewest

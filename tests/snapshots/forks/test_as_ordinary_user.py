"""Forks once more, as an ordinary user, when the tests are run by root."""

import os

import pytest

from tests.support.unprivileged import OrdinaryUser, why_not

HERE = os.path.dirname(os.path.realpath(__file__))
PROJECT = os.path.dirname(os.path.dirname(os.path.dirname(HERE)))
FEWEST = 20
SECONDS = 200

pytestmark = pytest.mark.skipif(bool(why_not()), reason=why_not())


@pytest.mark.slow
@pytest.mark.timeout(SECONDS + 20)
def test_forks_work_for_an_ordinary_user():
    with OrdinaryUser(PROJECT) as user:
        if why := user.why_not():
            pytest.skip(why)
        assert user.passed(PROJECT, f"{HERE}/test_forks.py", seconds=SECONDS) >= FEWEST

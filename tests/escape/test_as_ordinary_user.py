"""The escape suite once more, as an ordinary user, when the tests are run by root."""

import glob
import os

import pytest

from tests.support.unprivileged import OrdinaryUser, why_not

HERE = os.path.dirname(os.path.realpath(__file__))
PROJECT = os.path.dirname(os.path.dirname(HERE))
SECONDS = 540
FEWEST = 1_000
FEWEST_OF_ASSISTANT = 50
ASSISTANT = sorted(glob.glob(f"{HERE}/test_assistant*.py"))

pytestmark = [pytest.mark.destructive, pytest.mark.skipif(bool(why_not()), reason=why_not())]


@pytest.mark.slow
@pytest.mark.timeout(SECONDS + 30)
def test_the_escape_suite_passes_as_an_ordinary_user():
    passed(FEWEST, HERE, *(f"--ignore={path}" for path in ASSISTANT))


@pytest.mark.slow
@pytest.mark.timeout(SECONDS + 30)
def test_the_attacks_on_the_assistant_fail_as_an_ordinary_user():
    """Which start servers, and are as many again."""
    passed(FEWEST_OF_ASSISTANT, *ASSISTANT)


def passed(fewest, *suite):
    with OrdinaryUser(PROJECT) as user:
        if why := user.why_not():
            pytest.skip(why)
        assert user.passed(PROJECT, *suite, seconds=SECONDS) > fewest

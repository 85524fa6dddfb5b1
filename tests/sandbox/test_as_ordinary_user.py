"""The conformance suites once more, as an ordinary user, when the tests are run by root."""

import os

import pytest

from tests.support.unprivileged import OrdinaryUser, why_not

HERE = os.path.dirname(os.path.realpath(__file__))
PROJECT = os.path.dirname(os.path.dirname(HERE))
SUITES = (
    "test_backends_bubblewrap.py",
    "test_backends_namespaces.py",
    "test_backends_landlock.py",
    "test_backends_unsandboxed.py",
)
FEWEST = 80
SECONDS = 280

pytestmark = [pytest.mark.destructive, pytest.mark.skipif(bool(why_not()), reason=why_not())]


@pytest.mark.slow
@pytest.mark.timeout(SECONDS + 20)
@pytest.mark.parametrize("suite", SUITES)
def test_the_suite_passes_as_an_ordinary_user(suite):
    with OrdinaryUser(PROJECT) as user:
        if why := user.why_not():
            pytest.skip(why)
        assert user.passed(PROJECT, f"{HERE}/{suite}", seconds=SECONDS) >= FEWEST

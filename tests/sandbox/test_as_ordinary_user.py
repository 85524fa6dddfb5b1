"""The conformance suites once more, as an ordinary user, when the tests are run by root."""

import os
import re
import sys

import pytest

from toolyard.testing.ordinary_user import USER_ID, OrdinaryUser, why_not

HERE = os.path.dirname(os.path.realpath(__file__))
PROJECT = os.path.dirname(os.path.dirname(HERE))
SUITES = ("test_bubblewrap.py", "test_namespaces.py", "test_landlocked.py", "test_plain.py")
FEWEST = 80
SECONDS = 280

pytestmark = pytest.mark.skipif(bool(why_not()), reason=why_not())


@pytest.fixture
def user():
    with OrdinaryUser(PROJECT) as user:
        yield user


@pytest.mark.slow
@pytest.mark.timeout(SECONDS + 20)
@pytest.mark.parametrize("suite", SUITES)
def test_the_suite_passes_as_an_ordinary_user(suite, user):
    shown = "import os; print(os.getuid(), open('/proc/self/status').read())"
    who = user.run([sys.executable, "-c", shown], seconds=SECONDS)
    if who.returncode != 0:
        pytest.skip(f"no ordinary user can run this interpreter here: {who.stderr[-200:]}")
    assert who.stdout.startswith(f"{USER_ID} ")
    assert re.search(r"^CapEff:\s*0+$", who.stdout, re.MULTILINE), "it has no capability left"
    pytest_of = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "no:xdist"]
    pytest_of += [f"--rootdir={PROJECT}", f"-c={PROJECT}/pyproject.toml", f"--basetemp={user.home}/t"]
    ran = user.run([*pytest_of, f"{HERE}/{suite}"], seconds=SECONDS)
    assert ran.returncode == 0, ran.stdout[-8_000:] + ran.stderr[-2_000:]
    passed = re.search(r"(\d+) passed", ran.stdout)
    assert passed is not None
    assert int(passed[1]) >= FEWEST

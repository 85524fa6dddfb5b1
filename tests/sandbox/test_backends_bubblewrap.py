"""The conformance suite on bubblewrap."""

import pytest

from tests.support.sandbox_suite.broker import Brokered
from tests.support.sandbox_suite.changes import Changes
from tests.support.sandbox_suite.endings import Leftovers, Limits, Losing
from tests.support.sandbox_suite.kit import Kit, Subject
from tests.support.sandbox_suite.namespaces import OwnNamespaces
from tests.support.sandbox_suite.restrictions import Files, Network, Warden
from tests.support.sandbox_suite.runs import Runs, Sessions
from toolyard.sandbox.backends.bubblewrap import bubblewrap_sandbox, find_bubblewrap

PROGRAM = find_bubblewrap()
RECIPE = "from toolyard.sandbox.backends.bubblewrap import *; sandbox = bubblewrap_sandbox(find_bubblewrap())"

pytestmark = [pytest.mark.destructive, pytest.mark.skipif(PROGRAM is None, reason="there is no bubblewrap")]


@pytest.fixture
def kit(tmp_path):
    with Kit(Subject(lambda: bubblewrap_sandbox(PROGRAM), RECIPE), str(tmp_path)) as kit:
        yield kit


class TestRuns(Runs):
    pass


class TestSessions(Sessions):
    pass


class TestFiles(Files):
    pass


class TestNetwork(Network):
    pass


class TestWarden(Warden):
    pass


class TestLimits(Limits):
    pass


class TestLeftovers(Leftovers):
    pass


class TestLosing(Losing):
    pass


class TestBrokered(Brokered):
    pass


class TestChanges(Changes):
    pass


class TestOwnNamespaces(OwnNamespaces):
    pass

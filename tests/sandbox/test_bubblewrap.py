"""The conformance suite on bubblewrap."""

import pytest

from toolyard.sandbox.bubblewrap import bubblewrap, find_bubblewrap
from toolyard.testing.sandboxing import Kit, Subject
from toolyard.testing.sandboxing_broker import Brokered
from toolyard.testing.sandboxing_endings import Leftovers, Limits, Losing
from toolyard.testing.sandboxing_namespaces import OwnNamespaces
from toolyard.testing.sandboxing_runs import Runs, Sessions
from toolyard.testing.sandboxing_walls import Files, Network, Warden

PROGRAM = find_bubblewrap()
RECIPE = "from toolyard.sandbox.bubblewrap import *; sandbox = bubblewrap(find_bubblewrap())"

pytestmark = [pytest.mark.destructive, pytest.mark.skipif(PROGRAM is None, reason="there is no bubblewrap")]


@pytest.fixture
def kit(tmp_path):
    with Kit(Subject(lambda: bubblewrap(PROGRAM), RECIPE), str(tmp_path)) as kit:
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


class TestOwnNamespaces(OwnNamespaces):
    pass

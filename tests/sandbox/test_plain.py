"""The conformance suite on no sandbox at all: what the suite expects to succeed there does."""

import pytest

from toolyard.sandbox.plain import plain
from toolyard.testing.sandboxing import Kit, Subject
from toolyard.testing.sandboxing_broker import Brokered
from toolyard.testing.sandboxing_endings import Leftovers, Limits, Losing
from toolyard.testing.sandboxing_runs import Runs, Sessions
from toolyard.testing.sandboxing_walls import Files, Network, Warden

RECIPE = "from toolyard.sandbox.plain import plain; sandbox = plain()"

pytestmark = [pytest.mark.destructive, pytest.mark.slow]


@pytest.fixture
def kit(tmp_path):
    with Kit(Subject(plain, RECIPE), str(tmp_path)) as kit:
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

"""The conformance suite on a real Docker engine."""

from tests.support.sandbox_suite.broker import Brokered
from tests.support.sandbox_suite.changes import Changes
from tests.support.sandbox_suite.endings import Leftovers, Limits, Losing
from tests.support.sandbox_suite.restrictions import Files, Network, Warden
from tests.support.sandbox_suite.runs import Runs, Sessions


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

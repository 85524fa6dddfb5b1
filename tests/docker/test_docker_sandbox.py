"""The conformance suite on a real Docker engine."""

from toolyard.testing.sandboxing_broker import Brokered
from toolyard.testing.sandboxing_endings import Leftovers, Limits, Losing
from toolyard.testing.sandboxing_runs import Runs, Sessions
from toolyard.testing.sandboxing_walls import Files, Network, Warden


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

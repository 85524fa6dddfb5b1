"""The conformance suite on no sandbox at all: what the suite expects to succeed there does."""

import pytest

from tests.support.sandbox_suite.broker import Brokered
from tests.support.sandbox_suite.changes import Changes
from tests.support.sandbox_suite.endings import Leftovers, Limits, Losing
from tests.support.sandbox_suite.kit import Kit, Subject
from tests.support.sandbox_suite.restrictions import Files, Network, Warden
from tests.support.sandbox_suite.runs import Runs, Sessions
from toolyard.sandbox.backends.unsandboxed import unsandboxed_process

RECIPE = "from toolyard.sandbox.backends.unsandboxed import unsandboxed_process; sandbox = unsandboxed_process()"

pytestmark = [pytest.mark.destructive, pytest.mark.slow]


@pytest.fixture
def kit(tmp_path):
    with Kit(Subject(unsandboxed_process, RECIPE), str(tmp_path)) as kit:
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

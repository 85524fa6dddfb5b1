"""What holds for every test."""

import gc
import signal
import sys

import pytest
from hypothesis import HealthCheck, settings

# Shared suites explain their failed assertions like any test.
pytest.register_assert_rewrite("toolyard.testing", "tests.support")
pytest_plugins = ["tests.support.fixtures"]

# How long one example takes says what else the machine does. The test as a whole has its deadline.
settings.register_profile("toolyard", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("toolyard")

# Where the environment says not to write bytecode, each worker of each run would rewrite the assertions of all files
# again: a third of collection. Only collection writes it; the tests run as the environment has it.
_WRITES_NO_BYTECODE = sys.dont_write_bytecode
sys.dont_write_bytecode = False

# Collection makes some million objects that live until the end, so looking for garbage among them is in vain.
gc.disable()

# A signal that was ignored when the tests were started (by nohup, or by a shell in the background) would stay so in
# every program they start, and some of those have to hear it.
for number, usual in ((signal.SIGINT, signal.default_int_handler), (signal.SIGHUP, signal.SIG_DFL)):
    if signal.getsignal(number) is signal.SIG_IGN:
        signal.signal(number, usual)


@pytest.hookimpl(trylast=True)  # after `-m` and `-k` have chosen
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    from tests.support.destructive import contained  # it imports what has to be rewritten first

    items[:] = contained(items)


def pytest_collection_finish() -> None:
    sys.dont_write_bytecode = _WRITES_NO_BYTECODE
    gc.freeze()
    gc.enable()

import pytest

from toolyard.core.loop_thread import LoopThread

from .brokering import Yard


@pytest.fixture
def yard():
    with LoopThread() as thread, Yard(thread.loop) as yard:
        yield yard


@pytest.fixture
def at(monkeypatch):
    """Points this process's calls at a broker."""
    return lambda broker: monkeypatch.setenv("TOOLYARD_BROKER", broker.socket_path)

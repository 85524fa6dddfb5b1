"""The conformance suite on a real Docker engine, and what is particular to containers."""

import pytest

from toolyard.sandbox.docker import docker
from toolyard.testing.sandboxing import Kit, Subject
from toolyard.testing.sandboxing_runs import Runs, Sessions
from toolyard.testing.sandboxing_walls import Files, Network, Warden

RECIPE = (
    "from toolyard.sandbox.docker import docker; sandbox = docker({program!r}, {image!r}, 'none', {environment!r})"
)


@pytest.fixture
def subject(engine, image):
    def make():
        return docker("docker", image, "none", engine.environment)

    return Subject(make, RECIPE.format(program="docker", image=image, environment=engine.environment))


@pytest.fixture
def kit(subject, tmp_path):
    with Kit(subject, str(tmp_path)) as kit:
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

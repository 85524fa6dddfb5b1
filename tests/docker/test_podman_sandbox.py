"""The shared suite on Podman, where it is installed."""

import os

import pytest

from tests.support.sandbox_suite.broker import Brokered
from tests.support.sandbox_suite.changes import Changes
from tests.support.sandbox_suite.endings import Leftovers, Limits, Losing
from tests.support.sandbox_suite.kit import Subject
from tests.support.sandbox_suite.restrictions import Files, Network, Warden
from tests.support.sandbox_suite.runs import Runs, Sessions
from toolyard.sandbox.backends.docker import docker_sandbox
from toolyard.sandbox.spec import Mount

from .podman import prepared, why_not


@pytest.fixture(scope="module")
def environment(engine, image):
    if reason := why_not():
        pytest.skip(reason)
    with prepared(engine, image) as prepared_environment:
        yield prepared_environment


@pytest.fixture
def subject(environment, image):
    imports = "from toolyard.sandbox.backends.docker import docker_sandbox"
    recipe = f"{imports}; sandbox = docker_sandbox('podman', {image!r}, 'none', "
    return Subject(
        lambda: docker_sandbox("podman", image, client_environment=environment), f"{recipe}{environment!r})"
    )


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


@pytest.mark.parametrize("name", ["a,b", 'a"b', "a:b", "a b", "a=b", "é\n"])
def test_a_folder_may_have_any_name(kit, name):
    source = os.path.dirname(kit.file(f"given {name}/{name}/file", "text\n"))
    hidden = os.path.dirname(kit.file(f"workspace/{name}/file", "SECRET\n"))
    box = kit.open(mounts=(Mount(source),), hidden=(hidden,))

    ran = box.python(f"import os\n[os.listdir({source!r}), os.listdir({hidden!r})]")

    assert ran.value == "[['file'], []]"


class TestChanges(Changes):
    pass

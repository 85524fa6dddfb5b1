"""A real Docker engine and the project's image, once for all tests here; run by `make docker`.

The tests are skipped where no engine can be started. With TOOLYARD_REQUIRE_DOCKER=1 that is a failure instead.
"""

import os
import pathlib

import pytest

from tests.support.sandbox_suite.kit import Kit, Subject
from toolyard.sandbox.backends.docker import docker_sandbox

from .engine import running, why_not
from .image import build_image

TEST_SECONDS = 900
NEEDS_AN_ENGINE = {"engine", "test_engine.py"}
"""A fixture, or a file whose tests start engines themselves. The other tests here run anywhere."""


def pytest_collection_modifyitems(items):
    here = f"{pathlib.Path(__file__).parent}/"
    for item in items:  # of all folders: twenty thousand, so no paths are compared part by part
        if str(item.path).startswith(here) and NEEDS_AN_ENGINE & {*item.fixturenames, item.path.name}:
            item.add_marker(pytest.mark.docker)
            item.add_marker(pytest.mark.timeout(TEST_SECONDS))


@pytest.fixture(scope="session")
def engine():
    reason = why_not()
    if reason is not None and os.environ.get("TOOLYARD_REQUIRE_DOCKER") == "1":
        pytest.fail(reason)
    if reason is not None:
        pytest.skip(reason)
    with running() as started:
        yield started


@pytest.fixture(scope="session")
def image(engine):
    return build_image(engine)


@pytest.fixture
def subject(engine, image):
    """Sandboxes on that engine, for the shared suite."""
    imports = "from toolyard.sandbox.backends.docker import docker_sandbox"
    recipe = f"{imports}; sandbox = docker_sandbox('docker', {image!r}, 'none', {{}})"
    return Subject(
        lambda: docker_sandbox("docker", image, client_environment=engine.environment),
        recipe.replace("{}", repr(engine.environment)),
    )


@pytest.fixture
def kit(subject, tmp_path):
    with Kit(subject, str(tmp_path)) as kit:
        yield kit

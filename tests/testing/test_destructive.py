"""Destructive tests run where they can destroy nothing, and what fails there fails here."""

import os
import subprocess
import sys

import pytest

PROJECT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.realpath(__file__))))
SAMPLE = "tests/testing/destructive_sample.py"
SECONDS = 50

pytestmark = pytest.mark.skipif(
    bool(os.statvfs(PROJECT).f_flag & os.ST_RDONLY), reason="these tests run in such a place themselves"
)


def run(*options):
    """The exit code of pytest, and what it printed."""
    command = [sys.executable, "-m", "pytest", "-v", "-p", "no:cacheprovider", SAMPLE, *options]
    environment = {name: value for name, value in os.environ.items() if name != "PYTEST_ADDOPTS"}
    ran = subprocess.run(
        command, cwd=PROJECT, env=environment, capture_output=True, text=True, timeout=SECONDS, check=False
    )
    if "No private mount namespace can be made here" in ran.stdout:
        pytest.skip(ran.stdout)
    return ran.returncode, ran.stdout


def test_a_destructive_test_runs_in_a_private_mount_namespace():
    code, printed = run("-k", "writes")
    assert code == 0, printed
    assert "in a private mount namespace PASSED" in printed
    assert "1 passed, 2 deselected" in printed


def test_those_of_one_file_run_together_and_their_failure_is_told_and_others_run_here():
    code, printed = run()
    assert code == 1, printed
    assert "1 failed, 1 passed" in printed
    assert "test_plain PASSED" in printed
    assert "2 tests were run" in printed
    assert "on purpose" in printed

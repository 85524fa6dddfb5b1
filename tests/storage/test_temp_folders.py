"""Temporary folders go with their owner, also when it was killed."""

import os
import subprocess
import sys
import tempfile

import pytest

from toolyard.storage import temp_folders
from toolyard.storage.temp_folders import TemporaryFolder, sweep

OWNER = """
import sys
from toolyard.storage.temp_folders import TemporaryFolder
print(TemporaryFolder("door").path, flush=True)
sys.stdin.read()
"""


@pytest.fixture(autouse=True)
def parent(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    temp_folders._sweep_once.cache_clear()
    folder = tmp_path / "toolyard" / "run"
    folder.mkdir(parents=True)
    return folder


def aged(path):
    os.utime(path, (1, 1))
    return path


@pytest.fixture
def owner(parent):
    with subprocess.Popen(
        [sys.executable, "-c", OWNER], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        process.path = aged(process.stdout.readline().strip())
        yield process
        process.kill()


def test_a_folder_is_private_and_goes_when_it_is_closed():
    with TemporaryFolder("door") as folder:
        assert os.stat(folder.path).st_mode & 0o777 == 0o700
        os.mkdir(f"{folder.path}/deep")
        os.chmod(f"{folder.path}/deep", 0)
    folder.close()
    assert not os.path.exists(folder.path)


def test_what_a_killed_owner_left_is_removed_by_the_next_and_what_a_living_one_holds_is_not(owner, parent):
    with TemporaryFolder("door"):
        assert os.path.isdir(owner.path)
    owner.kill()
    owner.wait()
    assert os.path.isdir(owner.path)
    sweep("door", str(parent))
    assert not os.path.exists(owner.path)


def test_the_first_of_a_kind_sweeps(parent):
    left = aged(tempfile.mkdtemp(prefix="toolyard-door-", dir=parent))
    with TemporaryFolder("other"):
        assert os.path.isdir(left)
    with TemporaryFolder("door"):
        assert not os.path.exists(left)


def test_young_folders_links_and_files_are_left_alone(parent):
    young = tempfile.mkdtemp(prefix="toolyard-door-", dir=parent)
    (parent / "elsewhere").mkdir()
    (parent / "elsewhere" / "kept").write_text("")
    aged(parent / "elsewhere")
    (parent / "toolyard-door-link").symlink_to(parent / "elsewhere")
    (parent / "toolyard-door-file").write_text("")
    aged(parent / "toolyard-door-file")
    sweep("door", str(parent))
    assert os.path.isdir(young)
    assert sorted(os.listdir(parent)) == sorted(
        [os.path.basename(young), "elsewhere", "toolyard-door-file", "toolyard-door-link"]
    )
    assert os.listdir(parent / "elsewhere") == ["kept"]


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can make another's folder")
def test_another_users_folder_is_left_alone(parent):
    other = tempfile.mkdtemp(prefix="toolyard-door-", dir=parent)
    os.chown(other, 65534, 65534)
    sweep("door" if aged(other) else "", str(parent))
    assert os.path.isdir(other)

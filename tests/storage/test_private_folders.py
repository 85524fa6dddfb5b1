"""Where sockets, settings of runs and scratch folders lie."""

import os
import shutil
import stat
import tempfile

import pytest

from toolyard.core.errors import SystemFault
from toolyard.storage.private_folders import own_folders, run_folder, socket_folder


@pytest.fixture(autouse=True)
def state(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    monkeypatch.delenv("XDG_RUNTIME_DIR", raising=False)
    return f"{tmp_path}/toolyard/run"


@pytest.fixture
def runtime(monkeypatch):
    folder = tempfile.mkdtemp(dir="/dev/shm")
    monkeypatch.setenv("XDG_RUNTIME_DIR", folder)
    yield folder
    shutil.rmtree(folder)


def mode(path):
    return stat.S_IMODE(os.stat(path).st_mode)


def test_without_a_runtime_folder_sockets_lie_in_the_state_folder(state):
    assert (socket_folder(), run_folder(), own_folders()) == (state, state, (state,))
    assert mode(state) == 0o700


def test_a_runtime_folder_of_the_user_is_for_sockets_and_not_for_what_may_become_large(state, runtime):
    assert (socket_folder(), run_folder()) == (f"{runtime}/toolyard", state)
    assert own_folders() == (state, f"{runtime}/toolyard")
    assert mode(f"{runtime}/toolyard") == 0o700


def test_a_runtime_folder_that_is_open_to_others_is_not_used(state, runtime):
    os.chmod(runtime, 0o755)
    assert socket_folder() == state


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can make another's folder")
def test_a_runtime_folder_of_another_user_is_not_used(state, runtime):
    os.chown(runtime, 65534, 65534)
    assert socket_folder() == state


def test_a_runtime_folder_below_a_temp_folder_is_not_used(state, tmp_path, monkeypatch):
    (tmp_path / "runtime").mkdir(mode=0o700)
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path / "runtime"))
    assert socket_folder() == state


def test_a_folder_that_cannot_be_made_is_told(tmp_path, monkeypatch):
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "file"))
    with pytest.raises(SystemFault, match="cannot be made private to you"):
        socket_folder()

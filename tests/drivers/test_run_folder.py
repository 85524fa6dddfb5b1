"""The folder of a run: nobody else's to look into, with a copy of the user's login and nothing else of theirs."""

from __future__ import annotations

import os
import stat

import pytest

from toolyard.core.errors import SystemFault
from toolyard.drivers.driver import Login
from toolyard.drivers.registry import DRIVERS
from toolyard.drivers.run_folder import RunFolder

LOGIN = Login(".cli", "auth.json", "settings/auth.json", "CLI_HOME")


@pytest.fixture
def parent(tmp_path, monkeypatch):
    """The folder for runs of this user, in a umask that hides nothing."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    former = os.umask(0)
    yield tmp_path / "toolyard" / "run"
    os.umask(former)


@pytest.fixture
def folder(parent):
    with RunFolder() as made:
        yield made


def mode_of(path: str) -> int:
    return stat.S_IMODE(os.stat(path).st_mode)


def test_nobody_else_can_look_into_it(folder, parent):
    assert os.path.dirname(folder.path) == str(parent)
    folder.write({"settings/deep/settings.json": "{}", "prompt": "between us"})
    assert mode_of(folder.path) == 0o700
    for name in ("settings/deep/settings.json", "prompt"):
        assert mode_of(os.path.join(folder.path, name)) == 0o600


def test_it_goes_with_all_that_is_in_it(parent):
    with RunFolder() as made:
        made.write({"a/b/c": "x"})
        os.symlink(parent, os.path.join(made.path, "link"))
    assert os.listdir(parent) == []


def test_what_is_there_already_is_not_written_through(folder, parent):
    (parent / "theirs").write_text("theirs")
    os.symlink(parent / "theirs", os.path.join(folder.path, "settings.json"))
    with pytest.raises(SystemFault, match="cannot be written"):
        folder.write({"settings.json": "ours"})
    assert (parent / "theirs").read_text() == "theirs"


def test_a_login_is_copied_and_nothing_beside_it(folder, tmp_path):
    (tmp_path / ".cli").mkdir()
    for name in ("auth.json", "settings.json"):
        (tmp_path / ".cli" / name).write_text(f"the user's {name}")
    assert folder.copy_logins([LOGIN], str(tmp_path), {})
    copy = os.path.join(folder.path, LOGIN.copy_path)
    assert os.listdir(os.path.dirname(copy)) == ["auth.json"]
    assert mode_of(copy) == 0o600
    with open(copy, "a") as file:
        assert file.write("changed by the CLI")
    assert (tmp_path / ".cli" / "auth.json").read_text() == "the user's auth.json"


def test_a_login_is_found_where_the_users_variable_says(folder, tmp_path):
    assert not folder.copy_logins([LOGIN], str(tmp_path), {"CLI_HOME": str(tmp_path / "other")})
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "auth.json").write_text("there")
    assert folder.copy_logins([LOGIN], str(tmp_path), {"CLI_HOME": str(tmp_path / "other")})


def test_no_cli_has_its_settings_copied_as_a_login():
    names = {login.name for driver in DRIVERS.values() for login in driver.logins}
    assert not names & {"settings.json", "config.toml", "opencode.json", ".claude.json", "settings.local.json"}

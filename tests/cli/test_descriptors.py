"""With too few file descriptors every command says that, and does not call it a bug or a damaged file."""

import subprocess
import sys

import pytest

COMMANDS = {"exec": ["exec", "--bash", "-c", "echo hi > b.txt"], "snapshot": ["snapshot", "create"]}


@pytest.mark.parametrize("limit", [10, 20, 28, 48, 64])
@pytest.mark.parametrize("name", COMMANDS)
def test_a_want_of_descriptors_is_named(tmp_path, name, limit):
    (tmp_path / "ws").mkdir()
    (tmp_path / "ws" / "a.txt").write_text("a")
    words = [sys.executable, "-m", "toolyard", *COMMANDS[name]]
    words += ["--workspace", str(tmp_path / "ws"), "--state", str(tmp_path / "state")]
    limited = ["prlimit", f"--nofile={limit}:{limit}", *words]
    done = subprocess.run(limited, check=False, capture_output=True, text=True, timeout=120, stdin=subprocess.DEVNULL)
    if done.returncode != 0:
        assert f"no file descriptors left: this process may open {limit} files" in done.stderr
        assert "ulimit -n" in done.stderr
    assert name == "snapshot" or done.returncode != 0, "so few are not enough for a sandbox"
    assert "bug in Toolyard" not in done.stderr
    assert "rebuild" not in done.stderr

"""Importing tools from wherever code stands."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

import toolyard_runtime

STARTUP = Path(toolyard_runtime.__file__).parent / "startup"
DEADLINE = 50


@pytest.fixture
def python(tmp_path):
    """A script's output, run in another folder than the tools' own."""
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()

    def run(code, *before, **variables):
        named = {"TOOLYARD_PACKAGES": str(tmp_path), "PYTHONPATH": ":".join([*map(str, before), str(STARTUP)])}
        done = subprocess.run(
            [sys.executable, "-c", code],
            cwd=elsewhere,
            env={**os.environ, **named, **variables},
            capture_output=True,
            text=True,
            timeout=DEADLINE,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    return run


def put(path, text=""):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def test_tools_are_found_with_and_without_an_init_file(python, tmp_path):
    put(tmp_path / "mcp_client/__init__.py")
    put(tmp_path / "servers/a/__init__.py", "X = 1")
    put(tmp_path / "skills/community/b.py", "Y = 2")
    code = "import servers.a\nfrom skills.community import b\nprint(servers.a.X, b.Y)"
    assert python(code) == "1 2\n"


def test_nothing_else_of_that_folder_can_be_imported(python, tmp_path):
    put(tmp_path / "json.py", "raise SystemExit('not this one')")
    put(tmp_path / "own.py")
    code = "import json\ntry: import own\nexcept ImportError as error: print(error)"
    assert python(code) == "No module named 'own'\n"


def test_what_is_not_there_is_missed_by_its_name(python):
    code = "try: import {}.a\nexcept ModuleNotFoundError as error: print(error.name)"
    assert python(code.format("tools")) == "tools\n"
    assert python(code.format("servers")) == "servers.a\n"  # `servers` itself has our own file tools in it


def test_a_package_of_ones_own_is_not_replaced(python, tmp_path):
    put(tmp_path / "tools/web.py", "FROM = 'tools'")
    put(tmp_path / "mine/tools/__init__.py", "OWN = 1")
    put(tmp_path / "mine/tools/web.py", "FROM = 'mine'")
    assert python("import tools, tools.web\nprint(tools.OWN, tools.web.FROM)", tmp_path / "mine") == "1 mine\n"


def test_a_folder_of_that_name_without_tools_is_in_nobodys_way(python, tmp_path):
    put(tmp_path / "mcp_client/__init__.py")
    put(tmp_path / "servers/a.py", "X = 1")
    put(tmp_path / "elsewhere/servers/notes.txt")
    assert python("import servers.a\nprint(servers.a.X)") == "1\n"


def test_another_file_for_the_start_of_python_is_run_too(python, tmp_path):
    put(tmp_path / "site/sitecustomize.py", "import builtins; builtins.theirs = 'ran'")
    put(tmp_path / "servers/a.py", "X = 1")
    code = "import servers.a\nprint(theirs, servers.a.X)"
    assert python(code, PYTHONPATH=f"{STARTUP}:{tmp_path / 'site'}") == "ran 1\n"


def test_without_tools_nothing_is_installed(python):
    code = "import sys\nprint([type(one).__name__ for one in sys.meta_path if type(one).__name__ == 'PackageFinder'])"
    assert python(code, TOOLYARD_PACKAGES="") == "[]\n"
    assert python(code) == "['PackageFinder']\n"

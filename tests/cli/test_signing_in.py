"""A remote server that wants a sign-in, from the command line: shown once on the terminal, then used by code."""

from __future__ import annotations

import json
import os
import pty
import re
import subprocess
import sys
import urllib.request
from pathlib import Path

import pytest

from tests.mcp_client.remotes import remote_server

TOOLYARD = [sys.executable, "-m", "toolyard"]
ADDRESS = re.compile(r"http://127\.0\.0\.1:\d+/authorize\S+")
CODE = "from servers.tickets import echo\nprint(echo.sync(text='hi')['result'])"


@pytest.fixture
def signing_in(tmp_path: Path):
    (tmp_path / "ws").mkdir()
    config = tmp_path / "team.yaml"
    with remote_server(oauth=True) as remote:
        servers = {"tickets": {"url": remote.url}}
        config.write_text(json.dumps({"toolyard": {"workspace": "ws", "available_mcp_servers": servers}}))
        yield lambda *words: [*TOOLYARD, *words, "--config", str(config), "--state", str(tmp_path / "state")]
        assert remote.authority is not None
        assert remote.authority.sign_ins <= 1


def _until_address(terminal: int) -> str:
    """What the terminal shows, up to an address that is whole."""
    shown = ""
    while not (found := ADDRESS.search(shown)) or found.end() == len(shown):
        shown += os.read(terminal, 4096).decode()
    return found[0]


def test_the_address_is_shown_on_the_terminal_and_the_sign_in_is_kept(signing_in) -> None:
    terminal, its_end = pty.openpty()
    try:
        with subprocess.Popen(signing_in("sync"), stdout=subprocess.PIPE, stderr=its_end, text=True) as syncing:
            os.close(its_end)
            with urllib.request.urlopen(_until_address(terminal), timeout=10) as page:
                assert b"You can close this page" in page.read()
            told = syncing.communicate(timeout=30)[0]
    finally:
        os.close(terminal)
    assert syncing.returncode == 0, told
    assert "5 tools of 1 server;" in told
    ran = subprocess.run(signing_in("exec", "-c", CODE), capture_output=True, text=True, timeout=50, check=False)
    assert (ran.stdout, ran.returncode) == ("hi\n", 0), ran.stderr


def test_without_a_terminal_it_fails_at_once_and_says_what_to_do(signing_in) -> None:
    ran = subprocess.run(signing_in("sync"), capture_output=True, text=True, timeout=30, check=False)
    assert ran.returncode == 1
    assert "requires authentication" in ran.stderr
    assert "toolyard sync" in ran.stderr

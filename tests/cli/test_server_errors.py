"""A server's failure on a terminal: its name once, and the end of what it printed."""

from __future__ import annotations

import sys

from toolyard.cli.common.server_errors import last_stderr_lines, without_server_name

from .conftest import Attached

LOUD = (
    "import sys\nfor n in range(30): print('line', n, file=sys.stderr)\nprint('no licence', file=sys.stderr)\nexit(3)"
)


def test_the_name_is_not_repeated() -> None:
    error = (
        "Server 'bad' ended (exit code 3). The next call starts it again. `toolyard doctor` shows what it printed."
    )
    assert without_server_name("bad", error) == (
        "ended (exit code 3). Provide what it needs, such as a key in the entry's `env`."
    )
    assert without_server_name("other", error).startswith("Server 'bad'")


def test_the_last_lines_are_kept_and_those_before_are_counted() -> None:
    assert last_stderr_lines("a\n\nb\n") == ("a", "b")
    assert last_stderr_lines("only\n", "last output: only.") == ()
    assert last_stderr_lines("".join(f"{n}\n" for n in range(9))) == ("… 3 lines before", *"345678")


def test_sync_and_doctor_show_what_a_failing_server_printed(attached: Attached) -> None:
    servers = attached.document["toolyard"]["available_mcp_servers"]
    servers["bad"] = {"command": [sys.executable, "-c", LOUD]}
    servers["keyless"] = {"command": "x", "env": {"KEY": "${NOBODY_HAS_SET_THIS}"}}
    said = attached.run("sync", code=1)
    assert "✗ bad: ended (exit code 3)" in said
    assert "in the entry's `env`." in said
    assert "After fixing this, run `toolyard sync --config " in said
    assert "    … 25 lines before\n" in said
    assert "    line 29\n    no licence\n" in said
    assert "Server 'bad'" not in said
    assert f"✗ keyless: cannot be started: {attached.config}: the variable NOBODY_HAS_SET_THIS is not set." in said
    told = attached.run("doctor")
    assert "warn  server bad: ended (exit code 3)" in told
    assert "line 28 | line 29 | no licence" in told


def test_servers_that_never_answered_are_said_to_be_so(attached: Attached) -> None:
    attached.document["toolyard"]["available_mcp_servers"] = {"bad": {"command": "no-such-program"}}
    attached.run("sync", code=1)
    said = attached.run("doctor")
    assert "servers: 1 configured, none has answered yet" in said
    assert "asked never" not in said

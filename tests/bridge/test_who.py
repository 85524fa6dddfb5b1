"""Whose files are whose, who is counted, and what is written down."""

from __future__ import annotations

import contextlib
import json
import logging
import subprocess
import sys
from types import SimpleNamespace

import httpx2
import pytest
from mcp import Client
from mcp.client.streamable_http import streamable_http_client

from tests.bridge.agent import Agent
from tests.bridge.conftest import LEGACY, MODERN, ROOT, SERVER
from toolyard.bridge import (
    BadAnswerError,
    BridgeHost,
    ClientRefusedError,
    FilesystemBridge,
    NewFile,
    PathRefusedError,
    SecurityPolicy,
    Violation,
    on_the_wire,
)
from toolyard.bridge.audit import TRACE, Auditor
from toolyard.bridge.client import SamplingAnswer
from toolyard.bridge.errors import CacheRefusedError
from toolyard.bridge.mcp_client import client_identity
from toolyard.bridge.pending_reads import PendingReads
from toolyard.bridge.violations import ViolationCounter
from toolyard.core.calls import AnswerPending
from toolyard.core.errors import ConfigError, SystemFault, ToolError
from toolyard.storage.audit_log import AuditLog
from toolyard.storage.audit_reader import read

CLIENT = SimpleNamespace(identity="c", title="scripted 1.0")


@contextlib.asynccontextmanager
async def connected(port, era, project, **headers):
    async with httpx2.AsyncClient(headers=headers, timeout=30) as http:
        transport = streamable_http_client(f"http://127.0.0.1:{port}/mcp", http_client=http)
        agent = Agent(project, ROOT)
        async with Client(transport, mode=era) as client:
            agent.client = client
            yield agent


@pytest.mark.slow
@pytest.mark.parametrize("era", [LEGACY, MODERN])
async def test_files_of_one_client_are_not_served_to_another(project, era):
    command = [sys.executable, SERVER, "--root", ROOT, "--violations", "1", "--http"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            port = int(process.stdout.readline())
            async with (
                connected(port, era, project, Authorization="Bearer one") as one,
                connected(port, era, project, Authorization="Bearer two") as two,
            ):
                await one.push("src/a.py")
                assert await one.call("read_file", path="src/a.py") == "print('a')\n"
                error = await two.fails("read_file", path="src/a.py")
                assert error.error.data["reason"] == "sampling_unsupported"
                await two.fails("read_file", path="/etc/passwd")
                refused = await two.fails("read_file", path="src/a.py")
                assert refused.error.data["reason"] == "client_refused"
                assert await one.call("read_file", path="src/a.py") == "print('a')\n"
        finally:
            process.terminate()


def context(version="2025-11-25", **headers):
    return SimpleNamespace(request=SimpleNamespace(headers=headers), protocol_version=version)


def test_clients_are_told_apart_by_session_or_sign_in():
    one, other = (
        client_identity(context(authorization="Bearer a")),
        client_identity(context(authorization="Bearer b")),
    )
    assert one != other
    assert "Bearer" not in one
    assert client_identity(context(**{"mcp-session-id": "s"})) != one
    assert client_identity(SimpleNamespace(request=None)) == "local"


def test_a_token_goes_before_a_session_and_is_the_same_however_it_is_spelled():
    known = client_identity(context(authorization="Bearer a"))
    for value in ("bearer a", "Bearer  a", " BEARER a "):
        assert client_identity(context(authorization=value, **{"mcp-session-id": "s"})) == known


def test_a_session_that_nobody_has_checked_is_nobodys():
    with pytest.raises(ConfigError):
        client_identity(context(MODERN, **{"mcp-session-id": "s"}))


def test_where_nothing_tells_clients_apart_nothing_is_served():
    with pytest.raises(ConfigError) as error:
        client_identity(context(**{"user-agent": "x"}))
    assert "identify" in error.value.hint


async def test_who_runs_the_server_may_say_whose_files_are_whose(project):
    host = BridgeHost(SecurityPolicy(ROOT), identify=lambda _: "everybody")
    from mcp.server.mcpserver import MCPServer

    server: MCPServer = MCPServer("shared")
    host.offer(server)
    agent = Agent(project, ROOT)
    async with Client(server) as client:
        agent.client = client
        await agent.push("src/a.py")
    assert host.cache.get(f"{ROOT}/src/a.py", client="everybody").content == b"print('a')\n"


def test_past_the_threshold_a_client_is_refused_and_stays_so():
    violations = ViolationCounter(2)
    violations.check("c")
    assert [violations.add("c"), violations.add("c")] == [1, 2]
    with pytest.raises(ClientRefusedError):
        violations.check("c")
    violations.check("other")


def test_a_refusal_ends_after_its_time():
    now = [0.0]
    violations = ViolationCounter(2, seconds=60, clock=lambda: now[0])
    violations.add("one")
    now[0] = 30.0
    violations.add("one")
    now[0] = 89.0
    with pytest.raises(ClientRefusedError, match="refused for 1 more seconds"):
        violations.check("one")
    now[0] = 90.0
    violations.check("one")
    assert violations.count_for("one") == 0


def test_a_refusal_without_a_time_lasts_until_the_restart():
    now = [0.0]
    violations = ViolationCounter(1, seconds=None, clock=lambda: now[0])
    violations.add("one")
    now[0] = 1e9
    with pytest.raises(ClientRefusedError, match="until the server restarts"):
        violations.check("one")


def test_clients_that_come_and_go_do_not_push_out_one_that_is_refused(monkeypatch):
    monkeypatch.setattr("toolyard.bridge.violations._MAX_CLIENTS", 5)
    violations = ViolationCounter(2)
    violations.add("bad")
    violations.add("bad")
    for number in range(50):
        violations.add(f"c{number}")
    with pytest.raises(ClientRefusedError):
        violations.check("bad")


def refused():
    return PathRefusedError("x\x1b[2J", Violation.OUTSIDE, "is out.", hint="no")


def test_a_violation_is_told_with_path_kind_stack_and_client(caplog):
    auditor = Auditor(ViolationCounter())
    with pytest.raises(PathRefusedError), auditor.operation("read_file", "x\x1b[2J", CLIENT):
        raise refused()
    [record] = caplog.records
    assert (record.levelno, record.name) == (logging.WARNING, "toolyard.bridge")
    assert "\x1b" not in record.getMessage()
    told = record.bridge
    assert (told.violation, told.event.target, told.event.agent) == ("outside", "x\\x1b[2J", "scripted 1.0")
    assert "test_a_violation_is_told" in told.stack


def test_what_goes_well_is_told_at_trace_alone(caplog):
    auditor = Auditor(ViolationCounter())
    with auditor.operation("read_file", "a", CLIENT):
        pass
    assert caplog.records == []
    with caplog.at_level(TRACE, "toolyard.bridge"), auditor.operation("read_file", "a", CLIENT):
        pass
    assert [record.levelname for record in caplog.records] == ["TRACE"]


def test_every_ending_is_one_line_of_the_audit_log(tmp_path):
    with AuditLog.open(str(tmp_path / "state")) as log:
        auditor = Auditor(ViolationCounter(), log)
        with auditor.operation("read_file", "a", CLIENT):
            pass
        for error in (refused(), ToolError("no"), AnswerPending(), KeyboardInterrupt()):
            with contextlib.suppress(type(error)), auditor.operation("read_file", "a", CLIENT):
                raise error
    outcomes = [(each.event.outcome, each.event.code) for each in read(str(tmp_path / "state"))]
    assert outcomes == [("ok", 0), ("denied", -32001), ("failed", -32603), ("asked", 0), ("cancelled", 0)]


def test_the_servers_own_troubles_are_not_told_to_clients(caplog):
    said = on_the_wire(SystemFault("The cache in /srv/secret/cache.sqlite3 cannot be used.", hint="Look at /srv."))
    assert said.error.code == -32000
    assert "/srv" not in str(said.error)
    assert "/srv/secret" in caplog.text


def test_a_log_that_cannot_be_written_fails_the_operation():
    def full(_):
        raise ToolError("the disk is full")

    auditor = Auditor(ViolationCounter(), SimpleNamespace(append=full))
    with pytest.raises(ToolError, match="full"), auditor.operation("read_file", "a", CLIENT):
        pass


A, B = NewFile("a", b"12345"), NewFile("b", b"12345")


def test_what_is_handed_over_is_kept_for_a_read_and_gone_after_it():
    pending = PendingReads(100)
    assert not pending.waits_for("c", "a")
    with pending.expect_files("c", ["a"], 10):
        assert pending.waits_for("c", "a")
        assert not pending.waits_for("other", "a")
        pending.store_all("c", [A])
        assert pending.received_file("c", "a", 0) is A
    assert pending.received_file("c", "a", 0) is None


def test_a_read_that_goes_on_with_the_next_request_is_waited_for_until_its_time_is_up():
    now = [0.0]
    pending = PendingReads(100, lambda: now[0])
    with pytest.raises(AnswerPending), pending.expect_files("c", ["a"], 10):
        raise AnswerPending
    pending.store_all("c", [A])
    with pytest.raises(AnswerPending), pending.expect_files("c", ["a"], 10):
        assert pending.received_file("c", "a", 0) is A
        raise AnswerPending
    now[0] = 11
    assert not pending.waits_for("c", "a")
    with pending.expect_files("c", ["b"], 10):
        assert pending.received_file("c", "a", 0) is None


def test_what_was_handed_over_for_an_earlier_read_is_not_taken_for_a_later_one():
    now = [1.0]
    pending = PendingReads(100, lambda: now[0])
    with pytest.raises(AnswerPending), pending.expect_files("c", ["a"], 10):
        raise AnswerPending
    pending.store_all("c", [A])
    with pending.expect_files("c", ["a"], 10):
        assert pending.received_file("c", "a", 1.0) is A
        assert pending.received_file("c", "a", 2.0) is None


def test_one_client_leaves_room_for_the_reads_of_others():
    pending = PendingReads(9)
    with pytest.raises(AnswerPending), pending.expect_files("greedy", [str(n) for n in range(1_000)], 10):
        raise AnswerPending
    with pytest.raises(ToolError), pending.expect_files("greedy", ["more"], 10):
        raise AssertionError
    pending.store_all("greedy", [NewFile("1", b"123456789")])
    with pending.expect_files("c", ["a"], 10):
        pending.store_all("c", [A])


def test_what_was_kept_with_something_that_could_not_be_is_taken_back():
    pending = PendingReads(100)
    with pending.expect_files("c", ["a"], 10):
        pending.store_all("c", [A])
        pending.discard_all("c", [A])
        assert pending.received_file("c", "a", 0) is None


def test_two_reads_of_one_file_do_not_take_it_from_each_other():
    pending = PendingReads(100)
    with pending.expect_files("c", ["a"], 10):
        with pending.expect_files("c", ["a"], 10):
            pending.store_all("c", [A])
        assert pending.received_file("c", "a", 0) is A


def test_what_is_kept_aside_has_a_limit_and_a_batch_is_kept_whole_or_not():
    pending = PendingReads(9)
    with pending.expect_files("c", ["a", "b"], 10):
        with pytest.raises(CacheRefusedError):
            pending.store_all("c", [A, B])
        assert pending.received_file("c", "a", 0) is None
        pending.store_all("c", [A])
        pending.store_all("c", [A])  # in place of itself


def test_there_is_an_end_to_what_is_waited_for():
    pending = PendingReads(9)
    with pytest.raises(ToolError, match="Too many"), pending.expect_files("c", [str(n) for n in range(2_000)], 10):
        raise AssertionError


async def test_a_copy_from_before_the_question_is_not_taken_for_its_answer():
    """As when another process keeps an older version in the cache that they share."""
    path = f"{ROOT}/src/a.py"
    host = BridgeHost(SecurityPolicy(ROOT))
    host.cache.put(path, b"old", client="c")

    async def ask(questions, seconds):
        return [
            SamplingAnswer(
                json.dumps({"path": path, "status": "cached"}), host.cache.peek(path, client="c").stored + 1
            )
        ]

    client = SimpleNamespace(
        **vars(CLIENT), can_sample=True, can_use_tools=False, offers_roots=False, has_answered=lambda _: True, ask=ask
    )
    with pytest.raises(BadAnswerError, match="was not"):
        await FilesystemBridge(client, host._shared).read_file("src/a.py")

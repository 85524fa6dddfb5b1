from __future__ import annotations

import os
import re
import subprocess
import sys

import pytest

from benchmarks.benchmark import Sizes
from benchmarks.codemode import attached_servers, calls, peers, search, startup, suite, tool_files
from benchmarks.codemode.fixture import Place, Served
from benchmarks.codemode.peers import Peer
from benchmarks.lean_client import BenchFault
from benchmarks.processes import descendants
from tests.benchmarks.conftest import nothing_left
from toolyard.codemode.sync_report import SyncRequest
from toolyard.core.errors import SecurityError
from toolyard.core.tokens import has_tokenizer
from toolyard.core.upstream import ServerListing, ToolSchema
from toolyard.sandbox.backends.bubblewrap import find_bubblewrap

pytestmark = pytest.mark.slow  # they measure: small, but with real servers and sandboxes

TINY = Sizes(rounds=1, tree_files=4, calls=2, starts=1, loops=2, servers=3, universe=2)
needs_a_sandbox = pytest.mark.skipif(find_bubblewrap() is None, reason="there is no bubblewrap")
needs_a_tokenizer = pytest.mark.skipif(not has_tokenizer(), reason="there is no tokenizer")
CONTENT = {"type": "object", "properties": {"text": {"type": "string"}}}


@pytest.fixture
def without_fastmcp(monkeypatch):
    def cannot(_):
        raise BenchFault("not here")

    monkeypatch.setattr(calls, "fastmcp_code_mode", cannot)


def measured(settings, only):
    """The rows of one measure; nothing is left behind."""
    with nothing_left(settings):
        *rows, others = suite.run(TINY, settings, lambda _: None, {only}).rows
    assert others == suite.ELSEWHERE
    return {row.name: row for row in rows}


def targets(rows):
    return {name: row.target for name, row in rows.items()}


@needs_a_sandbox
def test_calls_are_measured_alone_among_many_in_parallel_and_beside_peers(settings, without_fastmcp):
    rows = measured(settings, "calls")
    assert targets(rows) == {
        "tool call from the sandbox": "≤ 0.7x",
        "the same, 3 servers attached": "≤ 1.3x",
        "100 calls in parallel": "≤ 1.2x",
        "the same, beside FastMCP's code mode": "",
    }
    *ours, fastmcp = rows.values()
    assert all(row.ours > 0 and row.peer > 0 for row in ours)
    assert (fastmcp.ours, fastmcp.note) == (None, "skipped: not here")


@needs_a_sandbox
def test_the_first_call_is_measured_beside_the_servers_own_start(settings, monkeypatch):
    called = []
    figure = Served.figure

    def watched(served, code):
        called.extend(re.findall(r"from servers\.(\w+)", code))
        return figure(served, code)

    monkeypatch.setattr(Served, "figure", watched)
    row = measured(settings, "first")["first call to a server"]
    assert (row.target, row.ours > 0, row.peer > 0) == ("≤ 1.2x", True, True)
    assert len(called) == len(set(called)) > TINY.starts  # no server is called twice


def test_compiling_is_measured_for_each_tool(settings):
    row = measured(settings, "compile")["compile one tool"]
    assert (row.target, row.ours > 0) == ("≤ 0.5 ms", True)


def test_a_sync_of_unchanged_servers_is_measured_and_writes_nothing(settings):
    rows = measured(settings, "sync")
    assert targets(rows) == {"sync of 3 unchanged servers": "≤ 150 ms", "files it writes": "≤ 0 files"}
    assert rows["files it writes"].ours == 0
    assert "the whole command takes" in rows["sync of 3 unchanged servers"].note


def test_a_sync_that_asks_servers_again_is_no_figure(settings, monkeypatch):
    monkeypatch.setattr(tool_files, "SyncRequest", lambda: SyncRequest(refresh=True))
    with pytest.raises(BenchFault, match="A sync of unchanged servers asked 3"):
        measured(settings, "sync")


def test_a_place_with_servers_attached_is_measured_without_starting_one(settings):
    rows = measured(settings, "attached")
    assert targets(rows) == {
        "ready with 3 servers attached": "≤ 500 ms",
        "server processes with 3 servers attached": "≤ 0 processes",
        "memory of the host with 3 servers attached": "≤ 80 MB",
    }
    assert rows["server processes with 3 servers attached"].ours == 0
    assert rows["memory of the host with 3 servers attached"].ours > 10


def test_a_server_that_runs_is_seen():
    with Peer(sys.executable, peers._DIRECT) as peer:
        peer.ask("calls", 1)
        assert any(attached_servers._is_server(pid) for pid in descendants(os.getpid()))


@needs_a_tokenizer
def test_the_context_is_counted_for_few_and_many_servers(settings, monkeypatch):
    monkeypatch.setattr(attached_servers, "_MANY", 4)
    rows = measured(settings, "context")
    assert targets(rows) == {
        "context of --tools minimal": "≤ 400 tokens",
        "context of --tools code": "≤ 2000 tokens",
    }
    assert all(row.ours > 100 for row in rows.values())


@needs_a_tokenizer
def test_a_context_that_grows_with_the_servers_is_no_figure(settings, monkeypatch):
    counted = iter([(10, 1), (11, 1)])
    monkeypatch.setattr(attached_servers, "_MANY", 2)
    monkeypatch.setattr(attached_servers, "_tokens", lambda *_: next(counted))
    with pytest.raises(BenchFault, match="costs 10 tokens, but 11 with 2 servers"):
        measured(settings, "context")


@needs_a_tokenizer
def test_finding_and_reading_is_counted_in_tokens_and_time(settings):
    rows = measured(settings, "finding")
    assert targets(rows) == {
        "finding and reading one tool, tokens": "≤ 500 tokens",
        "finding and reading one tool, time": "≤ 50 ms",
        "finding and reading one tool, real questions": "",
    }
    tokens = rows["finding and reading one tool, tokens"]
    found, read = (int(number.replace(",", "")) for number in re.findall(r"(?:tools|file) ([\d,]+)", tokens.note))
    assert 0 < found < tokens.ours
    assert 0 < read < tokens.ours
    assert rows["finding and reading one tool, time"].ours > 0
    assert rows["finding and reading one tool, real questions"].ours > 0


def test_the_quality_of_the_search_is_measured_here_too():
    assert suite.MEASURES["search"] is search.measure_search


def test_the_help_and_the_runtimes_import_are_measured(settings):
    rows = measured(settings, "light")
    assert targets(rows) == {"toolyard --help": "≤ 300 ms", "import toolyard_runtime, processor time": "≤ 30 ms"}
    assert all(row.ours > 0 for row in rows.values())


def test_what_cannot_be_imported_is_no_figure():
    with pytest.raises(subprocess.CalledProcessError):
        startup._cpu_milliseconds(startup._IMPORTING.format("no_such_module"))()


def test_without_a_sandbox_only_what_needs_one_is_left_out(settings, monkeypatch):
    def refused():
        raise SecurityError("No sandbox can be built on this machine.", hint="")

    monkeypatch.setattr(suite, "chosen", refused)
    rows = measured(settings, "calls")
    assert rows["calls"].note.startswith("skipped: No sandbox can be built")
    assert measured(settings, "compile")["compile one tool"].ours > 0


@needs_a_sandbox
def test_code_that_fails_is_no_figure(tmp_path, settings):
    listing = ServerListing("s000", (ToolSchema("echo", "Say it.", CONTENT),))
    place = Place.with_listings(str(tmp_path / "place"), [listing], settings)
    with Served(place) as served:
        assert served.figure("print(1.5)") == 1.5
        for code in ("1 / 0", "print('nothing')", "from servers.s000 import gone"):
            with pytest.raises(BenchFault, match="Code in the sandbox failed"):
                served.figure(code)


def test_a_sync_that_fails_is_no_place_to_measure(tmp_path):
    place = Place.of(str(tmp_path / "place"), {"broken": ["/nowhere/at/all"]})
    with pytest.raises(BenchFault, match="toolyard sync failed"):
        place.sync()


@pytest.mark.parametrize("script", ["raise SystemExit('out of order')", "print('no number', flush=True); input()"])
def test_a_peer_that_fails_is_no_figure(script):
    with Peer(sys.executable, script) as peer, pytest.raises(BenchFault, match="A peer failed"):
        peer.ask("calls", 1)


def test_the_direct_client_answers_what_it_is_asked():
    with peers.direct() as peer:
        assert all(peer.ask(what, 2) > 0 for what in ("calls", "parallel", "start"))


def test_a_peer_that_cannot_be_installed_is_told_and_leaves_nothing(tmp_path, monkeypatch):
    monkeypatch.setattr("shutil.which", lambda *_, **__: "/bin/false")
    with pytest.raises(BenchFault, match="could not be installed"):
        peers.fastmcp_code_mode(str(tmp_path))
    assert os.listdir(tmp_path) == []

"""From the configuration to a store, in the state folder or in Redis."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from tests.support.redis_server import RedisServer
from tests.support.thread_store_suite.kit import nobody_waits, refused, texts, turn
from toolyard.assistant.threads.factory import open_threads
from toolyard.assistant.threads.location import open_workspace_threads
from toolyard.assistant.threads.rate_limiter import MemoryRateLimiter, RedisRateLimiter
from toolyard.assistant.threads.redis_client import RedisClient
from toolyard.assistant.threads.redis_store import RedisThreads
from toolyard.assistant.threads.store import FullThread
from toolyard.config.assistant import Assistant
from toolyard.config.models import Config
from toolyard.config.settings import Settings
from toolyard.core.errors import SystemFault
from toolyard.core.ids import workspace_id
from toolyard.storage.state_folder import ensure_state_dir
from toolyard.workspace.agent_paths import resolve_agent_paths


def test_without_a_setting_threads_are_in_the_state_folder_of_the_workspace(tmp_path: Path) -> None:
    settings = Settings(str(tmp_path), str(tmp_path / "state"), str(tmp_path / "t"), str(tmp_path / "d"))
    workspace = tmp_path / "ws"
    workspace.mkdir()
    home = resolve_agent_paths(Config(), str(workspace), None, settings)
    ensure_state_dir(home.state)
    with open_workspace_threads(home, Config()) as opened, opened.threads.turn(None, nobody_waits) as held:
        held.keep(turn("first"))
        assert (Path(home.state) / "threads.sqlite3").exists()
    assert isinstance(opened.rate_limiter, MemoryRateLimiter)
    with open_workspace_threads(home, Config()) as again:
        assert texts(again.threads.read(held.thread.id)) == ["first"]


def test_the_configuration_says_when_a_thread_is_full(tmp_path: Path) -> None:
    with open_threads(Assistant(thread_turns=1), str(tmp_path), "ns") as opened:
        with opened.threads.turn(None, nobody_waits) as held:
            held.keep(turn("first"))
        assert isinstance(refused(lambda: opened.threads.turn(held.thread.id, nobody_waits).__enter__()), FullThread)


def test_servers_share_threads_and_rates_by_namespace(redis_server: RedisServer, tmp_path: Path) -> None:
    config = Config(assistant=Assistant(storage=redis_server.url))
    named = Config(assistant=Assistant(storage=redis_server.url, namespace="team"))
    settings = Settings(str(tmp_path), str(tmp_path / "state"), str(tmp_path / "t"), str(tmp_path / "d"))
    home = resolve_agent_paths(config, str(tmp_path), None, settings)
    with open_workspace_threads(home, config) as own, open_workspace_threads(home, named) as teams:
        assert isinstance(own.rate_limiter, RedisRateLimiter)
        for opened, namespace in ((own, workspace_id(str(tmp_path))), (teams, "team")):
            with opened.threads.turn(None, nobody_waits) as held:
                held.keep(turn(namespace))
            with RedisThreads(RedisClient(redis_server.url), namespace, held._limits) as same:
                assert [each.title for each in same.list()] == [namespace]


def test_nothing_is_connected_to_before_it_is_used(tmp_path: Path) -> None:
    open_threads(Assistant(storage="redis://127.0.0.1:1/0"), str(tmp_path), "ns").close()


def test_a_missing_package_says_how_to_get_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "redis", None)
    with pytest.raises(SystemFault, match=r"pip install 'toolyard\[redis\]'"):
        open_threads(Assistant(storage="redis://localhost:6379/0"), str(tmp_path), "ns")

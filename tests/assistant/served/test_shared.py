"""Several servers that share threads and rates through Redis, and clients over HTTP."""

import json
import os
import sys

import httpx2
import pytest

from tests.support.assistant_process import sent, variables_for
from tests.support.redis_server import RedisServer
from toolyard.testing.mcp_http_client import HttpClient, HttpServer
from toolyard.testing.mock_model import Say, serve_model

pytestmark = pytest.mark.slow  # a start of a server, or several, for each


@pytest.fixture(scope="module")
def redis():
    with RedisServer() as server:
        yield server


def test_a_thread_goes_on_at_another_server(fresh, redis):
    config = {"storage": redis.url, "namespace": "shared"}
    first, second = fresh([Say("One."), Say("Two.")], config=config), fresh([Say("One."), Say("Two.")], config=config)
    thread = first.ask("chat", prompt="first")["continuation_id"]

    assert second.ask("chat", prompt="second", continuation_id=thread)["content"] == "Two."
    assert second.model.requests[-1].user_texts == ("first", "second")


def test_a_secret_of_one_project_is_not_read_in_another(fresh, redis, project, tmp_path):
    (project / ".env").write_text("COLOUR=of-the-first\n")
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / ".env").write_text("COLOUR=of-the-second\n")
    config = {"storage": redis.url, "namespace": "projects"}
    thread = fresh(Say("yes"), config=config).ask("analyze", files=[".env"], question="?")["continuation_id"]
    other = fresh(Say("yes"), "--workspace", str(tmp_path / "other"), config=config)

    answer = other.ask("chat", prompt="and now?", continuation_id=thread)

    assert "of-the" not in sent(other)
    assert [each["path"] for each in answer["skipped"]] == [".env"]
    assert "name it again" in answer["skipped"][0]["reason"]


def test_rates_are_shared_too(fresh, redis):
    config = {"storage": redis.url, "namespace": "rates", "rate_limits": {"chat": "2/hour"}}
    first, second = fresh(lambda _: Say("yes"), config=config), fresh(lambda _: Say("yes"), config=config)
    first.ask("chat", prompt="1")
    second.ask("chat", prompt="2")

    assert first.fault("chat", prompt="3")["data"]["retry_after"] > 0
    assert second.fault("chat", prompt="3")["data"]["retry_after"] > 0


def test_a_redis_that_is_not_there_is_told_without_its_password(fresh):
    served = fresh(Say("yes"), config={"storage": "redis://:a-password-of-mine@127.0.0.1:1/0"})

    fault = served.fault("chat", prompt="x")

    assert fault["code"] == -32000
    assert "a-password-of-mine" not in json.dumps(fault)
    assert served.request("ping")["result"] == {}


def test_it_is_served_over_http_with_a_token(project, tmp_path):
    (tmp_path / "home").mkdir()
    program = os.path.join(os.path.dirname(sys.executable), "toolyard")
    token = "a-token-of-more-than-sixteen"
    words = [program, "assistant", "--workspace", str(project), "--http", "127.0.0.1:0"]
    with serve_model(lambda _: Say("Use a queue.")) as model:
        variables = variables_for(model, str(tmp_path / "home"), TOOLYARD_TOKEN=token)
        with HttpServer(words, env=variables) as server:
            with HttpClient(server.url, token) as client:
                assert len(client.request("tools/list")["result"]["tools"]) == 6
                fields = client.call("chat", prompt="How?")["result"]["structuredContent"]
            assert fields["content"] == "Use a queue."
            assert httpx2.get(server.url.replace("/mcp", "/tools")).status_code == 401

"""The scripted model as a program: its address, its scripts, and how it ends."""

from __future__ import annotations

import contextlib
import json
import signal
import subprocess
import sys

import httpx2
import pytest

from tests.testing.plain import sent
from tests.testing.sdks import SDKS, Results
from toolyard.core.errors import ConfigError
from toolyard.testing.mock_model import Call, Cut, Fail, ModelServer, Turn, Usage
from toolyard.testing.mock_model.script_files import parse_step, read_script

PROGRAM = (sys.executable, "-m", "toolyard.testing.mock_model")
SCRIPT = {
    "models": {
        "model-a": [{"think": "Hm.", "say": "I read.", "calls": [{"tool": "Read", "arguments": {"file_path": "a"}}]}],
        "model-b": {"markers": {"ROUND 2": [{"say": "again"}]}, "steps": [{"say": "once"}]},
    },
    "markers": {"slow": [{"fail": 429, "retry_after": 1}, {"say": "at last", "delay": 0.01}]},
    "steps": [{"say": "hello"}],
}


@contextlib.contextmanager
def running(*arguments: str, stdin: int = subprocess.PIPE):
    with subprocess.Popen([*PROGRAM, *arguments], stdin=stdin, stdout=subprocess.PIPE, text=True) as program:
        try:
            yield program, program.stdout.readline().strip()
        finally:
            program.kill()


def told(url: str) -> ModelServer:
    """For an SDK, which asks it for addresses."""
    server = ModelServer(Turn())
    server.port = int(url.rpartition(":")[2])
    return server


@pytest.mark.parametrize("api", SDKS)
@pytest.mark.parametrize("stream", [True, False], ids=["stream", "whole"])
def test_the_zero_model_says_done_in_every_api(zero, api, stream):
    asked = SDKS[api](told(zero))
    for history in (("go",), ("go on",)):
        assert asked.ask(history, stream=stream).text == "done"


@pytest.fixture(scope="module")
def zero():
    with running("--zero") as (_, url):
        yield url


@pytest.mark.parametrize("api", SDKS)
def test_a_script_in_a_file_is_played(playing, api):
    sdk = SDKS[api](told(playing), "model-a")
    first = sdk.ask(("go",), stream=True)
    assert (first.thinking, first.text, first.calls[0][1:]) == ("Hm.", "I read.", ("Read", {"file_path": "a"}))
    assert sdk.ask(("go", first, Results(("x",))), stream=True).text == "done"
    other = SDKS[api](told(playing), "model-b")
    assert [other.ask((text,), stream=True).text for text in ("go", "ROUND 2")] == ["once", "again"]
    slow = SDKS[api](told(playing), f"model-{api}")
    with pytest.raises(slow.limited):
        slow.ask(("slow",), stream=True)
    assert slow.ask(("slow",), stream=True).text == "at last"
    assert slow.ask(("go",), stream=True).text == "hello"


@pytest.fixture(scope="module")
def playing(tmp_path_factory):
    path = tmp_path_factory.mktemp("script") / "script.json"
    path.write_text(json.dumps(SCRIPT))
    with running("--script", str(path)) as (_, url):
        yield url


def test_it_says_what_it_is_told_and_ends_with_its_stdin():
    with running("--say", "hello you") as (program, url):
        answer = httpx2.request(**sent(url, "chat"))
        program.stdin.close()
        assert program.wait(10) == 0
    assert answer.json()["choices"][0]["message"]["content"] == "hello you"


def test_it_ends_with_sigterm_and_not_with_a_stdin_that_never_was_one():
    with running("--zero", stdin=subprocess.DEVNULL) as (program, url):
        assert httpx2.request(**sent(url, "chat")).status_code == 200
        program.send_signal(signal.SIGTERM)
        assert program.wait(10) == 0


def test_a_script_that_is_none_is_told_and_the_program_ends(tmp_path):
    (tmp_path / "script.json").write_text('{"step": []}')
    words = [*PROGRAM, "--script", str(tmp_path / "script.json")]
    ended = subprocess.run(words, check=False, capture_output=True, text=True, timeout=30)
    assert (ended.returncode, ended.stdout) == (2, "")
    assert ended.stderr == "A script has an unknown key 'step'. Known keys: markers, models, steps.\n"


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ({"say": "x"}, Turn("x")),
        ({"call": "Read", "arguments": "{"}, Turn(calls=(Call("Read", "{"),))),
        ({"say": "x", "usage": {"input": 9, "cached": 3}}, Turn("x", usage=Usage(9, 0, 3))),
        ({"think": "x", "ends": "length", "delay": 1}, Turn(thinking="x", ends="length", delay=1.0)),
        ({"fail": 503, "midway": True, "times": 2}, Fail(503, midway=True, times=2)),
        ({"fail": 429, "retry_after": 2, "message": "later"}, Fail(429, 2.0, "later")),
        ({"cut": True, "times": 3}, Cut(times=3)),
    ],
)
def test_a_step_is_written_as_json(written, meant):
    assert parse_step(written) == meant


@pytest.mark.parametrize(
    ("written", "words"),
    [
        ({"says": "x"}, "A step has an unknown key 'says'"),
        ({"fail": "429"}, "'fail' is \"429\". It must be a whole number."),
        ({"say": 1}, "It must be a string"),
        ({"delay": 1}, "A step does nothing"),
        ({"say": "x", "ends": "well"}, "It must be one of length, refused, malformed"),
        ({"calls": [{"name": "Read"}]}, "A call has an unknown key 'name'"),
        ({"call": "Read", "arguments": [1]}, "A call's arguments must be an object"),
        ("say", "A step must be an object"),
    ],
)
def test_a_step_that_is_wrong_is_told_with_what_would_be_right(written, words):
    with pytest.raises(ConfigError) as caught:
        parse_step(written)
    assert words in str(caught.value)


def test_a_file_that_cannot_be_read_is_told(tmp_path):
    with pytest.raises(ConfigError, match="No such file"):
        read_script(str(tmp_path / "none.json"))
    (tmp_path / "bad.json").write_text("{]")
    with pytest.raises(ConfigError, match="is not JSON"):
        read_script(str(tmp_path / "bad.json"))

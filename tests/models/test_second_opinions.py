"""A model behind a tool: few tries, errors with the provider's status, in words for who set variables only."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime

import pytest

from tests.models.conftest import KINDS, MODELS, READ, Talk, talking
from toolyard.config.models import Backend
from toolyard.core.errors import ConfigError, ProviderError, SystemFault
from toolyard.models.chat_model import ChatModel
from toolyard.models.conversation import Conversation
from toolyard.models.error_wording import ASSISTANT_WORDING
from toolyard.models.factory import open_model
from toolyard.models.messages import RetryWait, TextDelta, TurnSettings
from toolyard.testing.mock_model import FOREVER, Cut, Drop, Empty, Fail, Say, TooLong, Turn

TRIES = 3


@pytest.fixture
def asked(kind):
    """`async with asked(script) as t`: a model as the assistant opens it, one for each of the APIs."""
    return lambda script, **options: talking(
        kind, script, **{"wording": ASSISTANT_WORDING, "most_tries": TRIES, **options}
    )


async def failing(t: Talk, **options) -> ProviderError:
    with pytest.raises(ProviderError) as raised:
        await t.say("hello", **options)
    return raised.value


@pytest.mark.parametrize("fault", [Fail(429), Fail(500), Fail(503), Drop()], ids=["429", "500", "503", "dropped"])
async def test_what_passes_is_tried_so_often_and_not_more(asked, fault):
    async with asked(lambda _: fault) as t:
        error = await failing(t)
        assert len(t.server.requests) == TRIES
        assert len(t.all_heard(RetryWait)) == TRIES - 1
        assert (error.code, error.retryable) == (-32603, True)
    async with asked([fault, fault, Say("third time")]) as t:
        assert (await t.say("hello")).text == "third time"


@pytest.mark.parametrize("fault", [Empty(times=FOREVER), Cut(times=FOREVER)], ids=["empty", "cut"])
async def test_answers_that_come_to_nothing_count_as_tries(asked, fault):
    async with asked([fault]) as t:
        await failing(t)
        assert len(t.server.requests) == TRIES


@pytest.mark.parametrize("status", [400, 401, 402, 403, 404, 413, 422, 429, 451, 500, 501, 503])
async def test_the_status_of_the_provider_is_told_to_programs(asked, status):
    async with asked(lambda _: Fail(status), patience=0) as t:
        error = await failing(t, tools=())
        assert (error.code, error.data()["provider_status"]) == (-32603, status)
        assert error.hint
        assert "backend" not in str(error)
        assert "retry_after" not in error.data()


async def test_a_failure_without_a_status_has_none(asked):
    async with asked(lambda _: Drop(), patience=0) as t:
        assert "provider_status" not in (await failing(t)).data()


async def test_a_failure_in_the_middle_of_an_answer_has_its_status_too(asked):
    async with asked(lambda _: Fail(429, midway=True), patience=0) as t:
        assert (await failing(t)).data()["provider_status"] == 429


async def test_a_conversation_that_fits_nowhere_has_its_status_too(asked):
    async with asked(lambda _: TooLong(), patience=0) as t:
        error = await failing(t)
        assert error.data()["provider_status"] == 400
        assert "fewer files" in error.hint


async def test_no_sentence_for_who_sets_variables_speaks_of_a_backend(asked):
    scripts = (Turn("", ends="refused"), Turn("", ends="length"), Empty(), Cut(), Drop(), TooLong())
    for step in scripts:
        async with asked(lambda _, step=step: step, patience=0) as t:
            assert "backend" not in str(await failing(t))


async def test_an_agent_of_a_run_is_told_the_status_too_and_of_its_backend(talk):
    async with talk(lambda _: Fail(503), patience=0) as t:
        with pytest.raises(SystemFault) as raised:
            await t.say("hello")
        assert raised.value.data()["provider_status"] == 503
    async with talk(lambda _: Fail(404), patience=0) as t:
        with pytest.raises(ConfigError, match=r"backend\.model") as refused:
            await t.say("hello")
        assert refused.value.data()["provider_status"] == 404


async def test_a_server_that_is_not_there_is_told_with_the_variable_of_its_address(kind):
    backend = Backend(type=kind, model=MODELS[kind], base_url="http://127.0.0.1:9")
    model = open_model(backend, {}, wording=ASSISTANT_WORDING, patience=0)
    conversation = Conversation.from_turns([])
    conversation.add_question("hello")
    with pytest.raises(ProviderError, match="cannot be reached") as raised:
        await model.turn(conversation)
    await model.close()
    assert "_BASE_URL" in raised.value.hint


async def test_who_is_asked_to_wait_longer_than_there_is_time_is_told_at_once_how_long(asked):
    async with asked([Fail(429, retry_after=40, times=FOREVER)], patience=300) as t:
        began = time.monotonic()
        error = await failing(t, settings=TurnSettings(seconds=30))
        assert time.monotonic() - began < 5
        assert t.all_heard(RetryWait) == []
        assert error.data()["retry_after"] == 40
        assert "in 40 seconds" in error.hint


async def test_the_time_of_a_turn_is_that_of_its_tries_too(asked):
    async with asked([Fail(503, times=FOREVER)], first_pause=30, patience=300) as t:
        await failing(t, settings=TurnSettings(seconds=1))
        assert len(t.server.requests) == 1


async def test_a_wait_that_there_is_time_for_is_waited(asked):
    async with asked([Fail(429, retry_after=0.2), Say("now")]) as t:
        assert (await t.say("hello", settings=TurnSettings(seconds=30))).text == "now"
        (waiting,) = t.all_heard(RetryWait)
        assert waiting.seconds == pytest.approx(0.2, abs=0.02)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        ({"retry-after": "17"}, 17),
        ({"retry-after": "1.5"}, 1.5),
        ({"retry-after-ms": "2500"}, 2.5),
        ({"retry-after-ms": "2500", "retry-after": "17"}, 2.5),
        ({"retry-after": "soon"}, None),
        ({}, None),
    ],
    ids=str,
)
async def test_how_long_to_wait_is_read_from_the_headers(kind, headers, seconds):
    async with raw_server(kind, 429, headers) as (model, _):
        assert (await _failed(model)).data().get("retry_after") == seconds


@pytest.mark.parametrize("kind", KINDS)
async def test_how_long_to_wait_may_be_a_date(kind):
    then = format_datetime(datetime.now(UTC) + timedelta(seconds=90), usegmt=True)
    async with raw_server(kind, 503, {"retry-after": then}) as (model, _):
        assert 60 < (await _failed(model)).data()["retry_after"] <= 90


async def test_how_long_to_wait_may_be_in_the_details_of_google():
    async with talking("gemini", [Fail(429, retry_after=33)], wording=ASSISTANT_WORDING, patience=0) as t:
        assert (await failing(t)).data()["retry_after"] == 33


@pytest.mark.parametrize("kind", KINDS)
async def test_leaving_in_the_middle_of_an_answer_closes_the_connection(kind):
    async with raw_server(kind, 200, {}, body=_BEGINNINGS[kind], is_open=True) as (model, gone):
        heard = asyncio.Event()
        conversation = Conversation()
        conversation.add_question("hello")
        turn = asyncio.create_task(
            model.turn(
                conversation,
                tools=(READ,),
                on_event=lambda each: heard.set() if isinstance(each, TextDelta) else None,
            )
        )
        await heard.wait()
        turn.cancel()
        with pytest.raises(asyncio.CancelledError):
            await turn
        await gone.wait()


async def _failed(model: ChatModel) -> ProviderError:
    conversation = Conversation()
    conversation.add_question("hello")
    with pytest.raises(ProviderError) as raised:
        await model.turn(conversation)
    return raised.value


_BEGINNINGS = {
    "gemini": 'data: {"candidates": [{"content": {"role": "model", "parts": [{"text": "half a"}]}}]}\r\n\r\n',
    "openai": 'data: {"id": "c", "object": "chat.completion.chunk", "created": 1, "model": "m", "choices": '
    '[{"index": 0, "delta": {"role": "assistant", "content": "half a"}, "finish_reason": null}]}\n\n',
    "claude": 'event: message_start\ndata: {"type": "message_start", "message": {"id": "m", "type": "message", '
    '"role": "assistant", "model": "m", "content": [], "stop_reason": null, "stop_sequence": null, '
    '"usage": {"input_tokens": 1, "output_tokens": 1}}}\n\n'
    'event: content_block_start\ndata: {"type": "content_block_start", "index": 0, '
    '"content_block": {"type": "text", "text": "half a"}}\n\n',
}


@asynccontextmanager
async def raw_server(
    kind: str, status: int, headers: dict[str, str], *, body: str = "{}", is_open: bool = False, **keys: str
) -> AsyncGenerator[tuple[ChatModel, asyncio.Event]]:
    """A model whose server says just this; the event is set when a client that was kept waiting has left."""
    gone = asyncio.Event()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = await reader.readuntil(b"\r\n\r\n")
        lines = head.lower().split(b"\r\n")
        await reader.readexactly(next(int(line.split(b":")[1]) for line in lines if b"content-length" in line))
        kept = "" if is_open else f"content-length: {len(body)}\r\n"
        said = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
        media = "text/event-stream" if is_open else "application/json"
        writer.write(f"HTTP/1.1 {status} So\r\ncontent-type: {media}\r\n{kept}{said}\r\n{body}".encode())
        await writer.drain()
        if is_open and not await reader.read():
            gone.set()
        writer.close()

    async with await asyncio.start_server(serve, "127.0.0.1", 0) as server:
        base_url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
        backend = Backend(type=kind, model=MODELS[kind], base_url=base_url, **keys)
        model = open_model(backend, {}, wording=ASSISTANT_WORDING, patience=0)
        yield model, gone
        await model.close()

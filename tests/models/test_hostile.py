"""Servers that send what no model would: too much of it, in the wrong shape, or cut in the middle of a character."""

from __future__ import annotations

import asyncio
import gzip
import json
import time
import tracemalloc
from collections.abc import AsyncGenerator, Callable, Iterator
from contextlib import asynccontextmanager

import pytest

from toolyard.config.models import Backend
from toolyard.core.errors import SystemFault
from toolyard.models import stream_events
from toolyard.models.conversation import Conversation
from toolyard.models.factory import open_model
from toolyard.models.messages import RetryWait, TextDelta, ThinkingDelta, TurnResult
from toolyard.models.stream_events import MOST_CHARS

HEAD = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\n%b\r\n"
BOMB = gzip.compress(bytes(100_000_000), 1)[:200_000]
Answers = Callable[[int], Iterator[bytes]]


def chunk(delta: object, reason: object = None, **more: object) -> bytes:
    choice = {"index": 0, "delta": delta, "finish_reason": reason}
    whole = {"id": "x", "object": "chat.completion.chunk", "created": 1, "model": "m", "choices": [choice], **more}
    return b"data: " + json.dumps(whole).encode() + b"\n\n"


def said(text: str) -> Iterator[bytes]:
    yield from (HEAD % b"", chunk({"content": text}), chunk({}, "stop"), b"data: [DONE]\n\n")


def called(name: object, arguments: object, call: object = "c1") -> Iterator[bytes]:
    function = {"name": name, "arguments": arguments}
    yield from (
        HEAD % b"",
        chunk({"tool_calls": [{"index": 0, "id": call, "type": "function", "function": function}]}),
    )
    yield from (chunk({}, "tool_calls"), b"data: [DONE]\n\n")


@asynccontextmanager
async def answering(answers: Answers) -> AsyncGenerator[tuple[str, list[int]]]:
    """A server that sends raw bytes; its address, and a list with an item for each request."""
    asked: list[int] = []

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = await reader.readuntil(b"\r\n\r\n")
        length = next(line for line in head.lower().split(b"\r\n") if line.startswith(b"content-length:"))
        await reader.readexactly(int(length.partition(b":")[2]))
        asked.append(len(asked))
        try:
            for piece in answers(asked[-1]):
                writer.write(piece)
                await writer.drain()
        except ConnectionError:
            pass
        finally:
            writer.close()

    server = await asyncio.start_server(answer, "127.0.0.1")
    try:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/v1", asked
    finally:
        server.close()


async def turn(
    answers: Answers, heard: list | None = None, model: str = "m"
) -> tuple[TurnResult, Conversation, list[int]]:
    async with answering(answers) as (address, asked):
        backend = Backend(type="openai", model=model, base_url=address)
        opened = open_model(backend, {}, patience=0.1, first_pause=0.01)
        conversation = Conversation()
        conversation.add_question("hello")
        try:
            hear = heard.append if heard is not None else lambda each: None
            return await opened.turn(conversation, on_event=hear), conversation, asked
        finally:
            await opened.close()


def forever(piece: bytes) -> Iterator[bytes]:
    while True:
        yield piece


def endless_text(_: int) -> Iterator[bytes]:
    yield HEAD % b""
    yield from forever(chunk({}) + b": " + b"x" * 500_000 + b"\n\n")


def endless_line(_: int) -> Iterator[bytes]:
    yield HEAD % b""
    yield from forever(b"x" * 65_536)


def bomb(_: int) -> Iterator[bytes]:
    yield HEAD % b"content-encoding: gzip\r\n"
    yield BOMB


def bomb_as_error(_: int) -> Iterator[bytes]:
    yield (HEAD % b"content-encoding: gzip\r\n").replace(b"200 OK", b"400 Bad")
    yield BOMB


@pytest.mark.parametrize("answers", [endless_text, endless_line])
async def test_an_answer_without_end_is_refused_and_not_asked_for_again(answers):
    heard: list = []
    with pytest.raises(SystemFault, match="sent an answer over the size limit"):
        await turn(answers, heard)
    assert not [each for each in heard if isinstance(each, RetryWait)]


@pytest.mark.parametrize("answers", [bomb, bomb_as_error])
async def test_a_compressed_answer_is_refused_unread(answers):
    heard: list = []
    tracemalloc.start()
    with pytest.raises(SystemFault, match="sent a compressed answer") as raised:
        await turn(answers, heard)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert "proxy" in str(raised.value.hint)
    assert peak < 50_000_000
    assert not [each for each in heard if isinstance(each, RetryWait)]


@pytest.mark.parametrize(
    "piece",
    [
        b"data: 5\n\n",
        b"data: []\n\n",
        b"data: " + b"[" * 100_000 + b"\n\n",
        b'data: {"a":' + b"9" * 10_000 + b"}\n\n",
        chunk({"tool_calls": "x"}),
        chunk({}, {"a": 1}),
        chunk({"content": "hi"}, "stop", created="never"),
        chunk({"content": "hi"}, "stop", usage=[]),
        chunk({"tool_calls": [{"index": 0, "id": "a", "function": {"name": 7, "arguments": "{}"}}]}, "tool_calls"),
    ],
    ids=lambda piece: piece[:60].decode(),
)
async def test_what_has_another_shape_is_tried_again_and_told_in_words(piece):
    def first_odd(number: int) -> Iterator[bytes]:
        return said("fine") if number else iter((HEAD % b"", piece, b"data: [DONE]\n\n"))

    assert (await turn(first_odd))[0].text == "fine"
    with pytest.raises(SystemFault, match="unreadable answer"):
        await turn(lambda _: iter((HEAD % b"", piece, b"data: [DONE]\n\n")))


async def test_half_characters_are_mended_and_the_conversation_can_be_kept():
    heard: list = []
    answered, conversation, _ = await turn(lambda _: said("a \ud83d\ude00 \ud800 b"), heard)
    assert answered.text == "a 😀 � b"
    assert "".join(each.text for each in heard if isinstance(each, TextDelta)) == answered.text
    assert Conversation.load(conversation.dump()).last_text == answered.text


@pytest.mark.parametrize("arguments", ['{"path": "a\\udc00"}', '{"path": "a\udc00"}'])
async def test_half_characters_in_calls_are_mended(arguments):
    answered, conversation, _ = await turn(lambda _: called("Re\ud800ad", arguments, "c\ud800"))
    (wanted,) = answered.tool_calls
    assert (wanted.tool, wanted.id) == ("Re�ad", "c�")
    assert Conversation.load(conversation.dump()).pending_calls == (wanted,)


async def test_who_always_says_at_once_is_not_asked_for_ever():
    busy = b"HTTP/1.1 429 No\r\ncontent-type: application/json\r\nretry-after: 0\r\nconnection: close\r\n\r\n{}"
    heard: list = []
    with pytest.raises(SystemFault, match="is limiting requests"):
        await turn(lambda _: iter([busy]), heard)
    assert len(heard) < 20


def flood(delta: object, pieces: int) -> Answers:
    piece = chunk(delta)

    def answers(_: int) -> Iterator[bytes]:
        yield HEAD % b""
        yield from (piece * 100 for _ in range(pieces // 100))
        yield from (chunk({}, "stop"), b"data: [DONE]\n\n")

    return answers


ARGUMENTS = [{"index": 0, "id": "c1", "type": "function", "function": {"name": "Read", "arguments": "x" * 4_000}}]


@pytest.mark.parametrize(
    "delta",
    [{"content": "x" * 4_000}, {"reasoning_content": "x" * 4_000}, {"tool_calls": ARGUMENTS}],
    ids=lambda delta: next(iter(delta)),
)
async def test_an_answer_of_many_megabytes_is_refused_and_not_asked_for_again(delta):
    heard: list = []
    with pytest.raises(SystemFault, match="sent an answer over the size limit"):
        await turn(flood(delta, 3_000), heard)
    assert sum(len(each.text) for each in heard if isinstance(each, TextDelta | ThinkingDelta)) <= MOST_CHARS + 4_000
    assert not [each for each in heard if isinstance(each, RetryWait)]


async def test_pieces_without_end_are_refused(monkeypatch):
    monkeypatch.setattr(stream_events, "MOST_PIECES", 1_000)
    assert len((await turn(flood({"content": "x"}, 900)))[0].text) == 900
    with pytest.raises(SystemFault, match="sent an answer over the size limit"):
        await turn(flood({"content": "x"}, 1_100))


async def test_pieces_that_come_faster_than_any_models_are_refused(monkeypatch):
    monkeypatch.setattr(stream_events, "BURST_PIECES", 1_000)
    monkeypatch.setattr(stream_events, "PIECES_A_SECOND", 1)
    assert len((await turn(flood({"content": "x"}, 900)))[0].text) == 900
    with pytest.raises(SystemFault, match="sent an answer over the size limit"):
        await turn(flood({"content": "x"}, 3_000))


async def test_a_long_answer_takes_a_time_that_grows_with_it_alone():
    async def seconds(pieces: int) -> float:
        started = time.process_time()
        assert len((await turn(flood({"content": "x" * 1_000}, pieces)))[0].text) == pieces * 1_000
        return time.process_time() - started

    await seconds(100)
    assert await seconds(4_000) < 7 * await seconds(1_000)


async def test_others_have_their_turn_while_an_answer_pours_in():
    heard: list = []
    most = 0

    async def watch() -> None:
        nonlocal most
        while True:
            before = len(heard)
            await asyncio.sleep(0)
            most = max(most, len(heard) - before)

    def at_once(_: int) -> Iterator[bytes]:
        yield b"".join(flood({"content": "word"}, 3_000)(0))

    async with asyncio.TaskGroup() as group:
        watching = group.create_task(watch())
        await turn(at_once, heard)
        watching.cancel()
    assert len(heard) == 3_000
    assert most <= 20


@pytest.mark.parametrize("counted", [10**400, -(10**6), 1.5, 1e300])
async def test_counts_that_cannot_be_are_not_believed(counted):
    def answers(_: int) -> Iterator[bytes]:
        details = {"reasoning_tokens": counted}
        usage = {
            "prompt_tokens": counted,
            "completion_tokens": counted,
            "total_tokens": 1,
            "completion_tokens_details": details,
        }
        yield from (HEAD % b"", chunk({"content": "hi"}), chunk({}, "stop", usage=usage), b"data: [DONE]\n\n")

    spent = (await turn(answers))[0].usage
    assert 0 < spent.total <= 2 * 10**9
    assert all(isinstance(each, int) for each in (spent.input, spent.output, spent.cached, spent.thinking))


async def test_what_cannot_be_has_no_price_that_cannot_be():
    def answers(_: int) -> Iterator[bytes]:
        usage = {"prompt_tokens": 10**30, "completion_tokens": 10**30, "total_tokens": 1}
        known = {"usage": usage, "model": "gpt-4o"}
        yield from (HEAD % b"", chunk({"content": "hi"}), chunk({}, "stop", **known), b"data: [DONE]\n\n")

    spent = (await turn(answers, model="gpt-4o"))[0].usage
    assert spent.cost is None or spent.cost < 10**6


async def test_a_server_that_repeats_what_it_was_sent_tells_nobody_a_secret():
    async def repeat(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = (await reader.readuntil(b"\r\n\r\n")).decode()
        sent = next(line for line in head.split("\r\n") if line.lower().startswith("authorization"))
        said = json.dumps({"error": {"message": f"{sent} hunter22-in-the-address"}})
        writer.write(f"HTTP/1.1 400 No\r\ncontent-length: {len(said)}\r\nconnection: close\r\n\r\n{said}".encode())
        await writer.drain()
        writer.close()

    server = await asyncio.start_server(repeat, "127.0.0.1")
    address = f"http://ada:hunter22-in-the-address@127.0.0.1:{server.sockets[0].getsockname()[1]}/v1"
    model = open_model(Backend(type="openai", model="m", base_url=address, api_key="a-key-of-some-length"), {})
    conversation = Conversation()
    conversation.add_question("hello")
    with pytest.raises(SystemFault, match=r"\*\*\*") as raised:
        await model.turn(conversation)
    await model.close()
    server.close()
    for secret in ("hunter22", "a-key-of-some-length", "YWRhOmh1bnRlcjIy"):
        assert secret not in str(raised.value)

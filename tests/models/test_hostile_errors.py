"""Errors of providers that are made to hurt: bodies without end, and numbers that are none."""

from __future__ import annotations

import itertools
import json
import math

import pytest

from tests.models.raw_server import STREAM, refusal, sending, turn_of
from toolyard.core.errors import ToolyardError
from toolyard.models.response_limits import MAX_ERROR_BYTES

MIB = 1024 * 1024
BEGIN = b'{"error":{"message":"the words that matter","details":['


async def failed(kind: str, *pieces: bytes) -> ToolyardError:
    async with sending(pieces) as (address, _):
        with pytest.raises(ToolyardError) as raised:
            await turn_of(kind, address)
    return raised.value


@pytest.mark.parametrize("status", [400, 429, 500])
async def test_of_an_error_without_end_only_the_beginning_is_read(kind, status):
    pieces = itertools.chain([refusal(status, BEGIN)], itertools.repeat(b"{}," * 20_000 + b"\n", 1_000))
    async with sending(pieces) as (address, taken):
        with pytest.raises(ToolyardError) as raised:
            await turn_of(kind, address)
    assert raised.value.facts["provider_status"] == status
    assert max(taken) < 8 * MIB  # what lies in the sockets' buffers is sent, and never taken


async def test_an_error_of_a_usual_size_is_read_whole(kind):
    details = b",".join([b'{"@type":"x","reason":"y"}'] * 1_000)
    error = await failed(kind, refusal(400, BEGIN + details + b"]}}"))
    assert len(details) < MAX_ERROR_BYTES
    assert "the words that matter" in error.message


async def test_an_error_that_is_cut_off_still_says_its_words(kind):
    error = await failed(kind, refusal(400, b"no JSON at all, but words " + b"and more of them " * MIB))
    assert error.facts["provider_status"] == 400
    assert "no JSON at all, but words" in error.message


async def test_an_answer_in_one_piece_has_an_end_too():
    whole = b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\nconnection: close\r\n\r\n"
    pieces = itertools.chain([whole, b'{"choices":['], itertools.repeat(b"{}," * 20_000 + b"\n", 1_000))
    async with sending(list(pieces)) as (address, taken):
        with pytest.raises(ToolyardError, match="sent an answer over the size limit"):
            await turn_of("openai", address, most_tries=3)
    assert len(taken) == 2  # in pieces, and in one
    assert max(taken) < 16 * MIB


HUGE = "9" * 400
WAITS = {
    "huge": {"retry_after": HUGE},
    "huge, in milliseconds": {"retry_after_ms": HUGE},
    "no number": {"retry_after": "NaN"},
    "without end": {"retry_after": "inf"},
    "before now": {"retry_after": "-5"},
    "the year 9999": {"retry_after": "Fri, 31 Dec 9999 23:59:59 GMT"},
}


@pytest.mark.parametrize("headers", WAITS.values(), ids=WAITS)
async def test_who_asks_to_wait_for_ever_is_told_in_numbers_that_are_some(kind, headers):
    error = await failed(kind, refusal(429, b'{"error":{"message":"slow"}}', **headers))
    json.dumps(error.data(), allow_nan=False)
    assert 0 <= error.facts.get("retry_after", 0) <= 86_400
    assert "inf" not in error.hint
    assert "nan" not in error.hint


@pytest.mark.parametrize("delay", [HUGE + "s", "0." + HUGE + "s", "-1s", "NaNs", 7])
async def test_a_delay_of_googles_is_one_too(delay):
    body = json.dumps({"error": {"message": "slow", "details": [{"retryDelay": delay}]}}).encode()
    error = await failed("gemini", refusal(429, body))
    json.dumps(error.data(), allow_nan=False)
    assert 0 <= error.facts.get("retry_after", 0) <= 86_400


async def test_a_wait_that_can_be_is_believed(kind):
    assert (await failed(kind, refusal(429, retry_after="77"))).facts["retry_after"] == 77


@pytest.mark.parametrize("code", ["1e999", "NaN", HUGE, "-1e999", '"x"', "[]", "429.5", "true", "null", "503"])
@pytest.mark.parametrize("shape", ['{"error":{"code":%s,"message":"m","status":"x"}}', '{"code":%s,"message":"m"}'])
async def test_a_status_in_the_middle_of_an_answer_is_one(kind, shape, code):
    error = await failed(kind, STREAM, f"event: error\ndata: {shape % code}\n\n".encode())
    json.dumps(error.data(), allow_nan=False)
    status = error.facts.get("provider_status", 500)
    assert isinstance(status, int)
    assert math.isfinite(status)
    assert 100 <= status <= 599

"""A sign that ends a line in some alphabets, in the middle of an answer: the SDKs read streams by lines."""

from __future__ import annotations

import json

import pytest

from tests.models.raw_server import STREAM, sending, turn_of

SIGNS = {"U+2028": "\u2028", "U+2029": "\u2029", "U+0085": "\u0085"}
NEAR = "\u2027\u202a\u0084\u0086é中😀"
"""Signs that begin with the same bytes, and others."""


def events(kind: str, text: str) -> bytes:
    """A whole answer as that provider streams it, with no sign escaped that need not be."""
    usage = {"input_tokens": 1, "output_tokens": 1}
    told = {
        "gemini": [
            {"candidates": [{"content": {"parts": [{"text": text}], "role": "model"}, "finishReason": "STOP"}]}
        ],
        "openai": [
            {"id": "c", "created": 1, "model": "m", "choices": [{"index": 0, "delta": {"content": text}}]},
            {"id": "c", "created": 1, "model": "m", "choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]},
        ],
        "claude": [
            {
                "type": "message_start",
                "message": {"id": "m", "type": "message", "role": "assistant", "model": "m", "content": []}
                | {"stop_reason": None, "stop_sequence": None, "usage": usage},
            },
            {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}},
            {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": text}},
            {"type": "content_block_stop", "index": 0},
            {"type": "message_delta", "delta": {"stop_reason": "end_turn", "stop_sequence": None}, "usage": usage},
            {"type": "message_stop"},
        ],
    }[kind]
    lines = [(f"event: {each['type']}\n" if kind == "claude" else "", each) for each in told]
    whole = "".join(f"{name}data: {json.dumps(each, ensure_ascii=False)}\n\n" for name, each in lines)
    return f"{whole}data: [DONE]\n\n".encode() if kind == "openai" else whole.encode()


@pytest.mark.parametrize("sign", SIGNS.values(), ids=SIGNS)
@pytest.mark.parametrize("size", [1 << 20, 1], ids=["at once", "byte by byte"])
async def test_it_arrives_as_it_was_sent(kind, sign, size):
    text = f"one{sign}two{sign}{sign}{NEAR}{sign}"
    sent = events(kind, text)
    pieces = [sent[at : at + size] for at in range(0, len(sent), size)]
    async with sending([STREAM, *pieces]) as (address, _):
        assert (await turn_of(kind, address)).text == text


async def test_an_answer_that_ends_in_the_middle_of_a_sign_is_an_error_of_the_usual_kind(kind):
    from toolyard.core.errors import ToolyardError

    sent = events(kind, "one").replace(b"one", "one\u2028".encode())
    async with sending([STREAM, sent[: sent.index(b"\xe2\x80") + 2]]) as (address, _):
        with pytest.raises(ToolyardError):
            await turn_of(kind, address)

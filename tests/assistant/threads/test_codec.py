"""Turns as bytes: whatever the text, and wherever a long one is cut into pieces."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolyard.assistant.threads import codec
from toolyard.assistant.threads.codec import DamagedError, decode_summary, decode_turn, encode_turn
from toolyard.assistant.threads.thread import FileSeen, Message, Turn

ANY = st.text(st.characters())  # half an emoji, too


@given(asked=ANY, answered=ANY, path=ANY, piece=st.integers(1, 9))
def test_a_turn_comes_back_as_it_was(asked: str, answered: str, path: str, piece: int) -> None:
    files = (FileSeen(path, "b3:1"),)
    turn = Turn(Message("user", asked, "chat", "", 1.5, files, 3), Message("assistant", answered))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(codec, "_PIECE", piece + 3)  # longer than any character
        assert decode_turn(encode_turn(turn)) == turn


@given(st.binary() | st.text().map(lambda text: f"{text}\n".encode()))
def test_what_is_no_turn_is_damaged_and_nothing_else(data: bytes) -> None:
    with pytest.raises(DamagedError):
        decode_turn(data)


@pytest.mark.parametrize(
    "change",
    [
        {"tool": None},
        {"tool": 5},
        {"model": ["x"]},
        {"role": "somebody"},
        {"role": []},
        {"at": None},
        {"at": 1e300},
        {"at": float("nan")},
        {"at": -1},
        {"at": 10**400},
        {"files": {"a": "b"}},
        {"files": "ab"},
        {"files": [["a", None]]},
        {"files": [["a"]]},
        {"tokens": "3"},
        {"tokens": -3},
        {"tokens": True},
        {"tokens": float("inf")},
        {"bytes": -4},
        {"bytes": 4.0},
    ],
    ids=str,
)
def test_a_field_of_another_kind_is_damage(change: dict[str, object]) -> None:
    head, _, texts = encode_turn(Turn(Message("user", "Why?"), Message("assistant", "Because."))).partition(b"\n")
    asked, answered = json.loads(head)
    for changed in ([{**asked, **change}, answered], [asked, {**answered, **change}]):
        with pytest.raises(DamagedError):
            decode_turn(json.dumps(changed).encode() + b"\n" + texts)


@pytest.mark.parametrize("data", [b"[" * 100_000 + b"\n", b"{" * 100_000 + b"\n", 5, "text\n"])
def test_what_no_store_has_written_is_damage(data: Any) -> None:
    with pytest.raises(DamagedError):
        decode_turn(data)


@pytest.mark.parametrize(
    "about", [b"[" * 100_000, b'[null, ["chat"]]', b'["t", "chat"]', b'["t", [null]]', b'["t"]', b"\xff"]
)
def test_what_is_no_summary_is_damage(about: bytes) -> None:
    with pytest.raises(DamagedError):
        decode_summary(about, thread="x", created=1.0, updated=1.0, turns=1)


@pytest.mark.parametrize("change", [{"created": "x"}, {"updated": 1e300}, {"turns": -1}, {"turns": None}], ids=str)
def test_a_summary_with_other_numbers_is_damage(change: dict[str, Any]) -> None:
    with pytest.raises(DamagedError):
        decode_summary(b'["t", []]', **{"thread": "x", "created": 1.0, "updated": 1.0, "turns": 1, **change})


def test_bytes_that_are_no_text_are_damaged() -> None:
    turn = Turn(Message("user", "x" * 1_200_000), Message("assistant", ""))
    with pytest.raises(DamagedError):
        decode_turn(encode_turn(turn).replace(b"x", b"\x80"))


@given(cut=st.integers(1, 60))
def test_a_turn_that_was_cut_is_damaged(cut: int) -> None:
    with pytest.raises(DamagedError):
        decode_turn(encode_turn(Turn(Message("user", "Why?"), Message("assistant", "Because.")))[:-cut])

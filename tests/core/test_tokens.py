"""What a text costs a model's context."""

import json
import threading
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.universe import universe
from toolyard.core import tokens
from toolyard.core.tokens import PIECE_CHARS, count_tokens, count_tokens_in_pieces, estimate_tokens, split_at_lines

TEXTS = Path(__file__).parents[1] / "data" / "tokens"
RECORDED = json.loads((TEXTS / "counts.json").read_text())["tokens"]
"""What tiktoken, the tokenizer of these encodings' makers, counts in each of the files beside it."""
MOST_WRONG = 0.03


@pytest.mark.parametrize(
    ("text", "count"), [("", 0), ("hello world", 2), ("tokenization", 2), ("\ud800", 1), ("<|endoftext|>", 7)]
)
def test_tokens_are_counted_as_current_models_count_them(text, count):
    assert count_tokens(text) == count


def test_an_unknown_encoding_is_refused():
    with pytest.raises(ValueError, match="unknown encoding 'p50k'"):
        count_tokens("x", "p50k")


def test_threads_count_alike():
    text = json.dumps(list(range(2_000)))
    counts = []
    threads = [threading.Thread(target=lambda: counts.append(count_tokens(text))) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert counts == [count_tokens(text)] * 8


def test_the_estimate_is_near_and_rarely_below_on_what_real_tools_say():
    ratios = []
    for listing in universe():
        for tool in listing.tools[:3]:
            for text in (tool.description, json.dumps(tool.input_schema)):
                if count := count_tokens(text):
                    ratios.append(estimate_tokens(text) / count)
    ratios.sort()
    below = sum(ratio < 1 for ratio in ratios) / len(ratios)
    assert below <= 0.1, (below, ratios[len(ratios) // 2])
    assert 1.0 <= ratios[len(ratios) // 2] <= 1.35


@pytest.mark.parametrize("text", ["", " ", "\n\n", "漢字かな交じり文", "a" * 500, "x_y_z()", "🦀🦀🦀"])
def test_anything_can_be_estimated(text):
    assert estimate_tokens(text) >= count_tokens(text) * 0.5


@pytest.mark.parametrize("name", RECORDED)
def test_code_and_east_asian_text_are_counted_as_by_the_makers_of_the_encoding(name):
    text = (TEXTS / name).read_text()

    assert count_tokens(text) == pytest.approx(RECORDED[name], rel=MOST_WRONG)


@pytest.mark.parametrize("name", RECORDED)
@pytest.mark.parametrize("end", ["\n", " "], ids=["lines", "one line"])
def test_a_long_text_is_counted_in_pieces_with_hardly_an_error(name, end):
    text = (TEXTS / name).read_text().replace("\n", end) * (3 * PIECE_CHARS // RECORDED[name])

    assert len(text) > 2 * PIECE_CHARS
    assert count_tokens_in_pieces(text) == pytest.approx(count_tokens(text), rel=MOST_WRONG)


def test_there_is_a_turn_for_others_after_each_piece():
    turns = []

    count_tokens_in_pieces("a line\n" * PIECE_CHARS, on_piece=lambda: turns.append(1))

    assert len(turns) == pytest.approx(len("a line\n"), abs=1)


def test_without_the_tokenizer_pieces_are_estimated(monkeypatch):
    monkeypatch.setattr(tokens, "has_tokenizer", lambda: False)

    assert count_tokens_in_pieces("漢字かな交じり文\n" * 10) == estimate_tokens("漢字かな交じり文\n" * 10)


@given(st.text(alphabet="ab\n", max_size=200), st.integers(1, 20))
def test_pieces_are_the_text_and_end_with_lines_where_they_can(text, most):
    pieces = list(split_at_lines(text, most))

    assert "".join(pieces) == text
    assert all(0 < len(piece) <= most for piece in pieces)
    assert all(piece.endswith("\n") or "\n" not in piece for piece in pieces[:-1])

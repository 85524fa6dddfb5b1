"""What a text costs a model's context."""

import json
import threading

import pytest

from toolyard.core.tokens import count_tokens, estimate_tokens
from toolyard.testing.universe import universe


@pytest.mark.parametrize(
    ("text", "count"), [("", 0), ("hello world", 2), ("tokenization", 2), ("\ud800", 1), ("<|endoftext|>", 7)]
)
def test_tokens_are_counted_as_current_models_count_them(text, count):
    assert count_tokens(text) == count


def test_an_unknown_encoding_is_refused():
    with pytest.raises(ValueError, match="no tokenizer 'p50k'"):
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

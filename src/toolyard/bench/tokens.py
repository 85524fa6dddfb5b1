"""What the default tools cost a model's context: the tokens of tools/list, as it crosses the wire."""

from __future__ import annotations

import importlib
import json
from typing import Any

from toolyard.bench.bench import Bench
from toolyard.bench.report import Row, at_most, skipped
from toolyard.bench.wire import Wire

_MOST_TOKENS = 2_500
_ENCODINGS = ("cl100k_base", "o200k_base")
_NAME = "tools/list of the default tools"
_UNIT = "tokens"


def measure(bench: Bench) -> list[Row]:
    bench.say("counting tokens")
    with Wire(bench.server(bench.folder("tokens"))) as wire:
        tools: object = wire.request("tools/list", {})["result"]["tools"]
    counted = count(json.dumps(tools, ensure_ascii=False, separators=(",", ":")))
    if counted is None:
        return [skipped(_NAME, _UNIT, "no tokenizer; `pip install rs-bpe` (a development dependency) brings one")]
    return [at_most(_NAME, _UNIT, tokens, _MOST_TOKENS, note=encoding) for encoding, tokens in counted.items()]


def count(text: str) -> dict[str, int] | None:
    """The number of tokens by encoding; None when the tokenizer is not installed."""
    try:
        openai: Any = importlib.import_module("rs_bpe.bpe").openai
    except ImportError:
        return None
    return {encoding: int(getattr(openai, encoding)().count(text)) for encoding in _ENCODINGS}

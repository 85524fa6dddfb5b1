"""What the default tools cost a model's context: the tokens of tools/list, as it crosses the wire."""

from __future__ import annotations

import json

from benchmarks.benchmark import Bench
from benchmarks.lean_client import Wire
from benchmarks.report import Row, at_most, skipped
from toolyard.core.tokens import token_counts_by_encoding

_MOST_TOKENS = 2_500
_NAME = "tools/list of the default tools"
_UNIT = "tokens"


def measure(bench: Bench) -> list[Row]:
    bench.say("counting tokens")
    with Wire(bench.server(bench.folder("tokens"))) as wire:
        tools: object = wire.request("tools/list", {})["result"]["tools"]
    counted = token_counts_by_encoding(json.dumps(tools, ensure_ascii=False, separators=(",", ":")))
    if counted is None:
        return [skipped(_NAME, _UNIT, "no tokenizer; `pip install 'toolyard[tokens]'` brings one")]
    return [at_most(_NAME, _UNIT, tokens, _MOST_TOKENS, note=encoding) for encoding, tokens in counted.items()]

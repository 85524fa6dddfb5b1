"""The fixed costs of the assistant: its start, its list of tools, and what it adds to a call.

A chat call is compared with the same request made by pydantic-ai alone, in a process of its own, to the same model,
which answers at once: what is more is ours, from the client's line to the thread on the disk and back.
"""

from __future__ import annotations

import json
import os
import statistics
import sys
import time
from collections.abc import Mapping, Sequence

from benchmarks.assistant.fixture import KEY, MODEL, Asking, Model, Place, Process
from benchmarks.benchmark import Bench
from benchmarks.files.startup import MINIMAL
from benchmarks.processes import processor_seconds
from benchmarks.report import Row, at_most, at_most_times, beside, skipped
from benchmarks.rounds import Measured, interleaved
from toolyard.assistant.prompts import system_instructions
from toolyard.core.tokens import token_counts_by_encoding

MOST_TOKENS = 2_500
MOST_TIMES = 1.5
_BARE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "bare_model.py")
"""A program of its own, run and not imported: it needs pydantic-ai, which a base install does not have."""
_PROMPT = "Is a queue or a lock the better choice here, and why?"
_CALLS_A_ROUND = 8
_TOKENS = "tools/list of the six tools"
_HIGH_LEVEL = '''\
"""A server of one tool on the SDK's high level."""
from mcp.server.mcpserver import MCPServer

server = MCPServer("minimal")


@server.tool()
def echo(text: str) -> str:
    """Say it back."""
    return text


server.run("stdio")
'''


def measure_start(bench: Bench) -> list[Row]:
    bench.say("starting assistants")
    place = Place.of(bench, "start")
    with Model() as model:
        env = place.variables(model)
        contenders = {
            "ours": _first_listing(place.command(), env),
            "high": _first_listing(_script(place, "high.py", _HIGH_LEVEL), env),
            "low": _first_listing(_script(place, "low.py", MINIMAL), env),
        }
        figures = interleaved(contenders, bench.sizes.starts)
    name = "assistant: start to first tools/list"
    notes = {
        "high": "beside one tool on the SDK's high-level server",
        "low": "beside one tool on its low-level server",
    }
    return [
        at_most_times(name, "ms", figures["ours"], figures[peer], MOST_TIMES, note=note)
        for peer, note in notes.items()
    ]


def measure_tokens(bench: Bench) -> list[Row]:
    bench.say("counting tokens")
    with Model() as model, Place.of(bench, "tokens").ask(model) as asking:
        tools: object = asking.request("tools/list")["result"]["tools"]
    counted = token_counts_by_encoding(json.dumps(tools, ensure_ascii=False, separators=(",", ":")))
    if counted is None:
        return [skipped(_TOKENS, "tokens", "no tokenizer; `pip install 'toolyard[tokens]'` brings one")]
    return [at_most(_TOKENS, "tokens", tokens, MOST_TOKENS, note=encoding) for encoding, tokens in counted.items()]


def measure_overhead(bench: Bench) -> list[Row]:
    bench.say("chat calls on a model that answers at once")
    place, calls = Place.of(bench, "overhead"), max(bench.sizes.calls // _CALLS_A_ROUND, 1)
    worked: dict[str, list[float]] = {"ours": [], "bare": []}
    with Model() as model:
        with place.ask(model) as asking, Process(_bare(model)) as bare:
            contenders = {
                "ours": _with_work(lambda: _chats(asking, calls), asking.pid, worked["ours"]),
                "bare": _with_work(lambda: _requests(bare, calls), bare.pid, worked["bare"]),
            }
            warm = interleaved(contenders, bench.sizes.rounds)
        of_them: list[float] = []
        cold = interleaved(
            {"ours": lambda: _first_chat(place, model, of_them), "bare": lambda: _first_request(model)},
            bench.sizes.starts,
        )
    processor = {name: statistics.median(values[1:]) / calls for name, values in worked.items()}
    return overhead_rows(warm, processor, cold, statistics.median(of_them[1:]))


def overhead_rows(
    warm: Mapping[str, float], processor: Mapping[str, float], cold: Mapping[str, float], first: float
) -> list[Row]:
    """In milliseconds: of a call, of processor time for it, of a start with one call, and of that call alone."""
    added = warm["ours"] - warm["bare"]
    peer = "the peer is pydantic-ai and Google's client alone"
    return [
        Row("added to a chat call", "ms", added, note="by the clock: the difference of the line below"),
        beside("a chat call, warm", "ms", warm["ours"], warm["bare"], note=peer),
        beside("processor time of a chat call, warm", "ms", processor["ours"], processor["bare"], note=peer),
        beside(
            "from the start of the process to the first answer",
            "ms",
            cold["ours"],
            cold["bare"],
            note=f"{first:,.0f} ms of it are the call; {peer}",
        ),
    ]


def _with_work(measured: Measured, pid: int, worked: list[float]) -> Measured:
    """The same, and in `worked` the milliseconds that the process worked for it."""

    def run() -> float:
        before = processor_seconds(pid)
        figure = measured()
        worked.append((processor_seconds(pid) - before) * 1e3)
        return figure

    return run


def _first_listing(command: Sequence[str], env: Mapping[str, str]) -> Measured:
    def run() -> float:
        with Asking(command, env) as asking:
            asking.request("tools/list")
            return (time.monotonic() - asking.began) * 1e3  # ending the server is not part of its start

    return run


def _script(place: Place, name: str, text: str) -> tuple[str, ...]:
    path = os.path.join(place.folder, name)
    with open(path, "w", encoding="utf-8") as file:
        file.write(text)
    return (sys.executable, path)


def _chats(asking: Asking, count: int) -> float:
    """The median of so many, each a thread of its own."""
    taken: list[float] = []
    for _ in range(count):
        started = time.monotonic()
        asking.ask("chat", prompt=_PROMPT)
        taken.append((time.monotonic() - started) * 1e3)
    return statistics.median(taken)


def _bare(model: Model) -> tuple[str, ...]:
    # With -P our own modules beside it, such as `tokens`, are not taken for others of that name.
    return (
        *(sys.executable, "-P", _BARE),
        *(model.address, KEY, MODEL, system_instructions("chat", None), _PROMPT),
    )


def _requests(bare: Process, count: int) -> float:
    bare.tell(str(count))
    return float(bare.line())


def _first_chat(place: Place, model: Model, of_them: list[float]) -> float:
    with place.ask(model) as asking:
        asking.request("tools/list")
        listed = time.monotonic()
        asking.ask("chat", prompt=_PROMPT)
        now = time.monotonic()
        of_them.append((now - listed) * 1e3)
        return (now - asking.began) * 1e3


def _first_request(model: Model) -> float:
    started = time.monotonic()
    with Process(_bare(model)) as bare:
        _requests(bare, 1)
        return (time.monotonic() - started) * 1e3

"""Threads: how the prompt grows with the turns, and that none of them ever sees a word of another.

Both look at the requests as the model got them. Growth: one thread, every turn with the same file named, as an agent
does that asks on and on about one place. Canaries: many threads, ten calls under way at a time; each question holds a
random word, the model says it back, and every request has to hold all the words of its thread and none
of another's.
"""

from __future__ import annotations

import secrets
import time
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass

from benchmarks import report
from benchmarks.assistant.fixture import Asking, Model, Place
from benchmarks.assistant.model_process import CANARY
from benchmarks.benchmark import Bench
from benchmarks.lean_client import BenchFault
from benchmarks.processes import resident_kb
from benchmarks.report import Row, at_most, beside
from toolyard.core.tokens import count_or_estimate_tokens
from toolyard.testing.mock_model.replies import parse_request

TURNS = 4
AT_A_TIME = 10
MOST_BENT = 5.0
"""Percent that the prompt of a turn may be off the straight line."""
_MODEL_SECONDS = 0.05
_KB_IN_MB = 1024
_MARK = "# the one file of this thread"
_ANSWER = "Keep the queue bounded, and let its writers wait: " + "a plain rule that holds under load. " * 12
_QUESTION = "Step {number}: " + "what would you change in this file first, and what would that break elsewhere? " * 4
_GEMINI = "/models/any:streamGenerateContent"
Texts = Sequence[str]


def measure_growth(bench: Bench) -> list[Row]:
    turns = bench.sizes.turns
    bench.say(f"a thread of {turns} turns")
    place = Place.of(bench, "growth")
    with open(report.__file__, encoding="utf-8") as source:
        place.write("subject.py", f"{_MARK}\n{source.read()}")
    with Model(_ANSWER, keep=bench.folder("growth requests")) as model, place.ask(model) as asking:
        thread: str | None = None
        for number in range(turns):
            question = _QUESTION.format(number=number)
            said = asking.ask("thinkdeep", current_analysis=question, files=["subject.py"], continuation_id=thread)
            thread = said["continuation_id"]
        sent = [request.body for request in model.requests()]
    if len(sent) != turns:
        raise BenchFault(f"The model was asked {len(sent)} times in {turns} turns.")
    return growth_rows([len(body) for body in sent], [texts_of(body) for body in sent])


def growth_rows(sizes: Sequence[int], prompts: Sequence[Texts]) -> list[Row]:
    """Of the requests of one thread, in order: their bytes, and their texts."""
    tokens = [sum(map(count_or_estimate_tokens, texts)) for texts in prompts]
    turns = len(tokens)
    third = max(turns // 3, 1)
    shown = sorted({1, third, max(2 * turns // 3, 1), turns})
    off = bent(tokens)
    copies = max(sum(text.count(_MARK) for text in texts) for texts in prompts)
    return [
        *(
            Row(f"prompt of turn {turn}", "tokens", tokens[turn - 1], note=f"{sizes[turn - 1]:,} bytes")
            for turn in shown
        ),
        beside(f"prompt of turn {turns} beside turn {third}", "tokens", tokens[-1], tokens[third - 1]),
        at_most("growth of the prompt: farthest from a straight line", "%", off, MOST_BENT),
        at_most("copies of the file in one prompt", "copies", copies, 1),
    ]


def bent(values: Sequence[float]) -> float:
    """How far the farthest is from the straight line that fits best, in percent of its own."""
    count = len(values)
    middle, mean = (count - 1) / 2, sum(values) / count
    spread = sum((at - middle) ** 2 for at in range(count))
    slope = sum((at - middle) * (value - mean) for at, value in enumerate(values)) / spread if spread else 0.0
    return max(abs(value - (mean + slope * (at - middle))) / value for at, value in enumerate(values)) * 100


def texts_of(body: bytes) -> Texts:
    """All texts of a request: the system prompt, what was asked, what was answered."""
    seen = parse_request("POST", _GEMINI, {}, body).conversation
    return (seen.system, *seen.user_texts, *seen.model_texts)


@dataclass(frozen=True, slots=True)
class Strays:
    """Canaries in requests that are not of their thread, and those that their own thread has lost."""

    leaked: int
    lost: int


def measure_canaries(bench: Bench) -> list[Row]:
    threads = bench.sizes.threads
    bench.say(f"{threads} threads, {TURNS} turns each, {AT_A_TIME} at a time")
    place = Place.of(bench, "canaries")
    keep = bench.folder("canary requests")
    with Model("I heard", delay=_MODEL_SECONDS, keep=keep) as model, place.ask(model) as asking:
        asking.ask("chat", prompt="Are you there?")
        before = resident_kb(asking.pid)
        began = time.monotonic()
        astray = _talk(asking, threads)
        wall = time.monotonic() - began
        after = resident_kb(asking.pid)
        sent = [request.body.decode() for request in model.requests()[1:]]
    if len(sent) != threads * TURNS:
        raise BenchFault(f"The model was asked {len(sent)} times in {threads * TURNS} turns.")
    strays = strays_of(sent)
    many = f"{threads} threads"
    return [
        at_most(f"{many}: canaries in another thread", "leaks", strays.leaked + astray, 0),
        at_most(f"{many}: canaries lost", "canaries", strays.lost, 0),
        Row(f"{many}: all of it", "s", wall, note=f"{len(sent)} calls, {AT_A_TIME} at a time; the model takes 50 ms"),
        Row(f"{many}: memory before", "MB", before / _KB_IN_MB, note="resident, after one call"),
        Row(f"{many}: memory after", "MB", after / _KB_IN_MB),
    ]


def strays_of(prompts: Sequence[str]) -> Strays:
    """By requests of several threads, in the order in which they came."""
    leaked = lost = 0
    asked: dict[str, set[str]] = {}
    for prompt in prompts:
        found = {each[0]: each[1] for each in CANARY.finditer(prompt)}
        owner = [*CANARY.finditer(prompt)][-1][1]  # the question is what comes last
        known = asked.setdefault(owner, set())
        leaked += sum(thread != owner for thread in found.values())
        lost += len(known - found.keys())
        known |= {canary for canary, thread in found.items() if thread == owner}
    return Strays(leaked, lost)


def _talk(asking: Asking, threads: int) -> int:
    """All turns of all threads; how many answers were for somebody else."""
    waiting = deque(each for turn in range(TURNS) for each in _order(threads, turn))
    turns, ids = [0] * threads, dict[int, str]()
    under_way: dict[int, tuple[int, str]] = {}
    astray = 0
    while waiting or under_way:
        busy = {thread for thread, _ in under_way.values()}
        while waiting and len(under_way) < AT_A_TIME and waiting[0] not in busy:
            thread = waiting.popleft()
            canary = f"canary-{thread:03}-{turns[thread]:02}-{secrets.token_hex(6)}"
            call = asking.begin("chat", prompt=f"Remember {canary}.", continuation_id=ids.get(thread))
            under_way[call] = (thread, canary)
            turns[thread] += 1
            busy.add(thread)
        heard = asking.hear()
        if "method" in heard.message:
            continue
        thread, canary = under_way.pop(heard.message["id"])
        said = heard.fields
        astray += canary not in said["content"]
        astray += ids.setdefault(thread, said["continuation_id"]) != said["continuation_id"]
    return astray


def _order(threads: int, turn: int) -> Sequence[int]:
    """Every second turn the other way round, so that neighbours are not always the same."""
    return range(threads) if turn % 2 == 0 else range(threads - 1, -1, -1)

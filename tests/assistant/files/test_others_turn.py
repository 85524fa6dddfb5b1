"""Ten megabytes are read, counted, shown, outlined and masked without holding up any other thread for long.

How late another thread is depends on whatever else the machine does, so it is not looked at here (`bench assistant`
measures it). A thread waits for as long as a call into C takes that does not give the lock away.
"""

import sys
import time
from functools import cache

import pytest

from tests.assistant.files.made import made, never
from toolyard.assistant.files.context_budget import fit_files
from toolyard.assistant.files.file_text import decode_text
from toolyard.assistant.files.import_graph import import_graph
from toolyard.assistant.files.outlines import outline
from toolyard.assistant.files.syntax.outliner import PARSED_BYTES
from toolyard.assistant.secrets.private_keys import KeyTracker
from toolyard.assistant.secrets.redaction import redact
from toolyard.core.limits import MIB
from toolyard.core.redaction import collect_secrets, mask_secrets
from toolyard.core.tokens import count_tokens, count_tokens_in_pieces

LONGEST = 0.030
"""CPU seconds of one call, which other work of the machine does not add to."""

LINE = "def function(argument: int) -> int:\n    return argument * 2  # 漢字\n"
TEXTS = {"lines": (LINE, 10 * MIB), "one line": ("x=1;", 10 * MIB), "signs": ("=", MIB)}
"""What is repeated, up to how many characters."""
KEYS = collect_secrets(key="AIzaSy" + "D4f6h8J0k2L4m6N8p0Q2r4S6t8U0v2W4x")


@cache
def large(name, most=10 * MIB):
    unit, size = TEXTS[name]
    return made("a.py", unit * (min(size, most) // len(unit)))


@cache
def encoded(name):
    return large(name).text.encode()


WORK = {
    "count": lambda name: count_tokens_in_pieces(large(name).text),
    "decode": lambda name: decode_text(encoded(name)),
    "show": lambda name: fit_files([large(name)], 10_000_000, never),
    "fit": lambda name: fit_files([large(name), made("b.py", "x = 1\n")], 200_000, never),
    "outline": lambda name: outline(large(name)),
    "parse": lambda name: outline(large(name, PARSED_BYTES * 7 // 8)),
    "imports": lambda name: import_graph([large(name)]),
    "mask": lambda name: mask_secrets(large(name).text, KEYS),
    "find keys": lambda name: KeyTracker().classify_line(large(name).text, follows=True),
    "redact": lambda name: redact("a.txt", large(name, MIB).text, never),
}


def longest_call(work):
    """The most CPU time of a single call into C: no other thread can run until such a call returns."""
    longest, begun = 0.0, None

    def watch(frame, event, argument):
        nonlocal longest, begun
        del frame, argument
        now = time.thread_time()
        if event in {"c_return", "c_exception"} and begun is not None:
            longest = max(longest, now - begun)
        begun = now if event == "c_call" else None  # one that calls Python lets others run there

    sys.setprofile(watch)
    try:
        work()
    finally:
        sys.setprofile(None)
    return longest


def test_a_call_that_holds_up_the_others_is_found():
    text = large("lines").text
    assert longest_call(lambda: text.split("\n")) > longest_call(lambda: text[:100].split("\n")) * 10


@pytest.mark.slow
@pytest.mark.parametrize("text", TEXTS)
@pytest.mark.parametrize("work", WORK)
def test_nobody_waits_long_for_a_large_file(work, text):
    count_tokens("loads the vocabulary")
    encoded(text)
    large(text, PARSED_BYTES * 7 // 8)

    assert longest_call(lambda: WORK[work](text)) <= LONGEST

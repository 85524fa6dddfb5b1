"""Traces of every language are read out of whatever surrounds them, in no more time than the text is long."""

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.assistant.traces.samples import SAMPLES, sample
from toolyard.assistant.traces import parse_traces
from toolyard.assistant.traces.model import ERROR_CHARS, MOST_FRAMES, MOST_TRACES

LONGEST_SECONDS = 10.0
"""What takes a second or two on a busy machine; anything that is not linear takes minutes."""


def test_traces_of_several_languages_in_one_text_are_told_apart():
    everything = "\n\n".join(path.read_text() for path in sorted(SAMPLES.iterdir()))
    assert {trace.language for trace in parse_traces(everything)} == {
        "python",
        "javascript",
        "java",
        "go",
        "rust",
        "c",
    }


def test_colours_of_a_terminal_and_line_ends_of_windows_do_not_matter():
    plain = sample("node-sync")
    dressed = "\r\n".join(f"\x1b[31m{line}\x1b[0m" for line in plain.split("\n"))
    assert parse_traces(dressed) == parse_traces(plain)


@pytest.mark.parametrize("text", ["", "\n", "It fails at 12:30:45 (always).", "See #12, #0", "at all", "a@b"])
def test_words_are_no_trace(text):
    assert parse_traces(text) == ()


@pytest.mark.parametrize(
    "unit",
    [
        "at at at (",
        "at a (",
        "    at f (f.js:1:2)\n",
        "Caused by: a.b.C: d\n\tat a.b.C.d(C.java:1)\n",
        "\n",
        "a\n",
        "[",
        'File "',
        '  File "a.py", line 1, in f\n',
        "Traceback (most recent call last):\n",
        "#0 0x1 in f a.c:1\n",
        "==1== at 0x1: f (a.c:1)\n",
        "goroutine 1 [running]:\n",
        "\ta.go:1 +0x1\n",
        "thread 'a' panicked at '",
        " panicked at ",
        "E   a\n",
        "x:1:1: error: ",
        "@/a:1:1\n",
        "Error: ",
        "\x1b[",
        ": Assertion `",
        ":::::",
    ],
)
def test_a_megabyte_of_anything_takes_no_longer_than_a_megabyte(unit):
    begun = time.monotonic()
    traces = parse_traces(unit * (1_000_000 // len(unit)))
    assert time.monotonic() - begun < LONGEST_SECONDS
    assert len(traces) <= MOST_TRACES
    assert all(len(trace.frames) <= MOST_FRAMES and len(trace.error) <= ERROR_CHARS for trace in traces)


def test_of_a_long_trace_the_frames_nearest_to_the_error_are_kept():
    lines = "".join(f'  File "a.py", line {number}, in f\n' for number in range(1, 1001))
    trace = parse_traces(f"Traceback (most recent call last):\n{lines}ValueError: x\n")[0]
    assert [trace.frames[0].line, trace.frames[-1].line] == [1000, 1001 - MOST_FRAMES]
    calls = "".join(f"    at f (/a.js:{number}:1)\n" for number in range(1, 1001))
    trace = parse_traces(f"Error: x\n{calls}")[0]
    assert [trace.frames[0].line, trace.frames[-1].line] == [1, MOST_FRAMES]


def test_the_end_of_a_very_long_log_is_read_like_its_beginning():
    log = "2024-05-01 all is well\n" * 100_000
    assert len(parse_traces(sample("node-sync") + log + sample("python-syntax"))) == 2


LINES = sorted({line for path in SAMPLES.iterdir() for line in path.read_text().split("\n")})


@given(st.lists(st.one_of(st.sampled_from(LINES), st.text(max_size=30)), max_size=40))
def test_lines_in_any_order_never_break_it(lines):
    for trace in parse_traces("\n".join(lines)):
        assert trace.frames or trace.language in {"c", "rust"}
        assert all(frame.line >= 0 and "\n" not in frame.file for frame in trace.frames)

"""What real programs printed, and what is read in it."""

from pathlib import Path

from toolyard.assistant.traces import parse_traces
from toolyard.assistant.traces.path_mapping import file_name_of

SAMPLES = Path(__file__).parents[2] / "data" / "traces"


def sample(name):
    return (SAMPLES / f"{name}.txt").read_text()


def told(name):
    """The error of each trace and its places, without those of libraries."""
    return [
        (
            trace.error,
            [f"{frame.file}:{frame.line} {frame.function}".strip() for frame in trace.frames if _is_own(frame)],
        )
        for trace in parse_traces(sample(name))
    ]


def languages(name):
    return {trace.language for trace in parse_traces(sample(name))}


def _is_own(frame):
    # What the C library does before main is a library's too, though its path does not tell.
    return bool(file_name_of(frame.file)) and "libc" not in frame.file

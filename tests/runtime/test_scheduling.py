"""Workers that get ready for later give way to runs that somebody waits for."""

from __future__ import annotations

import ctypes
import multiprocessing
import os
import threading
from pathlib import Path

import pytest

from toolyard.sandbox.backends.bubblewrap import bubblewrap_sandbox, find_bubblewrap
from toolyard.sandbox.spec import RunKind, RunRequest, SandboxSpec
from toolyard_runtime import scheduling

SLICES_SINCE = (6, 12)
NUMBER = {"x86_64": 315, "aarch64": 275}.get(os.uname().machine)
LONGEST = 100_000_000
MY_SLICE = f"""
import ctypes
attributes = ctypes.create_string_buffer(48)
ctypes.CDLL(None).syscall({NUMBER}, 0, attributes, 48, 0)
int.from_bytes(attributes.raw[24:32], "little")
"""

pytestmark = pytest.mark.skipif(
    NUMBER is None or tuple(map(int, os.uname().release.split(".")[:2])) < SLICES_SINCE,
    reason="the kernel keeps no time slice for each process",
)


def test_a_process_asks_for_the_longest_slice_and_gives_it_back() -> None:
    with multiprocessing.get_context("fork").Pool(1) as other:
        before, unhurried, after = other.apply(_asked)
    assert (unhurried, after) == (LONGEST, before)
    assert before < LONGEST


def test_a_run_has_the_usual_slice_although_its_worker_waited_with_a_long_one(tmp_path: Path) -> None:
    program = find_bubblewrap()
    assert program is not None
    with bubblewrap_sandbox(program) as sandbox:
        sandbox.start(SandboxSpec(str(tmp_path)))
        slices = {
            (sandbox.run(RunRequest(RunKind.PYTHON, MY_SLICE, 20), lambda *_: None, threading.Event()).value or {})[
                "value"
            ]
            for _ in range(3)
        }
    assert slices == {str(_slice())}


def _asked() -> tuple[int, int, int]:
    before = _slice()
    scheduling.set_background_slice()
    unhurried = _slice()
    scheduling.set_default_slice()
    return before, unhurried, _slice()


def _slice() -> int:
    attributes = ctypes.create_string_buffer(48)
    assert ctypes.CDLL(None).syscall(NUMBER, 0, attributes, 48, 0) == 0
    return int.from_bytes(attributes.raw[24:32], "little")

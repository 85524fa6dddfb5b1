"""What the first turn needs may be loaded before it, in a thread, without holding up anybody."""

from __future__ import annotations

import subprocess
import sys

import pytest

from tests.models.conftest import KINDS

_PROBE = """
import gc, sys, threading, time
from toolyard.config.models import Backend
from toolyard.models.lazy_import import gc_paused
from toolyard.models.factory import open_model
def warm():
    with gc_paused():
        open_model(backend, {{}})
backend = Backend(type={kind!r}, api_key="a-key-of-some-length")
thread = threading.Thread(target=warm)
pauses = []
gc.callbacks.append(lambda _, about: about["generation"] == 2 and pauses.append(about))
thread.start()
thread.join()
assert gc.isenabled() and gc.get_freeze_count() > 50_000, gc.get_freeze_count()
assert not pauses, pauses
before = set(sys.modules)
open_model(backend, {{}})
print(len(before), *sorted(set(sys.modules) - before))
"""


@pytest.mark.parametrize("kind", [KINDS[0], *(pytest.param(kind, marks=pytest.mark.slow) for kind in KINDS[1:])])
def test_a_model_that_was_warmed_loads_nothing_more_and_the_collector_rested(kind):
    done = subprocess.run(
        [sys.executable, "-c", _PROBE.format(kind=kind)], capture_output=True, text=True, check=False
    )
    assert done.stderr == ""
    loaded, *more = done.stdout.split()
    assert int(loaded) > 500
    assert more == []

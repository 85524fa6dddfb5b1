"""Races: a folder, or the file itself, keeps turning into a link that leads out, while calls run.

The swapping is done by a process of its own (threads of one interpreter would take turns with the calls instead of
racing them), until every call is made and at least 2,000 swaps are done. Both resolvers are raced: the kernel's
openat2, and the walk that serves where it lacks that.
"""

import os
import subprocess
import sys
import time

import pytest

from tests.support.attacks.mcp_calls import HIDDEN_NAME, MARKER, fingerprint
from toolyard.core.calls import Call
from toolyard.core.errors import ToolyardError
from toolyard.linux import openat2

SWAPS = 2_000
CALLS = 250
MOST_SECONDS = 20
EXPECTED = {0, -32001, -32603}
INSIDE = "from inside\n"

# Swaps until it is told to end; says when it is ready, when it has done enough, and at the end how often it did.
SWAPPER = """
import ctypes, os, signal, sys
libc, here, exchange = ctypes.CDLL(None, use_errno=True), -100, 2
kind, place, target, enough = sys.argv[1:]
swaps, going = 0, True
def stop(*_):
    global going
    going = False
signal.signal(signal.SIGTERM, stop)
print("ready", flush=True)
link, spare, kept = place + ".link", place + ".spare", place + ".kept"
if kind == "folder":
    os.symlink(target, link)
else:
    os.link(place, kept)  # another name for the file, because writing it anew each time would wait for the disk
while going:
    if kind == "folder":
        if libc.renameat2(here, os.fsencode(place), here, os.fsencode(link), exchange):
            raise OSError(ctypes.get_errno(), "renameat2")
    else:
        os.symlink(target, link)
        os.rename(link, place)
        os.link(kept, spare)
        os.rename(spare, place)
    swaps += 1
    if swaps == int(enough):
        print("enough", flush=True)
"""


@pytest.fixture(params=["kernel", "walk"])
def resolver(request, monkeypatch):
    if request.param == "kernel" and not openat2.is_available():
        pytest.skip("this kernel has no openat2")
    monkeypatch.setattr(openat2, "is_available", lambda: request.param == "kernel")
    return request.param


class Race:
    """The swapping process, from its first swap to its last."""

    def __init__(self, kind: str, place: str, target: str) -> None:
        command = [sys.executable, "-c", SWAPPER, kind, place, target, str(SWAPS)]
        self._process = subprocess.Popen(command, stdout=subprocess.PIPE)
        assert self._process.stdout.readline() == b"ready\n"
        os.set_blocking(self._process.stdout.fileno(), False)
        self.has_done_enough = False

    def look(self) -> None:
        self.has_done_enough = self.has_done_enough or bool(self._process.stdout.readline())

    def end(self) -> None:
        self._process.terminate()
        self._process.communicate()
        assert self._process.returncode == 0, "it swapped to the end"


def arguments(tool: str, turn: int) -> dict[str, object]:
    one, other = ("from", "back") if turn % 2 else ("back", "from")
    return {
        "Read": {"file_path": "place/secret.txt"},
        "Write": {"file_path": "place/secret.txt", "content": INSIDE},
        "Edit": {"file_path": "place/secret.txt", "old_string": one, "new_string": other},
        "LS": {"path": "place"},
    }[tool]


async def raced(victim, tool: str, race: Race) -> None:
    """Calls until there are enough of them, and of swaps. One at least must succeed, and none may lead out."""
    try:
        seen = await tried(victim, tool, race)
    finally:
        race.end()
    assert seen <= EXPECTED


async def tried(victim, tool: str, race: Race) -> set[int]:
    seen: set[int] = set()
    started = time.monotonic()
    turn = 0
    while turn < CALLS or 0 not in seen or not race.has_done_enough:
        assert time.monotonic() - started < MOST_SECONDS, f"the calls take too long: {seen}"
        turn += 1
        race.look()
        # Each call is a session of its own: what is asked here is where it lands, not what it saw before.
        call = Call(tool, arguments(tool, turn), surface="test", session=str(turn))
        try:
            result = await victim.yard.dispatch(call)
            code, text = 0, result.text + repr(result.structured)
        except ToolyardError as error:
            code, text = error.code, str(error)
        assert MARKER not in text
        assert HIDDEN_NAME not in text
        seen.add(code)
    return seen


def prepare(world) -> str:
    place = f"{world.workspace}/place"
    os.mkdir(place)
    with open(f"{place}/secret.txt", "w") as file:
        file.write(INSIDE)
    return place


@pytest.mark.slow
@pytest.mark.parametrize("tool", ["Read", "Write", "Edit", "LS"])
async def test_a_folder_swapped_for_a_link_leads_no_call_out(victim, resolver, tool):
    place = prepare(victim.world)
    before = victim.world.fingerprint_outside()
    await raced(victim, tool, Race("folder", place, victim.world.outside))
    assert victim.world.fingerprint_outside() == before


@pytest.mark.slow
@pytest.mark.parametrize("tool", ["Read", "Write", "Edit"])
async def test_a_file_swapped_for_a_link_leads_no_call_out(victim, resolver, tool):
    place = prepare(victim.world)
    before = victim.world.fingerprint_outside()
    await raced(victim, tool, Race("file", f"{place}/secret.txt", f"{victim.world.outside}/secret.txt"))
    assert victim.world.fingerprint_outside() == before


@pytest.mark.slow
@pytest.mark.parametrize("tool", ["Write", "Edit"])
async def test_a_folder_swapped_for_a_link_to_a_protected_one_is_no_way_around_the_policy(victim, resolver, tool):
    place = prepare(victim.world)
    hooks = f"{victim.world.workspace}/.git/hooks"
    with open(f"{hooks}/secret.txt", "w") as file:
        file.write(INSIDE)
    before = fingerprint(hooks)
    await raced(victim, tool, Race("folder", place, hooks))
    assert fingerprint(hooks) == before


@pytest.mark.slow
async def test_a_folder_swapped_for_a_link_to_a_denied_one_is_not_read(victim, resolver):
    place = prepare(victim.world)
    with open(f"{victim.world.workspace}/hidden/secret.txt", "w") as file:
        file.write(MARKER)
    await raced(victim, "Read", Race("folder", place, f"{victim.world.workspace}/hidden"))

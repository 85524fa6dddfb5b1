"""What holds ripgrep in: folders swapped under it, cancellation, a confinement that is really there."""

import contextlib
import os
import select
import signal
import subprocess
import sys
import threading
import time

import pytest

from tests.support.descriptors import open_now
from toolyard.core.errors import SecurityError, ToolError
from toolyard.files import landlocked_process
from toolyard.files.die_with_parent import die_with_parent_group
from toolyard.files.landlocked_process import ConfinedProgram, Confinement
from toolyard.files.search import find_ripgrep

ROUNDS = 100
CANCEL_SECONDS = 0.1
ORPHAN_SECONDS = 1.0
SWAP = """
import ctypes, os, sys
libc, here, exchange = ctypes.CDLL(None), -100, 2
one, other = map(os.fsencode, sys.argv[1:])
while libc.renameat2(here, one, here, other, exchange) == 0:
    pass
"""


@pytest.fixture
def swapping(yard, tmp_path):
    """A folder in the yard that keeps turning into a link to a folder outside, and back."""
    outside = tmp_path / "outside"
    for name in ("x", "sub/y"):
        path = outside / f"{name}.txt"
        path.parent.mkdir(exist_ok=True, parents=True)
        path.write_text("needle CANARY\n")
    (outside / "only-outside.txt").write_text("needle CANARY\n")
    for name in ("x", "sub/y"):
        yard.write(f"folder/{name}.txt", "needle inside\n")
    for number in range(30):
        yard.write(f"more/{number}.txt", "hay\n")
    os.symlink(outside, f"{yard.path}/.link")
    # In a process of its own: threads of one interpreter would take turns with the search instead of racing it.
    swapper = subprocess.Popen([sys.executable, "-c", SWAP, f"{yard.path}/folder", f"{yard.path}/.link"])
    yield yard
    assert swapper.poll() is None, "the swapper ran all the time"
    swapper.kill()
    swapper.wait()


@pytest.mark.parametrize("mode", ["content", "files_with_matches"])
def test_a_folder_swapped_for_a_link_never_leads_a_search_out(swapping, mode):
    hits = 0
    for _ in range(ROUNDS):
        found = swapping.grep(output_mode=mode, glob="folder/**")
        assert "CANARY" not in found.text
        assert "only-outside" not in found.text
        hits += bool(found.lines)
    assert hits, "the control: what is inside is found"


def test_a_start_swapped_for_a_link_never_leads_a_search_out(swapping):
    hits = 0
    for _ in range(ROUNDS):
        try:
            found = swapping.grep(output_mode="content", start="folder")
        except SecurityError:
            continue
        assert "CANARY" not in found.text
        hits += bool(found.lines)
    assert hits


def test_a_folder_swapped_for_a_link_never_leads_a_glob_out(swapping):
    hits = 0
    for _ in range(ROUNDS):
        found = swapping.glob("*.txt")
        assert "only-outside" not in found.text
        hits += "folder/x.txt" in found.files
    assert hits


def running_searches():
    """Searches of ours, whichever thread started them."""
    found = []
    for thread in os.listdir("/proc/self/task"):
        with contextlib.suppress(FileNotFoundError), open(f"/proc/self/task/{thread}/children") as file:
            found += file.read().split()
    return [pid for pid in found if name_of(pid) == "rg"]


def name_of(pid):
    with contextlib.suppress(FileNotFoundError, ProcessLookupError), open(f"/proc/{pid}/comm") as file:
        return file.read().strip()


def test_a_cancelled_search_ends_at_once_and_leaves_no_process(yard):
    yard.write("big.txt", b"a" * 50 * 1024 * 1024)
    took = [cancelled_after_a_moment(yard) for _ in range(5)]
    assert min(took) < CANCEL_SECONDS  # the others say what else the machine does


def cancelled_after_a_moment(yard):
    """Seconds from when an endless search is cancelled until it is over."""
    cancel = threading.Event()
    cancelled_at = []

    def cancel_it():
        cancelled_at.append(time.monotonic())
        cancel.set()

    timer = threading.Timer(0.05, cancel_it)
    timer.start()
    found = yard.grep("(a?){200}(b|c){5}z", start="big.txt", cancel=cancel, output_mode="content")
    ended_at = time.monotonic()
    timer.join()
    assert "cancelled" in found.note
    assert running_searches() == []
    return ended_at - cancelled_at[0]


def test_a_search_past_its_deadline_ends_and_leaves_no_process(yard):
    yard.write("big.txt", b"a" * 50 * 1024 * 1024)
    with pytest.raises(ToolError, match="deadline"):
        yard.grep("(a?){200}(b|c){5}z", start="big.txt", seconds=0.1)
    assert running_searches() == []


SEARCHER = """
import os, sys
from toolyard.files import landlocked_process
from toolyard.files.landlocked_process import Confinement, ConfinedProgram
from toolyard.files.search import find_ripgrep

fd = os.open(sys.argv[1], os.O_PATH)
arguments = (find_ripgrep(), "--no-config", "needle", "endless.txt")
program = ConfinedProgram(arguments, fd, (fd,))
print(landlocked_process.start_program(program, Confinement(sys.argv[2])).pid, flush=True)
sys.stdin.read()
"""


def test_a_search_ends_when_the_process_that_started_it_is_killed(yard):
    with open(f"{yard.path}/endless.txt", "wb") as file:
        file.truncate(1 << 38)  # holes: minutes of reading, and no disk
    command = [sys.executable, "-c", SEARCHER, yard.path, yard.confinement]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as owner:
        pid = int(owner.stdout.readline())
        search = os.pidfd_open(pid)  # readable once the process has ended
        try:
            assert select.select([search], [], [], 0.2)[0] == [], "it searches"
            owner.kill()
            assert select.select([search], [], [], ORPHAN_SECONDS)[0] == [search]
        finally:
            with contextlib.suppress(ProcessLookupError):
                signal.pidfd_send_signal(search, signal.SIGKILL)
            os.close(search)


def test_a_search_is_tethered_again_after_the_holder_was_killed(yard):
    yard.write("a.txt")
    assert yard.grep().files
    first = die_with_parent_group()
    os.kill(first.group, signal.SIGKILL)
    os.waitid(os.P_PID, first.group, os.WEXITED | os.WNOWAIT)
    assert yard.grep().files
    assert die_with_parent_group().group != first.group
    assert die_with_parent_group().is_alive()


def test_where_there_is_no_holder_a_search_runs_all_the_same(yard, monkeypatch):
    yard.write("a.txt")
    monkeypatch.setattr("toolyard.files.landlocked_process.die_with_parent_group", lambda: None)
    assert yard.grep().files


def test_a_finished_search_leaves_no_descriptor_open(yard):
    yard.write("a.py")
    yard.grep()
    before = open_now()
    yard.grep(output_mode="content")
    yard.grep(start="a.py")
    yard.glob("*.py")
    assert open_now() == before


needs_landlock = pytest.mark.skipif(
    landlocked_process.best_confinement() is not Confinement.LANDLOCK, reason="this kernel has no Landlock"
)


def run_in(folder, *arguments):
    fd = os.open(folder, os.O_PATH)
    try:
        process = landlocked_process.start_program(
            ConfinedProgram((find_ripgrep(), *arguments), fd, (fd,)), Confinement.LANDLOCK
        )
        out, errors = process.communicate()
    finally:
        os.close(fd)
    return process.returncode, out, errors


@needs_landlock
def test_a_confined_program_reads_its_folder_and_nothing_else(tmp_path):
    (tmp_path / "a.txt").write_text("root is here\n")
    os.symlink("/etc/passwd", tmp_path / "link")
    assert run_in(tmp_path, "--no-config", "root", "a.txt") == (0, b"root is here\n", b"")
    for path in ("/etc/passwd", "link", "../../../../../../../etc/passwd", "/proc/self/environ"):
        code, out, errors = run_in(tmp_path, "--no-config", "root", path)
        assert (code, out) == (2, b""), path
        assert b"ermission denied" in errors
    with open("/etc/passwd") as file:
        assert file.read(), "this process itself stays free"


@needs_landlock
def test_a_confined_program_has_a_clean_environment(tmp_path, monkeypatch):
    monkeypatch.setenv("RIPGREP_CONFIG_PATH", str(tmp_path / "rc"))
    (tmp_path / "rc").write_text("--files\n")
    (tmp_path / "a.txt").write_text("needle\n")
    assert run_in(tmp_path, "needle", "a.txt") == (0, b"needle\n", b"")


def test_a_program_linked_to_libraries_is_told_from_a_static_one():
    assert landlocked_process.needs_libraries("/proc/self/exe")
    assert not landlocked_process.needs_libraries(find_ripgrep())

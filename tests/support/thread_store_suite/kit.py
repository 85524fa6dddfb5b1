"""What every store of threads must do: the equipment. The cases are in `thread_stores_*`.

A test module says which store it is about and takes the cases over:

    @pytest.fixture
    def kit(tmp_path):
        with Kit(Subject(make, RECIPE)) as kit:
            yield kit

    class TestTurns(Turns): ...

A Kit owns the stores that it opened, and the threads and processes in which others use them, until `close()`.
"""

from __future__ import annotations

import contextlib
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field

from toolyard.assistant.threads.store import ExpiredThread, ThreadLimits, ThreadStore
from toolyard.assistant.threads.thread import Message, Thread, Turn
from toolyard.core.closeable import Closeable
from toolyard.core.errors import ToolyardError

PATIENCE_SECONDS = 30.0
_POLL_SECONDS = 0.005
_WORKERS = 16
LONG = ThreadLimits(3_600.0, 1_000)

# Another process that uses the store. What it does is in `work`, which it begins when it is told to.
_PROGRAM = """
import sys
from tests.support.thread_store_suite.kit import turn
from toolyard.assistant.threads.store import ThreadLimits
{recipe}
def tell(*words): print(*words, flush=True)
tell("ready")
sys.stdin.readline()
{work}
"""
TAKES_A_TURN = """
told = []
def may_wait():
    if not told:
        told.append(tell("waits"))
with store.turn(sys.argv[1], may_wait) as opened:
    tell("holds")
    sys.stdin.readline()
    tell(opened.keep(turn(sys.argv[2])))
"""
"""Arguments: a thread, and what is asked. Tells whether it waits, and that it holds; keeps its turn after a line."""
TAKES_TURNS = """
for _ in range(int(sys.argv[2])):
    with store.turn(sys.argv[1], lambda: None) as opened:
        tell(opened.keep(turn(str(len(opened.thread.turns)))))
"""
"""Arguments: a thread, and how many. Asks how many there were, and tells the number of each that is kept."""


def turn(text: str, answer: str | None = None, tool: str = "chat") -> Turn:
    said = f"answer to {text}" if answer is None else answer
    return Turn(Message("user", text, tool=tool), Message("assistant", said, tool=tool))


def texts(thread: Thread) -> list[str]:
    return [each.asked.text for each in thread.turns]


def nobody_waits() -> None:
    raise AssertionError("somebody else holds the thread")


@dataclass(frozen=True, slots=True)
class Subject:
    """The kind of store under test."""

    make: Callable[[ThreadLimits], ThreadStore]
    """One more onto the same threads."""
    recipe: str
    """Python source that leaves such a one in `store`: for other processes."""


@dataclass(slots=True)
class Other:
    """Another process at work, line by line."""

    process: subprocess.Popen[str]

    def tell(self) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write("\n")
        self.process.stdin.flush()

    def heard(self) -> str:
        assert self.process.stdout is not None
        return self.process.stdout.readline().strip()

    def rest(self) -> list[str]:
        """All that it says until it ends."""
        assert self.process.stdout is not None
        return self.process.stdout.read().split()

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()


@dataclass(slots=True)
class Worker:
    """A thread of this process that takes a turn."""

    waits: threading.Event
    future: Future[int]


@dataclass
class Kit(Closeable):
    subject: Subject
    _stores: list[ThreadStore] = field(default_factory=list[ThreadStore])
    _others: list[Other] = field(default_factory=list[Other])

    def __post_init__(self) -> None:
        self.store = self.open()
        self.pool = ThreadPoolExecutor(_WORKERS)

    def open(self, terms: ThreadLimits = LONG) -> ThreadStore:
        store = self.subject.make(terms)
        self._stores.append(store)
        return store

    def begun(self, *asked: str, store: ThreadStore | None = None) -> str:
        """A new thread with these turns."""
        with (store or self.store).turn(None, nobody_waits) as opened:
            for text in asked or ("first",):
                opened.keep(turn(text))
            return opened.thread.id

    def others(self, work: str, *arguments: Sequence[str]) -> list[Other]:
        """One process for each of the `arguments`, all at the point where they begin once they are told."""
        program = _PROGRAM.format(recipe=self.subject.recipe, work=work)
        started = [self._started(program, words) for words in arguments]
        assert [other.heard() for other in started] == ["ready"] * len(started)
        return started

    def _started(self, program: str, words: Sequence[str]) -> Other:
        command = [sys.executable, "-c", program, *words]
        process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self._others.append(Other(process))
        return self._others[-1]

    def taking(self, thread: str, text: str, store: ThreadStore | None = None) -> Worker:
        """Take a turn in a thread of this process; returns when that waits for somebody else."""
        waits = threading.Event()

        def take() -> int:
            with (store or self.store).turn(thread, waits.set) as opened:
                return opened.keep(turn(text))

        worker = Worker(waits, self.pool.submit(take))
        assert waits.wait(PATIENCE_SECONDS), worker.future
        return worker

    def close(self) -> None:
        for other in self._others:
            other.process.kill()
            other.process.communicate()
        self.pool.shutdown()
        for store in self._stores:
            store.close()


def refused(work: Callable[[], object]) -> ToolyardError:
    """What it raises."""
    try:
        work()
    except ToolyardError as error:
        return error
    raise AssertionError("nothing was raised")


def eventually(is_so: Callable[[], bool]) -> None:
    until = time.monotonic() + PATIENCE_SECONDS
    while not is_so():
        assert time.monotonic() < until, "it never came to that"
        time.sleep(_POLL_SECONDS)


def has_expired(store: ThreadStore, thread: str) -> bool:
    with contextlib.suppress(ExpiredThread):
        store.read(thread)
        return False
    return True

"""What every store of threads must do for many at once, in one process and in several, some of which are killed."""

from __future__ import annotations

import random
import threading
from concurrent.futures import Future

import pytest

from tests.support.thread_store_suite.kit import (
    PATIENCE_SECONDS,
    TAKES_A_TURN,
    TAKES_TURNS,
    Kit,
    nobody_waits,
    texts,
    turn,
)
from toolyard.assistant.threads.store import ThreadStore

_THREADS = 50
_TURNS = 4
_BEGINS = 'with store.turn(None, lambda: None) as opened: tell(opened.keep(turn("first")), opened.thread.id)'


class _GivenUpError(Exception):
    """What whoever waits raises."""


def _take_turns(store: ThreadStore, thread: str, count: int) -> None:
    for _ in range(count):
        with store.turn(thread, lambda: None) as opened:
            before = len(opened.thread.turns)
            assert opened.keep(turn(str(before))) == before + 1


class Together:
    def test_turns_in_one_thread_are_taken_in_order_of_arrival(self, kit: Kit) -> None:
        thread, second = kit.begun("first"), kit.open()
        with kit.store.turn(thread, nobody_waits) as opened:
            workers = [kit.taking(thread, str(each), (kit.store, second)[each % 2]) for each in range(8)]
            opened.keep(turn("held"))
        assert [each.future.result(PATIENCE_SECONDS) for each in workers] == list(range(3, 11))
        assert texts(kit.store.read(thread)) == ["first", "held", *map(str, range(8))]

    def test_whoever_waits_may_give_up_and_is_passed_over(self, kit: Kit) -> None:
        thread, asked = kit.begun("first"), 0

        def gives_up() -> None:
            nonlocal asked
            asked += 1
            if asked == 3:
                raise _GivenUpError

        with kit.store.turn(thread, nobody_waits):
            before = kit.taking(thread, "before")
            with pytest.raises(_GivenUpError), kit.store.turn(thread, gives_up):
                raise AssertionError("it was let in")
            after = kit.taking(thread, "after")
        assert [each.future.result(PATIENCE_SECONDS) for each in (before, after)] == [2, 3]

    def test_one_thread_waits_for_no_other(self, kit: Kit) -> None:
        one, other = kit.begun("one"), kit.begun("other")
        with kit.store.turn(one, nobody_waits), kit.store.turn(other, nobody_waits) as opened:
            assert opened.keep(turn("more")) == 2
            assert kit.begun("third") != one
            assert texts(kit.store.read(one)) == ["one"]  # nor do those who only read

    def test_many_threads_interleaved_never_mix(self, kit: Kit) -> None:
        canaries = {kit.begun(f"canary-{number}-x"): f"canary-{number}-x" for number in range(_THREADS)}
        order = [thread for thread in canaries for _ in range(_TURNS)]
        random.Random(7).shuffle(order)
        stores = (kit.store, kit.open())

        def take(number: int, thread: str) -> None:
            with stores[number % 2].turn(thread, lambda: None) as opened:
                assert set(texts(opened.thread)) == {canaries[thread]}
                opened.keep(turn(canaries[thread], canaries[thread]))

        for done in [kit.pool.submit(take, *each) for each in enumerate(order)]:
            done.result(PATIENCE_SECONDS)
        for thread, canary in canaries.items():
            said = {text for each in kit.store.read(thread).turns for text in (each.asked.text, each.answered.text)}
            assert said - {f"answer to {canary}"} == {canary}
            assert len(kit.store.read(thread).turns) == _TURNS + 1
        assert {hit.thread.id for hit in kit.store.search("canary-7-x")} == {list(canaries)[7]}

    def test_threads_that_open_it_first_at_the_same_time_all_keep_their_turns(self, kit: Kit) -> None:
        stores = [kit.open() for _ in range(8)]
        barrier = threading.Barrier(len(stores))

        def begin(store: ThreadStore) -> str:
            barrier.wait(PATIENCE_SECONDS)
            return kit.begun("first", store=store)

        begun: list[Future[str]] = [kit.pool.submit(begin, store) for store in stores]
        ids = {each.result(PATIENCE_SECONDS) for each in begun}
        assert {each.id for each in kit.store.list()} == ids
        assert len(ids) == len(stores)


class Processes:
    def test_order_of_arrival_holds_across_processes(self, kit: Kit) -> None:
        thread = kit.begun("first")
        one, two = kit.others(TAKES_A_TURN, (thread, "one"), (thread, "two"))
        with kit.store.turn(thread, nobody_waits):
            one.tell()
            assert one.heard() == "waits"
            between = kit.taking(thread, "between")
            two.tell()
            assert two.heard() == "waits"
        for other, number in ((one, "2"), (two, "4")):
            assert other.heard() == "holds"
            other.tell()
            assert other.heard() == number
        assert between.future.result(PATIENCE_SECONDS) == 3
        assert texts(kit.store.read(thread)) == ["first", "one", "between", "two"]

    def test_no_turn_is_lost_or_taken_twice_when_threads_and_processes_contend(self, kit: Kit) -> None:
        thread = kit.begun("0")
        others = kit.others(TAKES_TURNS, (thread, "12"), (thread, "12"))
        for other in others:
            other.tell()
        for done in [kit.pool.submit(_take_turns, kit.store, thread, 6) for _ in range(3)]:
            done.result(PATIENCE_SECONDS)
        told = [int(number) for other in others for number in other.rest()]
        assert texts(kit.store.read(thread)) == ["0", *map(str, range(1, 43))]
        assert len(set(told)) == 24

    def test_a_killed_holder_loses_nothing_it_told_of_and_others_go_on(self, kit: Kit) -> None:
        thread = kit.begun("first")
        holder, waiter = kit.others(TAKES_A_TURN, (thread, "killed"), (thread, "killed, too"))
        holder.tell()
        assert holder.heard() == "holds"
        waiter.tell()
        assert waiter.heard() == "waits"
        behind = kit.taking(thread, "behind")
        waiter.kill()
        holder.kill()
        assert behind.future.result(PATIENCE_SECONDS) == 2
        assert texts(kit.store.read(thread)) == ["first", "behind"]

    def test_a_writer_killed_at_any_moment_has_lost_nothing_that_it_told(self, kit: Kit) -> None:
        thread = kit.begun("0")
        told = 1
        for writer in kit.others(TAKES_TURNS, *[(thread, "100000")] * 3):
            writer.tell()
            for _ in range(random.Random(told).randint(3, 9)):
                told += 1
                assert int(writer.heard()) == told
            writer.kill()
            told = max([told, *map(int, writer.rest())])
            kept = texts(kit.open().read(thread))
            assert len(kept) in {told, told + 1}  # what was under way may be there, and whole
            assert kept == list(map(str, range(len(kept))))
            told = len(kept)

    def test_processes_that_open_it_first_at_the_same_time_all_keep_their_turns(self, kit: Kit) -> None:
        others = kit.others(_BEGINS, (), (), ())
        for other in others:
            other.tell()
        ids = {other.rest()[1] for other in others}
        assert {each.id for each in kit.store.list()} == ids
        assert len(ids) == len(others)

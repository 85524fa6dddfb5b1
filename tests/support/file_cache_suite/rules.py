"""The rules of `FileCache`, one sentence each, for every store."""

from __future__ import annotations

import math
import random
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from tests.support.file_cache_suite.kit import START, Kit, batch, cached, kept
from toolyard.bridge.cache import CacheStatistics, NewFile
from toolyard.bridge.errors import CacheRefusedError
from toolyard.core.errors import SystemFault, ValidationError

PATIENCE_SECONDS = 30.0
NOTHING = CacheStatistics(0, 0, 0, 0, 0, 0, 0)
NAMES = {
    "nothing": "",
    "nul": "a\0b",
    "emoji": "🦀/漢字",
    "bytes that are no text": "bad\udcff",
    "half an emoji": "\ud83e",
    "quotes": "'; DROP TABLE files; --",
    "long": "x/" * 5_000,
}
NO_TIMES = (math.nan, math.inf, -math.inf, 10**400)


class Keeping:
    def test_a_file_comes_back_as_it_was_put(self, kit: Kit) -> None:
        cache = kit.open()
        file = cache.put("src/a.py", bytes(range(256)), mtime=12.5, encoding="cp1252", is_binary=True)
        assert file == cached("src/a.py", bytes(range(256)), 12.5, "cp1252", is_binary=True)
        assert cache.get("src/a.py") == cache.peek("src/a.py") == file
        plain = cache.put("b", b"")
        assert plain == cached("b", b"")
        assert cache.get("b") == plain

    @pytest.mark.parametrize("name", NAMES.values(), ids=NAMES)
    def test_any_name_will_do(self, kit: Kit, name: str) -> None:
        cache = kit.open()
        for client in (name, "other"):
            put = cache.put(name, client.encode("utf-8", "surrogatepass"), encoding=name, client=client)
            assert cache.get(name, client=client) == put
        assert cache.get(f"{name}/") is None
        assert cache.remove(name, client=name) is True
        assert cache.peek(name, client="other") is not None

    @pytest.mark.parametrize("mtime", [0.0, -0.0, -1.5, 3, 1e14, 2**-40, START + 1e-6])
    def test_any_time_will_do(self, kit: Kit, mtime: float) -> None:
        cache = kit.open()
        put = cache.put("a", b"x", mtime=mtime)
        assert cache.get("a", mtime=mtime) == put

    def test_a_file_takes_the_place_of_its_older_version(self, kit: Kit) -> None:
        cache = kit.open()
        cache.put("a", b"older and longer", mtime=1.0)
        newer = cache.put("a", b"newer", is_binary=True)
        assert cache.get("a") == newer
        assert cache.statistics == CacheStatistics(1, 5, 1, 0, 0, 0, 0)

    def test_what_happens_is_counted(self, kit: Kit) -> None:
        cache = kit.open()
        assert cache.statistics == NOTHING
        cache.put("a", b"abc")
        assert [cache.get(path) is None for path in "aba"] == [False, True, False]
        cache.peek("a")
        cache.peek("b")
        expected = {"hits": 2, "misses": 1, "evictions": 0, "expirations": 0, "invalidations": 0}
        assert cache.statistics.as_dict() == {"entries": 1, "bytes": 3, **expected}

    def test_what_is_removed_is_gone_and_not_counted(self, kit: Kit) -> None:
        cache = kit.open()
        cache.put_all(batch({"a": 1, "b": 2}))
        assert (cache.remove("a"), cache.remove("a"), kept(cache)) == (True, False, "b")
        cache.clear()
        assert cache.statistics == NOTHING
        assert cache.put("a", b"anew") == cache.get("a")

    def test_nothing_is_answered_once_it_is_closed(self, kit: Kit) -> None:
        with kit.open() as cache:
            cache.put("a", b"x")
        cache.close()
        for work in (
            lambda: cache.get("a"),
            lambda: cache.peek("a"),
            lambda: cache.put("a", b""),
            lambda: cache.drop_if_older("a", 1.0),
            lambda: cache.remove("a"),
            cache.clear,
            lambda: cache.statistics,
        ):
            with pytest.raises(SystemFault, match="closed"):
                work()

    def test_limits_that_make_no_sense_are_refused(self, kit: Kit) -> None:
        for work in (
            lambda: kit.open(-1),
            lambda: kit.open(max_entries=0),
            lambda: kit.open(ttl_seconds=0.0),
            lambda: kit.open(ttl_seconds=math.nan),
        ):
            with pytest.raises(ValueError, match="a cache needs"):
                work()


class Limits:
    def test_the_limit_can_be_filled_to_the_last_byte(self, kit: Kit) -> None:
        cache = kit.open(10)
        cache.put_all(batch({"a": 4, "b": 6, "c": 0}))
        assert (kept(cache), cache.statistics.bytes) == ("abc", 10)

    def test_a_file_that_is_too_large_is_refused_and_everything_stays(self, kit: Kit) -> None:
        cache = kit.open(10)
        cache.put_all(batch({"a": 4, "b": 5}))
        before = cache.statistics
        with pytest.raises(CacheRefusedError, match="a has 11 bytes, but the cache holds at most 10") as refused:
            cache.put("a", b"x" * 11)
        assert refused.value.data()["reason"] == "cache_refused"
        assert cache.statistics == before
        assert cache.peek("a") == cached("a", b"xxxx")
        cache.put("c", b"xx")
        assert kept(cache) == "bc"  # nor was it used by that

    def test_what_was_got_or_put_longest_ago_goes_first(self, kit: Kit) -> None:
        cache = kit.open(4)
        cache.put_all(batch(dict.fromkeys("abcd", 1)))
        cache.get("a")
        cache.put("b", b"y")
        cache.put("e", b"x")
        assert kept(cache) == "abde"
        cache.put("f", b"xx")
        assert kept(cache) == "bef"
        assert cache.statistics == CacheStatistics(3, 4, 1, 0, 3, 0, 0)

    def test_to_peek_at_a_file_is_no_use_of_it(self, kit: Kit) -> None:
        cache = kit.open(2)
        cache.put_all(batch({"a": 1, "b": 1}))
        cache.peek("a")
        cache.drop_if_older("a", START)
        cache.put("c", b"x")
        assert kept(cache) == "bc"

    def test_no_more_goes_than_has_to(self, kit: Kit) -> None:
        cache = kit.open(10)
        cache.put_all(batch({"a": 6, "b": 3}))
        cache.put("a", b"x" * 7)  # its older version makes the room
        assert (kept(cache), cache.statistics.evictions) == ("ab", 0)
        cache.put("c", b"x")
        assert (kept(cache), cache.statistics.evictions) == ("ac", 1)

    def test_files_without_content_are_bounded_by_their_number(self, kit: Kit) -> None:
        cache = kit.open(0, max_entries=3)
        for path in "abcdef":
            cache.put(path, b"")
        assert (kept(cache), cache.statistics.evictions) == ("def", 3)

    def test_the_order_is_one_for_all_clients(self, kit: Kit) -> None:
        cache = kit.open(3)
        for client in ("one", "two", "three"):
            cache.put("a", b"x", client=client)
        cache.get("a", client="one")
        cache.put("b", b"x", client="three")
        assert [kept(cache, client=client) for client in ("one", "two", "three")] == ["a", "", "ab"]

    def test_expired_files_go_before_those_that_live(self, kit: Kit) -> None:
        cache = kit.open(3)
        cache.put("a", b"x")
        kit.clock.now += 40
        cache.put("b", b"x")
        kit.clock.now += 10
        cache.put("c", b"x")
        cache.get("a")
        kit.clock.now += 11
        cache.put("d", b"x")
        assert kept(cache) == "bcd"
        assert cache.statistics == CacheStatistics(3, 3, 1, 0, 0, 1, 0)


class Expiring:
    def test_a_file_is_gone_once_it_is_older_than_that(self, kit: Kit) -> None:
        cache = kit.open()
        cache.put("a", b"abc")
        kit.clock.now += 60
        assert cache.get("a") is not None  # and to get it does not make it younger
        kit.clock.now += 0.5
        assert cache.peek("a") is None
        assert cache.statistics == CacheStatistics(1, 3, 1, 0, 0, 0, 0)
        assert cache.get("a") is None
        assert cache.get("a") is None
        assert cache.statistics == CacheStatistics(0, 0, 1, 2, 0, 1, 0)

    def test_an_expired_file_can_be_neither_removed_nor_noticed(self, kit: Kit) -> None:
        cache = kit.open()
        cache.put_all(batch({"a": 1, "b": 1}))
        kit.clock.now += 61
        assert (cache.remove("a"), cache.drop_if_older("b", kit.clock.now)) == (False, False)
        assert cache.statistics == CacheStatistics(0, 0, 0, 0, 0, 2, 0)

    def test_to_put_it_again_begins_its_time_anew(self, kit: Kit) -> None:
        cache = kit.open()
        cache.put("a", b"x")
        kit.clock.now += 50
        cache.put("a", b"y")
        kit.clock.now += 50
        assert cache.get("a") == cached("a", b"y", stored=START + 50)

    def test_without_a_limit_nothing_expires(self, kit: Kit) -> None:
        cache = kit.open(ttl_seconds=None)
        cache.put("a", b"x")
        kit.clock.now += 1e9
        assert cache.get("a") is not None

    def test_what_a_wrong_clock_stored_in_the_future_is_not_kept_for_ever(self, kit: Kit) -> None:
        cache = kit.open()
        kit.clock.now += 1e9
        cache.put("a", b"x")
        kit.clock.now = START
        assert cache.peek("a") is cache.get("a") is None


class Changes:
    @pytest.mark.parametrize(("mtime", "is_hit"), [(99.0, True), (100.0, True), (100.001, False), (None, True)])
    def test_a_newer_mtime_makes_a_miss(self, kit: Kit, mtime: float | None, *, is_hit: bool) -> None:
        cache = kit.open()
        file = cache.put("a", b"x", mtime=100.0)
        assert cache.get("a", mtime=mtime) == (file if is_hit else None)
        assert kept(cache) == "a" * is_hit
        assert cache.statistics == CacheStatistics(is_hit, is_hit, is_hit, not is_hit, 0, 0, not is_hit)

    @pytest.mark.parametrize(("later", "is_hit"), [(-5.0, True), (0.0, True), (0.5, False)])
    def test_without_one_of_its_own_a_file_is_as_old_as_its_place_here(
        self, kit: Kit, later: float, *, is_hit: bool
    ) -> None:
        cache = kit.open()
        cache.put("a", b"x")
        kit.clock.now += 10
        assert (cache.get("a", mtime=START + later) is not None) is is_hit

    def test_whoever_notices_a_change_drops_what_is_older(self, kit: Kit) -> None:
        cache = kit.open()
        cache.put("a", b"x", mtime=100.0)
        assert [cache.drop_if_older("a", mtime) for mtime in (99.0, 100.0, 101.0, 102.0)] == [
            False,
            False,
            True,
            False,
        ]
        assert cache.drop_if_older("never seen", 1.0) is False
        assert cache.statistics == CacheStatistics(0, 0, 0, 0, 0, 0, 1)

    @pytest.mark.parametrize("mtime", NO_TIMES, ids=lambda mtime: f"{mtime!r:.4}")
    def test_what_is_no_time_is_refused(self, kit: Kit, mtime: float) -> None:
        cache = kit.open()
        cache.put("a", b"x")
        for work in (
            lambda: cache.get("a", mtime=mtime),
            lambda: cache.drop_if_older("a", mtime),
            lambda: cache.put("a", b"other", mtime=mtime),
            lambda: cache.put_all([NewFile("b", b""), NewFile("a", b"", mtime)]),
        ):
            with pytest.raises(ValidationError, match="mtime: is not a time"):
                work()
        assert (kept(cache), cache.statistics) == ("a", CacheStatistics(1, 1, 0, 0, 0, 0, 0))


class Clients:
    def test_no_client_sees_or_touches_what_is_anothers(self, kit: Kit) -> None:
        cache = kit.open()
        own = cache.put("a", b"mine", client="one")
        assert [cache.get("a", client=other) for other in ("", "two", "on", "one ")] == [None] * 4
        assert cache.peek("a") is None
        assert (cache.drop_if_older("a", 1e10), cache.remove("a", client="two")) == (False, False)
        cache.put("a", b"theirs", client="two")
        cache.clear(client="two")
        cache.clear(client="nobody")
        assert cache.get("a", client="one") == own
        assert cache.statistics.entries == 1

    def test_a_client_and_a_path_are_never_taken_for_another_two(self, kit: Kit) -> None:
        cache = kit.open()
        cache.put("b/c", b"x", client="a")
        cache.put("c", b"y", client="a/b")
        assert [cache.peek("c", client="a"), cache.peek("b/c", client="a/b")] == [None, None]

    def test_of_a_client_that_is_cleared_nothing_stays(self, kit: Kit) -> None:
        cache = kit.open()
        for client in ("one", "two"):
            cache.put_all(batch({"a": 1, "b": 1}), client=client)
        cache.clear(client="one")
        assert (kept(cache, client="one"), kept(cache, client="two")) == ("", "ab")
        assert (cache.statistics.entries, cache.statistics.bytes) == (2, 2)


class Batches:
    def test_a_batch_is_kept_as_its_files_would_be(self, kit: Kit) -> None:
        cache = kit.open()
        put = cache.put_all([NewFile("a", b"1", 5.0, "latin-1", is_binary=True), NewFile("b", b"22")], client="c")
        assert put == (cache.peek("a", client="c"), cache.peek("b", client="c"))
        assert put[0] == cached("a", b"1", 5.0, "latin-1", is_binary=True)
        assert cache.put_all([]) == ()

    @pytest.mark.parametrize(
        ("sizes", "why"),
        [
            ([("c", 1), ("a", 1), ("c", 2)], "c appears more than once in the batch"),
            ([("a", 6), ("c", 5)], "a and the files with it are 11 bytes, but the cache holds at most 10"),
            ([("c", 1), ("d", 11)], "d has 11 bytes"),
            ([(path, 0) for path in "acdefgh"], "a and the files with it are 7 files, but the cache holds at most 6"),
        ],
    )
    def test_a_batch_that_cannot_be_kept_changes_nothing(
        self, kit: Kit, sizes: list[tuple[str, int]], why: str
    ) -> None:
        cache = kit.open(10, max_entries=6)
        cache.put_all(batch({"a": 4, "b": 5}))
        before = (cache.statistics, cache.peek("a"))
        with pytest.raises(CacheRefusedError, match=why):
            cache.put_all([NewFile(path, b"y" * size) for path, size in sizes])
        assert (cache.statistics, cache.peek("a"), kept(cache)) == (*before, "ab")

    def test_a_batch_may_fill_the_cache_and_makes_room_once(self, kit: Kit) -> None:
        cache = kit.open(10)
        cache.put_all(batch({"a": 3, "b": 3, "c": 3}))
        cache.put_all(batch({"b": 4, "d": 2}))
        assert (kept(cache), cache.statistics.evictions) == ("bcd", 1)
        cache.put_all(batch({"e": 5, "f": 5}))
        assert (kept(cache), cache.statistics.bytes, cache.statistics.evictions) == ("ef", 10, 4)


class Together:
    def test_whoever_looks_meanwhile_sees_all_of_a_batch_or_nothing(self, kit: Kit) -> None:
        cache, done, seen = kit.open(), threading.Event(), set[int]()

        def look() -> None:
            while not done.is_set():
                seen.add(cache.statistics.entries)

        with ThreadPoolExecutor(2) as pool:
            looking = [pool.submit(look) for _ in range(2)]
            try:
                for _ in range(30):
                    cache.put_all(batch(dict.fromkeys("abcdefgh", 10)))
                    cache.clear()
            finally:
                done.set()
            for each in looking:
                each.result(PATIENCE_SECONDS)
        assert seen <= {0, 8}

    def test_many_at_once_lose_count_of_nothing(self, kit: Kit) -> None:
        cache = kit.open(40, max_entries=12)

        def work(seed: int) -> int:
            chosen, gets = random.Random(seed), 0
            for _ in range(60):
                path, client = chosen.choice("abcdefgh"), chosen.choice(("", "one"))
                gets += 1
                file = cache.get(path, client=client)
                assert file is None or file.content == path.encode() * file.size
                cache.put(path, path.encode() * chosen.randint(0, 9), client=client)
                if chosen.random() < 0.1:
                    cache.remove(path, client=client)
            return gets

        with ThreadPoolExecutor(4) as pool:
            gets = sum(pool.map(work, range(4)))
        told = cache.statistics
        files = [file for client in ("", "one") for path in "abcdefgh" if (file := cache.peek(path, client=client))]
        assert (told.entries, told.bytes) == (len(files), sum(file.size for file in files))
        assert told.hits + told.misses == gets

"""What every store of threads must do for whoever is alone with it: keep, read, refuse, find, delete."""

from __future__ import annotations

import re
from typing import Any

import pytest

from tests.support.thread_store_suite.kit import (
    LONG,
    Kit,
    eventually,
    has_expired,
    nobody_waits,
    refused,
    texts,
    turn,
)
from toolyard.assistant.threads.store import ExpiredThread, FullThread, ThreadLimits, ThreadStore, UnknownThread
from toolyard.assistant.threads.thread import FileSeen, Message, ThreadSummary, Turn

BRIEF = ThreadLimits(0.05, 1_000)
NEVER = "0123456789abcdef" * 2
TEXTS = {
    "nothing": "",
    "lines": "one\r\ntwo\n\tthree\r",
    "nul": "before\0after",
    "emoji": "🦀 👩‍👩‍👧 é 漢字 \u2028",
    "half an emoji": "\ud83e and \udc80",
    "two halves": "\ud83e\udd80",
    "looks like ours": '[{"bytes": 3}]\n\\u0000',
    "a megabyte": "x🦀" * 500_000,
}


def going_on(store: ThreadStore, thread: str) -> None:
    with store.turn(thread, nobody_waits):
        raise AssertionError("it was let in")


class Turns:
    def test_of_a_new_thread_nothing_is_kept_before_its_first_turn(self, kit: Kit) -> None:
        with kit.store.turn(None, nobody_waits) as opened:
            assert opened.thread.turns == ()
            assert kit.store.list() == ()
            assert isinstance(refused(lambda: kit.store.read(opened.thread.id)), UnknownThread)
        assert kit.store.list() == ()

    def test_ids_cannot_be_guessed(self, kit: Kit) -> None:
        ids = {kit.begun() for _ in range(20)}
        assert len(ids) == 20
        assert all(re.fullmatch(r"[0-9a-f]{32}", each) for each in ids)

    def test_a_turn_is_read_as_it_was_kept_by_every_store(self, kit: Kit) -> None:
        files = (FileSeen("src/app.py", "b3:1"), FileSeen("bad\udcff name", "b3:2"))
        asked = Message("user", "Why?", tool="debug", at=1.25, files=files)
        whole = Turn(asked, Message("assistant", "Because.", "debug", "google:gemini", 2.5, (), 17))
        with kit.store.turn(None, nobody_waits) as opened:
            assert opened.keep(whole) == 1
            assert opened.keep(turn("more")) == 2
            kept = opened.thread
        assert kept.turns == (whole, turn("more"))
        assert kit.store.read(kept.id) == kept
        assert kit.open().read(kept.id) == kept

    @pytest.mark.parametrize("text", TEXTS.values(), ids=TEXTS)
    def test_any_text_comes_back_as_it_was(self, kit: Kit, text: str) -> None:
        with kit.store.turn(None, nobody_waits) as opened:
            opened.keep(turn(text, text))
        (kept,) = kit.store.read(opened.thread.id).turns
        assert (kept.asked.text, kept.answered.text) == (text, text)
        assert [each.turns for each in kit.store.list()] == [1]

    def test_the_next_turn_sees_those_before_whichever_tool_asks(self, kit: Kit) -> None:
        thread = kit.begun("first")
        for number, store in enumerate((kit.store, kit.open(), kit.open()), 2):
            with store.turn(thread, nobody_waits) as opened:
                assert texts(opened.thread) == ["first", "2", "3"][: number - 1]
                assert opened.keep(turn(str(number), tool="debug")) == number
        found = kit.store.read(thread)
        assert texts(found) == ["first", "2", "3", "4"]
        assert found.created <= found.updated

    def test_a_turn_that_fails_leaves_the_thread_as_it_was_and_free(self, kit: Kit) -> None:
        thread = kit.begun("first")
        before = kit.store.read(thread)
        with pytest.raises(ZeroDivisionError), kit.store.turn(thread, nobody_waits):
            _ = 1 / 0
        assert kit.store.read(thread) == before
        with kit.store.turn(thread, nobody_waits) as opened:
            assert opened.keep(turn("second")) == 2

    def test_nothing_is_kept_once_the_turn_is_over(self, kit: Kit) -> None:
        thread = kit.begun("first")
        with kit.store.turn(thread, nobody_waits) as opened:
            pass
        with pytest.raises(RuntimeError, match="has ended"):
            opened.keep(turn("late"))
        assert texts(kit.store.read(thread)) == ["first"]


class Refusals:
    def test_unknown_expired_and_full_threads_are_three_different_errors(self, kit: Kit) -> None:
        brief, small = kit.open(BRIEF), kit.open(ThreadLimits(3_600.0, 2))
        expired, full = kit.begun(store=brief), kit.begun("1", "2", store=small)
        eventually(lambda: has_expired(brief, expired))
        errors = [refused(lambda name=name: going_on(small, name)) for name in (NEVER, expired, full)]
        assert [type(error) for error in errors] == [UnknownThread, ExpiredThread, FullThread]
        told: list[dict[str, Any]] = [error.data() for error in errors]
        assert [each["reason"] for each in told] == ["unknown_thread", "expired_thread", "full_thread"]
        assert {error.code for error in errors} == {-32602}
        assert {each["validation_errors"][0]["field"] for each in told} == {"continuation_id"}
        assert len({error.message for error in errors}) == len({error.hint for error in errors}) == 3

    @pytest.mark.parametrize(
        "name", ["", "x", "../" * 20, "A" * 32, NEVER + "\n", NEVER[:-1], "\0" * 32, "\udcff" * 32, "*", "é" * 99_999]
    )
    def test_what_never_was_an_id_is_unknown(self, kit: Kit, name: str) -> None:
        kit.begun()
        for work in (lambda: going_on(kit.store, name), lambda: kit.store.read(name)):
            error = refused(work)
            assert isinstance(error, UnknownThread)
            assert len(str(error)) < 500
        assert kit.store.delete(name) is False

    def test_a_thread_that_is_full_can_be_read(self, kit: Kit) -> None:
        small = kit.open(ThreadLimits(3_600.0, 2))
        with small.turn(None, nobody_waits) as opened:
            opened.keep(turn("1"))
            opened.keep(turn("2"))
            assert isinstance(refused(lambda: opened.keep(turn("3"))), FullThread)
        assert texts(small.read(opened.thread.id)) == ["1", "2"]
        with kit.store.turn(opened.thread.id, nobody_waits) as opened:  # by other terms it is not
            assert opened.keep(turn("3")) == 3

    def test_of_an_expired_thread_nothing_is_shown(self, kit: Kit) -> None:
        brief = kit.open(BRIEF)
        expired, lasting = kit.begun("a secret", store=brief), kit.begun("no secret")
        eventually(lambda: has_expired(brief, expired))
        for store in (brief, kit.store):  # it expires by the terms that it was kept with
            assert [each.id for each in store.list()] == [lasting]
            assert [hit.thread.id for hit in store.search("secret")] == [lasting]
            assert store.ids_with_prefix(expired[:6]) == ()
            assert isinstance(refused(lambda store=store: store.read(expired)), ExpiredThread)
            assert store.delete(expired) is False

    def test_a_turn_that_was_under_way_when_its_thread_expired_is_kept(self, kit: Kit) -> None:
        brief, thread = kit.open(BRIEF), kit.begun("first")
        with brief.turn(thread, nobody_waits) as opened:
            opened.keep(turn("second"))
            eventually(lambda: has_expired(brief, thread))
            assert opened.keep(turn("third")) == 3
        eventually(lambda: has_expired(brief, thread))


class Finding:
    def test_threads_are_listed_the_newest_first_with_what_they_are_about(self, kit: Kit) -> None:
        older, newer = kit.begun("  How do\nI begin? " + "x" * 200), kit.begun("Second")
        with kit.store.turn(older, nobody_waits) as opened:
            opened.keep(turn("And now?", tool="codereview"))
            opened.keep(turn("And then?"))
        first, second = kit.store.list()
        whole = kit.store.read(older)
        assert first == ThreadSummary(older, whole.created, whole.updated, 3, first.title, ("chat", "codereview"))
        assert first == whole.summary
        assert first.title.startswith("How do I begin? xxx")
        assert len(first.title) == 80
        assert (second.id, second.turns, second.title, second.tools) == (newer, 1, "Second", ("chat",))
        assert kit.store.list(1) == (first,)

    def test_every_thread_is_listed_however_many_there_are(self, kit: Kit) -> None:
        begun = [kit.begun(str(number)) for number in range(230)]
        assert [each.id for each in kit.store.list(1_000)] == begun[::-1]
        assert [each.id for each in kit.store.list(220)] == begun[:9:-1]
        assert len(kit.store.list()) == 100

    def test_a_search_finds_turns_in_which_all_words_occur(self, kit: Kit) -> None:
        with kit.store.turn(None, nobody_waits) as opened:
            opened.keep(turn("Which index do the reports need?", "One on created_at."))
            opened.keep(turn("word " * 100 + "The INDEX is slow" + " word" * 100, "Rebuild it."))
        kit.begun("Reports alone")
        first, second = kit.store.search("index", 10)
        assert (first.thread.id, first.turn, first.role) == (opened.thread.id, 1, "user")
        assert first.excerpt == "Which index do the reports need?"
        assert second.turn == 2
        assert re.fullmatch(r"…(word )+The INDEX is slow( word)+( w\w*)?…", second.excerpt)
        assert [(hit.turn, hit.role) for hit in kit.store.search("CREATED_AT reports")] == [(1, "user")]
        assert [(hit.turn, hit.role) for hit in kit.store.search("rebuild")] == [(2, "assistant")]
        assert [hit.thread.title for hit in kit.store.search("reports", 1)] == ["Reports alone"]
        assert kit.store.search("nowhere index") == kit.store.search("  ") == ()

    def test_a_thread_is_found_by_how_its_id_begins(self, kit: Kit) -> None:
        begun = sorted(kit.begun() for _ in range(4))
        assert kit.store.ids_with_prefix("") == tuple(begun)
        assert kit.store.ids_with_prefix(begun[0][:8]) == (begun[0],)
        assert (
            kit.store.ids_with_prefix("%") == kit.store.ids_with_prefix("*") == kit.store.ids_with_prefix("\0") == ()
        )


class Deleting:
    def test_a_deleted_thread_is_unknown(self, kit: Kit) -> None:
        gone, stays = kit.begun("gone"), kit.begun("stays")
        assert kit.store.delete(gone) is True
        assert kit.store.delete(gone) is False
        assert isinstance(refused(lambda: going_on(kit.store, gone)), UnknownThread)
        assert [each.id for each in kit.store.list()] == [stays]
        assert kit.store.search("gone") == ()
        assert texts(kit.open(LONG).read(stays)) == ["stays"]

    def test_what_was_under_way_does_not_bring_it_back(self, kit: Kit) -> None:
        thread = kit.begun("first")
        with kit.store.turn(thread, nobody_waits) as opened:
            assert kit.open().delete(thread) is True
            assert isinstance(refused(lambda: opened.keep(turn("second"))), UnknownThread)
        assert kit.store.list() == ()
        assert isinstance(refused(lambda: kit.store.read(thread)), UnknownThread)

"""What the model is sent of a thread: each file once, newest first, never more than there is room."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolyard.assistant.files.lookup import find_files
from toolyard.assistant.prompt_builder import ComposedPrompt, Question, compose_prompt
from toolyard.assistant.threads.thread import FileSeen, Message, Thread, Turn
from toolyard.config.assistant import AssistantLimits
from toolyard.core.errors import ValidationError
from toolyard.core.tokens import count_tokens_in_pieces

LIMITS = AssistantLimits()
ROOMY = 100_000


def turn(asked: str, answered: str, *files: FileSeen) -> Turn:
    return Turn(Message("user", asked, "chat", files=files), Message("assistant", answered, "chat"))


def thread(*turns: Turn) -> Thread:
    return Thread("0" * 32, 0.0, 0.0, turns)


def everything(composed: ComposedPrompt) -> str:
    return "\n".join([*(text for pair in composed.turns for text in pair), composed.final_message])


@pytest.fixture
def seen(gate, workspace):
    """Write a file, and what a thread remembers of having shown it."""

    def write(name: str, text: str) -> FileSeen:
        (workspace / name).write_text(text)
        (source,) = find_files(gate, [name], LIMITS).sources
        return FileSeen(name, source.digest)

    return write


def test_turns_stay_apart_and_the_question_comes_last(gate):
    composed = compose_prompt(
        thread(turn("one", "1"), turn("two", "2")), Question("chat", "three"), ROOMY, gate, LIMITS
    )

    assert composed.turns == (("one", "1"), ("two", "2"))
    assert composed.final_message == "three"
    assert composed.omitted_turns == 0


def test_a_file_stays_where_it_was_shown_first_while_it_is_the_same(gate, seen):
    file = seen("a.py", "kept = 1\n")

    composed = compose_prompt(
        thread(turn("one", "1", file), turn("two", "2")), Question("chat", "three"), ROOMY, gate, LIMITS
    )

    assert "kept = 1" in composed.turns[0][0]
    assert everything(composed).count("kept = 1") == 1
    assert composed.files == ("a.py",)
    assert composed.files_shown == ()


def test_a_file_that_changed_comes_with_the_question_and_a_word_on_it(gate, seen):
    old = seen("a.py", "version = 1\n")
    new = seen("a.py", "version = 2\n")

    composed = compose_prompt(thread(turn("one", "1", old)), Question("chat", "two"), ROOMY, gate, LIMITS)

    assert everything(composed).count("version = 2") == 1
    assert "version = 1" not in everything(composed)
    assert composed.final_message.startswith("a.py has changed")
    assert composed.files_shown == (new,)


def test_a_file_that_was_shown_twice_stays_where_its_newest_version_was(gate, seen):
    old = seen("a.py", "version = 1\n")
    new = seen("a.py", "version = 2\n")

    composed = compose_prompt(
        thread(turn("one", "1", old), turn("two", "2", new)), Question("chat", "three"), ROOMY, gate, LIMITS
    )

    assert "version = 2" in composed.turns[1][0]
    assert composed.final_message == "three"


def test_a_file_that_is_named_again_is_shown_with_the_question_alone(gate, seen):
    file = seen("a.py", "named = 1\n")
    question = Question("chat", "two", sources=find_files(gate, ["a.py"], LIMITS).sources)

    composed = compose_prompt(thread(turn("one", "1", file)), question, ROOMY, gate, LIMITS)

    assert "named = 1" not in composed.turns[0][0]
    assert everything(composed).count("named = 1") == 1


def test_files_of_turns_that_found_no_room_are_shown_with_the_question(gate, seen):
    file = seen("a.py", "carried = 1\n")
    long = turn("word " * 3_000, "answer", file)

    composed = compose_prompt(thread(long, turn("two", "2")), Question("chat", "three"), 1_000, gate, LIMITS)

    assert composed.turns == (("two", "2"),)
    assert composed.omitted_turns == 1
    assert "carried = 1" in composed.final_message
    assert "1 earlier turn of this thread" in composed.final_message


def test_only_so_many_files_of_earlier_turns_are_read_again(gate, seen):
    files = [seen(f"f{number}.py", f"number = {number}\n") for number in range(5)]
    limits = AssistantLimits(files=2)

    composed = compose_prompt(
        thread(*(turn(str(n), "a", file) for n, file in enumerate(files))), Question("chat", "x"), ROOMY, gate, limits
    )

    assert set(composed.files) == {"f4.py", "f3.py"}
    assert {each.path for each in composed.skipped} == {"f0.py", "f1.py", "f2.py"}


def test_a_secret_that_is_another_than_was_shown_has_to_be_named_again(gate, seen):
    old = seen(".env", "COLOUR=first\n")
    same = compose_prompt(thread(turn("one", "1", old)), Question("chat", "two"), ROOMY, gate, LIMITS)
    seen(".env", "COLOUR=second\n")

    composed = compose_prompt(thread(turn("one", "1", old)), Question("chat", "two"), ROOMY, gate, LIMITS)

    assert "COLOUR=first" in same.turns[0][0]
    assert "COLOUR" not in everything(composed)
    assert [each.path for each in composed.skipped] == [".env"]
    assert "name it again" in composed.skipped[0].reason


def test_words_for_which_there_is_no_room_are_blamed_on_their_argument(gate):
    with pytest.raises(ValidationError) as caught:
        compose_prompt(thread(), Question("analyze", "word " * 500, field="question"), 100, gate, LIMITS)

    assert caught.value.fields[0].field == "question"


def test_the_shape_of_an_answer_and_evidence_are_sent_and_not_kept(gate):
    question = Question("codereview", "review", answer_format="as JSON", evidence="lint says")

    composed = compose_prompt(thread(), question, ROOMY, gate, LIMITS)

    assert composed.question == "review"
    assert composed.final_message == "lint says\n\nreview\n\nas JSON"


@given(
    sizes=st.lists(st.tuples(st.integers(0, 400), st.integers(0, 400)), max_size=8),
    evidence=st.integers(0, 2_000),
    room=st.integers(20, 3_000),
)
def test_it_never_takes_more_than_there_is_room(sizes, evidence, room):
    turns = [turn("question " * asked, "answer " * answered) for asked, answered in sizes]
    question = Question("chat", "and now?", evidence="fact " * evidence)

    composed = compose_prompt(thread(*turns), question, room, NO_FILES, LIMITS)

    assert count_tokens_in_pieces(everything(composed)) <= room + 20
    assert len(composed.turns) + composed.omitted_turns == len(turns)


class _NoFiles:
    """Nothing is read where no file is named."""

    def check_time(self) -> None: ...


NO_FILES = _NoFiles()

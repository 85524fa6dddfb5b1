"""Files get room in their order: whole, as outlines, or not at all; and never more than there is."""

from dataclasses import replace

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.assistant.files.made import made, never
from toolyard.assistant.files.context_budget import fit_files
from toolyard.core import tokens
from toolyard.core.tokens import count_tokens


def module(name, functions):
    text = "\n".join(
        f"def function_{n}(argument: int) -> int:\n    return argument * {n}\n" for n in range(functions)
    )
    return made(f"{name}.py", text)


def joined(fitted):
    return "\n\n".join(shown.text for shown in fitted.shown)


def whole(fitted):
    return {shown.path: shown.is_whole for shown in fitted.shown}


def test_while_there_is_room_every_file_is_shown_whole():
    fitted = fit_files([module("a", 2), module("b", 3), made("c.md", "")], 1_000, never)

    assert whole(fitted) == {"a.py": True, "b.py": True, "c.md": True}
    assert not fitted.skipped
    text = fitted.shown[0].text
    assert "1| def function_0(argument: int) -> int:\n2|     return argument * 0\n3| \n4| def function_1" in text
    assert count_tokens(joined(fitted)) <= fitted.tokens <= 1_000


def test_all_of_the_room_can_be_used_by_whole_files():
    sources = [module("a", 30), module("b", 3)]
    needed = fit_files(sources, 100_000, never).tokens

    assert whole(fit_files(sources, needed, never)) == {"a.py": True, "b.py": True}
    assert whole(fit_files(sources, needed - 1, never)) != {"a.py": True, "b.py": True}


def test_a_file_that_does_not_fit_becomes_an_outline_and_the_next_is_shown_whole():
    fitted = fit_files([module("huge", 400), module("small", 2)], 3_000, never)

    assert whole(fitted) == {"huge.py": False, "small.py": True}
    assert [skipped.path for skipped in fitted.skipped] == ["huge.py"]
    assert fitted.skipped[0].reason.startswith("shown as an outline: the whole file does not fit")
    assert "\n1| def function_0(argument: int) -> int:\n4| def function_1" in fitted.shown[0].text
    assert "return" not in fitted.shown[0].text


def test_one_huge_file_leaves_room_for_outlines_of_the_rest():
    huge = module("huge", 300)
    room = fit_files([huge], 1_000_000, never).tokens + 50

    fitted = fit_files([huge, *(module(f"m{n}", 100) for n in range(5))], room, never)

    assert len(fitted.shown) == 6
    assert fitted.tokens <= room


def test_files_beyond_the_limit_are_outlines_however_much_room_there_is():
    late = made("late.py", "def f():\n    return 1\n", outline_only=True)

    fitted = fit_files([module("a", 1), late], 10_000, never)

    assert whole(fitted) == {"a.py": True, "late.py": False}
    assert fitted.skipped[0].reason == "shown as an outline: the limit of whole files per request is reached"


def test_an_outline_that_does_not_fit_is_cut_and_one_without_any_room_is_left_out():
    sources = [module(name, 400) for name in "abc"]

    some, none = fit_files(sources, 300, never), fit_files(sources, 10, never)

    entries = some.shown[0].text.count("| def function_")
    assert f"\n[... {400 - entries} more entries left out]\n" in some.shown[0].text
    assert "the outline omits some entries" in some.skipped[0].reason
    assert not none.shown
    assert {skipped.reason for skipped in none.skipped} == {
        "left out: there is no room for it, not even for its outline"
    }


def test_an_outline_that_leaves_something_out_by_itself_is_told_as_cut():
    headings = made("a.md", "".join(f"# Part {number}\n" for number in range(1_234)), outline_only=True)
    few = made("b.md", "# One\n", outline_only=True)

    fitted, tight = fit_files([headings, few], 100_000, never), fit_files([headings], 1_000, never)

    assert "\n[... 834 more entries left out]\n" in fitted.shown[0].text
    told = [skipped.reason.endswith("the outline omits some entries") for skipped in fitted.skipped]
    assert told == [True, False]
    left_out = 1_234 - tight.shown[0].text.count("| # Part")
    assert f"\n[... {left_out:,} more entries left out]\n" in tight.shown[0].text


def test_room_that_short_outlines_leave_goes_to_long_ones():
    late = [module("long", 60), *(module(f"m{n}", 1) for n in range(20))]
    sources = [replace(source, outline_only=True) for source in late]
    needed = fit_files(sources, 100_000, never).tokens

    fitted = fit_files(sources, needed, never)

    assert fitted.tokens == needed
    assert "..." not in joined(fitted)


def test_little_room_goes_to_the_first_files_instead_of_to_none():
    fitted = fit_files([module(f"m{n}", 50) for n in range(40)], 400, never)

    assert [shown.path for shown in fitted.shown][:2] == ["m0.py", "m1.py"]
    assert fitted.tokens <= 400


def test_the_same_files_fit_in_the_same_way():
    sources = [module("a", 100), module("b", 5), made("c.md", "# C\ntext\n" * 400)]

    assert fit_files(sources, 2_000, never) == fit_files(sources, 2_000, never)


def test_whoever_has_no_more_time_is_told_so():
    class OverdueError(Exception):
        pass

    def overdue():
        raise OverdueError

    for room in (10, 100_000):
        try:
            fit_files([module("a", 100)], room, overdue)
        except OverdueError:
            continue
        raise AssertionError("went on")


def test_without_the_tokenizer_room_is_estimated(monkeypatch):
    monkeypatch.setattr(tokens, "has_tokenizer", lambda: False)

    fitted = fit_files([module("a", 50), module("b", 400)], 4_000, never)

    assert whole(fitted) == {"a.py": True, "b.py": False}
    assert count_tokens(joined(fitted)) <= fitted.tokens <= 4_000


TEXTS = st.one_of(
    st.text(max_size=400),
    st.text(alphabet="ab(){}:'\"\n\t #=漢🦀", max_size=2_000),
    st.builds(lambda word, times: word * times, st.text(min_size=1, max_size=8), st.integers(1, 4_000)),
)
SOURCES = st.lists(
    st.builds(
        lambda name, text, outline_only: (name, text, outline_only),
        st.sampled_from(["a.py", "b.ts", "c.md", "d.rs", "e.log", "f", "g.cpp", "h.yaml", "i.rst", "漢字.rb"]),
        TEXTS,
        st.booleans(),
    ),
    max_size=5,
    unique_by=lambda each: each[0],
)


@settings(max_examples=40)
@given(SOURCES, st.integers(-5, 3_000))
def test_the_room_is_never_exceeded_and_every_file_is_accounted_for(parts, room):
    sources = [made(name, text, outline_only=late) for name, text, late in parts]

    fitted = fit_files(sources, room, never)

    assert fitted.tokens == sum(shown.tokens for shown in fitted.shown) <= max(room, 0)
    assert count_tokens(joined(fitted)) <= max(room, 0)
    shown, told = {each.path for each in fitted.shown}, {each.path for each in fitted.skipped}
    assert shown | told == {source.path for source in sources}
    assert all(each.is_whole is (each.path not in told) for each in fitted.shown)

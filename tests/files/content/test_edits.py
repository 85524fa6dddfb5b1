from __future__ import annotations

import contextlib
import re
import time

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from toolyard.core.errors import ToolError, ToolyardError, ValidationError
from toolyard.core.limits import Limits
from toolyard.files.content.edits import EditOutcome, EditStep, LineRange, apply_edits
from toolyard.files.content.text import newline_of


def edit(data: bytes, *steps: tuple[str, str] | tuple[str, str, bool]) -> bytes:
    return apply_edits(data, [EditStep(*step) for step in steps]).data


def refusal(data: bytes, *steps: tuple[str, str] | tuple[str, str, bool]) -> str:
    with pytest.raises(ToolyardError) as refused:
        edit(data, *steps)
    return str(refused.value)


def test_an_edit_tells_all_about_what_it_did():
    outcome = apply_edits(b"one\ntwo\nthree\n", [EditStep("two", "2\n2b")])

    assert outcome == EditOutcome(
        data=b"one\n2\n2b\nthree\n",
        replacements=(1,),
        changed=(LineRange(2, 3),),
        snippet="     1\tone\n     2\t2\n     3\t2b\n     4\tthree",
        encoding="utf-8",
        newline="\n",
        before="one\ntwo\nthree\n",
        after="one\n2\n2b\nthree\n",
    )
    assert outcome.diff("n.txt") == ("--- a/n.txt\n+++ b/n.txt\n@@ -1,3 +1,4 @@\n one\n-two\n+2\n+2b\n three")


def test_each_step_sees_the_result_of_the_one_before_and_lines_are_those_of_the_end():
    outcome = apply_edits(
        b"a\nb\nc\nd\ne\nf\ng\nh\n", [EditStep("h", "H"), EditStep("a", "A\nA2"), EditStep("A2", "A3", True)]
    )

    assert (outcome.data, outcome.replacements) == (b"A\nA3\nb\nc\nd\ne\nf\ng\nH\n", (1, 1, 1))
    assert outcome.changed == (LineRange(1, 2), LineRange(9, 9))


def test_lines_are_those_of_the_end_in_a_file_of_mixed_line_ends_too():
    outcome = apply_edits(b"a\r\nb\nc\r\nd\ne\r\n", [EditStep("e", "E"), EditStep("a\nb", "A\nA2\nB")])

    assert (outcome.data, outcome.changed) == (
        b"A\r\nA2\r\nB\nc\r\nd\nE\r\n",
        (LineRange(1, 3), LineRange(6, 6)),
    )


def test_an_empty_old_text_writes_an_empty_file_and_later_steps_go_on_from_there():
    assert edit(b"", ("", "x = 1\n"), ("1", "2")) == b"x = 2\n"


def test_a_snippet_is_at_most_twenty_lines():
    snippet = apply_edits(b"x\n" * 50 + b"y\n" + b"x\n" * 50, [EditStep("y", "z\n" * 60)]).snippet

    assert (snippet.count("\n") + 1, snippet[:8]) == (20, "    47\tx")


def test_very_many_changes_are_told_in_a_bounded_number_of_ranges():
    outcome = apply_edits(b"x\ny\n" * 1000, [EditStep("x", "z", True)])

    assert outcome.replacements == (1000,)
    assert (len(outcome.changed), outcome.changed[0], outcome.changed[-1]) == (
        51,
        LineRange(1, 1),
        LineRange(101, 1999),
    )


@pytest.mark.parametrize(
    ("before", "step", "after"),
    [
        pytest.param(b"a\r\nb\r\nc\r\n", ("a\nb", "x\ny\nz"), b"x\r\ny\r\nz\r\nc\r\n", id="feeds match pairs"),
        pytest.param(b"a\r\nb\r\n", ("b", "b\nc"), b"a\r\nb\r\nc\r\n", id="an added line ends as the others do"),
        pytest.param(b"a\r\nb\r\n", ("\nb", "\nX\nb"), b"a\r\nX\r\nb\r\n", id="a pair is not cut in two"),
        pytest.param(b"a\r\nb\r\n", ("a\r\nb", "a\nb"), b"a\nb\r\n", id="spelled out: taken as sent"),
        pytest.param(b"a\rb\r", ("a\nb", "x\ny"), b"x\ry\r", id="lone returns"),
        pytest.param(b"a\nb\n", ("a\r\nb", "x\r\ny"), b"x\ny\n", id="pairs match feeds"),
        pytest.param(b"a\nb\r\nc\r\nd\n", ("b\nc", "x\ny"), b"a\nx\r\ny\r\nd\n", id="mixed: as the place has it"),
        pytest.param(b"a\r\nb\na\nb\n", ("a\nb", "x\ny"), b"a\r\nb\nx\ny\n", id="mixed: exact comes first"),
        pytest.param(b"a\nb\nc\r\n", ("c", "c\nd"), b"a\nb\nc\r\nd\r\n", id="mixed: the line's own end"),
        pytest.param(b"a\nb\r\nc", ("c", "c\nd"), b"a\nb\r\nc\r\nd", id="mixed: else the end before"),
        pytest.param(b"a\r\nb\nc\r\nb\n", ("\nb", "\nx", True), b"a\r\nx\nc\r\nx\n", id="mixed: whole pairs"),
        pytest.param(b"a\r\n\nb\n", ("\n\nb", "\nb"), b"a\r\nb\n", id="mixed: from a pair on"),
    ],
)
def test_line_ends_are_those_of_the_file(before, step, after):
    assert edit(before, step) == after


@pytest.mark.parametrize("encoding", ["utf-8-sig", "utf-16", "utf-32", "cp1252", "latin-1"])
def test_an_edit_keeps_the_encoding_and_the_mark(encoding):
    assert edit("café crème\n".encode(encoding), ("crème", "brûlé")) == "café brûlé\n".encode(encoding)


def test_utf16_is_not_matched_across_characters():
    # "a\u6100" holds the bytes of "\u0061" twice, once out of step.
    assert edit("\ufeffa\u6100".encode("utf-16-le"), ("a", "b")) == "\ufeffb\u6100".encode("utf-16-le")


def test_trailing_bytes_of_shift_jis_are_not_taken_for_ascii():
    text = "表示するための日本語の文章です。これは能力の表です。\n" * 5 + "path\\name\n"

    assert edit(text.encode("cp932"), ("\\name", "/name")) == text.replace("\\name", "/name").encode("cp932")


def test_a_stray_byte_in_utf8_survives_an_edit_beside_it():
    assert (
        edit("éàü caf".encode() + b"\xff" + " thé".encode(), ("thé", "été"))
        == "éàü caf".encode() + b"\xff" + " été".encode()
    )


def test_no_match_shows_the_closest_text():
    assert refusal(b"def f():\n\treturn 1\n", ("def f():\n    return 1", "x")) == (
        "old_string was not found in the file. The closest text is on lines 1-2: the indentation differs: the file"
        " uses tabs, old_string spaces. Nothing was written.\n     1\tdef f():\n     2\t\treturn 1\n"
        "Send old_string exactly as the file has it, without the line numbers."
    )


def test_no_match_and_nothing_close_says_so():
    assert refusal(b"abc\n", ("completely different", "x")) == (
        "old_string was not found in the file. Nothing in it comes close. Nothing was written."
        " Read the file again, or search for a part of the text; it may be another file."
    )


def test_an_edit_that_was_done_before_is_recognised():
    assert "new_string is there already, on line 2." in refusal(b"a\nfresh\n", ("stale", "fresh"))


def test_several_matches_name_the_first_ten_lines():
    assert refusal(b"a\nx\n" * 12, ("x", "y")) == (
        "old_string occurs 12 times, and must occur once: on lines 2, 4, 6, 8, 10, 12, 14, 16, 18, 20 and 2 more."
        " Nothing was written. Add lines before or after it so that it names one place, or set replace_all to change"
        " them all."
    )


def test_a_refused_step_is_named_and_nothing_is_written():
    said = refusal(b"a\nb\n", ("a", "x"), ("nowhere", "y"), ("b", "z"))

    assert said.startswith("Edit 2 of 3: old_string was not found in the file.")
    assert "None of the edits was written." in said


def test_a_text_that_an_earlier_step_took_away_is_explained():
    assert "It was there until an earlier edit of this call changed it." in refusal(
        b"a b\n", ("a b", "c"), ("a", "d")
    )


def test_a_character_the_encoding_lacks_is_refused():
    assert refusal(b"caf\xe9\n", ("caf", "☃")) == (
        "The file is cp1252, which has no character '☃' (U+2603). Nothing was written."
        " Use characters of that encoding, or rewrite the whole file as UTF-8 with Write."
    )


def test_an_unpaired_surrogate_is_refused():
    assert refusal(b"a", ("a", "\ud800")).startswith("new_string has an unpaired surrogate (U+D800)")


def test_an_unpaired_surrogate_cannot_smuggle_a_byte_into_a_damaged_file():
    assert refusal("éàüö ".encode() + b"\xff a", ("a", "\udc80")).startswith("new_string has an unpaired surrogate")


@pytest.mark.parametrize(
    ("data", "steps", "field"),
    [
        (b"a", [("a", "a")], "new_string"),
        (b"a", [("", "b")], "old_string"),
        (b"a", [("a", "b"), ("", "c")], "edits[1].old_string"),
        (b"", [("", "")], "new_string"),
        (b"a", [], "edits"),
    ],
)
def test_edits_that_cannot_be_meant_are_validation_errors(data, steps, field):
    with pytest.raises(ValidationError) as refused:
        edit(data, *steps)

    assert [error.field for error in refused.value.fields] == [field]


@pytest.mark.parametrize("line_ends", [b"", b"\r\n\n"])
def test_a_replacement_that_would_grow_beyond_the_limit_is_refused_before_it_is_made(line_ends):
    said = refusal(line_ends + b"a" * 1_000_000, ("a", "b" * 10_000_000, True))

    assert said == (
        "The file would grow beyond 10485760 bytes, the most a file may have. Nothing was written."
        " Replace fewer places, or split the content over several files."
    )


def test_the_limit_is_one_of_bytes():
    with pytest.raises(ToolError, match="beyond 10 bytes"):
        apply_edits(b"a", [EditStep("a", "é" * 6)], limits=Limits(file_bytes=10))


def test_a_text_in_an_empty_file_is_explained():
    assert "The file is empty." in refusal(b"", ("a", "b"))


SMALL = st.text(alphabet="ab\né", max_size=40)
BITS = st.text(alphabet="ab\né", max_size=3)
STEPS = st.lists(st.builds(EditStep, BITS, BITS, st.booleans()), min_size=1, max_size=4)


def oracle(text: str, steps: list[EditStep]) -> str | None:
    """What plain string replacement makes of it; None where an edit must be refused."""
    for step in steps:
        if step.old == step.new:
            return None
        if not step.old:
            if text:
                return None
            text = step.new
            continue
        count = text.count(step.old)
        if not count or (count > 1 and not step.replace_all):
            return None
        text = text.replace(step.old, step.new)
    return text


@settings(deadline=None)
@given(SMALL, STEPS, st.sampled_from(["\n", "\r\n", "\r"]), st.sampled_from(["utf-8", "utf-8-sig", "utf-16"]))
def test_edits_do_what_plain_replacement_does_whatever_the_line_ends_and_encoding(text, steps, newline, encoding):
    expected = oracle(text, steps)
    data = text.replace("\n", newline).encode(encoding)
    # A file without line ends has no kind of its own, so its new lines end in feeds.
    newline = newline if "\n" in text else "\n"
    try:
        outcome = apply_edits(data, steps)
    except ToolyardError:
        assert expected is None
    else:
        assert expected is not None
        assert outcome.data == expected.replace("\n", newline).encode(encoding)


@settings(deadline=None)
@given(
    st.binary(max_size=60),
    st.text(alphabet="qxyz\n", min_size=1, max_size=6),
    st.text(alphabet="uvw\n", max_size=6),
    st.binary(max_size=60),
)
def test_bytes_outside_the_edit_are_unchanged_whatever_they_are(before, old, new, after):
    assume(old != new)
    data = before + b"\x01" + old.encode() + b"\x02" + after
    try:
        done = edit(data, ("\x01" + old + "\x02", "\x01" + new + "\x02"))
    except ToolError:
        # The guess at the encoding joined our bytes to others, or there are two such places: then nothing is done.
        return
    assert done.startswith(before + b"\x01")
    assert done.endswith(b"\x02" + after)
    middle = done[len(before) + 1 : len(done) - len(after) - 1]
    assert middle.replace(b"\r\n", b"\n").replace(b"\r", b"\n") == new.encode()


@settings(deadline=None)
@given(
    st.text(alphabet="жшбю \n", max_size=60),
    st.text(alphabet="жшбю \n", max_size=60),
    st.sampled_from(["cp1251", "koi8_r", "cp932", "gb18030", "euc_jp", "utf-16"]),
)
def test_text_around_an_edit_keeps_its_bytes_in_any_encoding(before, after, encoding):
    data = (before + "OLD" + after).encode(encoding)

    assert edit(data, ("OLD", "NEW LINE")) == (before + "NEW LINE" + after).encode(encoding)


MIXED = st.lists(st.tuples(st.sampled_from(["a", "b", ""]), st.sampled_from(["\n", "\r\n"])), max_size=12)


@settings(deadline=None)
@given(MIXED, st.text(alphabet="ab\n", min_size=1, max_size=4), st.text(alphabet="xy\n", max_size=4))
def test_in_a_file_of_mixed_line_ends_exact_places_come_first_and_then_those_with_other_line_ends(lines, old, new):
    assume(old != new)
    text = "".join(line + end for line, end in lines)
    flat = text.replace("\r\n", "\n")
    exact = re.compile(("(?<!\r)" if old.startswith("\n") else "") + re.escape(old))
    mixed = "\r\n" in text and re.search(r"(?<!\r)\n", text)
    expected = exact.sub(new, text) if mixed and exact.search(text) else flat.replace(old, new)
    try:
        done = edit(text.encode(), (old, new, True)).decode()
    except ToolError:
        assert old not in flat
        return
    assert done.replace("\r\n", "\n") == expected.replace("\r\n", "\n")
    assert "\r" not in done.replace("\r\n", "")
    if not mixed and "\n" in text:
        assert newline_of(done) in {newline_of(text), newline_of("")}


@settings(deadline=None)
@given(SMALL, STEPS)
def test_the_changed_lines_hold_every_difference(text, steps):
    try:
        outcome = apply_edits(text.encode(), steps)
    except ToolyardError:
        return
    # A new text that ends in a line end makes the line after it begin anew.
    told = {line for found in outcome.changed for line in range(found.first, found.last + 2)}
    untold = [line for number, line in enumerate(outcome.after.split("\n"), 1) if number not in told]
    rest = iter(text.split("\n"))
    # What is not told as changed stood in the old text, in the same order.
    assert all(any(line == old for old in rest) for line in untold)


@pytest.mark.parametrize(
    ("data", "step"),
    [
        pytest.param(b"a" * 2_000_000, ("a" * 1_000 + "b", "x"), id="near repeats"),
        pytest.param(b"ab" * 1_000_000, ("ba" * 5_000 + "a", "x"), id="periodic"),
        pytest.param(b"a\n" * 1_000_000, ("a\n" * 2_000 + "b", "x"), id="many lines"),
        pytest.param(b"a\r\na\n" * 400_000, ("a\n" * 2_000 + "b", "x"), id="mixed line ends"),
        pytest.param(b"a" * 2_000_000, ("a", "bb", True), id="everything replaced"),
        pytest.param(b"\r\n\n" + b"a" * 500_000, ("a", "b\n", True), id="everything replaced, mixed"),
    ],
)
def test_hostile_texts_take_no_more_than_linear_time(data, step):
    started = time.process_time()
    with contextlib.suppress(ToolError):
        edit(data, step)

    assert time.process_time() - started < 5


def test_a_diff_of_a_huge_change_is_cut():
    outcome = apply_edits(b"x y\n" * 100_000, [EditStep("x", "z", True)])

    assert len(outcome.diff("f", 1000)) < 1100

"""Three versions of a text's lines: what either side did is in the result, and it comes in bounded time."""

import itertools
import random
import shutil
import subprocess
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolyard.sharing.diff3 import Conflict, MergedLines, match_lines, merge_lines

FEW = st.lists(st.sampled_from([b"a\n", b"b\n", b"c\n", b"{\n", b"\n"]), max_size=12)
SECONDS = 20
"""Far above what it takes (under a second), far below what comparing all with all would."""


def merged(base, ours, theirs):
    """The lines, with each conflict as one item."""
    done = []
    for piece in merge_lines(base, ours, theirs):
        done += piece.lines if isinstance(piece, MergedLines) else [piece]
    return done


def lines(text):
    return [f"{word}\n".encode() for word in text.split()]


@st.composite
def edited(draw, side, base):
    """The base with lines taken out and new ones, each unlike any other, put in."""
    done = []
    for line in [*base, None]:
        done += [f"{side}{len(done)}.{one}\n".encode() for one in range(draw(st.integers(0, 2)))]
        if line is not None and draw(st.booleans()):
            done.append(line)
    return done


@st.composite
def three_versions(draw):
    base = [f"line {number}\n".encode() for number in range(draw(st.integers(0, 10)))]
    return base, draw(edited("ours ", base)), draw(edited("theirs ", base))


@pytest.mark.parametrize(
    ("base", "ours", "theirs", "expected"),
    [
        ("1 2 3 4 5", "A 2 3 4 5", "1 2 3 4 B", lines("A 2 3 4 B")),
        ("1 2 3", "1 2 3 4", "0 1 2 3", lines("0 1 2 3 4")),
        ("1 2 3", "1 3", "1 2 3 4", lines("1 3 4")),
        ("1 2 3", "1 x 3", "1 x 3", lines("1 x 3")),
        ("1 2 3", "1 3", "1 3", lines("1 3")),
        ("1 2", "1 a", "1 b", [*lines("1"), Conflict(lines("a"), lines("b"))]),
        ("1 2 3", "1 3", "1 x 3", [*lines("1"), Conflict([], lines("x")), *lines("3")]),
        ("", "s a e", "s b e", [*lines("s"), Conflict(lines("a"), lines("b")), *lines("e")]),
        ("1 2", "A 2", "1 B", [Conflict(lines("A 2"), lines("1 B"))]),
        ("x x x x", "x x x x x", "y x x x", lines("y x x x x")),
    ],
)
def test_what_each_side_did_is_in_the_result(base, ours, theirs, expected):
    assert merged(lines(base), lines(ours), lines(theirs)) == expected


def test_a_conflict_is_not_torn_apart_by_brackets_and_blank_lines():
    done = merged([], lines("a } b"), lines("c } d"))

    assert done == [Conflict(lines("a } b"), lines("c } d"))]


def test_a_conflict_is_narrowed_to_what_differs():
    done = merged([], lines("{ a same b }"), lines("{ c same d }"))

    assert done == [
        *lines("{"),
        Conflict(lines("a"), lines("c")),
        *lines("same"),
        Conflict(lines("b"), lines("d")),
        *lines("}"),
    ]


@given(base=FEW, other=FEW)
def test_a_change_of_one_side_alone_or_of_both_alike_is_taken(base, other):
    assert merged(base, base, other) == other
    assert merged(base, other, base) == other
    assert merged(base, other, other) == other


@given(base=FEW, ours=FEW, theirs=FEW)
def test_exchanging_the_sides_exchanges_the_sides_of_conflicts_alone(base, ours, theirs):
    turned = [
        Conflict(item.theirs, item.ours) if isinstance(item, Conflict) else item
        for item in merged(base, theirs, ours)
    ]

    assert merged(base, ours, theirs) == turned


@given(versions=three_versions())
def test_every_new_line_is_there_once_and_none_that_all_kept_is_lost(versions):
    base, ours, theirs = versions
    found = []
    for item in merged(base, ours, theirs):
        found += [*item.ours, *item.theirs] if isinstance(item, Conflict) else [item]

    new = [line for line in [*ours, *theirs] if line not in base]
    assert [found.count(line) for line in new] == [1] * len(new)
    assert {line for line in base if line in ours and line in theirs} <= set(found)


@given(base=FEW, ours=FEW, theirs=FEW)
def test_both_sides_of_a_conflict_are_pieces_of_their_versions_and_differ(base, ours, theirs):
    for item in merged(base, ours, theirs):
        if isinstance(item, Conflict):
            assert item.ours != item.theirs
            assert b"".join(item.ours) in b"".join(ours)
            assert b"".join(item.theirs) in b"".join(theirs)


@given(left=FEW, right=FEW)
def test_pairs_are_equal_lines_in_order_and_begin_where_both_begin_alike(left, right):
    pairs = [(place, there) for place, there in enumerate(match_lines(left, right)) if there is not None]

    assert all(left[place] == right[there] for place, there in pairs)
    assert all(one[1] < other[1] for one, other in itertools.pairwise(pairs))
    if left and right and left[0] == right[0]:
        assert pairs[0] == (0, 0)


@pytest.mark.parametrize(
    ("left", "right"),
    [
        ([b"same\n"] * 20_000, [b"same\n", b"other\n"] * 10_000),
        ([b"%d\n" % (at % 7) for at in range(20_000)], [b"%d\n" % (at % 11) for at in range(20_000)]),
        ([b"%d\n" % at for at in range(20_000)], [b"%d\n" % at for at in range(20_000, 0, -1)]),
        (
            [line for at in range(9_999) for line in (b"%d\n" % (at + 2), b"%d\n" % (at + 1))],
            [line for at in range(6_666) for line in (b"%d\n" % (at + 2), b"%d\n" % (at + 1), b"x\n")],
        ),
        ([b"x" * 1_000 + b"%d\n" % (at % 3) for at in range(1_000)], [b"x" * 1_000 + b"3\n"] * 1_000),
    ],
    ids=["the same line", "few lines", "turned round", "one unique line after another", "long lines"],
)
def test_lines_made_to_take_long_are_given_up(left, right):
    begun = time.process_time()

    merged([], left, right)
    assert merged(left, left, right) == right

    assert time.process_time() - begun < SECONDS


@pytest.mark.skipif(shutil.which("git") is None, reason="there is no git to compare with")
def test_edits_apart_from_each_other_merge_as_git_merges_them(tmp_path):
    chance = random.Random(7)
    for turn in range(40):
        base = [chance.choice([b"\n", b"}\n", b"line %d\n" % at]) for at in range(60)]
        versions = [list(base), list(base), list(base)]
        for at in range(57, 0, -6):
            side = versions[chance.choice((1, 2))]
            new = [b"%d new %d.%d\n" % (turn, at, one) for one in range(chance.randrange(3))]
            side[at - chance.randrange(2) : at + 1] = new
        for name, version in zip(("base", "ours", "theirs"), versions, strict=True):
            (tmp_path / name).write_bytes(b"".join(version))
        git = subprocess.run(
            ["git", "merge-file", "-p", "ours", "base", "theirs"],
            cwd=tmp_path,
            capture_output=True,
            check=False,
        )

        done = merged(*versions)

        if git.returncode == 0:
            assert b"".join(done) == git.stdout
        else:
            assert any(isinstance(item, Conflict) for item in done)

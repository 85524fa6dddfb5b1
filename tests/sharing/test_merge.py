"""Three versions of a file: what becomes of each combination, and that no change of either side is lost."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolyard.sharing.conflict_markers import Side, SideNames, parse_conflict_markers, render_merge
from toolyard.sharing.diff3 import Conflict
from toolyard.sharing.merge import MergeDecision, MergeOutcome, decide_merge, merge_texts
from toolyard.snapshots.store.objects import EntryKind, TreeEntry, digest_of

NAMES = SideNames("agent_a", "agent_b (snapshot 0123)")
BASE = b"one\ntwo\nthree\nfour\nfive\n"
OURS = b"ONE\ntwo\nthree\nfour\nfive\n"
THEIRS = b"one\ntwo\nthree\nfour\nFIVE\n"


class Contents:
    def __init__(self):
        self.data = {}

    def entry(self, data, mode=0o644):
        if data is None:
            return None
        self.data[digest_of(data)] = data
        return TreeEntry(b"name", EntryKind.FILE, mode, len(data), digest_of(data))

    def read(self, entry):
        return self.data[entry.ref]


def decided(base, ours, theirs, modes=(0o644, 0o644, 0o644)):
    contents = Contents()
    entries = [contents.entry(data, mode) for data, mode in zip((base, ours, theirs), modes, strict=True)]
    return decide_merge(*entries, contents.read, NAMES)


@pytest.mark.parametrize(
    ("base", "ours", "theirs", "outcome", "data"),
    [
        (None, None, THEIRS, MergeOutcome.ADDED, THEIRS),
        (BASE, BASE, THEIRS, MergeOutcome.MERGED, THEIRS),
        (BASE, OURS, BASE, MergeOutcome.KEPT, None),
        (BASE, OURS, OURS, MergeOutcome.UNCHANGED, None),
        (None, OURS, OURS, MergeOutcome.UNCHANGED, None),
        (BASE, BASE, None, MergeOutcome.REMOVED, None),
        (BASE, OURS, None, MergeOutcome.KEPT, None),
        (None, OURS, None, MergeOutcome.KEPT, None),
        (BASE, None, BASE, MergeOutcome.KEPT, None),
        (BASE, None, None, MergeOutcome.UNCHANGED, None),
        (BASE, OURS, THEIRS, MergeOutcome.MERGED, b"ONE\ntwo\nthree\nfour\nFIVE\n"),
    ],
)
def test_each_combination_has_its_outcome(base, ours, theirs, outcome, data):
    decision = decided(base, ours, theirs)

    assert (decision.outcome, decision.data, decision.beside) == (outcome, data, False)


def test_a_file_removed_here_and_changed_there_is_put_beside_its_place():
    decision = decided(BASE, None, THEIRS)

    assert (decision.outcome, decision.data, decision.beside) == (MergeOutcome.CONFLICT, THEIRS, True)


def test_a_conflict_is_marked_with_both_agents_and_the_snapshot():
    decision = decided(b"one\ntwo\n", b"one\nours\n", b"one\ntheirs\n")

    assert decision == MergeDecision(
        MergeOutcome.CONFLICT,
        "1 conflict to resolve",
        b"one\n<<<<<<< agent_a\nours\n=======\ntheirs\n>>>>>>> agent_b (snapshot 0123)\n",
    )


def test_files_without_a_common_ancestor_conflict_only_where_they_differ():
    decision = decided(None, b"same\nours\nend\n", b"same\ntheirs\nend\n")

    assert decision.outcome is MergeOutcome.CONFLICT
    assert decision.data.count(b"same") == 1
    assert decision.data.count(b"end") == 1


@pytest.mark.parametrize("text", [b"\0binary", b"\x89PNG\r\n\x1a\n\0\0", "utf-16".encode("utf-16")])
def test_what_is_no_text_is_never_overwritten_when_both_changed_it(text):
    decision = decided(BASE, text + b"ours", text + b"theirs")

    assert (decision.outcome, decision.data, decision.beside) == (MergeOutcome.CONFLICT, text + b"theirs", True)


def test_a_large_text_is_never_overwritten_when_both_changed_it():
    large = b"line\n" * 300_000

    decision = decided(BASE, large + b"ours", large + b"theirs")

    assert (decision.outcome, decision.beside) == (MergeOutcome.CONFLICT, True)


def test_a_text_of_too_many_lines_is_told_to_be_too_large():
    many = b"\n" * 30_000

    decision = decided(BASE, many + b"ours", many + b"theirs")

    assert (decision.outcome, decision.beside) == (MergeOutcome.CONFLICT, True)
    assert "too large" in decision.why


def test_a_binary_that_only_they_changed_is_taken():
    assert decided(b"\0old", b"\0old", b"\0new").data == b"\0new"


@pytest.mark.parametrize(
    ("base", "ours", "theirs", "wanted"),
    [
        (0o644, 0o644, 0o755, 0o755),
        (0o644, 0o600, 0o755, None),
        (0o644, 0o644, 0o644, None),
    ],
)
def test_a_mode_is_taken_where_we_left_it_alone(base, ours, theirs, wanted):
    decision = decided(BASE, BASE, BASE, (base, ours, theirs))

    assert decision.mode == wanted
    assert decision.outcome is (MergeOutcome.UNCHANGED if wanted is None else MergeOutcome.MERGED)


def test_a_merge_keeps_our_mode_and_takes_theirs_alike():
    assert decided(BASE, OURS, THEIRS, (0o644, 0o644, 0o755)).mode == 0o755
    assert decided(BASE, OURS, THEIRS, (0o644, 0o600, 0o755)).mode is None


@pytest.mark.parametrize("ending", [b"\n", b"\r\n"])
def test_markers_end_their_lines_as_the_file_does(ending):
    base, ours, theirs = (ending.join(lines) for lines in ([b"a", b"b"], [b"a", b"x"], [b"a", b"y"]))

    merged, conflicts = merge_texts(base, ours, theirs, NAMES)

    assert conflicts == 1
    assert merged.splitlines() == [
        b"a",
        b"<<<<<<< agent_a",
        b"x",
        b"=======",
        b"y",
        b">>>>>>> " + NAMES.theirs.encode(),
    ]
    assert merged.count(b"\r\n") == (merged.count(b"\n") if ending == b"\r\n" else 0)


LINES = st.lists(st.sampled_from([b"a\n", b"b\n", b"c\n", b"d\n"]), max_size=8).map(b"".join)


@given(base=LINES, other=LINES)
def test_a_change_on_one_side_alone_is_taken_whole(base, other):
    assert merge_texts(base, base, other, NAMES) == (other, 0)
    assert merge_texts(base, other, base, NAMES) == (other, 0)
    assert merge_texts(base, other, other, NAMES) == (other, 0)


@given(base=LINES, ours=LINES, theirs=LINES)
def test_every_line_of_a_merge_comes_from_one_of_the_three(base, ours, theirs):
    merged, conflicts = merge_texts(base, ours, theirs, NAMES)

    known = {*base.splitlines(), *ours.splitlines(), *theirs.splitlines()}
    marks = [line for line in merged.splitlines() if line not in known]
    assert len(marks) == 3 * conflicts


MARKED = b"one\n<<<<<<< agent_a\nours\n=======\ntheirs\n>>>>>>> agent_b (snapshot 0123)\nend\n"


def test_marks_that_are_still_there_are_found_and_settled_by_either_side():
    pieces = parse_conflict_markers(MARKED, "agent_a")

    assert render_merge(pieces, NAMES, b"\n", None) == MARKED
    assert render_merge(pieces, NAMES, b"\n", Side.OURS) == b"one\nours\nend\n"
    assert render_merge(pieces, NAMES, b"\n", Side.THEIRS) == b"one\ntheirs\nend\n"


@pytest.mark.parametrize(
    "text",
    [
        MARKED.replace(b"agent_a", b"somebody"),
        MARKED.replace(b"=======\n", b""),
        MARKED.replace(b">>>>>>> agent_b (snapshot 0123)\n", b""),
        b"Title\n=======\n",
        b"<<<<<<< agent_a\n" * 3,
    ],
)
def test_what_only_looks_like_a_mark_is_text(text):
    pieces = parse_conflict_markers(text, "agent_a")

    assert not any(isinstance(piece, Conflict) for piece in pieces)
    assert render_merge(pieces, NAMES, b"\n", Side.OURS) == text


@given(
    parts=st.lists(
        st.sampled_from([b"<<<<<<< agent_a\n", b"=======\n", b">>>>>>> agent_b (snapshot 0123)\n", b"a\n", b"b"])
    )
)
def test_finding_marks_loses_nothing(parts):
    text = b"".join(parts)

    assert render_merge(parse_conflict_markers(text, "agent_a"), NAMES, b"\n", None) == text

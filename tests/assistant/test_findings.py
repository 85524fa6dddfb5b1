"""What a model claims is held against the files it was shown; how it spells it does not matter."""

import tracemalloc

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from toolyard.assistant.findings import (
    MOST_FINDINGS,
    CheckedFindings,
    Finding,
    filter_by_severity,
    read_findings,
    sort_and_deduplicate,
)
from toolyard.assistant.json_extraction import NotJson

LINES = {"src/a.py": 20, "src/deep/b.py": 5, "b.py": 7, "empty.py": 0}


def said(**fields):
    return {"severity": "high", "category": "bug", "file": "src/a.py", "line": 3, "title": "Off by one", **fields}


def read(*findings):
    return read_findings({"findings": list(findings)}, LINES)


def only(**fields):
    found = read(said(**fields))
    assert len(found.findings) == 1, found.dropped
    return found.findings[0]


def test_a_finding_has_its_place_and_its_fix():
    assert only(fix="Use <=.") == Finding("high", "bug", "src/a.py", 3, "Off by one", "Use <=.")


@pytest.mark.parametrize("reply", [[said()], {"findings": [said()]}, {"summary": "x", "issues": [said()]}])
def test_the_list_may_stand_alone_or_in_an_object(reply):
    assert read_findings(reply, LINES) == CheckedFindings((Finding("high", "bug", "src/a.py", 3, "Off by one"),))


@pytest.mark.parametrize("reply", ["text", 5, None, {}, {"findings": "none"}, {"findings": {}}, {"summary": "fine"}])
def test_a_reply_without_a_list_is_refused(reply):
    with pytest.raises(NotJson, match='a list of "findings"'):
        read_findings(reply, LINES)


def test_no_findings_are_an_answer():
    assert read_findings({"findings": []}, LINES) == CheckedFindings(())


@pytest.mark.parametrize(
    ("word", "severity"),
    [
        ("CRITICAL", "critical"),
        ("Blocker", "critical"),
        ("🔴 High", "high"),
        ("error", "high"),
        ("P1", "high"),
        ("Warning", "medium"),
        (" medium.", "medium"),
        ("info", "low"),
        ("Nit: style", "low"),
    ],
)
def test_the_usual_words_are_severities(word, severity):
    assert only(severity=word).severity == severity


@pytest.mark.parametrize("word", ["urgent", "", "42", "🔴", "not critical"])
def test_other_words_are_not(word):
    assert read(said(severity=word)) == CheckedFindings((), (f'"Off by one": "{word}" is not a severity',))


@pytest.mark.parametrize(
    ("spelled", "path"),
    [
        ("src/a.py", "src/a.py"),
        ("./src/a.py", "src/a.py"),
        ("`src/a.py`", "src/a.py"),
        ("src\\a.py", "src/a.py"),
        ("a.py", "src/a.py"),
        ("deep/b.py", "src/deep/b.py"),
        ("b.py", "b.py"),
        ("/home/ann/proj/src/a.py", "src/a.py"),
        ("C:\\proj\\src\\a.py", "src/a.py"),
        ("b/src/a.py", "src/a.py"),
        ("src/a.py:3", "src/a.py"),
    ],
)
def test_a_file_may_be_spelled_in_other_ways(spelled, path):
    assert only(file=spelled).file == path


@pytest.mark.parametrize(
    "file", ["src/c.py", "", "other/a.py", "other/b.py", "../src/x.py", "/etc/passwd", "src", "."]
)
def test_a_file_that_was_not_sent_is_no_place(file):
    assert read(said(file=file)) == CheckedFindings((), (f'"Off by one": "{file}" is not one of the files',))


@pytest.mark.parametrize(
    ("line", "number"),
    [
        (3, 3),
        ("3", 3),
        ("L3", 3),
        ("3-9", 3),
        ([3, 9], 3),
        (3.0, 3),
        (20, 20),
        (0, 0),
        (None, 0),
        ("n/a", 0),
        ([], 0),
    ],
)
def test_a_line_may_be_spelled_in_other_ways_and_without_one_it_is_about_the_file(line, number):
    assert only(line=line).line == number


def test_the_line_may_stand_in_the_name_of_the_file():
    assert only(file="src/a.py:7:2", line=None).line == 7
    assert only(file="src/a.py:7", line=None).line == 7


@pytest.mark.parametrize(("line", "told"), [(21, "21"), (-1, "-1"), ("999999", "999999")])
def test_a_finding_about_a_line_that_is_not_there_is_dropped_with_the_reason(line, told):
    assert read(said(line=line)) == CheckedFindings((), (f'"Off by one": src/a.py has no line {told}, only 20',))


def test_of_a_change_it_is_said_that_the_line_was_not_shown():
    found = read_findings({"findings": [said(line=21)]}, LINES, is_change=True)
    assert found == CheckedFindings(
        (), ('"Off by one": the change shows no line 21 of src/a.py, the last one is 20',)
    )


def test_an_empty_file_has_no_line_one():
    assert read(said(file="empty.py", line=1)).findings == ()


@pytest.mark.parametrize(
    ("each", "reason"),
    [
        ("text", "finding 1: it: Input should be"),
        (None, "finding 1: it: Input should be"),
        ({"severity": "high"}, "finding 1: file: Field required"),
        (said(title=" "), "finding 1: it has no title"),
        (said(title=["x"]), "finding 1: title: Input should be a valid string"),
        (said(line=True), '"Off by one": line: Input should be a valid integer'),
        (said(line={"from": 1}), '"Off by one": line: Input should be a valid integer'),
        (said(line=3.5), '"Off by one": line: Input should be a valid integer'),
    ],
)
def test_what_is_no_finding_is_dropped_and_the_others_stay(each, reason):
    found = read(each, said(line=4))
    assert [finding.line for finding in found.findings] == [4]
    assert len(found.dropped) == 1
    assert found.dropped[0].startswith(reason)


def test_other_names_of_the_fields_are_understood():
    spoken = {"level": "low", "path": "b.py", "line_number": 2, "message": "x", "type": "Style", "suggestion": "y"}
    assert read(spoken).findings == (Finding("low", "style", "b.py", 2, "x", "y"),)


def test_texts_have_their_length_and_a_title_is_one_line():
    finding = only(title="a\n b " * 1_000, fix="c\nd" * 10_000, category="E " * 1_000)
    assert finding.title.startswith("a b a b")
    assert "\n" in finding.fix
    assert (len(finding.title), len(finding.fix), len(finding.category)) == (500, 5_000, 60)
    assert only(category=None, fix=None).category == "general"


def test_a_path_that_is_longer_than_any_takes_no_memory():
    deep = "/" + "a/" * 100_000
    tracemalloc.start()
    found = read(*(said(file=f"{deep}src/a.py") for _ in range(10)), said(file="/" + "a/" * 2_000 + "src/a.py"))
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert [finding.file for finding in found.findings] == ["src/a.py"]
    assert len(found.dropped) == 10
    assert found.dropped[0].endswith("is not a path: it is longer than 4,096 characters")
    assert peak < 10_000_000


@pytest.mark.parametrize("line", [10**4_000, -(10**4_000), 1e300])
def test_a_line_that_no_file_can_have_is_not_repeated(line):
    (why,) = read(said(line=line)).dropped
    assert why.startswith('"Off by one": line: Input should be')


def test_of_texts_without_end_only_the_beginning_is_looked_at():
    endless = "x " * 400_000
    assert only(fix=endless, category=endless).title == "Off by one"
    assert only(line=f"{' ' * 400_000}3").line == 0
    (why,) = read(said(severity=endless, title=endless)).dropped
    assert len(why) < 300


def test_half_a_character_is_replaced():
    assert only(title="x \ud800").title == "x ?"


def test_the_worst_comes_first_and_each_once():
    found = read(
        said(severity="low", line=1),
        said(severity="high", file="src/deep/b.py", line=2),
        said(severity="high", line=9),
        said(severity="medium", line=9, title=" off BY  one"),
        said(severity="critical", line=4),
    )
    assert [(each.severity, each.file, each.line) for each in found.findings] == [
        ("critical", "src/a.py", 4),
        ("high", "src/a.py", 9),
        ("high", "src/deep/b.py", 2),
        ("low", "src/a.py", 1),
    ]


def test_no_more_findings_are_read_than_anybody_reads():
    found = read(*(said(title=str(number)) for number in range(MOST_FINDINGS + 5)))
    assert len(found.findings) == MOST_FINDINGS
    assert found.dropped == (f"5 findings after the first {MOST_FINDINGS}",)


EVERY = tuple(Finding(severity, "bug", "a", 1, severity) for severity in ("critical", "high", "medium", "low"))


@pytest.mark.parametrize(("severity_filter", "count"), [("critical", 1), ("high", 2), ("medium", 3), ("all", 4)])
def test_the_filter_keeps_a_severity_and_what_is_worse(severity_filter, count):
    assert filter_by_severity(EVERY, severity_filter) == EVERY[:count]


SCALARS = st.none() | st.booleans() | st.integers() | st.floats() | st.text() | st.sampled_from(["src/a.py", "high"])
FIELDS = st.sampled_from(["severity", "category", "file", "line", "title", "fix", "findings"])
VALUES = st.recursive(SCALARS, lambda inner: st.lists(inner) | st.dictionaries(FIELDS, inner), max_leaves=6)


@settings(max_examples=40)
@given(st.lists(st.builds(lambda more: {**said(), **more}, st.dictionaries(FIELDS, VALUES)) | VALUES))
def test_whatever_a_model_says_only_places_that_exist_are_kept(values):
    found = read_findings(values, LINES)
    assert len(found.findings) + len(found.dropped) <= len(values)
    for finding in found.findings:
        assert 0 <= finding.line <= LINES[finding.file]
        assert finding.title.encode()
    assert sort_and_deduplicate(found.findings) == found.findings

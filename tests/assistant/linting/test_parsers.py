"""What linters printed, read. The samples are real."""

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from toolyard.assistant.linting.linters import LINTERS
from toolyard.assistant.linting.model import LintFinding
from toolyard.assistant.linting.parsers import parse_cppcheck, parse_go_vet, parse_ruff, parse_shellcheck
from toolyard.assistant.sandboxed_commands import ProgramResult

RUFF = (
    b'{"cell":null,"code":"F821","end_location":{"column":8,"row":2},"filename":"/ws/a.py","fix":null,'
    b'"location":{"column":7,"row":2},"message":"Undefined name `x`","name":"undefined-name","noqa_row":2,'
    b'"severity":"error","url":"https://docs.astral.sh/ruff/rules/undefined-name"}\n'
    b'{"cell":null,"code":"invalid-syntax","end_location":{"column":1,"row":2},"filename":"/ws/b.py","fix":null,'
    b'"location":{"column":7,"row":1},"message":"Expected an expression","name":"invalid-syntax","noqa_row":null,'
    b'"severity":"error","url":null}\n'
    b'{"cell":null,"code":"E501","filename":"/ws/a.py","location":{"column":119,"row":3},"message":"Line too long"}\n'
    b'{"cell":null,"code":"S602","filename":"/ws/a.py","location":{"column":1,"row":4},"message":"shell=True"}\n'
    b'{"cell":null,"code":"F401","filename":"/ws/a.py","loc'
)


def printed(out=b"", err=b"", *, is_whole=True):
    return ProgramResult(1, out, err, is_whole)


def test_ruff_tells_one_on_each_line_and_a_line_that_was_cut_is_left_out():
    assert list(parse_ruff(printed(RUFF, is_whole=False))) == [
        LintFinding("ruff", "/ws/a.py", 2, "F821", "Undefined name `x`", "error"),
        LintFinding("ruff", "/ws/b.py", 1, "invalid-syntax", "Expected an expression", "error"),
        LintFinding("ruff", "/ws/a.py", 3, "E501", "Line too long", "note"),
        LintFinding("ruff", "/ws/a.py", 4, "S602", "shell=True", "warning"),
    ]


def test_shellcheck_tells_like_a_compiler():
    out = (
        b"./a b.sh:2:6: note: Double quote to prevent globbing and word splitting. [SC2086]\n"
        b"./a b.sh:3:1: error: Couldn't parse this if expression: fix it. [SC1073]\n"
    )
    assert list(parse_shellcheck(printed(out))) == [
        LintFinding(
            "shellcheck", "./a b.sh", 2, "SC2086", "Double quote to prevent globbing and word splitting.", "note"
        ),
        LintFinding("shellcheck", "./a b.sh", 3, "SC1073", "Couldn't parse this if expression: fix it.", "error"),
    ]


def test_cppcheck_tells_what_its_template_asks_for():
    err = (
        b"a.c\t1\terror\tarrayIndexOutOfBounds\tArray 'a[2]' accessed at index 3, which is out of bounds.\n"
        b"a.c\t2\tperformance\tx\ty\n"
        b"nofile\t0\tinformation\n"
    )
    assert list(parse_cppcheck(printed(err=err))) == [
        LintFinding(
            *("cppcheck", "a.c", 1, "arrayIndexOutOfBounds"),
            *("Array 'a[2]' accessed at index 3, which is out of bounds.", "error"),
        ),
        LintFinding("cppcheck", "a.c", 2, "x", "y", "warning"),
    ]


def test_vet_tells_beside_the_names_of_packages():
    err = (
        b'# x\n./m.go:5:15: fmt.Printf format %d has arg "x" of wrong type string\n'
        b"# x/prices\nvet: prices/p.go:3:2: undeclared name: foo\nexit status 2\n"
    )
    assert list(parse_go_vet(printed(err=err))) == [
        LintFinding("go vet", "./m.go", 5, "", 'fmt.Printf format %d has arg "x" of wrong type string', "warning"),
        LintFinding("go vet", "prices/p.go", 3, "", "undeclared name: foo", "error"),
    ]


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: (
        st.lists(inner)
        | st.dictionaries(
            st.sampled_from(["location", "row", "messages", "line", "severity", "message", "code"]), inner
        )
    ),
    max_leaves=8,
)
ANYTHING = (
    st.binary()
    | JSON.map(lambda value: json.dumps(value).encode() + b"\n")
    | st.text(":\t\n a1.go[]").map(str.encode)
)


@pytest.mark.parametrize("linter", LINTERS, ids=lambda linter: linter.name)
@settings(max_examples=30)
@given(data=ANYTHING)
def test_whatever_a_linter_prints_can_be_read(linter, data):
    for found in linter.parse_output(ProgramResult(0, data, data, is_complete=True)):
        assert found.line >= 0
        assert found.tool == linter.name
        assert found.text.encode() is not None

"""Errors on one line, as compilers and checkers of other languages print them."""

import pytest

from tests.assistant.traces.samples import sample
from toolyard.assistant.traces import parse_traces


@pytest.mark.parametrize(
    ("name", "language", "expected"),
    [
        ("javac", "java", [("error: cannot find symbol", "src/main/java/com/acme/shop/Bad.java", 7, 0)]),
        ("tsc", "javascript", [("error TS2304: Cannot find name 'Cart'.", "src/main.ts", 12, 5)]),
        ("mypy", "python", [('error: Name "x" is not defined  [name-defined]', "shop/prices.py", 7, 12)]),
    ],
)
def test_other_compilers_tell_their_errors_on_one_line(name, language, expected):
    traces = parse_traces(sample(name))
    assert {trace.language for trace in traces} == {language}
    assert len(traces) == 2
    last = traces[-1]
    assert [(last.error, last.frames[0].file, last.frames[0].line, last.frames[0].column)] == expected

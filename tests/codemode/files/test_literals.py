"""Text of strangers as literals, docstrings, comments and lines: it comes back as it was and is nothing else."""

import ast
import inspect
import io
import math
import re
import tokenize

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from toolyard.codemode.files.literals import (
    normalize_text,
    python_literal,
    render_comment,
    render_docstring,
    render_markdown,
)

anything = st.text(alphabet=st.characters(), max_size=60)


@given(st.one_of(anything, st.integers(), st.floats(), st.booleans(), st.none()))
@example("\ud800")
@example("'\"\\")
@example(-0.0)
def test_a_literal_means_its_value(value):
    text = python_literal(value)
    if isinstance(value, float) and not math.isfinite(value):
        assert text is None
        return
    assert text is not None
    read = ast.literal_eval(text)
    assert type(read) is type(value) and read == value
    assert text.isprintable()


@pytest.mark.parametrize("value", [[1], {"a": 1}, (1,), b"x", object()])
def test_what_is_no_scalar_has_no_literal(value):
    assert python_literal(value) is None


@given(anything)
@example('"""')
@example('ends with "')
@example("ends with \\")
@example('\\"""')
@example('""""')
@example("\\N{BULLET}\nx")
@example("a\u202eb\x00\ud800\u2028")
def test_a_docstring_reads_as_the_text(text):
    text = normalize_text(text)
    source = "def f():\n" + render_docstring(text) + "\n    ...\n"
    assert all(sign.isprintable() or sign == "\n" for sign in source)
    function = ast.parse(source).body[0]
    assert isinstance(function, ast.FunctionDef)
    assert len(function.body) == 2
    compile(source, "<docstring>", "exec")
    # Half a surrogate pair stands there by its escape: no text with one in it compiles everywhere.
    readable = re.sub("[\ud800-\udfff]", lambda found: f"\\u{ord(found[0]):x}", text)
    assert inspect.cleandoc(ast.get_docstring(function, clean=False) or "") == inspect.cleandoc(readable)


@given(anything)
@example("a\nimport os")
@example("a\rimport os")
@example("a\x0cimport os")
def test_a_comment_stays_one_line(text):
    source = f"x = 1  # {render_comment(text)}\n"
    kinds = [token.type for token in tokenize.generate_tokens(io.StringIO(source).readline)]
    assert kinds.count(tokenize.NEWLINE) == 1
    assert kinds.count(tokenize.NAME) == 1


@given(anything)
def test_a_line_of_markdown_has_no_markup_of_a_stranger(text):
    line = render_markdown(text)
    assert "\n" not in line and "`" not in line and "<" not in line
    assert line.isprintable()

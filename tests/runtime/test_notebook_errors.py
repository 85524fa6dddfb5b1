"""A traceback shows the agent's lines and the libraries', and none of the machinery."""

import sys

import pytest

from toolyard_runtime.notebook_errors import OWN_FOLDER
from toolyard_runtime.notebook_text import TEXT_LIMIT


def error(notebook, code: str) -> str:
    answer = notebook.run(code)
    assert answer["status"] == "error"
    assert answer["exit_code"] == 1
    assert answer["value"] is None
    assert OWN_FOLDER not in answer["error"]
    assert " value of the last" not in answer["error"]
    return answer["error"]


def test_a_traceback_has_the_agents_lines_with_markers(notebook):
    assert error(notebook, "def f(x):\n    return 1 + 1 / x\nf(0)") == (
        "Traceback (most recent call last):\n"
        '  File "<code>", line 3, in <module>\n'
        "    f(0)\n" + ("    ~^^^\n" if sys.version_info >= (3, 13) else "") + '  File "<code>", line 2, in f\n'
        "    return 1 + 1 / x\n"
        "               ~~^~~\n"
        "ZeroDivisionError: division by zero"
    )


def test_each_piece_has_its_own_lines(notebook):
    notebook.run("def f():\n    raise KeyError('first piece')")
    text = error(notebook, "x = 1\nf()")
    assert 'File "<code 2>", line 2, in <module>\n    f()' in text
    assert "File \"<code>\", line 2, in f\n    raise KeyError('first piece')" in text


@pytest.mark.parametrize("end", ["\r\n", "\r", "\n"])
def test_lines_are_counted_as_the_compiler_counts_them(notebook, end):
    text = error(notebook, end.join(["x = 1", "y = '\x0c\u2028'", "raise KeyError(x)", ""]))
    assert 'File "<code>", line 3, in <module>\n    raise KeyError(x)\nKeyError: 1' in text


def test_lines_are_shown_after_the_code_cleared_the_line_cache(notebook):
    notebook.run("def f():\n    raise KeyError(1)")
    assert "raise KeyError(1)" in error(notebook, "import linecache\nlinecache.clearcache()\nf()")


def test_frames_of_libraries_are_shown(notebook):
    text = error(notebook, "import json\njson.loads('{')")
    assert "json/decoder.py" in text
    assert text.endswith(
        "JSONDecodeError: Expecting property name enclosed in double quotes: line 1 column 2 (char 1)"
    )


def test_an_awaiting_piece_shows_no_event_loop(notebook):
    text = error(notebook, "import asyncio\nasync def f():\n    raise KeyError(1)\nawait f()")
    assert text.startswith(
        'Traceback (most recent call last):\n  File "<code>", line 4, in <module>\n    await f()\n'
    )
    assert "asyncio/" not in text


def test_chained_exceptions_are_all_told(notebook):
    code = "try:\n    1 / 0\nexcept ZeroDivisionError as cause:\n    raise ValueError('second') from cause"
    text = error(notebook, code)
    assert "ZeroDivisionError: division by zero\n\nThe above exception was the direct cause" in text
    assert text.endswith("ValueError: second")


def test_groups_and_notes_are_told(notebook):
    code = "e = ValueError('one')\ne.add_note('look here')\nraise ExceptionGroup('both', [e, KeyError('two')])"
    text = error(notebook, code)
    for part in ("ExceptionGroup: both (2 sub-exceptions)", "ValueError: one", "look here", "KeyError: 'two'"):
        assert part in text


def test_a_task_group_is_told_without_machinery(notebook):
    code = """
import asyncio
async def bad(): raise KeyError('in a task')
async with asyncio.TaskGroup() as group:
    group.create_task(bad())
"""
    text = error(notebook, code)
    assert "KeyError: 'in a task'" in text
    assert "runners.py" not in text


@pytest.mark.parametrize(
    ("code", "first", "last"),
    [
        ("x = 1\ny = (", '  File "<code>", line 2\n    y = (\n        ^', "SyntaxError: '(' was never closed"),
        ("if x:\nx", '  File "<code>", line 2\n    x\n    ^', "IndentationError: expected an indented block after"),
        ("return 1", '  File "<code>", line 1', "SyntaxError: 'return' outside function"),
        ("x = '\0'", "", "source code string cannot contain null bytes"),
        ("x = '\ud800'", "", "surrogates not allowed"),
        ("(" * 5000, "", "too many nested parentheses"),
    ],
)
def test_code_that_does_not_compile_shows_where(notebook, code, first, last):
    text = error(notebook, code)
    assert text.startswith(first)
    assert last in text.splitlines()[-1]
    assert "Traceback" not in text


def test_code_nested_too_deeply_is_an_error(notebook):
    assert notebook.run("x = " + "-" * 20_000 + "1")["status"] == "error"
    assert notebook.run("1 + 1")["value"] == "2"


def test_lines_of_ipython_get_a_note(notebook):
    answer = notebook.run("%matplotlib inline\nimport os")
    assert "IPython" in answer["notes"][0]


def test_endless_recursion_is_told_in_short(notebook):
    text = error(notebook, "def f(): f()\nf()")
    assert "[Previous line repeated" in text
    assert "RecursionError" in text.splitlines()[-1]
    assert len(text) < 1_500


def test_a_very_deep_traceback_is_read_from_its_end(notebook):
    code = "import sys\nold = sys.getrecursionlimit()\nsys.setrecursionlimit(9000)\n"
    code += "def a(n): b(n - 1) if n else 1 / 0\ndef b(n): a(n - 1) if n else 1 / 0\n"
    code += "try:\n    a(5000)\nfinally:\n    sys.setrecursionlimit(old)"
    text = error(notebook, code)
    assert "outer frames left out" in text.splitlines()[0]
    assert text.endswith("ZeroDivisionError: division by zero")
    assert len(text) < TEXT_LIMIT + 200


def test_a_huge_message_is_cut_in_the_middle(notebook):
    text = error(notebook, "raise ValueError('a' * 1_000_000 + 'the end')")
    assert len(text) < TEXT_LIMIT + 100
    assert "characters left out" in text
    assert text.startswith("Traceback")
    assert text.endswith("the end")


@pytest.mark.parametrize(
    "body",
    [
        "def __str__(self): raise KeyError('no')",
        "def __str__(self): return 5",
        "def __str__(self): raise SystemExit(3)",
        "__notes__ = 5",
        "def __getattr__(self, name): raise ValueError(name)",
        "__module__ = None",
    ],
)
def test_an_exception_with_broken_methods_is_still_told(notebook, body):
    assert "Odd" in error(notebook, f"class Odd(Exception):\n    {body}\nraise Odd('x')")


def test_an_interrupt_is_an_error_with_its_own_code(notebook):
    answer = notebook.run("raise KeyboardInterrupt")
    assert (answer["status"], answer["exit_code"]) == ("error", 130)
    assert answer["error"].endswith("KeyboardInterrupt")


def test_an_exception_of_no_ordinary_kind_is_an_error(notebook):
    assert error(notebook, "class Odd(BaseException): pass\nraise Odd('x')").endswith("Odd: x")
    assert "CancelledError" in error(notebook, "import asyncio\nawait asyncio.sleep(0)\nraise asyncio.CancelledError")


def test_names_bound_before_the_error_stay(notebook):
    error(notebook, "x = 5\n1 / 0")
    assert notebook.run("x")["value"] == "5"


def test_no_value_of_a_failed_piece_turns_up_later(notebook):
    error(notebook, "1 / 0")
    assert notebook.run("x = 1")["value"] is None

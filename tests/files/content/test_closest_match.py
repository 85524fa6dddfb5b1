from __future__ import annotations

import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from toolyard.files.content.closest_match import NearMiss, find_closest

SOURCE = """\
import os


class Greeter:
\tdef greet(self, name):
\t\treturn "Hello, " + name

\tdef leave(self):
\t\tprint(“bye”)  # ask
\t\tpath = os.path.join(one, two)
"""


def test_the_closest_text_comes_with_its_lines_and_the_difference():
    assert find_closest(SOURCE, "def greet(self, nane):\n\t\treturn 'Hello, ' + nane") == NearMiss(
        5,
        6,
        '     5\t\tdef greet(self, name):\n     6\t\t\treturn "Hello, " + name',
        "old_string has 'def greet(self, nane):' where the file has 'def greet(self, name):'",
        False,
    )


@pytest.mark.parametrize(
    ("wanted", "line", "diagnosis"),
    [
        (
            "    def greet(self, name):\n        return",
            5,
            "the indentation differs: the file uses tabs, old_string spaces",
        ),
        ("class Greeter: \n\tdef greet", 4, "trailing whitespace differs at the end of a line"),
        ("path = os.path.join(one,  two)", 10, "whitespace differs inside the lines or in blank lines"),
        (
            'print("bye")',
            9,
            "the file has curly quotes or other typographic characters where old_string has plain ones",
        ),
        (
            "“Hello, ” + name",
            6,
            "old_string has curly quotes or other typographic characters where the file has plain ones",
        ),
        ("class greeter:\n\tdef Greet", 4, "upper and lower case differ"),
        (
            "     5\t\tdef greet(self, name):\n     6\t\t\treturn",
            5,
            "line numbers from Read were pasted in; the file does not have them",
        ),
        (
            "     5→\tdef greet(self, name):",
            5,
            "line numbers from Read were pasted in; the file does not have them",
        ),
        (
            'return \\"Hello, \\" + name',
            6,
            "the text was escaped once too often (a backslash that the file does not have)",
        ),
        (
            "\\tdef leave(self):\\n\\t\\tprint",
            8,
            "the text was escaped once too often (a backslash that the file does not have)",
        ),
        (
            "return &quot;Hello, &quot; + name",
            6,
            "the text has HTML entities such as &lt; where the file has the characters",
        ),
        ("\n\n\nimport os\n", 1, "old_string has blank lines or spaces around it that the file does not have"),
    ],
)
def test_the_usual_mistakes_are_named(wanted, line, diagnosis):
    near = find_closest(SOURCE, wanted)

    assert near is not None
    assert (near.first_line, near.diagnosis) == (line, diagnosis)


@pytest.mark.parametrize("wanted", ["nothing of the kind", "§§", "   \n", "\n\n\n\n\n\n"])
def test_where_nothing_is_close_there_is_no_near_miss(wanted):
    assert find_closest(SOURCE, wanted) is None


def test_a_long_near_miss_is_cut():
    lines = [f"value_{n} = compute_{n}(first, second)" for n in range(30)]
    near = find_closest("\n".join(lines), "\n".join(lines).replace("compute_29", "compile_29"))

    assert near is not None
    assert (near.first_line, near.last_line, near.excerpt.count("\n"), near.excerpt.splitlines()[-1]) == (
        1,
        30,
        12,
        "... [18 more lines]",
    )


@settings(deadline=None)
@given(st.text(alphabet="ab \n\t“\\&1→", max_size=60), st.text(alphabet="ab \n\t“\\&1→", min_size=1, max_size=20))
def test_no_texts_make_it_fail(text, wanted):
    near = find_closest(text, wanted)

    assert near is None or 1 <= near.first_line <= near.last_line <= text.count("\n") + 1


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("lorem ipsum dolor sit amet\n" * 380_000, id="many lines"),
        pytest.param("lorem ipsum dolor sit amet " * 380_000, id="one line"),
        pytest.param("\n" * 10_000_000, id="only line ends"),
    ],
)
def test_ten_megabytes_are_searched_in_bounded_time(text):
    wanted = "lorem  ipsun dolor sit amat\nconsectetur adipiscing elit\n" * 20
    best = 1.0
    for _ in range(3):
        started = time.process_time()
        find_closest(text, wanted)
        best = min(best, time.process_time() - started)

    # 50 ms is the aim on an idle machine; the margin is for a busy one.
    assert best < 0.2

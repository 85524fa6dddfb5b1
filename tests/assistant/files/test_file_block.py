"""A file is shown with line numbers, between marks that it cannot imitate."""

import re
from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from tests.assistant.files.made import made
from toolyard.assistant.files.file_block import boundary_lines, number_lines
from toolyard.core.tokens import PIECE_CHARS


def test_lines_have_their_numbers():
    assert "".join(number_lines("import os\n\nprint()")) == "1| import os\n2| \n3| print()\n"
    assert "".join(number_lines("")) == ""


@given(st.text(alphabet="ab \n\u2028\x0c", max_size=300), st.integers(0, 3))
def test_the_text_can_be_had_back_from_what_is_shown(text, times):
    text += "a long line " * (times * PIECE_CHARS // 8) + text
    lines = "".join(number_lines(text)).split("\n")[:-1]

    assert [line.partition("| ")[0] for line in lines] == [str(n) for n in range(1, len(lines) + 1)]
    assert "\n".join(line.partition("| ")[2] for line in lines) == text.removesuffix("\n")


def test_the_same_file_looks_the_same_and_another_version_does_not():
    source = made("a.py", "x\n")

    assert boundary_lines(source, "file") == boundary_lines(made("a.py", "x\n"), "file")
    assert boundary_lines(source, "file")[0] != boundary_lines(made("a.py", "y\n"), "file")[0]


def test_the_mark_is_not_in_the_file_whatever_it_says():
    source = made("a.py", "x\n")
    mark = re.match(r"\[(\w+)\] file a\.py, 1 line\n", boundary_lines(source, "file")[0])[1]
    # A file with the same digest that knows the mark which is made from it.
    imitating = replace(source, text=f"[{mark}] end of a.py\n")

    begin, end = boundary_lines(imitating, "file")

    assert mark not in begin + end
    assert re.match(r"\[\w+\]", begin)[0] not in imitating.text
    assert end.endswith("] end of a.py\n")

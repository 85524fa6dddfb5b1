"""Unified diffs that programs can apply: counts that are right, and the mark for a missing last line end."""

import shutil
import subprocess

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from toolyard.files.content.diffs import unified_diff


def test_the_line_end_of_the_last_line_is_not_a_line_of_its_own():
    assert unified_diff("a\nb\nc\n", "a\nB\nc\n", "x") == "--- a/x\n+++ b/x\n@@ -1,3 +1,3 @@\n a\n-b\n+B\n c"


def test_a_missing_last_line_end_is_marked():
    assert unified_diff("a\nb", "a\nb\n", "x") == (
        "--- a/x\n+++ b/x\n@@ -1,2 +1,2 @@\n a\n-b\n\\ No newline at end of file\n+b"
    )


def test_an_empty_file_has_no_lines():
    assert unified_diff("", "a\n", "x") == "--- a/x\n+++ b/x\n@@ -0,0 +1,1 @@\n+a"


def test_headings_and_context_can_be_chosen():
    assert (
        unified_diff("1\n2\n3\n", "1\n2\n4\n", "x", headings=("top",), context=1)
        == "top\n@@ -2,2 +2,2 @@\n 2\n-3\n+4"
    )


lines = st.lists(st.sampled_from(["a", "b", "c", ""]), max_size=8).map("\n".join)


@pytest.mark.skipif(shutil.which("patch") is None, reason="needs the patch program")
@settings(max_examples=40, deadline=None)
@given(before=lines, after=lines)
@example(before="b\nb\nb\na\nb\nb\nb\na", after="b\nb\nb\nb\nb\nb\nb\na")  # what follows is not shown
def test_patch_makes_the_new_text_of_the_old_one(tmp_path_factory, before, after):
    folder = tmp_path_factory.mktemp("diff")
    (folder / "x").write_text(before)
    diff = unified_diff(before, after, "x")
    if diff:
        subprocess.run(["patch", "-p1", "-s", "-d", folder], input=f"{diff}\n", text=True, check=True)
    assert not diff or not after or (folder / "x").read_text() == after

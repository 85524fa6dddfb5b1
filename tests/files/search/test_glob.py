"""Glob: names by pattern, the newest first."""

import os

import pytest

from toolyard.core.errors import SecurityError, ToolError, ValidationError
from toolyard.core.limits import Limits
from toolyard.files.search import GlobResult


def found(*files):
    return GlobResult(files, len(files), False, "")


@pytest.fixture
def tree(yard):
    for age, name in enumerate(["a.py", "src/b.py", "src/deep/c.ts", "src/d.tsx", "docs/e.md", "src/.hidden.py"]):
        yard.write(name, mtime=10_000 - age)
    return yard


@pytest.mark.parametrize(
    ("pattern", "start", "expected"),
    [
        ("*.py", ".", ["a.py", "src/b.py", "src/.hidden.py"]),
        ("**/*.py", ".", ["a.py", "src/b.py", "src/.hidden.py"]),
        ("src/**/*.ts", ".", ["src/deep/c.ts"]),
        ("*.{ts,tsx}", ".", ["src/deep/c.ts", "src/d.tsx"]),
        ("*.py", "src", ["src/b.py", "src/.hidden.py"]),
        ("./src/*.py", ".", ["src/b.py", "src/.hidden.py"]),
        ("deep/*", "src", ["src/deep/c.ts"]),
        ("?.md", ".", ["docs/e.md"]),
        ("[ab].py", ".", ["a.py", "src/b.py"]),
        ("*.rs", ".", []),
        ("!a.py", ".", []),
        ("--pre=cat", ".", []),
        ("-f/etc/passwd", ".", []),
    ],
)
def test_patterns_match_as_in_ripgrep_and_the_newest_file_comes_first(tree, pattern, start, expected):
    assert tree.glob(pattern, start) == found(*expected)


@pytest.mark.parametrize(
    ("below", "expected"),
    [
        ("*.py", ["a.py"]),
        ("src/*.py", ["src/b.py", "src/.hidden.py"]),
        ("**/*.md", ["docs/e.md"]),
        ("a.py", ["a.py"]),
    ],
)
def test_an_absolute_pattern_is_taken_from_the_root(tree, below, expected):
    assert tree.glob(f"{tree.path}/{below}", start="docs") == found(*expected)


@pytest.mark.parametrize("pattern", ["/etc/*", "../*", "src/../../*", "/../etc/*"])
def test_a_pattern_that_leads_out_is_a_security_error(tree, pattern):
    with pytest.raises(SecurityError):
        tree.glob(pattern)


def test_a_sibling_with_the_same_beginning_is_outside(tree):
    with pytest.raises(SecurityError):
        tree.glob(f"{tree.path}-evil/*")


def test_ignored_files_appear_only_when_asked_for(yard):
    yard.write(".gitignore", "*.log\nbuild/\n!keep.log\n", mtime=1)
    for name in ("a.log", "keep.log", "build/b.log", "sub/c.log", ".git/d.log"):
        yard.write(name, mtime=1_000)
    assert yard.glob("*.log") == found("keep.log")
    assert yard.glob("**/*") == found("keep.log", ".gitignore")
    assert yard.glob("*.log", include_ignored=True) == found("a.log", "build/b.log", "keep.log", "sub/c.log")


def test_temporary_and_hidden_by_policy_never_appear(yard):
    yard.write(".toolyard-tmp-12")
    yard.write("secret/key.txt")
    yard.write("open.txt")
    assert yard.glob("*", visible=lambda path: "/secret/" not in path) == found("open.txt")
    assert yard.glob(".toolyard-tmp-*", include_ignored=True) == found()


def test_links_are_not_followed_nor_listed(yard, tmp_path):
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "canary.txt").write_text("x")
    os.symlink(outside, f"{yard.path}/link")
    os.symlink(outside / "canary.txt", f"{yard.path}/canary.txt")
    yard.write("real.txt")
    assert yard.glob("*.txt") == found("real.txt")


def test_too_many_files_are_cut_with_a_note(yard):
    for number in range(10):
        yard.write(f"{number}.txt", mtime=1_000 + number)
    assert yard.glob("*.txt", limits=Limits(list_entries=3)) == GlobResult(
        ("9.txt", "8.txt", "7.txt"), 10, True, "Showing the newest 3 of 10 files; narrow the pattern or the path."
    )


def test_any_name_is_found_and_shown_on_one_line(yard):
    for name in (b"new\nline.txt", b"latin-\xe9.txt", "ünï.txt".encode(), b"-dash.txt"):
        yard.write(name, mtime=1_000)
    assert yard.glob("*.txt") == found("-dash.txt", "latin-\\xe9.txt", "new\\nline.txt", "ünï.txt")


@pytest.mark.parametrize("pattern", ["", "a\0", "{a", "[a", "x" * 2_001, "\ud800"])
def test_a_pattern_that_cannot_be_right_is_a_validation_error(yard, pattern):
    with pytest.raises(ValidationError) as caught:
        yard.glob(pattern)
    assert [wrong.field for wrong in caught.value.fields] == ["pattern"]


def test_a_brace_bomb_is_answered_or_refused_in_time(yard):
    yard.write("aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaac")
    for bomb in ("{a,b}" * 300, "{" * 300 + "a" + "}" * 300, "{a,{a," * 150 + "b" + "}}" * 150, "*a" * 900):
        try:
            yard.glob(bomb, seconds=10)
        except (ValidationError, ToolError) as error:
            assert error.hint


def test_a_file_as_start_is_refused(yard):
    yard.write("a.py")
    with pytest.raises(ToolError, match="is a file"):
        yard.glob("*", start="a.py")

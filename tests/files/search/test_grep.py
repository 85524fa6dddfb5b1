"""Grep through its public door, in both confinements: the same answers."""

import os
import signal
import subprocess
import sys
import time

import pytest

from toolyard.core.errors import SecurityError, ToolError, ValidationError
from toolyard.core.limits import Limits
from toolyard.files.os_errors import printable_name
from toolyard.files.search import GrepResult


def result(*lines, files=None, matches=None, truncated=False, note=""):
    return GrepResult(
        tuple(lines), tuple(files if files is not None else lines), matches or len(lines), truncated, note
    )


NOTHING = GrepResult((), (), 0, False, "")


def test_files_come_newest_first_and_those_of_one_moment_by_name(yard):
    yard.write("old.py", mtime=1_000)
    yard.write("b/new.py", mtime=3_000)
    yard.write("a/middle.py", mtime=2_000)
    yard.write("a/alike.py", mtime=2_000)
    yard.write("none.py", "hay\n")
    assert yard.grep() == result("b/new.py", "a/alike.py", "a/middle.py", "old.py")


def test_content_shows_path_line_and_text_sorted_by_path(yard):
    yard.write("b.py", "hay\nneedle one\n")
    yard.write("a.py", "needle\r\nhay\nNEEDLE\n")
    assert yard.grep(output_mode="content") == result(
        "a.py:1:needle", "b.py:2:needle one", files=["a.py", "b.py"], matches=2
    )
    assert yard.grep(output_mode="content", case_insensitive=True, line_numbers=False) == result(
        "a.py:needle", "a.py:NEEDLE", "b.py:needle one", files=["a.py", "b.py"], matches=3
    )


def test_context_is_marked_by_dashes_and_groups_are_parted(yard):
    yard.write("a.py", "1\n2\nneedle\n4\n5\n6\n7\nneedle\n")
    yard.write("b.py", "0\nneedle\n")
    assert yard.grep(output_mode="content", context=1).lines == (
        "a.py-2-2",
        "a.py:3:needle",
        "a.py-4-4",
        "--",
        "a.py-7-7",
        "a.py:8:needle",
        "--",
        "b.py-1-0",
        "b.py:2:needle",
    )
    assert yard.grep(output_mode="content", before=2).matches == 3
    assert yard.grep(output_mode="content", start="b.py", after=1).lines == ("b.py:2:needle",)


def test_count_gives_lines_a_file(yard):
    yard.write("b.py", "needle\nneedle needle\n")
    yard.write("a.py")
    assert yard.grep(output_mode="count") == result("a.py:1", "b.py:2", files=["a.py", "b.py"], matches=3)


def test_nothing_found_is_an_empty_result(yard):
    yard.write("a.py", "hay\n")
    assert [yard.grep(output_mode=mode) for mode in ("content", "files_with_matches", "count")] == [NOTHING] * 3


def test_a_start_can_be_a_folder_a_file_or_a_link_inside_and_paths_stay_relative_to_the_root(yard):
    yard.write("src/deep/a.py")
    yard.write("other.py")
    os.symlink("src", f"{yard.path}/link")
    assert yard.grep(start="src") == result("src/deep/a.py")
    assert yard.grep(start="src/deep/a.py") == result("src/deep/a.py")
    assert yard.grep(start="link") == result("src/deep/a.py")
    assert yard.grep(start="src/deep/a.py", output_mode="content").lines == ("src/deep/a.py:1:needle",)


def test_a_start_outside_missing_or_special_is_refused(yard):
    os.symlink("/etc", f"{yard.path}/out")
    os.mkfifo(f"{yard.path}/pipe")
    for start, kind in (("out", SecurityError), ("../", SecurityError), ("gone", ToolError), ("pipe", SecurityError)):
        with pytest.raises(kind):
            yard.grep(start=start)


def test_glob_and_type_choose_the_files(yard):
    for name in ("a.py", "a.ts", "a.tsx", "sub/b.ts", "!odd.ts", "#odd.ts"):
        yard.write(name, mtime=1_000)
    assert yard.grep(glob="*.{ts,tsx}").lines == ("!odd.ts", "#odd.ts", "a.ts", "a.tsx", "sub/b.ts")
    assert yard.grep(glob="*.py, *.tsx").lines == ("a.py", "a.tsx")
    assert yard.grep(glob="sub/*").lines == ("sub/b.ts",)
    assert yard.grep(glob="!odd.ts").lines == ("!odd.ts",)
    assert yard.grep(glob="#odd.ts").lines == ("#odd.ts",)
    assert yard.grep(type="py").lines == ("a.py",)


def test_ignored_files_git_and_temporary_files_stay_out_and_hidden_ones_do_not(yard):
    yard.write(".gitignore", "*.log\nbuild/\n")
    for name in ("a.log", "build/a.py", ".git/config", ".toolyard-tmp-1234", "sub/.toolyard-tmp-9", "sub/.hidden"):
        yard.write(name)
    assert yard.grep() == result("sub/.hidden")
    assert yard.grep(start="sub") == result("sub/.hidden")
    assert yard.grep(glob=".toolyard-tmp-*") == NOTHING
    assert yard.grep(glob=".git/**") == NOTHING


def test_the_ignore_file_of_the_root_holds_for_a_folder_below(yard):
    yard.write(".gitignore", "*.log\n")
    yard.write("sub/a.log")
    yard.write("sub/a.py")
    assert yard.grep(start="sub") == result("sub/a.py")


@pytest.mark.parametrize("mode", ["content", "files_with_matches", "count"])
def test_what_the_policy_hides_leaves_no_trace_and_is_asked_once_a_file(yard, mode):
    yard.write("open.py", "needle\nneedle\n")
    yard.write("secret.py", "needle\nneedle\n")
    asked = []

    def visible(path):
        asked.append(path)
        return "secret" not in path

    found = yard.grep(output_mode=mode, visible=visible)
    assert (found.files, "secret" in repr(found), found.matches) == (("open.py",), False, 1 if "files" in mode else 2)
    assert sorted(asked) == [f"{yard.path}/open.py", f"{yard.path}/secret.py"]
    assert yard.grep(output_mode=mode, visible=visible, start="secret.py") == NOTHING


def test_a_hidden_files_lines_cannot_be_shown_under_a_forged_name(yard):
    """A folder named with a blank line, whose binary file makes ripgrep print a message between two files."""
    late_nul = b"needle\n" + b"y\n" * 70_000 + b"\0"
    yard.write("a\n\n./b", late_nul)
    yard.write("a\n\n.\nc", late_nul)
    yard.write("secret.py", "needle secret-word\n")
    for _ in range(5):
        found = yard.grep(output_mode="content", visible=lambda path: "secret" not in path)
        assert "secret-word" not in found.text


def test_names_of_any_kind_are_read_back(yard):
    names = ["ünï cödé.py", "new\nline.py", "a:1:b.py", "-dash.py", "--pre=x", "tab\t.py"]
    for name in names:
        yard.write(name, mtime=1_000)
    yard.write(b"latin-\xe9.py", mtime=1_000)
    expected = tuple(
        sorted(
            [*names, "latin-\\xe9.py"], key=lambda n: n.replace("\\xe9", "\udce9").encode(errors="surrogateescape")
        )
    )
    expected = tuple(printable_name(name) for name in expected)  # on one line each, whatever they hold
    assert yard.grep().files == expected
    assert yard.grep(output_mode="count").lines == tuple(f"{name}:1" for name in expected)
    assert set(yard.grep(output_mode="content").lines) == {f"{name}:1:needle" for name in expected}


def test_text_that_is_not_utf8_is_shown_with_replacement_characters(yard):
    yard.write("latin.txt", b"needle caf\xe9\n")
    assert yard.grep(output_mode="content").lines == ("latin.txt:1:needle caf\ufffd",)


@pytest.mark.parametrize(
    "pattern",
    [
        "--pre=cat",
        "-f/etc/passwd",
        "--files",
        "-",
        "--",
        "--no-ignore",
        "-z",
        "--type-add=x:*",
        "--hostname-bin=/bin/sh",
    ],
)
def test_options_smuggled_into_a_pattern_are_text_to_look_for(yard, pattern):
    yard.write("a.txt", f"say {pattern} now\n")
    yard.write("b.txt", "root:x:0:0\n")
    assert yard.grep(pattern).lines == ("a.txt",)


@pytest.mark.parametrize("glob", ["--pre=cat", "-f/etc/passwd", "!*.txt", "--files"])
def test_options_smuggled_into_a_glob_match_no_file(yard, glob):
    yard.write("a.txt")
    assert yard.grep(glob=glob) == NOTHING


@pytest.mark.parametrize(
    ("query", "field", "said"),
    [
        ({"pattern": "interface{}("}, "pattern", "regex parse error"),
        ({"pattern": ""}, "pattern", "empty"),
        ({"pattern": "a\0b"}, "pattern", "NUL"),
        ({"pattern": "\ud800"}, "pattern", "Unicode"),
        ({"pattern": "a" * 2_001}, "pattern", "longer"),
        ({"pattern": "(a{1000}){1000}"}, "pattern", "too large"),
        ({"pattern": "a\nb"}, "pattern", "line break"),
        ({"glob": "{a"}, "glob", "error parsing glob"),
        ({"glob": "a\0"}, "glob", "NUL"),
        ({"type": "pyhton"}, "type", "not a file type"),
        ({"type": "a:b"}, "type", "not a file type"),
        ({"type": ""}, "type", "empty"),
        ({"before": -1}, "before", "negative"),
        ({"context": 1_001}, "context", "more than"),
        ({"head_limit": -1}, "head_limit", "negative"),
        ({"output_mode": "json"}, "output_mode", "not one of"),
    ],
)
def test_what_cannot_be_right_is_a_validation_error_that_names_the_field(yard, query, field, said):
    yard.write("a.py")
    with pytest.raises(ValidationError) as caught:
        yard.grep(**query)
    assert [wrong.field for wrong in caught.value.fields] == [field]
    assert said in caught.value.message


def test_an_unknown_type_names_close_ones(yard):
    with pytest.raises(ValidationError) as caught:
        yard.grep(type="pyt")
    assert "py" in caught.value.hint.split(": ")[1]


def test_multiline_matches_across_lines(yard):
    yard.write("a.py", "start\nmiddle\nend\n")
    assert yard.grep("start.*end") == NOTHING
    assert yard.grep("start.*end", multiline=True) == result("a.py")


def test_pages_follow_one_another_without_a_gap(yard):
    yard.write("a.py", "".join(f"needle {n}\n" for n in range(10)))
    first = yard.grep(output_mode="content", head_limit=4)
    second = yard.grep(output_mode="content", head_limit=4, offset=4)
    last = yard.grep(output_mode="content", head_limit=4, offset=8)
    assert first.lines + second.lines + last.lines == tuple(f"a.py:{n + 1}:needle {n}" for n in range(10))
    assert (first.truncated, first.note) == (
        True,
        "Showing lines 1 to 4; there are more. Use offset 4 for what follows.",
    )
    assert (last.truncated, last.note, last.matches) == (False, "", 10)


def test_the_answer_fits_its_limit_and_long_lines_are_cut(yard):
    yard.write("min.js", "needle" + "x" * 100_000 + "\n")
    yard.write("many.js", "needle\n" * 1_000)
    found = yard.grep(output_mode="content", limits=Limits(output_chars=3_000))
    assert len(found.text) <= 3_000
    assert found.truncated
    assert len(yard.grep(output_mode="content", glob="min.js").text) < 700


def test_a_flood_of_matches_ends_the_search_early_and_says_so(yard):
    for n in range(12):
        yard.write(f"{n}.txt", "needle in a long enough line of hay\n" * 20_000)
    found = yard.grep(output_mode="content")
    assert (found.truncated, "stopped" in found.note) == (True, True)
    assert len(found.text) <= yard.limits.output_chars


def test_a_deadline_already_past_is_an_error_that_can_be_retried(yard):
    yard.write("a.py")
    with pytest.raises(ToolError) as caught:
        yard.grep("absent", seconds=-1)
    assert caught.value.retryable


@pytest.mark.skipif(os.geteuid() == 0, reason="root reads everything")
def test_an_unreadable_file_is_noted_and_the_rest_is_found(yard):
    yard.write("a.py")
    yard.write("locked.py")
    os.chmod(f"{yard.path}/locked.py", 0)
    assert yard.grep() == result("a.py", note="1 file or folder could not be read.")


def test_a_search_whose_master_is_killed_ends_by_itself(tmp_path):
    endless = tmp_path / "endless"
    with endless.open("wb") as file:
        file.truncate(1 << 40)  # a sparse file: hours of zeros without a match
    script = f"""
import os, signal, threading, time
from toolyard.core.limits import Limits
from toolyard.files.roots import Root
from toolyard.files.search import GrepQuery, grep
threading.Timer(0.5, lambda: os.kill(os.getpid(), signal.SIGKILL)).start()
grep(Root({str(tmp_path)!r}), ".", GrepQuery("x", "content"), visible=lambda _: True, limits=Limits(),
     cancel=threading.Event(), deadline=time.monotonic() + 2)
"""
    killed = subprocess.run([sys.executable, "-c", script], check=False, timeout=30)
    assert killed.returncode == -signal.SIGKILL

    def searching() -> bool:
        folders = [os.path.join("/proc", pid, "cwd") for pid in os.listdir("/proc") if pid.isdigit()]
        return any(os.path.islink(folder) and _leads_to(folder, str(tmp_path)) for folder in folders)

    until = time.monotonic() + 30
    while searching() and time.monotonic() < until:
        os.sched_yield()
    assert not searching()


def _leads_to(link: str, folder: str) -> bool:
    try:
        return os.readlink(link) == folder
    except OSError:
        return False

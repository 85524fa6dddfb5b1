"""Pages of files too large to read whole."""

from contextlib import closing

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.support.descriptors import count_open
from toolyard.core.errors import SystemFault, ToolError, ValidationError
from toolyard.core.limits import Limits
from toolyard.files import large_file_pages
from toolyard.files.file_io import is_large
from toolyard.files.large_file_pages import read_large_page
from toolyard.files.mounts import Mounts

SMALL = Limits(file_bytes=10)


@pytest.fixture
def page(tmp_path):
    """Reads a page of a file with the given content."""
    with closing(Mounts(str(tmp_path))) as mounts:

        def read(data, first=1, count=100, limits=SMALL, check_time=lambda: None):
            (tmp_path / "big.txt").write_bytes(data)
            with mounts.find(mounts.clean("big.txt")) as target:
                assert is_large(target, limits)
                return read_large_page(target, first, count, limits, check_time)

        yield read


LINES = b"".join(b"line %d\n" % n for n in range(1, 101))


def test_the_wanted_lines_are_numbered_and_the_rest_is_counted(page):
    got = page(LINES, 10, 2)

    assert (got.content.split(), got.first_line, got.line_count, got.total_lines, got.truncated) == (
        ["line", "10", "line", "11"],
        10,
        2,
        100,
        True,
    )
    assert got.note == "Lines 10-11 of 100. Use offset=12 for what follows."


def test_the_last_page_says_that_nothing_follows(page):
    got = page(LINES, 99, 50)

    assert (got.line_count, got.truncated, got.note) == (2, True, "Lines 99-100 of 100.")


@pytest.mark.parametrize("end", [b"", b"\n"], ids=["without-end", "with-end"])
def test_a_last_line_counts_with_or_without_its_end(page, end):
    data = b"first line\nsecond line\nthird" + end

    assert (page(data, 3).content.split(), page(data, 1).total_lines) == (["third"], 3)
    for beyond in (4, 5, 400):
        with pytest.raises(ToolError, match="has only 3 lines"):
            page(data, beyond)


def test_lines_start_at_one(page):
    with pytest.raises(ValidationError, match="offset"):
        page(LINES, 0)


def test_a_page_ends_when_it_is_as_long_as_a_result_may_be(page):
    got = page(LINES, 1, 100, Limits(file_bytes=10, output_chars=20))

    assert (got.line_count, got.total_lines, got.truncated) == (3, 100, True)


def test_a_very_long_line_is_cut_in_the_page_and_counted_once(page):
    data = b"x" * 3_000_000 + b"\nafter\n"

    got = page(data, 1, 2, Limits(file_bytes=10, line_chars=50))

    assert (got.line_count, got.total_lines) == (2, 2)
    assert len(got.content) < 300
    assert "after" in got.content


def test_windows_line_ends_are_not_shown(page):
    assert "\r" not in page(b"one\r\ntwo\r\nthree\r\n").content


def test_bytes_that_are_not_text_are_not_paged(page):
    with pytest.raises(ToolError, match="not text"):
        page(b"\x00\x01\x02" * 100)


@pytest.mark.parametrize("first", [1, 90_000], ids=["counting", "skipping"])
def test_the_deadline_is_looked_at_on_the_way(page, first):
    class StopError(Exception):
        pass

    def stop():
        raise StopError

    with pytest.raises(StopError):
        page(b"some text\n" * 300_000, first, 1, check_time=stop)


def test_the_deadline_is_looked_at_in_one_endless_line(page, monkeypatch):
    looks = []
    monkeypatch.setattr(large_file_pages, "_count_rest", lambda stream, check_time: 0)

    page(b"x" * 5_000_000, 1, 1, check_time=lambda: looks.append(1))

    assert len(looks) >= 4


def test_a_disk_that_fails_while_reading_is_a_fault_of_the_machine(page, monkeypatch):
    def broken(*arguments):
        raise OSError(5, "Input/output error")

    monkeypatch.setattr(large_file_pages, "_skip", broken)

    with pytest.raises(SystemFault, match="Input/output error"):
        page(LINES, 5)


def test_no_descriptor_is_left_behind(page):
    before = count_open()

    page(LINES)
    with pytest.raises(ToolError):
        page(LINES, 1000)

    assert count_open() == before


def test_small_files_and_folders_are_not_large(tmp_path):
    (tmp_path / "small").write_bytes(b"x" * 10)
    with closing(Mounts(str(tmp_path))) as mounts:
        for path in ("small", ".", "missing"):
            with mounts.find(mounts.clean(path)) as target:
                assert not is_large(target, SMALL)


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    lines=st.lists(st.text("ab \u00e9", min_size=1, max_size=8), min_size=12, max_size=60),
    ended=st.booleans(),
    first=st.integers(1, 70),
    count=st.integers(1, 70),
    chunk=st.integers(1, 64),
)
def test_any_page_holds_exactly_the_lines_it_names(page, lines, ended, first, count, chunk):
    data = ("\n".join(lines) + "\n" * ended).encode()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(large_file_pages, "_CHUNK", chunk)
        if first > len(lines):
            with pytest.raises(ToolError, match=f"has only {len(lines)} lines"):
                page(data, first, count)
            return
        got = page(data, first, count)

    wanted = lines[first - 1 : first - 1 + count]
    assert got.content.split("\n") == [*wanted, ""]
    assert (got.line_count, got.total_lines) == (len(wanted), len(lines))

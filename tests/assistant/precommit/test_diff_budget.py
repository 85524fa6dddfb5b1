"""A change gets as much of the room as there is, and what finds none is counted."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolyard.assistant.precommit import ChangeStatus, FileChange
from toolyard.assistant.precommit.diff_budget import fit_diff
from toolyard.core.tokens import count_tokens

CLOSING_TOKENS = 20


def never():
    pass


def added(path, lines, **more):
    head = [f"diff --git a/{path} b/{path}", "new file mode 100644", "--- /dev/null", f"+++ b/{path}"]
    body = [f"+value_{number} = compute({number})" for number in range(lines)]
    diff = "\n".join([*head, f"@@ -0,0 +1,{lines} @@", *body])
    return FileChange(path, ChangeStatus.ADDED, is_staged=True, diff=diff, **more)


def test_while_there_is_room_all_is_shown():
    fitted = fit_diff([added("a.py", 3), added("b.py", 30)], 1_000, never)

    assert (fitted.lines, fitted.total_lines) == (8 + 35, 8 + 35)
    assert (fitted.long_lines, fitted.truncated_files, fitted.omitted_files) == (0, (), ())
    assert "[..." not in fitted.text


def test_a_long_file_leaves_short_ones_whole_and_its_own_rest_is_counted():
    fitted = fit_diff([added("a.py", 3_000), added("b.py", 3)], 1_000, never)

    shown = fitted.text.count(" +value_") - 3
    assert (fitted.truncated_files, fitted.omitted_files) == (("a.py",), ())
    assert f"[... {3_000 - shown:,} more lines of this change]" in fitted.text
    assert fitted.total_lines - fitted.lines == 3_000 - shown
    assert 800 < count_tokens(fitted.text) <= 1_000


def test_lines_that_were_never_kept_are_counted_as_well():
    fitted = fit_diff([added("a.py", 10, left_out=55_000)], 10_000, never)

    assert "[... 55,000 more lines of this change]" in fitted.text
    assert (fitted.lines, fitted.total_lines, fitted.truncated_files) == (15, 55_015, ("a.py",))


def test_where_there_is_too_little_for_all_the_first_files_get_it():
    fitted = fit_diff([added(f"m{number}.py", 500) for number in range(50)], 2_000, never)

    assert fitted.truncated_files == ("m0.py", "m1.py", "m2.py", "m3.py", "m4.py")
    assert len(fitted.omitted_files) == 45
    assert fitted.text.endswith(f"[... 45 more changes with {45 * 505:,} lines, not shown]")


def test_a_file_of_which_only_names_would_be_shown_is_left_out():
    path = "very/" * 60 + "long.py"

    fitted = fit_diff([added(path, 500)], 500, never)

    assert (fitted.lines, fitted.omitted_files) == (0, (path,))


def test_a_file_with_two_changes_of_which_one_is_shown_is_shown_in_part():
    fitted = fit_diff([added("a.py", 5), added("a.py", 500)], 150, never)

    assert (fitted.truncated_files, fitted.omitted_files) == (("a.py",), ())


def test_what_may_not_be_shown_counts_for_nothing():
    hidden = FileChange("b.env", ChangeStatus.ADDED, is_staged=True, withheld="it is a file for secrets")

    fitted = fit_diff([hidden, added("a.py", 2)], 1_000, never)

    assert fitted.text.startswith("=== b.env (added, staged)\n[not shown: it is a file for secrets]\n")
    assert (fitted.lines, fitted.total_lines, fitted.omitted_files) == (7, 7, ())


def test_whoever_has_no_more_time_is_told_so():
    class OverdueError(Exception):
        pass

    def overdue():
        raise OverdueError

    with pytest.raises(OverdueError):
        fit_diff([added("a.py", 10)], 1_000, overdue)


@given(st.lists(st.integers(0, 400), max_size=12), st.integers(-10, 4_000))
def test_the_room_is_never_exceeded_and_every_line_is_accounted_for(sizes, room):
    changes = [added(f"m{number}.py", lines) for number, lines in enumerate(sizes)]

    fitted = fit_diff(changes, room, never)

    assert count_tokens(fitted.text) <= max(room, CLOSING_TOKENS)
    assert fitted.total_lines == sum(lines + 5 for lines in sizes)
    whole = {change.path for change in changes}.difference(fitted.truncated_files, fitted.omitted_files)
    assert len(whole) + len(fitted.truncated_files) + len(fitted.omitted_files) == len(sizes)
    assert (fitted.lines == fitted.total_lines) is (len(whole) == len(sizes))
    assert fitted.lines == sum(not line.startswith(("=== ", "[... ")) for line in fitted.text.split("\n") if line)

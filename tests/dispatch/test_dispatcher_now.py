"""Quick calls run in the caller's thread. What may take long is left for a thread, as if it had not been tried."""

import fcntl
import os

import pytest

from toolyard.app.toolsets import Toolset, tools_of
from toolyard.core.calls import Call
from toolyard.core.errors import SecurityError, SystemFault, ToolError, ValidationError
from toolyard.core.permission_modes import PermissionMode
from toolyard.dispatch.dispatcher import CallDispatcher

MUCH = 300_000
LATIN = "caf\xe9 cr\xe8me br\xfbl\xe9e \xe0 la no\xebl d'\xe9t\xe9 \xe9ph\xe9m\xe8re o\xf9 \xe7a \xf4te \n".encode(
    "cp1252"
)


@pytest.fixture
def served(bench):
    """The served tools on the bench's workspace, in a given mode."""
    made = []

    def make(mode=PermissionMode.STRICT):
        made.append(CallDispatcher(tools_of(Toolset.CLAUDE), {}, bench.resources(mode), bench.log))
        return made[-1]

    yield make
    bench.log.broken = False
    for dispatch in made:
        dispatch.close()


def called(tool, /, **arguments):
    return Call(tool, arguments, "test", session="s", id="c1")


def write(bench, name, data):
    with open(os.path.join(bench.workspace, name), "wb") as file:
        file.write(data)


def test_a_quick_call_is_done_when_it_returns_and_recorded_once(bench, served):
    assert served().try_run_inline(called("Read", file_path="a.txt")).structured["content"] == "a"
    assert bench.log.outcomes == ["ok"]


@pytest.mark.parametrize(
    ("name", "data"),
    [
        ("long.txt", b"x" * MUCH),
        ("guess.txt", LATIN * 10),
        ("pdf-by-content.txt", b"%PDF-1.4\n"),
        ("pdf-by-name.pdf", b"text\n%PDF-1.4\n"),
        ("notebook.ipynb", b"{}"),
    ],
)
@pytest.mark.parametrize("spelling", ["{}", "{}/.", "./{}/", "link to {}"])
def test_a_file_that_takes_long_to_show_is_left_for_a_thread(bench, served, name, data, spelling):
    write(bench, name, data)
    os.symlink(name, f"{bench.workspace}/link to {name}")
    assert served().try_run_inline(called("Read", file_path=spelling.format(name))) is None
    assert bench.log.events == []


@pytest.mark.parametrize(
    "arguments",
    [
        {"file_path": "long.txt", "old_string": "y", "new_string": "z"},
        {"file_path": "guess.txt", "old_string": "cr", "new_string": "z"},
        {"file_path": "a.txt", "old_string": "a" * MUCH, "new_string": "z"},
        {"file_path": "a.txt", "old_string": "a", "new_string": "z" * MUCH},
    ],
)
def test_an_edit_of_much_text_is_left_for_a_thread_and_changes_nothing(bench, served, arguments):
    write(bench, "long.txt", b"x" * MUCH + b"y")
    write(bench, "guess.txt", LATIN * 10)
    before = {name: os.stat(f"{bench.workspace}/{name}").st_ino for name in os.listdir(bench.workspace)}
    assert served().try_run_inline(called("Edit", **arguments)) is None
    assert {name: os.stat(f"{bench.workspace}/{name}").st_ino for name in os.listdir(bench.workspace)} == before
    assert bench.log.events == []


@pytest.mark.parametrize("tool", ["Write", "Edit"])
def test_a_folder_that_somebody_keeps_locked_is_waited_for_in_a_thread(bench, served, tool):
    texts = {"content": "b"} if tool == "Write" else {"old_string": "a", "new_string": "b"}
    name = "new.txt" if tool == "Write" else "a.txt"
    folder = os.open(bench.workspace, os.O_RDONLY)
    try:
        fcntl.flock(folder, fcntl.LOCK_EX)
        assert served().try_run_inline(called(tool, file_path=name, **texts)) is None
    finally:
        os.close(folder)
    assert bench.log.events == []
    assert served().try_run_inline(called(tool, file_path=name, **texts)) is not None
    assert bench.log.outcomes == ["ok"]


def test_what_lies_beyond_the_roots_is_left_for_a_thread(bench, served):
    outside = os.path.join(os.path.dirname(bench.workspace), "outside.txt")
    assert served(PermissionMode.BYPASS).try_run_inline(called("Read", file_path=outside)) is None
    assert served(PermissionMode.BYPASS).try_run_inline(called("Read", file_path="/proc/self/maps")) is None
    assert bench.log.events == []


def test_another_disk_inside_the_root_is_left_for_a_thread(bench, served):
    bench.mounts.workspace.device += 1
    assert served().try_run_inline(called("Read", file_path="a.txt")) is None
    assert bench.log.events == []


def test_a_question_is_left_for_a_thread(bench, served):
    asking = served(PermissionMode.DEFAULT)
    assert asking.try_run_inline(called("Write", file_path="b.txt", content="b")) is None
    assert (bench.log.events, os.listdir(bench.workspace)) == ([], ["a.txt"])


@pytest.mark.parametrize(
    ("arguments", "kind", "outcome"),
    [
        ({"file_path": "missing.txt"}, ToolError, "failed"),
        ({"file_path": "../outside.txt"}, SecurityError, "denied"),
        ({"path": "a.txt"}, ValidationError, "invalid"),
    ],
)
def test_a_quick_call_that_fails_is_recorded_once(bench, served, arguments, kind, outcome):
    with pytest.raises(kind):
        served().try_run_inline(called("Read", **arguments))
    assert bench.log.outcomes == [outcome]


def test_a_quick_call_that_cannot_be_recorded_is_an_error_and_stops_the_next_before_it_runs(bench, served):
    dispatch = served()
    bench.log.broken = True
    with pytest.raises(SystemFault, match="was carried out, but could not be recorded"):
        dispatch.try_run_inline(called("Write", file_path="b.txt", content="b"))
    with pytest.raises(SystemFault, match="was not run"):
        dispatch.try_run_inline(called("Write", file_path="c.txt", content="c"))
    assert sorted(os.listdir(bench.workspace)) == ["a.txt", "b.txt"]
    bench.log.broken = False
    assert dispatch.try_run_inline(called("Read", file_path="a.txt"))
    assert bench.log.outcomes == ["ok", "failed", "ok"]

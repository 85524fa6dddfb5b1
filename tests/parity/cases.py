"""The calls that are made to Claude Code's own tools and to ours.

`WS` stands for the folder of a case, `TASK` for the id of the background command that the case started last.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

Call = tuple[str, dict[str, Any]]

CELLS = [
    {
        "cell_type": "code",
        "execution_count": 3,
        "id": "first",
        "metadata": {},
        "outputs": [{"name": "stdout", "output_type": "stream", "text": ["1\n"]}],
        "source": ["x = 1\n", "print(x)"],
    },
    {"cell_type": "markdown", "id": "second", "metadata": {}, "source": "# Title"},
]
NOTEBOOK = json.dumps({"cells": CELLS, "metadata": {}, "nbformat": 4, "nbformat_minor": 5}, indent=1) + "\n"
THREE = "one\ntwo\nthree\n"
ENDS_IN_FRONT = {"CLAUDE_CODE_DISABLE_BACKGROUND_TASKS": "1"}
"""Lets Claude Code end a command whose time is up; by default it goes on in the background."""


@dataclass(frozen=True)
class Case:
    name: str
    calls: tuple[Call, ...]
    files: Mapping[str, str | bytes] = field(default_factory=dict[str, str | bytes])
    environment: Mapping[str, str] = field(default_factory=dict[str, str])
    """For Claude Code alone."""
    tested: int = -1
    """Which of the calls is compared; those before it only prepare it."""


def read(**more: Any) -> Call:
    return "Read", {"file_path": "WS/a.txt", **more}


def write(content: str, name: str = "a.txt") -> Call:
    return "Write", {"file_path": f"WS/{name}", "content": content}


def edit(old: str, new: str, **more: Any) -> Call:
    return "Edit", {"file_path": "WS/a.txt", "old_string": old, "new_string": new, **more}


def bash(command: str, **more: Any) -> Call:
    return "Bash", {"command": command, **more}


def cell(source: str, **more: Any) -> Call:
    return "NotebookEdit", {"notebook_path": "WS/n.ipynb", "new_source": source, **more}


READ_NOTEBOOK: Call = ("Read", {"file_path": "WS/n.ipynb"})
A = {"a.txt": THREE}
N = {"n.ipynb": NOTEBOOK}
TREE = {"a.py": "x = 1\n", "deep/b.py": "y = 2\nx = 3\n", "c.txt": "nothing\n"}

CASES = (
    Case("read", (read(),), A),
    Case("read a page", (read(offset=2, limit=1),), A),
    Case("read past the end", (read(offset=9),), A),
    Case("read a file that is not there", (read(),)),
    Case("read a folder", (("Read", {"file_path": "WS"}),), A),
    Case("read an empty file", (read(),), {"a.txt": ""}),
    Case("read Windows line ends", (read(),), {"a.txt": "a\r\nb\r\n"}),
    Case("read a binary file", (read(),), {"a.txt": b"\x7fELF\0\0\1"}),
    Case("read without a path", (("Read", {}),)),
    Case("read a notebook", (READ_NOTEBOOK,), N),
    Case("write a new file", (write("n\n", "deep/new.txt"),)),
    Case("write over an unread file", (write("x\n"),), A),
    Case("write over an unread empty file", (write("x\n"),), {"a.txt": ""}),
    Case("write over a file that was read", (read(), write("one\nTWO\nthree\n")), A),
    Case("write over a file that was read in part", (read(limit=1), write("x\n")), A),
    Case("write after somebody else", (read(), bash("echo four >> WS/a.txt"), write("x\n")), A),
    Case("edit", (read(), edit("two", "2")), A),
    Case("edit an unread file", (edit("two", "2"),), A),
    Case("edit after somebody else", (read(), bash("echo four >> WS/a.txt"), edit("two", "2")), A),
    Case("edit text that is not there", (read(), edit("four", "4")), A),
    Case("edit text that occurs twice", (read(), edit("x", "y")), {"a.txt": "x\nx\n"}),
    Case("edit all occurrences", (read(), edit("x", "y", replace_all=True)), {"a.txt": "x\nx\n"}),
    Case("edit Windows line ends", (read(), edit("a\nb", "c\nd")), {"a.txt": "a\r\nb\r\n"}),
    Case("edit a new file into being", (edit("", "made\n"),)),
    Case(
        "edit a notebook as text",
        (READ_NOTEBOOK, ("Edit", {"file_path": "WS/n.ipynb", "old_string": "Title", "new_string": "T"})),
        N,
    ),
    Case(
        "edit several places at once",
        (read(), ("MultiEdit", {"file_path": "WS/a.txt", "edits": [{"old_string": "one", "new_string": "1"}]})),
        A,
    ),
    Case("replace a cell", (READ_NOTEBOOK, cell("x = 2\n", cell_id="first")), N),
    Case("replace a cell of an unread notebook", (cell("x = 2\n", cell_id="first"),), N),
    Case("turn a code cell into markdown", (READ_NOTEBOOK, cell("# T", cell_id="first", cell_type="markdown")), N),
    Case("insert a cell", (READ_NOTEBOOK, cell("new", cell_id="first", edit_mode="insert", cell_type="code")), N),
    Case("delete a cell", (READ_NOTEBOOK, cell("", cell_id="first", edit_mode="delete")), N),
    Case("replace a cell that is not there", (READ_NOTEBOOK, cell("x", cell_id="third")), N),
    Case("insert a cell of no type", (READ_NOTEBOOK, cell("x", edit_mode="insert")), N),
    Case("run a command", (bash("echo out; echo err >&2"),)),
    Case("run a command that fails", (bash("echo out; echo err >&2; exit 3"),)),
    Case("run a command that prints nothing", (bash("true"),)),
    Case("change the folder", (bash("cd WS/deep && pwd"), bash("pwd"), bash("cd WS/..")), {"deep/x": ""}, tested=1),
    Case("print more than is shown", (bash("seq 1 8000"),)),
    Case("print more than is shown, and fail", (bash("seq 1 8000; exit 2"),)),
    Case(
        "run out of time", (bash("trap 'echo cleaned > WS/x; exit 5' TERM; echo up; sleep 20 & wait", timeout=1_500),)
    ),
    Case(
        "run out of time in front",
        (bash("trap 'echo cleaned > WS/x; exit 5' TERM; echo up; sleep 20 & wait", timeout=1_500),),
        environment=ENDS_IN_FRONT,
    ),
    Case("leave the sandbox", (bash("echo out", dangerouslyDisableSandbox=True),)),
    Case(
        "wait for a background command",
        (
            bash("sleep 0.5; echo out", run_in_background=True),
            bash("sleep 3; echo waited"),
            ("BashOutput", {"bash_id": "TASK"}),
        ),
    ),
    Case(
        "end a background command",
        (bash("sleep 60", run_in_background=True), ("KillShell", {"shell_id": "TASK"})),
    ),
    Case("ask for a background command that is not there", (("BashOutput", {"bash_id": "none"}),)),
    Case("search files", (("Grep", {"pattern": "x", "path": "WS"}),), {"a.py": "x = 1\n", "c.txt": "nothing\n"}),
    Case("search and show lines", (("Grep", {"pattern": "x", "path": "WS/a.py", "output_mode": "content"}),), TREE),
    Case("search for what is not there", (("Grep", {"pattern": "nowhere", "path": "WS"}),), TREE),
    Case("count matches", (("Grep", {"pattern": "x", "path": "WS/deep", "output_mode": "count"}),), TREE),
    Case("find files", (("Glob", {"pattern": "**/b.py", "path": "WS"}),), TREE),
    Case("find no files", (("Glob", {"pattern": "*.none", "path": "WS"}),), TREE),
    Case("list a folder", (("LS", {"path": "WS"}),), {"a.py": ""}),
)

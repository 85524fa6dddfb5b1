"""Detects the tools that touch files, and notifies callbacks after each such call.

Toolyard's own tools and those of the reference filesystem server are known by name, under any prefix that clients
add. For other tools `learn` evaluates annotations and schema. A tool without a description and with an unknown name
is not treated as touching files; the watcher still sees what it changes in a workspace.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, cast


class OperationOutcome(StrEnum):
    """How a file operation ended."""

    OK = "ok"
    DENIED = "denied"
    FAILED = "failed"


@dataclass(frozen=True, slots=True)
class Origin:
    """Who made a call. Unknown parts are empty."""

    agent: str = ""
    session: str = ""
    call: str = ""
    """The id of the call, as in the audit log."""
    surface: str = ""
    """The transport of the call, as in the audit log; `code` for a call by code in the sandbox."""


@dataclass(frozen=True, slots=True)
class FileOperation:
    """One call of a tool that reads or changes files."""

    tool_name: str
    arguments: Mapping[str, Any]
    outcome: OperationOutcome = OperationOutcome.OK
    paths: tuple[str, ...] = ()
    """The absolute paths that it named or touched; unknown for a command until the next snapshot."""
    changes_files: bool = False
    """Whether the tool may change files."""
    snapshot: str = ""
    """The newest snapshot at that time, from before the change; empty if there is none."""
    origin: Origin = Origin()
    time_ns: int = field(default_factory=time.time_ns)


Callback = Callable[[FileOperation], object]
OrchestratorCallback = Callable[[str, dict[str, Any]], object]
OPERATION = "filesystem_operation"
"""The event name that an orchestrator receives."""

READING_TOOLS = frozenset(
    {
        *("Read", "Grep", "Glob", "LS", "BashOutput", "NotebookRead"),
        *("read_file", "read_text_file", "read_media_file", "read_multiple_files", "list_directory"),
        *("list_directory_with_sizes", "directory_tree", "search_files", "get_file_info", "list_allowed_directories"),
        *("read", "read_many_files", "grep", "grep_search", "glob", "list", "ls", "view", "view_image"),
        *("list_dir", "list_files", "view_file", "file_search", "codebase_search", "search_file_content"),
        *("snapshot_list", "snapshot_show", "snapshot_diff", "shared_list", "shared_read", "memory_search"),
    }
)
CHANGING_TOOLS = frozenset(
    {
        *("Write", "Edit", "MultiEdit", "NotebookEdit", "Bash", "KillShell", "execute_bash", "execute_python"),
        *("write_file", "edit_file", "create_directory", "move_file"),
        *("bash", "shell", "shell_command", "exec_command", "local_shell", "run_shell_command", "run_terminal_cmd"),
        *("write", "edit", "replace", "patch", "apply_patch", "create_file", "delete_file", "search_replace"),
        *("str_replace_editor", "str_replace_based_edit_tool", "write_stdin", "text_editor", "multiedit"),
        *("write_to_file", "replace_in_file", "apply_diff", "insert_content", "search_and_replace"),
        *("insert_edit_into_file", "replace_string_in_file", "multi_replace_string_in_file", "edit_notebook_file"),
        *(
            "replace_file_content",
            "multi_replace_file_content",
            "edit_notebook",
            "copy_path",
            "move_path",
            "delete_path",
        ),
        *("execute_command", "run_command", "run_in_terminal", "terminal"),
        *("snapshot_create", "snapshot_restore", "snapshot_gc", "shared_merge", "memory_remember"),
    }
)
"""Tools that may change files, including those that run commands and code. Lower-case names belong to CLIs and
editors.
"""
_MCP_PREFIX = "mcp_"
"""Gemini CLI and Qwen Code name a server's tool `mcp_<server>_<tool>`, OpenCode `<server>_<tool>`."""
_SEPARATORS = re.compile(r"__|[./:]")
"""What prefixes end in: `mcp__filesystem__write_file`, `filesystem.write_file`, `filesystem/write_file`."""
_WORDS = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+")
_PATH_WORDS = frozenset(
    {*("path", "paths", "file", "files", "filename", "filepath"), *("directory", "folder", "dir", "cwd")}
)
_PATH_FORMATS = frozenset({"path", "file-path", "directory-path"})
_CHANGING_WORDS = frozenset(
    {
        *("add", "append", "apply", "change", "chmod", "clean", "clear", "commit", "copy", "create", "delete"),
        *("edit", "erase", "export", "extract", "format", "generate", "init", "insert", "install", "make", "merge"),
        *("mkdir", "modify", "move", "overwrite", "patch", "put", "remove", "rename", "replace", "reset", "restore"),
        *("revert", "rm", "rmdir", "save", "set", "stage", "store", "touch", "truncate", "unzip", "update"),
        *("upload", "write"),
    }
)
_MOST_LEARNT = 10_000
_MOST_PROPERTIES = 200
_NS = 10**9
_UNKNOWN = Origin()


@dataclass(frozen=True, slots=True)
class _Facts:
    touches: bool
    changes: bool


class FilesystemToolDetector:
    """Decides which tools touch files. Thread-safe; a query costs one lookup."""

    def __init__(self) -> None:
        self._learned: dict[str, _Facts] = {}
        self.callbacks: list[Callback] = []
        """Called after each file operation; see `register_callback`."""

    def is_filesystem_operation(self, name: str) -> bool:
        """Returns whether a tool reads or changes files."""
        learnt = self._learned.get(name)
        return learnt.touches if learnt is not None else any(_name_matches(name, READING_TOOLS | CHANGING_TOOLS))

    def changes_files(self, name: str) -> bool:
        """Returns whether a tool may change files."""
        learnt = self._learned.get(name)
        return learnt.changes if learnt is not None else any(_name_matches(name, CHANGING_TOOLS))

    def learn(
        self,
        name: str,
        input_schema: Mapping[str, Any] | None = None,
        annotations: Mapping[str, Any] | None = None,
    ) -> bool:
        """Evaluates a server's description of a tool, and returns whether the tool may change files.

        A known name takes precedence.
        """
        hints = annotations or {}
        says_reads, says_changes = (hints.get("readOnlyHint") is known for known in (True, False))
        is_named_changing = any(_name_matches(name, CHANGING_TOOLS))
        has_path = _has_path(input_schema or {})
        by_schema = has_path and not says_reads and not _CHANGING_WORDS.isdisjoint(_split_words(_bare_name(name)))
        changes = is_named_changing or says_changes or hints.get("destructiveHint") is True or by_schema
        touches = changes or has_path or any(_name_matches(name, READING_TOOLS))
        if len(self._learned) >= _MOST_LEARNT:
            self._learned.clear()
        self._learned[name] = _Facts(touches, changes)
        return changes

    def register_callback(self, callback: Callback) -> None:
        """Calls `callback` with each FileOperation after it ended, in the thread that ran it.

        It must return quickly: the call's result waits for it. Its exceptions are dropped.
        """
        self.callbacks.append(callback)

    def register_orchestrator(self, callback: OrchestratorCallback, *, agent_id: str, workspace: str) -> None:
        """Calls an orchestrator with `filesystem_operation` and one dictionary for each operation.

        Its keys are agent_id, session, tool_name, workspace, operation_args, outcome (ok, denied, failed), paths,
        changes_files, snapshot and time (seconds since 1970).
        """

        def notify(operation: FileOperation) -> None:
            event: dict[str, Any] = {
                "agent_id": agent_id,
                "session": operation.origin.session,
                "tool_name": operation.tool_name,
                "workspace": workspace,
                "operation_args": dict(operation.arguments),
                "outcome": operation.outcome.value,
                "paths": list(operation.paths),
                "changes_files": operation.changes_files,
                "snapshot": operation.snapshot,
                "time": operation.time_ns / _NS,
            }
            callback(OPERATION, event)

        self.register_callback(notify)

    def notify_filesystem_operation(
        self,
        tool_name: str,
        args: Mapping[str, Any],
        *,
        outcome: OperationOutcome = OperationOutcome.OK,
        paths: Iterable[str] = (),
        snapshot: str = "",
        origin: Origin = _UNKNOWN,
    ) -> None:
        """Calls every callback for a tool call, if the tool touches files."""
        if not self.callbacks or not self.is_filesystem_operation(tool_name):
            return
        changes = self.changes_files(tool_name)
        operation = FileOperation(tool_name, args, outcome, tuple(dict.fromkeys(paths)), changes, snapshot, origin)
        for callback in tuple(self.callbacks):
            try:
                callback(operation)
            except Exception:  # noqa: BLE001, S112 - a failing callback must not affect the call or other callbacks
                continue


def _name_matches(name: str, names: frozenset[str]) -> Iterator[bool]:
    """Yields whether the name, or the part after a prefix, is one of these."""
    yield name in names
    bare = _bare_name(name)
    yield bare in names
    is_prefixed = bare.startswith(_MCP_PREFIX)
    words = bare.split("_")
    for first in range(1, len(words)):
        # Without an MCP prefix `no_edit` must not match `edit`; `toolyard_Write` and `files_write_file` are clear.
        tail = "_".join(words[first:])
        yield tail in names and (is_prefixed or "_" in tail or not tail.islower())


def _bare_name(name: str) -> str:
    return _SEPARATORS.split(name)[-1]


def _split_words(name: str) -> set[str]:
    return {word.lower() for word in _WORDS.findall(name)}


def _has_path(schema: Mapping[str, Any]) -> bool:
    """Returns whether one of the arguments is the name of a file or folder."""
    properties: object = schema.get("properties")
    if not isinstance(properties, dict):
        return False
    for name, about in list(cast("dict[str, object]", properties).items())[:_MOST_PROPERTIES]:
        if not _PATH_WORDS.isdisjoint(_split_words(str(name))):
            return True
        if isinstance(about, dict) and cast("dict[str, object]", about).get("format") in _PATH_FORMATS:
            return True
    return False

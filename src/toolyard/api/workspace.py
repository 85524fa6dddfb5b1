"""`Workspace`: the tools of one workspace, called from Python.

A Workspace owns its Yard and an event loop in its own thread, from the first call until `close()`. All calls run on
that loop, so plain functions, coroutines and threads can share a Workspace.
"""

from __future__ import annotations

import asyncio
import logging
import os
import threading
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, Self

from toolyard.app.toolsets import parse_toolsets
from toolyard.app.yard import Yard
from toolyard.app.yard_options import YardOptions
from toolyard.config.agents import select_agent
from toolyard.config.loader import load_config
from toolyard.config.models import Config
from toolyard.config.suggestions import did_you_mean
from toolyard.core.calls import ApprovalCallback, Call, Result, deny_without_asking
from toolyard.core.errors import SystemFault, ValidationError
from toolyard.core.loop_thread import LoopThread
from toolyard.core.permission_modes import PermissionMode
from toolyard.core.threaded_open import close_in_thread
from toolyard.drivers.approval_callback import approval_on_caller_loop, is_approved
from toolyard.team.paths import make_folders, with_layout, workspace_of

if TYPE_CHECKING:
    from toolyard.drivers.approval_callback import SyncApprovalCallback
    from toolyard.drivers.messages import Fault

SURFACE: Final = "python"
"""The name of this way in, in the audit log."""

_log = logging.getLogger("toolyard")


@dataclass(frozen=True, slots=True)
class ToolInfo:
    """What a model needs to know to call a tool: the fields of an MCP tool."""

    name: str
    description: str
    input_schema: dict[str, Any]
    """The arguments, as JSON Schema."""
    read_only: bool
    """Whether the tool changes nothing."""
    destructive: bool
    """Whether the tool may delete or overwrite."""


class Workspace:
    """An open workspace whose tools are called from Python, with its policy, snapshots, sandbox and audit log.

    Args:
        folder: The workspace's folder. May be left out if `config` names the agent's folder.
        config: A configuration, or the path of its file. No file is searched for. The file counts as trusted, as one
            that is named with `--config`.
        agent: The agent's id. Needed if the configuration has several agents.
        permission_mode: A `PermissionMode` or its name, such as `"acceptEdits"`. Default: as the configuration says,
            else `strict`.
        tools: The sets of tools: `claude`, `reference`, `code`, `minimal`, `workspace`, `all`, or several of them.
        state: The folder for snapshots and the audit log. Default: the user's state folder.
        approve: Called with an `Action` and a `Decision` where the policy says `ask`; returns True to allow. May be
            a coroutine function. Without it such actions are refused.

    Raises:
        ValidationError: An argument is invalid.
        ConfigError: The configuration or the folder cannot be used.

    Example:
        ```python
        from toolyard import Workspace

        with Workspace(".", permission_mode="acceptEdits") as workspace:
            workspace.call("Write", file_path="notes.md", content="Buy milk")
            print(workspace.call("Read", file_path="notes.md").text)
        ```

    """

    def __init__(
        self,
        folder: str | os.PathLike[str] | None = None,
        *,
        config: Config | str | os.PathLike[str] | None = None,
        agent: str | None = None,
        permission_mode: PermissionMode | str | None = None,
        tools: str | Iterable[str] = "claude",
        state: str | os.PathLike[str] | None = None,
        approve: ApprovalCallback | SyncApprovalCallback | None = None,
    ) -> None:
        given = config if isinstance(config, Config) or config is None else load_config(os.fspath(config))
        chosen = Config() if given is None else given
        self._approve = approve
        self._options = YardOptions(
            workspace=_folder_of(folder, chosen, agent),
            config=chosen,
            mode=None if permission_mode is None else _parse_mode(permission_mode),
            agent=agent,
            toolset=parse_toolsets(tools if isinstance(tools, str) else ",".join(tools)),
            state_home=None if state is None else os.fspath(state),
            begins_session=True,
        )
        self._lock = threading.Lock()
        self._open_parts: tuple[Yard, LoopThread] | None = None
        self._is_closed = False

    @property
    def folder(self) -> str:
        """The absolute path of the workspace's folder."""
        return os.path.abspath(self._options.workspace)

    @property
    def tools(self) -> list[ToolInfo]:
        """The tools that `call` takes, as a model would be shown them."""
        yard, _ = self._parts()
        return [
            ToolInfo(tool.name, tool.description, tool.input_schema, tool.read_only, tool.destructive)
            for tool in yard.dispatch.tools.values()
        ]

    def call(self, tool: str, arguments: Mapping[str, Any] | None = None, /, **named: Any) -> Result:
        """Calls a tool and waits for its result.

        Args:
            tool: The tool's name, such as `"Read"`.
            arguments: The tool's arguments, as a model would send them.
            **named: The same as keywords. A name in both places is an error.

        Returns:
            The result: `text` for readers, `structured` for programs, `failed` if the tool reports a failure, such as
            a command that exits with 1.

        Raises:
            SecurityError: The policy or the sandbox refused.
            ValidationError: The arguments are invalid, or no tool has this name.
            ToolError: The tool ran and failed.
            SystemFault: The machine failed, the workspace is closed, or the caller runs on an event loop, which
                would stand still meanwhile: await `acall` there.

        Example:
            ```python
            result = workspace.call("Grep", pattern="TODO", output_mode="content")
            print(result.text)
            ```

        """
        if _runs_on_loop():
            raise SystemFault(
                "`call` would block the event loop that it is called on.", hint="Use `await workspace.acall(...)`."
            )
        yard, loop = self._parts()
        approve = deny_without_asking if self._approve is None else self._ask_on_own_loop
        return loop.run(yard.dispatch(self._make_call(yard, tool, _merged(arguments, named), approve)))

    async def acall(self, tool: str, arguments: Mapping[str, Any] | None = None, /, **named: Any) -> Result:
        """Calls a tool from a coroutine. As `call`, and cancelling it cancels the call.

        Example:
            ```python
            async with Workspace("project") as workspace:
                result = await workspace.acall("Bash", command="make test")
                print(result.structured["exit_code"])
            ```

        """
        yard, loop = await asyncio.to_thread(self._parts)
        approve = deny_without_asking
        if self._approve is not None:
            approve = approval_on_caller_loop(self._approve, _log_approval_fault)
        call = self._make_call(yard, tool, _merged(arguments, named), approve)
        return await asyncio.wrap_future(loop.submit(yard.dispatch(call)))

    def close(self) -> None:
        """Ends running calls, takes the last snapshot and closes everything. Can be called more than once."""
        with self._lock:
            parts, self._open_parts, self._is_closed = self._open_parts, None, True
        if parts is not None:
            yard, loop = parts
            try:
                loop.close()  # first: a cancelled call still records its event
            finally:
                yard.close()

    def __enter__(self) -> Self:
        self._parts()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    async def __aenter__(self) -> Self:
        await asyncio.to_thread(self._parts)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await close_in_thread(self)

    def _parts(self) -> tuple[Yard, LoopThread]:
        """Returns the open Yard and its loop; opens them first if needed."""
        with self._lock:
            if self._is_closed:
                raise SystemFault("The workspace is closed.", hint="Create another Workspace.")
            if self._open_parts is None:
                yard = Yard.open(self._options)
                self._open_parts = (yard, LoopThread("toolyard-workspace"))
            return self._open_parts

    def _make_call(self, yard: Yard, tool: str, arguments: dict[str, Any], approve: ApprovalCallback) -> Call:
        return Call(tool, arguments, SURFACE, agent=yard.agent, session=yard.session, ask=approve)

    async def _ask_on_own_loop(self, action: Any, decision: Any) -> bool:
        assert self._approve is not None  # noqa: S101 - only used with a callback
        return await is_approved(self._approve, action, decision, _log_approval_fault)


def _folder_of(folder: str | os.PathLike[str] | None, config: Config, agent: str | None) -> str:
    if folder is not None:
        return os.fspath(folder)
    chosen = select_agent(config, agent)
    if chosen is None:
        raise ValidationError.of("folder", "is missing", hint="Name the workspace's folder, or configure an agent.")
    make_folders(with_layout(config))
    return workspace_of(config, chosen)


def _parse_mode(mode: PermissionMode | str) -> PermissionMode:
    known = [each.value for each in PermissionMode]
    if mode not in known:
        raise ValidationError.of(
            "permission_mode", f"{mode!r} is not a permission mode", hint=did_you_mean(str(mode), known)
        )
    return PermissionMode(mode)


def _merged(arguments: Mapping[str, Any] | None, named: Mapping[str, Any]) -> dict[str, Any]:
    merged = dict(arguments or {})
    for name, value in named.items():
        if name in merged:
            raise ValidationError.of(name, "is given twice", hint="Pass it in the mapping or as a keyword.")
        merged[name] = value
    return merged


def _runs_on_loop() -> bool:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True


def _log_approval_fault(fault: Fault) -> None:
    _log.warning("%s %s", fault.message, fault.hint)

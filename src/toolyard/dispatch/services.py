"""The services of one workspace that its tools work with."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NoReturn

from toolyard.core.errors import ToolError
from toolyard.core.limits import Limits
from toolyard.dispatch.read_tracker import ReadTracker
from toolyard.files.mounts import Mounts
from toolyard.policy.policy import Policy
from toolyard.sandbox.manager import SandboxManager

if TYPE_CHECKING:
    from toolyard.codemode.service import CodeMode
    from toolyard.sharing.service import SharingService
    from toolyard.snapshots.service.auto_snapshots import AutoSnapshots
    from toolyard.workspace.agent_paths import AgentPaths
    from toolyard.workspace.file_tool_detector import FilesystemToolDetector


def refuse_sharing() -> NoReturn:
    """Raises the error for an agent without peers."""
    raise ToolError(
        "There are no other agents to share with here.",
        hint="Sharing needs `toolyard.workspace` and several `agents` in the configuration, and --agent.",
    )


@dataclass(frozen=True, slots=True)
class WorkspaceServices:
    """Everything that tools work with; the same for every call of one workspace."""

    mounts: Mounts
    policy: Policy
    limits: Limits
    read_tracker: ReadTracker
    sandboxes: SandboxManager
    codemode: CodeMode
    snapshots: AutoSnapshots
    detector: FilesystemToolDetector
    agent_paths: AgentPaths
    context_snapshots: tuple[AutoSnapshots, ...] = ()
    """The snapshots of the context paths that the agent may write."""
    background_sessions: set[str] = field(default_factory=set[str])
    """The sessions that have started commands in the background, and so get notices of their ends."""
    get_sharing: Callable[[], SharingService] = refuse_sharing
    """Returns what the agent shares with its peers. Raises ToolError for an agent without peers."""
    new_peer_notices: Callable[[], list[str]] = list
    """Returns a line for each thing that a peer has published since the last call."""

"""Types of what the host sends to the supervisor.

Imported only by type checkers: at run time they are plain dicts.
"""

from __future__ import annotations

from typing import NotRequired, TypedDict

Step = tuple[str, str, str, bool, int, int, bool]
"""One of `mounts`: kind, target, source, writable, size, mode, and whether links in the source's path are refused."""


CallPath = tuple[str, int, int, int]
"""A path of a system call: its effect, then the positions of the path, its folder and its flags; -1 for none."""


class Recording(TypedDict):
    """How to record what runs change."""

    filter: bytes
    """The seccomp filter that reports calls that change files."""
    seccomp: int
    """The number of seccomp(2)."""
    calls: dict[int, list[CallPath]]
    """The paths of each reported call, by its number."""
    roots: list[str]
    """Folders whose files are recorded, by their real paths inside."""


class Setup(TypedDict):
    """What the host decides once for the whole sandbox."""

    mounts: NotRequired[list[Step]]
    """The steps that build the file system, for a supervisor that has to do that itself."""
    runtime: NotRequired[str]
    """With `mounts`: the folder of the runtime package in that file system."""
    pid_max: int
    landlock: bytes
    landlock_rules: list[tuple[str, int, int]]
    seccomp: bytes
    scratch: NotRequired[str]
    """A folder to remove with the sandbox, even if the host can no longer do it."""
    hand: NotRequired[str]
    """With restrictions in workers: the socket that passes connections to the broker; empty for none."""
    hand_at: NotRequired[int]
    """The descriptor at which that connection is kept."""
    walls_in_worker: bool
    """Whether only workers are restricted: the supervisor must stay out of reach of their signals."""
    recording: NotRequired[Recording]
    """Present if runs can record what they change."""
    shown: list[tuple[str, int, int]]
    """Mounts that must be found at their paths: path, device and inode."""
    hidden: list[str]
    """Paths that must be covered by a mount."""
    forward: str
    """The socket of the proxy to the allowed hosts; empty if there are none."""
    forward_port: int
    shell: str
    environment: dict[str, str]
    limits: dict[str, int]


class Request(TypedDict):
    """One run. `session` is empty for a run without a session."""

    what: str
    code: str
    session: str
    folder: str
    output_bytes: int
    records: NotRequired[bool]
    """Whether the host wants a record of its changes."""

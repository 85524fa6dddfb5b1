"""What the host tells the warden, as types. Imported by type checkers only: inside, they are plain dictionaries."""

from __future__ import annotations

from typing import NotRequired, TypedDict

Step = tuple[str, str, str, bool, int, int, bool]
"""One of `mounts`: its kind, target, source, whether it is writable, size, mode; whether no link may lead to it."""


CallPath = tuple[str, int, int, int]
"""A path of a system call: what happens to it, then its argument, its folder's and its flags', each -1 without."""


class Recording(TypedDict):
    """How to learn what runs change."""

    filter: bytes
    """Announces calls that change files."""
    seccomp: int
    """The number of seccomp(2)."""
    calls: dict[int, list[CallPath]]
    """The paths of each call that is announced, by its number."""
    roots: list[str]
    """Folders whose files are recorded, by their real paths inside."""


class Setup(TypedDict):
    """What the host decides once for the whole sandbox."""

    mounts: NotRequired[list[Step]]
    """How to build the view of files, for a warden that has to do it itself."""
    runtime: NotRequired[str]
    """With `mounts`: where the runtime package lies in that view."""
    pid_max: int
    landlock: bytes
    landlock_rules: list[tuple[str, int, int]]
    seccomp: bytes
    scratch: NotRequired[str]
    """A folder that goes when the sandbox does, also when the host cannot see to it any more."""
    hand: NotRequired[str]
    """With walls in workers: the socket that hands connections to the broker over, empty where there is none."""
    hand_at: NotRequired[int]
    """The descriptor it is held at."""
    walls_in_worker: bool
    """Workers alone are walled in: the warden must stay outside of what they may signal."""
    recording: NotRequired[Recording]
    """Where runs can be asked for with a record of what they change."""
    shown: list[tuple[str, int, int]]
    """Mounts that have to be found where they belong: path, device and inode."""
    hidden: list[str]
    """Paths that have to be covered by a mount."""
    forward: str
    """The socket of the proxy that leads to the allowed hosts, empty when there are none."""
    forward_port: int
    shell: str
    environment: dict[str, str]
    limits: dict[str, int]


class Request(TypedDict):
    """One run. `session` is empty for one that stands alone."""

    what: str
    code: str
    session: str
    folder: str
    output_bytes: int
    records: NotRequired[bool]
    """Whether the host wants to know what it changes."""

"""Mount points and file system types, from the kernel's mount table."""

from __future__ import annotations

import re

_UNKNOWN = "unknown"
_MOUNTS = "/proc/self/mountinfo"
_OCTAL = re.compile(r"\\([0-7]{3})")


def mount_points() -> frozenset[str]:
    """Returns the current mount points; empty if /proc is not readable."""
    try:
        with open(_MOUNTS, encoding="utf-8", errors="surrogateescape") as table:
            rows = [line.split(" ") for line in table]
    except OSError:
        return frozenset()
    # The table escapes a space in a name as `\040`.
    return frozenset(_OCTAL.sub(lambda code: chr(int(code[1], 8)), row[4]) for row in rows if len(row) > 4)


def file_system_of(fd: int) -> str:
    """Returns the file system type of an open file, such as `ext4` or `fuse.sshfs`; "unknown" if /proc has none."""
    try:
        with open(f"/proc/self/fdinfo/{fd}", encoding="ascii") as about:
            mount = next((line.split()[1] for line in about if line.startswith("mnt_id:")), None)
        with open(_MOUNTS, encoding="utf-8", errors="surrogateescape") as table:
            # 36 35 98:0 /mnt1 /mnt2 rw,noatime master:1 - ext3 /dev/root rw,errors=continue
            row = next((line for line in table if line.partition(" ")[0] == mount), "")
    except OSError:
        return _UNKNOWN
    _, found, described = row.partition(" - ")
    return described.split()[0] if found else _UNKNOWN

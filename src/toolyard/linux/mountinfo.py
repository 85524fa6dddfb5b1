"""Mount points, and which file system an open file lies on, by the kernel's own table of mounts."""

from __future__ import annotations

import re

_UNKNOWN = "unknown"
_MOUNTS = "/proc/self/mountinfo"
_OCTAL = re.compile(r"\\([0-7]{3})")


def mount_points() -> frozenset[str]:
    """Where file systems are mounted at this moment; empty where /proc does not say."""
    try:
        with open(_MOUNTS, encoding="utf-8", errors="surrogateescape") as table:
            rows = [line.split(" ") for line in table]
    except OSError:
        return frozenset()
    # A blank in a name is written `\040`.
    return frozenset(_OCTAL.sub(lambda code: chr(int(code[1], 8)), row[4]) for row in rows if len(row) > 4)


def file_system_of(fd: int) -> str:
    """Its type: `ext4`, `tmpfs`, `nfs4`, `fuse.sshfs` ...; "unknown" where /proc does not say."""
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

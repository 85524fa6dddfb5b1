"""Which file system an open file lies on, by the kernel's own table of mounts."""

from __future__ import annotations

_UNKNOWN = "unknown"


def file_system_of(fd: int) -> str:
    """Its type: `ext4`, `tmpfs`, `nfs4`, `fuse.sshfs` ...; "unknown" where /proc does not say."""
    try:
        with open(f"/proc/self/fdinfo/{fd}", encoding="ascii") as about:
            mount = next((line.split()[1] for line in about if line.startswith("mnt_id:")), None)
        with open("/proc/self/mountinfo", encoding="utf-8", errors="surrogateescape") as table:
            # 36 35 98:0 /mnt1 /mnt2 rw,noatime master:1 - ext3 /dev/root rw,errors=continue
            row = next((line for line in table if line.partition(" ")[0] == mount), "")
    except OSError:
        return _UNKNOWN
    _, found, described = row.partition(" - ")
    return described.split()[0] if found else _UNKNOWN

"""A process that holds overlay mounts in its own user and mount namespaces, for users who may not mount elsewhere.

It is started inside these namespaces and lives until its standard input closes. When the program that started it
ends, for any reason, the kernel removes the namespace and every mount in it. It reads one request per line, a JSON
list: `["mount", lower, upper, work, target]` or `["unmount", target]`, and answers each with an errno, 0 for success.
"""

from __future__ import annotations

import errno
import json
import sys

from toolyard.linux.overlay import mount_overlay, unmount


def main() -> None:
    """Serves requests until standard input closes."""
    for line in sys.stdin:
        sys.stdout.write(f"{_handle_request(line)}\n")
        sys.stdout.flush()


def _handle_request(line: str) -> int:
    try:
        match json.loads(line):
            case ["ready"]:
                pass
            case ["mount", str(lower), str(upper), str(work), str(target)]:
                mount_overlay(lower, upper, work, target, as_user=True)
            case ["unmount", str(target)]:
                unmount(target)
            case _:
                return errno.EINVAL
    except OSError as error:
        return error.errno or errno.EIO
    return 0

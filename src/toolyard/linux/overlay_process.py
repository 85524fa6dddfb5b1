"""A process that keeps overlays in a user and mount namespace of its own, for a user who may not mount elsewhere.

It is started in its namespaces and lives as long as its standard input: when the program that started it ends,
however that happens, the kernel takes the namespace away and every mount in it. It reads one request a line, a JSON
list: `["mount", lower, upper, work, target]` or `["unmount", target]`, and answers each with the number of the error,
0 when there was none.
"""

from __future__ import annotations

import errno
import json
import sys

from toolyard.linux.overlay import mount_overlay, unmount


def main() -> None:
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

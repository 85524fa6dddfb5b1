"""Running a command as an ordinary user, when the caller is root.

It runs as uid 65534, without groups and without any capability (`setpriv`). Root's files are really out of its reach
then, and so is the interpreter where that lies under a private folder such as /root. For that case the command gets a
mount namespace of its own, in which the private folder is covered by an empty one and only the interpreter and the
named folders are bound back into it. Nothing of this is seen outside that namespace.

An `OrdinaryUser` owns a temporary folder, in which that user has a home; `close()` removes it.
"""

from __future__ import annotations

import os
import re
import shlex
import shutil
import stat
import subprocess
import sys
import tempfile
from collections.abc import Sequence

from toolyard.core.closeable import Closeable

USER_ID = 65534
_TELL = "import os; print(os.getuid(), open('/proc/self/status').read())"
_TELL_SECONDS = 30.0
_PATH = "/usr/local/bin:/usr/bin:/bin:/usr/local/sbin:/usr/sbin:/sbin"
_ORDINARY = (
    *("setpriv", f"--reuid={USER_ID}", f"--regid={USER_ID}", "--clear-groups", "--no-new-privs"),
    *("--inh-caps=-all", "--bounding-set=-all"),
)


def why_not() -> str:
    """Why this process cannot run anything as an ordinary user; empty when it can."""
    if os.geteuid() != 0:
        return "the caller is an ordinary user already"
    if shutil.which("setpriv") is None or shutil.which("unshare") is None:
        return "there is no setpriv or no unshare"
    return ""


class OrdinaryUser(Closeable):
    def __init__(self, *needed: str) -> None:
        """`needed` are the folders it must be able to read beside the interpreter's."""
        self._needed = (os.path.realpath(sys.base_prefix), os.path.realpath(sys.prefix), *needed)
        self._folder = tempfile.mkdtemp(prefix="ordinary-")
        os.chmod(self._folder, 0o755)
        self._stash = f"{self._folder}/stash"
        self.home = f"{self._folder}/home"
        for path in (self._stash, self.home):
            os.mkdir(path)
        os.chown(self.home, USER_ID, USER_ID)

    def run(self, command: Sequence[str], *, seconds: float) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            self._wrapped(command),
            cwd=self.home,
            env={"PATH": _PATH, "HOME": self.home, "PYTHONDONTWRITEBYTECODE": "1"},
            capture_output=True,
            text=True,
            timeout=seconds,
            check=False,
        )

    def why_not(self) -> str:
        """Why it cannot run this interpreter; empty when it can. Fails where it is no ordinary user after all."""
        who = self.run([sys.executable, "-c", _TELL], seconds=_TELL_SECONDS)
        if who.returncode != 0:
            return f"no ordinary user can run this interpreter here: {who.stderr[-200:]}"
        assert who.stdout.startswith(f"{USER_ID} "), who.stdout
        assert re.search(r"^CapEff:\s*0+$", who.stdout, re.MULTILINE), "it has a capability left"
        return ""

    def passed(self, project: str, *suite: str, seconds: float) -> int:
        """How many tests of a suite pass, which is given in words of pytest; fails when one does not."""
        pytest_of = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "no:xdist"]
        pytest_of += [f"--rootdir={project}", f"-c={project}/pyproject.toml", f"--basetemp={self.home}/t"]
        ran = self.run([*pytest_of, *suite], seconds=seconds)
        assert ran.returncode == 0, ran.stdout[-8_000:] + ran.stderr[-2_000:]
        passed = re.search(r"(\d+) passed", ran.stdout)
        return int(passed[1]) if passed is not None else 0

    def close(self) -> None:
        for place in os.scandir(self._stash):
            os.rmdir(place)  # empty outside the namespace; were anything still bound here, it must not be deleted
        shutil.rmtree(self._folder)

    def _wrapped(self, command: Sequence[str]) -> list[str]:
        ordinary = [*_ORDINARY, *command]
        lines = self._binding()
        if not lines:
            return ordinary
        script = " && ".join([*lines, f"exec {shlex.join(ordinary)}"])
        return ["unshare", "--mount", "--propagation=private", "sh", "-c", script]

    def _binding(self) -> list[str]:
        """Commands that cover what is private and bind back what is needed."""
        hidden = {path: above for path in self._needed if (above := _blocking(path)) is not None}
        kept = {path: f"{self._stash}/{number}" for number, path in enumerate(hidden)}
        lines = [f"mkdir -p {place} && mount --bind {shlex.quote(path)} {place}" for path, place in kept.items()]
        covered = [shlex.quote(above) for above in sorted(set(hidden.values()))]
        lines += [f"mount -t tmpfs -o mode=755 tmpfs {above}" for above in covered]
        lines += [
            f"mkdir -p {shlex.quote(path)} && mount --bind {place} {shlex.quote(path)}"
            for path, place in kept.items()
        ]
        # A destructive test finds nothing that it could write but its own /tmp.
        lines += [f"mount -o remount,bind,ro {above}" for above in covered]
        return lines


def _blocking(path: str) -> str | None:
    """The highest folder on the way to `path` that others may not enter."""
    parts = path.split("/")
    for count in range(2, len(parts) + 1):
        above = "/".join(parts[:count])
        if not os.stat(above).st_mode & stat.S_IXOTH:
            return above
    return None

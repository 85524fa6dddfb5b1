"""The escape suite once more, as an ordinary user, when the tests are run by root.

The suite is run in a subprocess as uid 65534, without groups and without any capability (`setpriv`). Root's files are
really out of its reach then, and so is the interpreter where that lies under a private folder such as /root. For that
case the subprocess gets a mount namespace of its own, in which the private folder is covered by an empty one and only
the interpreter and this project are bound back into it. Nothing of this is seen outside that namespace.
"""

import os
import re
import shlex
import shutil
import stat
import subprocess
import sys
import tempfile

import pytest

NOBODY = 65534
HERE = os.path.dirname(os.path.realpath(__file__))
PROJECT = os.path.dirname(os.path.dirname(HERE))
NEEDED = (os.path.realpath(sys.base_prefix), os.path.realpath(sys.prefix), PROJECT)
SECONDS = 540
FEWEST = 1_000

pytestmark = [
    pytest.mark.skipif(os.getuid() != 0, reason="the tests are run by an ordinary user already"),
    pytest.mark.skipif(shutil.which("setpriv") is None, reason="there is no setpriv"),
]


def blocking(path: str) -> str | None:
    """The highest folder on the way to `path` that others may not enter."""
    parts = path.split("/")
    for count in range(2, len(parts) + 1):
        above = "/".join(parts[:count])
        if not os.stat(above).st_mode & stat.S_IXOTH:
            return above
    return None


def binding(stash: str) -> list[str]:
    """Commands that cover what is private and bind back what is needed, for a mount namespace of its own."""
    hidden = {path: above for path in NEEDED if (above := blocking(path)) is not None}
    kept = {path: f"{stash}/{number}" for number, path in enumerate(hidden)}
    lines = [f"mkdir -p {place} && mount --bind {shlex.quote(path)} {place}" for path, place in kept.items()]
    lines += [f"mount -t tmpfs -o mode=755 tmpfs {shlex.quote(above)}" for above in sorted(set(hidden.values()))]
    lines += [
        f"mkdir -p {shlex.quote(path)} && mount --bind {place} {shlex.quote(path)}" for path, place in kept.items()
    ]
    return lines


def as_nobody(command: list[str], stash: str) -> list[str]:
    ordinary = ["setpriv", f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups", "--no-new-privs"]
    ordinary += ["--inh-caps=-all", "--bounding-set=-all", *command]
    lines = binding(stash)
    if not lines:
        return ordinary
    return [
        "unshare",
        "--mount",
        "--propagation=private",
        "sh",
        "-c",
        " && ".join([*lines, f"exec {shlex.join(ordinary)}"]),
    ]


@pytest.fixture
def home():
    """A folder of that user's own; the usual temporary ones are closed to it."""
    folder = tempfile.mkdtemp(prefix="ordinary-")
    os.chmod(folder, 0o755)
    for name in ("home", "stash"):
        os.mkdir(f"{folder}/{name}")
    os.chown(f"{folder}/home", NOBODY, NOBODY)
    yield folder
    for place in os.scandir(f"{folder}/stash"):
        os.rmdir(place)  # empty outside the namespace; were anything still bound here, it must not be deleted
    shutil.rmtree(folder)


def run(command: list[str], home: str) -> subprocess.CompletedProcess[str]:
    env = {"PATH": os.environ["PATH"], "HOME": f"{home}/home", "PYTHONDONTWRITEBYTECODE": "1"}
    return subprocess.run(
        as_nobody(command, f"{home}/stash"),
        cwd=f"{home}/home",
        env=env,
        capture_output=True,
        text=True,
        timeout=SECONDS,
        check=False,
    )


@pytest.mark.slow
@pytest.mark.timeout(SECONDS + 30)
def test_the_escape_suite_passes_as_an_ordinary_user(home):
    who = run([sys.executable, "-c", "import os; print(os.getuid(), open('/proc/self/status').read())"], home)
    if who.returncode != 0:
        pytest.skip(f"no ordinary user can run this interpreter here: {who.stderr[-200:]}")
    assert who.stdout.startswith(f"{NOBODY} ")
    assert re.search(r"^CapEff:\s*0+$", who.stdout, re.MULTILINE), "it has no capability left"
    pytest_of = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "no:xdist"]
    suite = run(
        [*pytest_of, f"--rootdir={PROJECT}", f"-c={PROJECT}/pyproject.toml", f"--basetemp={home}/home/t", HERE], home
    )
    assert suite.returncode == 0, suite.stdout[-5_000:] + suite.stderr[-2_000:]
    passed = re.search(r"(\d+) passed", suite.stdout)
    assert passed is not None
    assert int(passed[1]) > FEWEST

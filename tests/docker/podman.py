"""Podman with storage of its own, holding the project's image. It has no daemon: its containers end with their input.

Everything lies in one temporary folder, which belongs to `prepared()`. What is mounted in it is unmounted before it
is removed.
"""

from __future__ import annotations

import contextlib
import os
import pathlib
import shutil
import subprocess
import tempfile
from collections.abc import Iterator

from .engine import CGROUPS, Engine

LOAD_SECONDS = 300
COMMAND_SECONDS = 60


def why_not() -> str | None:
    """Why Podman cannot be used here, or None."""
    if os.geteuid() != 0:
        return "the tests' Podman needs root"
    missing = [program for program in ("podman", "conmon", "runc") if shutil.which(program) is None]
    return f"not installed: {', '.join(missing)} (Debian: apt-get install podman runc)" if missing else None


@contextlib.contextmanager
def prepared(engine: Engine, image: str) -> Iterator[dict[str, str]]:
    """The environment in which `podman` finds the image that the engine holds."""
    folder = pathlib.Path(tempfile.mkdtemp(prefix="toolyard-podman-"))
    try:
        environment = settings(folder)
        archive = folder / "image.tar"
        engine.docker("save", "--output", str(archive), image, seconds=LOAD_SECONDS)
        podman(environment, "load", "--input", str(archive))
        archive.unlink()
        try:
            yield environment
        finally:
            podman(environment, "rm", "--all", "--force", "--time", "0")
    finally:
        unmount_beneath(folder)
        shutil.rmtree(folder, ignore_errors=True)
        for group in (*CGROUPS.glob("*/libpod_parent/conmon"), *CGROUPS.glob("*/libpod_parent")):
            with contextlib.suppress(OSError):  # another Podman's is not empty
                group.rmdir()


def settings(folder: pathlib.Path) -> dict[str, str]:
    """Write Podman's configuration, and return what names it."""
    # crun refuses machines whose control groups are of both kinds; runc does not.
    # Small limits, because a root without CAP_SYS_RESOURCE cannot give the large ones that are the default.
    (folder / "containers.conf").write_text(
        '[containers]\ndefault_ulimits = ["nofile=4096:4096", "nproc=1024:1024"]\n'
        '[engine]\nruntime = "runc"\ncgroup_manager = "cgroupfs"\nevents_logger = "none"\n'
        f'tmp_dir = "{folder}/tmp"\nstatic_dir = "{folder}/static"\nvolume_path = "{folder}/volumes"\n'
    )
    (folder / "storage.conf").write_text(
        f'[storage]\ndriver = "overlay"\ngraphroot = "{folder}/graph"\nrunroot = "{folder}/run"\n'
    )
    return {
        "PATH": os.environ["PATH"],
        "HOME": str(folder),
        "CONTAINERS_CONF": f"{folder}/containers.conf",
        "CONTAINERS_STORAGE_CONF": f"{folder}/storage.conf",
    }


def podman(environment: dict[str, str], *arguments: str) -> str:
    done = subprocess.run(
        ["podman", *arguments], env=environment, capture_output=True, text=True, timeout=LOAD_SECONDS, check=False
    )
    assert done.returncode == 0, (arguments, done.stdout[-2000:], done.stderr[-2000:])
    return done.stdout


def unmount_beneath(folder: pathlib.Path) -> None:
    """Unmount what is mounted in a folder, the deepest first."""
    mounts = pathlib.Path("/proc/self/mountinfo").read_text().splitlines()
    places = [line.split()[4] for line in mounts]
    for place in sorted((place for place in places if place.startswith(f"{folder}/")), reverse=True):
        subprocess.run(["umount", "--lazy", place], check=False, timeout=COMMAND_SECONDS)

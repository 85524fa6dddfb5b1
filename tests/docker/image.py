"""The project's image, built from its own Dockerfile on a base that debootstrap made: nothing has to be pulled.

The base is made once, under `.cache/docker`. What the build needs to know of this machine, its certificates and where
its packages come from, goes into a layer over the base and never into a file of the project.
"""

from __future__ import annotations

import io
import os
import pathlib
import ssl
import subprocess
import tarfile
import tempfile

from .engine import CACHE, REPOSITORY, Engine

DOCKERFILE = REPOSITORY / "src" / "toolyard" / "sandbox" / "image" / "Dockerfile"
RUNTIME = REPOSITORY / "src" / "toolyard_runtime"
IMAGE = "toolyard-sandbox:tests"
PLAIN_BASE = "toolyard-base:plain"
BASE = "toolyard-base:here"
FETCHED = "toolyard-fetched:tests"
SUITE = "bookworm"
ARCHIVE = CACHE / f"{SUITE}.tar"
CERTIFICATES = "/etc/certificates-of-the-builder.crt"

DEBOOTSTRAP_SECONDS = 400
IMPORT_SECONDS = 120
BUILD_SECONDS = 500


def build_image(engine: Engine) -> str:
    """Build the project's Dockerfile and return the image's name; the engine's layers make the second time quick."""
    if not engine.docker("images", "--quiet", PLAIN_BASE).strip():
        make_archive()
        engine.docker("import", str(ARCHIVE), PLAIN_BASE, seconds=IMPORT_SECONDS)
    engine.docker("build", "--tag", BASE, "-", given=settings_of_this_machine(), seconds=BUILD_SECONDS)
    build = ("build", "--network", "host", "--build-arg", f"BASE={BASE}", "--file", str(DOCKERFILE), str(RUNTIME))
    # The first stage gets a name of its own, so that it stays when layers without one are removed.
    engine.docker(*build, "--target", "fetched", "--tag", FETCHED, seconds=BUILD_SECONDS)
    engine.docker(*build, "--tag", IMAGE, seconds=BUILD_SECONDS)
    engine.docker("image", "prune", "--force")
    return IMAGE


def make_archive() -> None:
    """Make a minimal Debian as an archive, whole or not at all."""
    if ARCHIVE.exists():
        return
    with tempfile.TemporaryDirectory(prefix="toolyard-docker-base-") as folder:
        root = pathlib.Path(folder, "root")
        unfinished = ARCHIVE.with_suffix(".unfinished")
        for command in (
            ["debootstrap", "--variant=minbase", SUITE, str(root)],
            ["tar", "--create", "--numeric-owner", "--file", str(unfinished), "--directory", str(root), "."],
        ):
            done = subprocess.run(command, capture_output=True, timeout=DEBOOTSTRAP_SECONDS, check=False)
            assert done.returncode == 0, (command, done.stdout[-2000:], done.stderr[-2000:])
        unfinished.rename(ARCHIVE)


def settings_of_this_machine() -> bytes:
    """The context of a build that adds this machine's certificates and package index to the base."""
    pip = ["[global]"]
    files = {"Dockerfile": f"FROM {PLAIN_BASE}\nCOPY pip.conf /etc/pip.conf\n"}
    certificates = ssl.get_default_verify_paths().cafile
    if certificates is not None:
        pip.append(f"cert = {CERTIFICATES}")
        files["certificates"] = pathlib.Path(certificates).read_text()
        files["Dockerfile"] += f"COPY certificates {CERTIFICATES}\n"
    if index := os.environ.get("PIP_INDEX_URL"):
        pip.append(f"index-url = {index}")
    files["pip.conf"] = "\n".join((*pip, ""))
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w") as archive:
        for name, text in files.items():
            entry = tarfile.TarInfo(name)
            entry.size = len(text.encode())
            archive.addfile(entry, io.BytesIO(text.encode()))
    return packed.getvalue()

"""A disk that is full, or a limit on the size of files, leaves the old content and says so."""

import json
import os
import subprocess
import sys

import pytest

from toolyard.app.yard import Yard
from toolyard.app.yard_options import YardOptions
from toolyard.config.models import Config
from toolyard.config.settings import Settings
from toolyard.core.calls import Call
from toolyard.core.errors import SystemFault

OLD = "the old content\n"
DISK = "256k"
TOO_MUCH = "x" * 1_000_000


@pytest.fixture
def small_disk(tmp_path):
    """A disk of a few pages, which only root can mount."""
    folder = tmp_path / "disk"
    folder.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", f"size={DISK}", "tmpfs", str(folder)], capture_output=True, check=False
    )
    if mounted.returncode != 0:
        pytest.skip("mounting a small disk needs root")
    yield folder
    subprocess.run(["umount", "--lazy", str(folder)], check=True)


async def test_a_full_disk_leaves_the_old_content(small_disk, tmp_path):
    (small_disk / "file.txt").write_text(OLD)
    settings = Settings(str(tmp_path), str(tmp_path / "state"), str(tmp_path / "t"), str(tmp_path / "d"))
    calls = (
        ("Write", {"file_path": "file.txt", "content": TOO_MUCH}),
        ("Edit", {"file_path": "file.txt", "old_string": "old", "new_string": TOO_MUCH}),
        ("Write", {"file_path": "new.txt", "content": TOO_MUCH}),
    )
    with Yard.open(YardOptions(str(small_disk), Config(), settings)) as yard:
        await yard.dispatch(Call("Read", {"file_path": "file.txt"}, surface="test"))
        for tool, arguments in calls:
            with pytest.raises(SystemFault, match="disk is full"):
                await yard.dispatch(Call(tool, arguments, surface="test"))
        assert (small_disk / "file.txt").read_text() == OLD
        assert os.listdir(small_disk) == ["file.txt"], "nothing is left behind"
        # The control: what there is room for is written.
        await yard.dispatch(Call("Write", {"file_path": "file.txt", "content": "new\n"}, surface="test"))
    assert (small_disk / "file.txt").read_text() == "new\n"


LIMITED = """
import json, resource, sys
from toolyard.core.errors import ToolyardError
from toolyard.core.limits import DEFAULT_LIMITS
from toolyard.files import file_io
from toolyard.files.mounts import Mounts

resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, 100_000))
mounts = Mounts(sys.argv[1])
answers = []
for size in (1_000_000, 10):
    with mounts.find(mounts.clean("file.txt")) as target:
        try:
            file_io.rewrite(target, lambda before: b"x" * size, DEFAULT_LIMITS)
            answers.append("written")
        except ToolyardError as error:
            answers.append(error.kind)
    answers.append(open(sys.argv[1] + "/file.txt").read())
print(json.dumps(answers))
"""


def test_a_limit_on_file_size_leaves_the_old_content(tmp_path):
    (tmp_path / "file.txt").write_text(OLD)
    said = subprocess.run(
        [sys.executable, "-c", LIMITED, str(tmp_path)], capture_output=True, check=True, text=True, timeout=30
    )
    assert json.loads(said.stdout) == ["system", OLD, "written", "x" * 10]
    assert os.listdir(tmp_path) == ["file.txt"]

from __future__ import annotations

import os
import stat

from toolyard.core.ids import workspace_id
from toolyard.storage.state_folder import ensure_state_dir, state_dir


def test_the_state_folder_is_named_after_the_real_workspace(tmp_path):
    workspace = tmp_path / "project"
    workspace.mkdir()
    (tmp_path / "link").symlink_to(workspace)
    home = str(tmp_path / "state")
    expected = os.path.join(home, workspace_id(os.path.realpath(workspace)))
    assert state_dir(home, str(workspace)) == state_dir(home, str(tmp_path / "link")) == expected


def test_every_folder_that_is_made_is_private(tmp_path):
    path = ensure_state_dir(str(tmp_path / "toolyard" / "ws"))
    modes = [stat.S_IMODE(os.stat(folder).st_mode) for folder in (os.path.dirname(path), path)]
    assert modes == [0o700, 0o700]

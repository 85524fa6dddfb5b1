"""Behind every kind of wall the same is found, and nothing is run that the repository names."""

import os

import pytest

from toolyard.app.yard import Yard
from toolyard.core.errors import SecurityError
from toolyard.sandbox.backends.bubblewrap import bubblewrap_sandbox, find_bubblewrap
from toolyard.sandbox.backends.landlock import landlock_sandbox
from toolyard.sandbox.backends.namespaces import find_unshare, namespaces_sandbox
from toolyard.sandbox.selection import SandboxChoice
from toolyard.sandbox.spec import Tier

TIERS = {
    Tier.BUBBLEWRAP: lambda: bubblewrap_sandbox(find_bubblewrap()),
    Tier.NAMESPACES: lambda: namespaces_sandbox(find_unshare()),
    Tier.LANDLOCK: landlock_sandbox,
}
KEY = "AKIA" + "IOSFODNN7EXAMPLE"


@pytest.mark.parametrize("tier", TIERS)
def test_a_worktree_is_inspected_and_a_filter_reaches_nothing(
    tier, make_repo, tmp_path, workspace, look, of, monkeypatch
):
    monkeypatch.setattr(Yard, "_select_sandbox", lambda _: SandboxChoice(tier, TIERS[tier]))
    main = make_repo(tmp_path / "main")
    main.commit(**{"a.txt": "one\n", "hidden.txt": "h\n"})
    main.git("worktree", "add", "-q", "-b", "feature", str(workspace / "tree"))
    with open(main.path / ".git" / "config", "a") as file:
        file.write(f'[filter "x"]\nclean = touch {tmp_path}/marked {workspace}/marked; cat\n')
    tree = workspace / "tree"
    (tree / ".gitattributes").write_text("* filter=x\n")
    (tree / "a.txt").write_text(f"key = {KEY}\n")
    (tree / "b.txt").write_text("new\n")
    found = look("tree", permissions={"deny": ["Read(hidden.txt)"]})
    assert [change.path for change in found.changes] == [".gitattributes", "a.txt", "b.txt"]
    assert of(found, "secrets") == ("failed", [("a.txt", 1, "AWS Access Key")])
    assert sorted(os.listdir(workspace)) == ["tree"]
    assert not (tmp_path / "marked").exists()


def test_without_walls_git_is_not_run(repo, look):
    repo.write("b.txt", "b\n")
    with pytest.raises(SecurityError, match="needs a sandbox"):
        look(toolyard={"code_execution": {"mode": "none"}})

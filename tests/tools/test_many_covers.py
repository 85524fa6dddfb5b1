"""A large tree or a great number of guarded files opens nothing, and does not lock the workspace either."""

import os
import resource
import time

import pytest

from toolyard.core.errors import SystemFault
from toolyard.core.permission_modes import PermissionMode
from toolyard.policy.policy import Policy
from toolyard.policy.sandbox_rules import SandboxRules
from toolyard.sandbox import file_visibility, tree_scan
from toolyard.sandbox.backends import bubblewrap, namespaces
from toolyard.sandbox.file_visibility import FileVisibility
from toolyard.sandbox.spec import Mount, SandboxSpec

FLOOD = 20_100
SEALING = {"deny": ["Write(**/prod.yaml)"]}


async def run(bench, command, **options):
    return (await bench.call("Bash", command=command, **options)).text


def flood(folder, count):
    os.makedirs(folder, exist_ok=True)
    for number in range(count):
        os.mknod(f"{folder}/a{number}")


async def test_a_flood_of_files_opens_no_repository_and_lifts_no_rule(open_bench):
    bench = open_bench(permissions=SEALING)
    bench.write("z/pkg/.git/config", "[core]\n")
    bench.write("z/deploy/prod.yaml", "good\n")
    flood(bench.path, FLOOD)
    said = await run(bench, "echo evil > z/pkg/.git/config; echo evil > z/deploy/prod.yaml; echo fine > z/new")
    assert said.count("Read-only file system") == 2
    assert os.path.exists(f"{bench.path}/z/new")


def test_looking_through_a_large_tree_is_quick(tmp_path):
    for number in range(100):
        flood(tmp_path / f"p{number % 10}" / f"d{number}", 100)
    (tmp_path / "p0" / ".git" / "hooks").mkdir(parents=True)
    policy = Policy(PermissionMode.STRICT, str(tmp_path))
    look = FileVisibility(policy, SandboxRules(policy), "/state")
    took = []
    for _ in range(3):
        began = time.process_time()
        assert str(tmp_path / "p0" / ".git" / "hooks") in [
            mount.source for mount in look.visible_files(writable=True).mounts
        ]
        took.append(time.process_time() - began)
    assert min(took) < 0.06  # 50,000 files in 0.3 s


async def test_what_was_not_looked_through_cannot_be_written_and_the_result_says_so(bench, monkeypatch):
    monkeypatch.setattr(tree_scan, "_MAX_ENTRIES", 50)
    bench.write("deep/er/pkg/.git/config", "[core]\n")
    bench.write("open/file", "")
    flood(f"{bench.path}/many", 100)
    said = await run(bench, "echo evil > deep/er/pkg/.git/config; touch deep/new; touch new many/new")
    assert said.count("Read-only file system") == 2
    assert f"{bench.path}/deep is read-only for commands: there are too many files to scan." in said
    assert {"new", "many/new"} <= set(bench.names())


@pytest.mark.parametrize("folder", ["vendor/", ""])
async def test_more_repositories_than_can_be_guarded_one_by_one_are_read_only_together(bench, monkeypatch, folder):
    monkeypatch.setattr(file_visibility, "_MAX_MOUNTS", 60)
    monkeypatch.setattr(file_visibility, "_MAX_READ_ONLY_FOLDERS", 10)
    for number in range(30):
        bench.write(f"{folder}r{number}/.git/config", "[core]\n")
    said = await run(bench, f"echo evil > {folder}r7/.git/config; touch {folder}r7/new; echo hi; touch beside")
    assert "hi" in said
    assert "read-only for commands: too many repositories" in said
    assert os.path.exists(f"{bench.path}/beside") is bool(folder)
    assert not os.path.exists(f"{bench.path}/{folder}r7/new")
    assert "read-only for commands" in await run(bench, "echo again")


async def test_more_hidden_files_than_can_be_covered_are_a_fault_in_words(open_bench, monkeypatch):
    monkeypatch.setattr(file_visibility, "_MAX_MOUNTS", 20)
    bench = open_bench(permissions={"deny": ["Read(.env)"]})
    for number in range(30):
        bench.write(f"d{number}/.env", "SECRET")
    with pytest.raises(SystemFault, match="31 files and folders would have to be hidden one by one"):
        await bench.call("Bash", command="echo hi")


@pytest.mark.parametrize("by_bubblewrap", [True, False])
async def test_many_repositories_need_no_more_files_than_a_process_may_open(bench, monkeypatch, by_bubblewrap):
    monkeypatch.setattr(namespaces, "can_mount", lambda _: not by_bubblewrap)
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    for number in range(60):
        bench.write(f"r{number}/.git/config", "[core]\n")
        os.makedirs(f"{bench.path}/r{number}/.git/hooks")
    resource.setrlimit(resource.RLIMIT_NOFILE, (150, hard))
    try:
        said = await run(bench, "echo hi; echo evil > r59/.git/config")
        assert resource.getrlimit(resource.RLIMIT_NOFILE) == (150, hard)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    assert "hi" in said
    assert "Read-only file system" in said


def test_more_than_bubblewrap_can_mount_is_a_fault_in_words(tmp_path, monkeypatch):
    monkeypatch.setattr(namespaces, "can_mount", lambda _: False)
    monkeypatch.setattr(bubblewrap, "_MAX_BUBBLEWRAP_MOUNTS", 300)
    mounts = tuple(Mount(str(tmp_path), target=f"/srv/{number}") for number in range(301))
    sandbox = bubblewrap.bubblewrap_sandbox(bubblewrap.find_bubblewrap())
    with sandbox, pytest.raises(SystemFault, match="301 files and folders would have to be hidden or sealed"):
        sandbox.start(SandboxSpec(str(tmp_path), mounts=mounts))

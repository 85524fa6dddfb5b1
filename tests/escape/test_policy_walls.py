"""Protected paths, deny rules and read-only context paths, by every spelling and through links."""

import os

import pytest

from tests.support.attacks.mcp_calls import SECURITY, WRITING_TOOLS, arguments_for

PROTECTED = (
    ".git/hooks/pre-commit",
    ".git/hooks/post-checkout",
    ".git/hooks/deep/er/x",
    ".git/config",
    ".git/config.worktree",
    ".git/commondir",
    ".git/modules/sub/config",
    ".git/worktrees/w/gitdir",
    ".git/rebase-merge/git-rebase-todo",
    "./.git/config",
    ".git//config",
    ".git/./hooks/./x",
    "sub/../.git/config",
    ".git/hooks/../config",
    ".git/hooks/../hooks/x",
    "{ws}/.git/config",
    "{ws}//.git/hooks/x",
    "sub/.git/config",
    "sub/.git/hooks/x",
    "new/.git/hooks/x",
    "git-link/config",
    "git-link/hooks/x",
    "git-link/hooks/pre-commit",
    "hook-link",
    "git-config-link",
    "in-folder/.git/config",
    "in-absolute-folder/.git/hooks/x",
    "toolyard.yaml",
    "./toolyard.yaml",
    "{ws}/toolyard.yaml",
    "sub/../toolyard.yaml",
    "yaml-link",
)


@pytest.mark.parametrize("tool", WRITING_TOOLS)
@pytest.mark.parametrize("path", PROTECTED)
async def test_a_protected_path_is_not_written(untouched, refused, tool, path):
    refused(await untouched.on(tool, untouched.world.spell(path)), SECURITY)


@pytest.mark.parametrize("path", [".git/config", "git-link/config", "toolyard.yaml", ".git/hooks/pre-commit"])
async def test_a_protected_path_can_be_read(untouched, path):
    answer = await untouched.on("Read", path)
    assert answer.code == 0


DENIED = (
    "hidden/key.pem",
    "./hidden/key.pem",
    "hidden//key.pem",
    "sub/../hidden/key.pem",
    "{ws}/hidden/key.pem",
    "hidden-link/key.pem",
    "key-link",
    "key-absolute",
    "hidden/../hidden/key.pem",
)


@pytest.mark.parametrize("tool", ["Read", "Write", "Edit", "MultiEdit", "Grep", "resources/read"])
@pytest.mark.parametrize("path", DENIED)
async def test_a_denied_file_is_refused_by_every_spelling(untouched, refused, tool, path):
    answer = await untouched.on(tool, untouched.world.spell(path))
    refused(answer, SECURITY)
    assert "key material" not in answer.text


@pytest.mark.parametrize("tool", ["Grep", "Glob", "LS"])
@pytest.mark.parametrize("path", ["hidden", "hidden-link", "sub/../hidden", "{ws}/hidden/"])
async def test_a_denied_folder_is_not_searched(untouched, refused, tool, path):
    answer = await untouched.on(tool, untouched.world.spell(path))
    refused(answer, SECURITY)
    assert "key.pem" not in answer.text


@pytest.mark.parametrize(
    ("tool", "arguments"),
    [
        ("Grep", {"pattern": "key material", "output_mode": "content"}),
        ("Grep", {"pattern": ".", "glob": "hidden/**"}),
        ("Grep", {"pattern": ".", "glob": "*.pem", "output_mode": "count"}),
        ("Glob", {"pattern": "**/*.pem"}),
        ("Glob", {"pattern": "hidden/*"}),
        ("Glob", {"pattern": "{hidden,sub}/*"}),
        ("Glob", {"pattern": "h?dden/*"}),
    ],
)
async def test_a_search_from_above_does_not_show_what_is_denied(untouched, tool, arguments):
    answer = await untouched.call(tool, arguments)
    assert answer.code == 0
    assert "key.pem" not in answer.text
    assert "key material" not in answer.text


async def test_a_listing_does_not_enter_what_is_denied(untouched):
    listed = (await untouched.call("LS", {})).text
    assert "c.txt" in listed
    assert "\n  key.pem" not in listed


CONTEXT = (
    "{context}/notes.txt",
    "{context}/new.txt",
    "{context}/new/deep.txt",
    "{context}//notes.txt",
    "{context}/./notes.txt",
    "{context}/sub/../notes.txt",
    "../context/notes.txt",
    "../writable/../context/notes.txt",
    "{ws}/../context/new.txt",
)


@pytest.mark.parametrize("tool", WRITING_TOOLS)
@pytest.mark.parametrize("path", CONTEXT)
async def test_a_read_only_context_path_is_not_written(untouched, refused, tool, path):
    refused(await untouched.on(tool, untouched.world.spell(path)), SECURITY)


@pytest.mark.parametrize("tool", WRITING_TOOLS)
async def test_a_link_into_a_read_only_context_path_does_not_write_it(victim, refused, tool):
    os.symlink(victim.world.context, f"{victim.world.workspace}/to-context")
    os.symlink(f"{victim.world.context}/notes.txt", f"{victim.world.writable}/to-notes")
    before = victim.world.fingerprint()
    for path in ("to-context/notes.txt", f"{victim.world.writable}/to-notes"):
        refused(await victim.on(tool, path), SECURITY)
    assert victim.world.fingerprint() == before


@pytest.mark.parametrize("path", ["{base}/config.yaml", "{base}/state", "{base}/home/.bashrc", "{base}"])
@pytest.mark.parametrize("tool", WRITING_TOOLS)
async def test_what_lies_beside_the_declared_folders_is_not_written(untouched, refused, tool, path):
    refused(await untouched.on(tool, untouched.world.spell(path)), SECURITY)


async def test_the_audit_log_is_out_of_reach(untouched, refused):
    for tool in ("Read", "Write", "Edit", "Grep", "LS"):
        refused(await untouched.on(tool, f"{untouched.yard.state}/audit.jsonl"), SECURITY)


@pytest.mark.parametrize(
    "arguments",
    [{}, {"command": 7}, {"command": None}, {"command": ["id"]}, {"command": "id", "timeout": "1"}, {"cmd": "id"}]
    + [{"command": "id", "timeout": wrong} for wrong in (0, -1, 10**9, 1.5, True)],
)
async def test_bash_with_wrong_arguments_is_invalid(untouched, refused, arguments):
    refused(await untouched.call("Bash", arguments), -32602)


@pytest.mark.parametrize(
    ("tool", "change"),
    [
        ("Write", {"content": None}),
        ("Write", {"content": 1}),
        ("Write", {"content": ["x"]}),
        ("Write", {"content": "\ud800"}),
        ("Edit", {"old_string": None}),
        ("Edit", {"new_string": 1}),
        ("Edit", {"replace_all": "yes"}),
        ("Edit", {"replace_all": 1}),
        ("Edit", {"old_string": "\udfff"}),
        ("Edit", {"new_string": "\ud800"}),
        ("Edit", {"old_string": "same", "new_string": "same"}),
        ("MultiEdit", {"edits": []}),
        ("MultiEdit", {"edits": None}),
        ("MultiEdit", {"edits": {}}),
        ("MultiEdit", {"edits": "x"}),
        ("MultiEdit", {"edits": [None]}),
        ("MultiEdit", {"edits": [{"old_string": "a"}]}),
        ("MultiEdit", {"edits": [{"old_string": "a", "new_string": "b", "file_path": "/etc/passwd"}]}),
        ("Read", {"offset": "1"}),
        ("Read", {"offset": 1.0}),
        ("Read", {"limit": 0}),
        ("Read", {"limit": -1}),
        ("Read", {"limit": True}),
        ("Read", {"pages": 1}),
        ("Grep", {"output_mode": "exec"}),
        ("Grep", {"-A": -1}),
        ("Grep", {"-A": "1"}),
        ("Grep", {"-n": "true"}),
        ("Grep", {"head_limit": -1}),
        ("Grep", {"pattern": ""}),
        ("Grep", {"pattern": 1}),
        ("Grep", {"before": 1}),
        ("Glob", {"pattern": ""}),
        ("Glob", {"pattern": None}),
        ("Glob", {"pattern": ["*"]}),
        ("LS", {"ignore": "*.py"}),
        ("LS", {"ignore": [1]}),
        ("LS", {"ignore": None}),
    ],
)
async def test_a_wrong_argument_is_invalid_and_nothing_is_done(untouched, refused, tool, change):
    path = "a.txt" if tool in {"Write", "Edit", "MultiEdit", "Read"} else "."
    refused(await untouched.call(tool, {**arguments_for(tool, path), **change}), -32602)

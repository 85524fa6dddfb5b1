"""An entry in a client's real file: where it lands, what stays, and that it goes without a trace."""

from __future__ import annotations

import json
import os
import stat
import subprocess
import sys
import tomllib

import pytest

from toolyard.config.clients import settings_file
from toolyard.config.clients.clients import CLIENTS, is_toolyard_entry
from toolyard.config.clients.entry_editor import ClientDocument
from toolyard.config.clients.installer import install, uninstall
from toolyard.core.errors import ConfigError, SystemFault, ToolError

WORDS = ("/opt/bin/toolyard", "mcp", "--workspace", "/p")
OTHERS = (*WORDS[:3], "/q")
PLAIN = {"command": WORDS[0], "args": [*WORDS[1:]]}
TYPED = {"type": "stdio", **PLAIN}
OPENCODE = {"type": "local", "command": [*WORDS], "enabled": True}
WHERE = [
    ("claude", "user", "home/.claude.json", "mcpServers", TYPED),
    ("claude", "project", "project/.mcp.json", "mcpServers", TYPED),
    ("codex", "user", "home/.codex/config.toml", "mcp_servers", PLAIN),
    ("codex", "project", "project/.codex/config.toml", "mcp_servers", PLAIN),
    ("gemini", "user", "home/.gemini/settings.json", "mcpServers", PLAIN),
    ("gemini", "project", "project/.gemini/settings.json", "mcpServers", PLAIN),
    ("qwen", "user", "home/.qwen/settings.json", "mcpServers", PLAIN),
    ("qwen", "project", "project/.qwen/settings.json", "mcpServers", PLAIN),
    ("opencode", "user", "home/.config/opencode/opencode.json", "mcp", OPENCODE),
    ("opencode", "project", "project/opencode.json", "mcp", OPENCODE),
    ("cursor", "user", "home/.cursor/mcp.json", "mcpServers", TYPED),
    ("cursor", "project", "project/.cursor/mcp.json", "mcpServers", TYPED),
    ("vscode", "user", "home/.config/Code/User/mcp.json", "servers", TYPED),
    ("vscode", "project", "project/.vscode/mcp.json", "servers", TYPED),
]
FORMER = {
    "json": b'{\n\t"theme": "dark", // mine\n\t"mcpServers": {"a": {"command": "x", "env": {"KEY": "secret"}}},\n}\n',
    "toml": b'# mine\nmodel = "m"\n\n[mcp_servers.a]\ncommand = "x"\n\n[z]\nk = 1\n',
}


def read(path):
    text = path.read_text()
    return tomllib.loads(text) if path.suffix == ".toml" else json.loads(text)


@pytest.mark.parametrize(("client", "scope", "path", "section", "entry"), WHERE)
def test_each_client_gets_its_entry_in_its_own_file_and_loses_it_without_a_trace(
    machine, client, scope, path, section, entry
):
    before = machine.everything()
    target = machine.target(client, scope)
    report = install(target, WORDS)
    file = machine.base / path
    assert (report.outcome, report.path, report.backup_path) == ("added", str(file), "")
    assert read(file) == {section: {"toolyard": entry}}
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert install(target, WORDS).outcome == "unchanged"
    assert install(target, OTHERS).outcome == "updated"
    assert uninstall(target).outcome == "removed"
    assert machine.everything() == before
    assert uninstall(target).outcome == "absent"


@pytest.mark.parametrize("client", CLIENTS)
def test_a_file_that_was_there_is_kept_and_comes_back_to_the_byte(machine, client):
    target = machine.target(client)
    path = machine.base / target.path
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(FORMER[path.suffix[1:]])
    path.chmod(0o640)
    before = machine.everything()
    report = install(target, WORDS)
    assert report.backup_path == f"{path}.toolyard-backup"
    backup = machine.base / report.backup_path
    assert backup.read_bytes() == FORMER[path.suffix[1:]]
    assert {stat.S_IMODE(each.stat().st_mode) for each in (path, backup)} == {0o640}
    written = path.read_bytes()
    assert b"mine" in written  # a comment
    assert (install(target, WORDS).outcome, path.read_bytes()) == ("unchanged", written)
    install(target, OTHERS)
    assert backup.read_bytes() == FORMER[path.suffix[1:]]
    uninstall(target)
    assert machine.everything() == before


def test_what_the_client_wrote_meanwhile_stays_and_so_does_the_backup(machine):
    target = machine.target("claude")
    path = machine.home / ".claude.json"
    path.write_text('{"a": 1}')
    install(target, WORDS)
    changed = {"new": [1], **json.loads(path.read_text())}
    path.write_text(json.dumps(changed, indent=4))
    report = uninstall(target)
    assert json.loads(path.read_text()) == {"new": [1], "a": 1}
    assert report.backup_path == f"{path}.toolyard-backup"
    assert (machine.base / report.backup_path).read_text() == '{"a": 1}'
    path.write_text('{"b": 2}')
    again = install(target, WORDS)
    assert again.backup_path == f"{path}.toolyard-backup-2"  # the older original is not overwritten
    assert (machine.base / again.backup_path).read_text() == '{"b": 2}'


def test_an_empty_section_that_was_there_stays(machine):
    path = machine.home / ".claude.json"
    path.write_text('{"mcpServers": {}}')
    install(machine.target("claude"), WORDS)
    path.write_text(path.read_text() + "\n\n")
    uninstall(machine.target("claude"))
    assert path.read_text() == '{"mcpServers": {}}\n\n'


@pytest.mark.parametrize(
    ("client", "key", "ours", "own", "then"),
    [
        ("gemini", "env", {"A": "$A", "B": "$B"}, {"A": "mine", "Z": "1"}, {"A": "mine", "B": "$B", "Z": "1"}),
        ("codex", "env_vars", ["A", "B"], ["Z", "A"], ["Z", "A", "B"]),
        ("qwen", "env", None, {"Z": "1"}, {"Z": "1"}),
    ],
)
def test_variables_are_handed_on_beside_those_of_the_user(machine, client, key, ours, own, then):
    target = machine.target(client)
    install(target, WORDS, variables=("A", "B"))
    path = machine.base / target.path
    entry = read(path)[target.client.section]["toolyard"]
    assert entry.get(key) == ours
    path.unlink()
    path.write_text(ClientDocument(str(path), target.client.section, "").with_entry("toolyard", {**PLAIN, key: own}))
    install(target, OTHERS, variables=("A", "B"))
    assert read(path)[target.client.section]["toolyard"][key] == then
    assert install(target, OTHERS, variables=("A", "B")).outcome == "unchanged"


def test_what_the_user_added_to_our_entry_survives_an_update(machine):
    path = machine.home / ".gemini" / "settings.json"
    install(machine.target("gemini"), WORDS)
    document = json.loads(path.read_text())
    document["mcpServers"]["toolyard"]["timeout"] = 5
    path.write_text(json.dumps(document))
    install(machine.target("gemini"), OTHERS)
    assert json.loads(path.read_text())["mcpServers"]["toolyard"] == {**PLAIN, "args": [*OTHERS[1:]], "timeout": 5}


@pytest.mark.parametrize("client", ["claude", "codex"])
def test_the_entry_of_another_program_is_replaced_by_force_alone_and_comes_back(machine, client):
    target = machine.target(client)
    path = machine.base / target.path
    path.parent.mkdir(exist_ok=True)
    text = '{"mcpServers": {"toolyard": {"command": "theirs"}}}'
    path.write_text(text if client == "claude" else '[mcp_servers.toolyard]\ncommand = "theirs"\nx = 1\n')
    before = machine.everything()
    with pytest.raises(ToolError, match='another server called "toolyard"'):
        install(target, WORDS)
    with pytest.raises(ToolError, match="was not installed by Toolyard"):
        uninstall(target)
    assert machine.everything() == before
    assert install(target, WORDS, force=True).outcome == "replaced"
    assert is_toolyard_entry(target.document(settings_file.read_content(str(path))).entry("toolyard"))
    uninstall(target)
    assert machine.everything() == before


@pytest.mark.parametrize(
    ("client", "text"),
    [
        ("claude", '{"a": 1'),
        ("claude", "[]"),
        ("claude", '{"mcpServers": []}'),
        ("claude", '{"mcpServers": null}'),
        ("claude", "\x00"),
        ("gemini", '{"mcpServers": {"a": 1,, }}'),
        ("codex", "a = "),
        ("codex", "mcp_servers = 1\n"),
        ("codex", "mcp_servers = {a = {command = 'x'}}\n"),
    ],
)
def test_a_file_that_cannot_be_changed_safely_is_left_alone(machine, client, text):
    target = machine.target(client)
    path = machine.base / target.path
    path.parent.mkdir(exist_ok=True)
    path.write_text(text)
    before = machine.everything()
    with pytest.raises(ConfigError) as caught:
        install(target, WORDS)
    assert str(path) in caught.value.message
    assert caught.value.hint
    assert machine.everything() == before


@pytest.mark.parametrize("raw", [b"\xff\xfe{", b"\xef\xbb\xbf{}\xff"])
def test_a_file_that_is_no_text_is_left_alone(machine, raw):
    (machine.home / ".claude.json").write_bytes(raw)
    with pytest.raises(ConfigError, match="UTF-8"):
        install(machine.target("claude"), WORDS)
    assert (machine.home / ".claude.json").read_bytes() == raw


def test_a_byte_order_mark_and_line_ends_stay(machine):
    path = machine.home / ".claude.json"
    path.write_bytes(b'\xef\xbb\xbf{\r\n  "a": 1\r\n}\r\n')
    install(machine.target("claude"), WORDS)
    raw = path.read_bytes()
    assert raw.startswith(b'\xef\xbb\xbf{\r\n  "a": 1,\r\n  "mcpServers": {\r\n')
    assert raw.count(b"\n") == raw.count(b"\r\n")


def test_a_link_is_followed_and_stays_a_link(machine):
    kept = machine.base / "dotfiles" / "claude.json"
    kept.parent.mkdir()
    kept.write_text("{}")
    link = machine.home / ".claude.json"
    link.symlink_to("../dotfiles/claude.json")
    install(machine.target("claude"), WORDS)
    assert os.readlink(link) == "../dotfiles/claude.json"
    assert "toolyard" in kept.read_text()
    uninstall(machine.target("claude"))
    assert (os.readlink(link), kept.read_text()) == ("../dotfiles/claude.json", "{}")
    assert os.listdir(kept.parent) == ["claude.json"]


@pytest.mark.parametrize("link", [".cursor", ".cursor/mcp.json"])
def test_a_link_in_a_project_does_not_choose_a_file_outside_of_it(machine, link):
    others = machine.base / "others"
    others.mkdir()
    (others / "mcp.json").write_text("{}")
    place = machine.base / "project" / link
    place.parent.mkdir(parents=True, exist_ok=True)
    place.symlink_to(others if link == ".cursor" else others / "mcp.json")
    with pytest.raises(ConfigError, match="a link leads out of the project"):
        install(machine.target("cursor", "project"), WORDS)
    assert ((others / "mcp.json").read_text(), os.listdir(others)) == ("{}", ["mcp.json"])


def test_a_pipe_or_a_folder_in_its_place_is_refused_with_what_to_do_about_it(machine):
    os.mkfifo(machine.home / ".claude.json")
    (machine.home / ".cursor" / "mcp.json").mkdir(parents=True)
    for client, kind in (("claude", "a named pipe"), ("cursor", "a folder")):
        for act in (lambda target: install(target, WORDS), uninstall):
            with pytest.raises(ConfigError, match=f"is {kind}, not a regular file") as refused:
                act(machine.target(client))
            assert refused.value.hint == "Check what is at that path; nothing was written."


@pytest.mark.parametrize("held", [b"", b"{}", b"{}\n", b"\n", b'{"mcpServers": {}}'])
def test_a_file_that_was_there_with_next_to_nothing_in_it_stays(machine, held):
    path = machine.home / ".claude.json"
    path.write_bytes(held)
    before = machine.everything()
    install(machine.target("claude"), WORDS)
    install(machine.target("claude"), OTHERS)
    uninstall(machine.target("claude"))
    assert machine.everything() == before


def test_a_file_that_only_ever_held_our_entry_stays_where_somebody_else_made_it(machine):
    path = machine.home / ".cursor" / "mcp.json"
    path.parent.mkdir()
    path.write_text(json.dumps({"mcpServers": {"toolyard": {"command": "toolyard", "args": ["mcp"]}}}))
    install(machine.target("cursor"), WORDS)
    uninstall(machine.target("cursor"))
    assert json.loads(path.read_text()) == {}


def test_a_file_that_was_made_again_by_somebody_else_is_no_longer_ours_to_remove(machine):
    target, path = machine.target("claude"), machine.home / ".claude.json"
    install(target, WORDS)
    path.unlink()
    path.write_text("{}")
    install(target, WORDS)
    uninstall(target)
    assert path.read_text() == "{}"


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everything")
def test_a_read_only_file_is_left_alone(machine):
    (machine.home / ".claude.json").write_text("{}")
    (machine.home / ".claude.json").chmod(0o400)
    with pytest.raises(ConfigError, match="read-only"):
        install(machine.target("claude"), WORDS)


def test_a_dry_run_writes_nothing(machine):
    (machine.home / ".claude.json").write_text("{}")
    before = machine.everything(but="nothing")
    for client in CLIENTS:
        assert install(machine.target(client), WORDS, dry_run=True).outcome == "added"
    assert machine.everything(but="nothing") == before
    install(machine.target("cursor"), WORDS)
    before = machine.everything(but="nothing")
    report = uninstall(machine.target("cursor"), dry_run=True)
    assert (report.outcome, report.after) == ("removed", "")
    assert machine.everything(but="nothing") == before


def test_the_variables_of_the_clients_are_honoured(machine):
    for variable in ("CLAUDE_CONFIG_DIR", "CODEX_HOME", "GEMINI_CLI_HOME", "QWEN_HOME", "XDG_CONFIG_HOME"):
        machine.variables[variable] = str(machine.base / variable)
    found = {name: os.path.relpath(machine.target(name).path, machine.base) for name in CLIENTS}
    assert found == {
        "claude": "CLAUDE_CONFIG_DIR/.claude.json",
        "codex": "CODEX_HOME/config.toml",
        "gemini": "GEMINI_CLI_HOME/.gemini/settings.json",
        "qwen": "QWEN_HOME/settings.json",
        "opencode": "XDG_CONFIG_HOME/opencode/opencode.json",
        "cursor": "home/.cursor/mcp.json",
        "vscode": "XDG_CONFIG_HOME/Code/User/mcp.json",
    }


def test_the_file_that_is_there_is_the_one_that_is_changed(machine):
    folder = machine.home / ".config" / "opencode"
    folder.mkdir(parents=True)
    (folder / "opencode.jsonc").write_text("{}")
    assert machine.target("opencode").path == str(folder / "opencode.jsonc")
    (folder / "opencode.json").write_text('{"mcp": {"toolyard": {"type": "local", "command": ["toolyard", "mcp"]}}}')
    assert machine.target("opencode").path == str(folder / "opencode.json")  # it has the entry
    (machine.home / ".claude").mkdir()
    (machine.home / ".claude" / ".config.json").write_text("{}")
    assert machine.target("claude").path == str(machine.home / ".claude" / ".config.json")


@pytest.mark.parametrize(("client", "path"), [("gemini", "/a/$HOME"), ("claude", "/${X}"), ("opencode", "/{env:X}")])
def test_a_path_that_the_client_would_expand_is_refused(machine, client, path):
    with pytest.raises(ConfigError, match="would expand a variable"):
        install(machine.target(client), (*WORDS[:3], path))
    assert machine.everything() == {}


def test_folders_that_others_made_or_use_stay(machine):
    (machine.home / ".cursor").mkdir()
    for client in ("cursor", "opencode", "vscode"):
        install(machine.target(client), WORDS)
    (machine.home / ".config" / "Code" / "User" / "settings.json").write_text("{}")
    for client in ("cursor", "opencode", "vscode"):
        uninstall(machine.target(client))
    assert [*machine.everything()] == [
        "home/.config",
        "home/.config/Code",
        "home/.config/Code/User",
        "home/.config/Code/User/settings.json",
        "home/.cursor",
    ]


def test_a_program_that_writes_in_between_loses_nothing(machine):
    path = machine.home / "f.json"
    path.write_text("1")
    seen = []

    def make(content):
        seen.append(content.text)
        if len(seen) == 1:
            path.write_text("22")  # somebody else
        return content.encode(content.text + "!")

    settings_file.update_file(str(path), make, should_backup=lambda _: False)
    assert (seen, path.read_text()) == (["1", "22"], "22!")
    assert os.listdir(machine.home) == ["f.json"]


def test_a_program_that_never_stops_writing_is_given_up_on(machine):
    path = machine.home / "f.json"
    path.write_text("1")

    def make(content):
        path.write_text(content.text + "x")
        return b"ours"

    with pytest.raises(SystemFault, match="another program"):
        settings_file.update_file(str(path), make, should_backup=lambda _: False)
    assert b"ours" not in path.read_bytes()
    assert os.listdir(machine.home) == ["f.json"]


def test_many_at_once_lose_no_entry(machine):
    code = (
        "import sys\n"
        "from toolyard.config.clients.clients import CLIENTS\n"
        "from toolyard.config.clients.installer import InstallTarget, install\n"
        "from toolyard.config.settings import Settings\n"
        "home, name = sys.argv[1:]\n"
        "settings = Settings.from_environment({'HOME': home})\n"
        "install(InstallTarget(CLIENTS['claude'], 'user', settings, home, name), ('/t/toolyard', 'mcp'))\n"
    )
    names = [f"yard{number}" for number in range(6)]
    running = [subprocess.Popen([sys.executable, "-c", code, str(machine.home), name]) for name in names]
    assert [process.wait(timeout=50) for process in running] == [0] * len(names)
    assert json.loads((machine.home / ".claude.json").read_text())["mcpServers"].keys() == {*names}


def test_a_lock_that_is_held_is_waited_for_and_then_told(machine, monkeypatch):
    monkeypatch.setattr(settings_file, "_LOCK_SECONDS", 0.1)
    code = "import fcntl, os, sys; fcntl.flock(os.open(sys.argv[1], 0), 2); print(flush=True); sys.stdin.read()"
    command = [sys.executable, "-c", code, str(machine.home)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as holder:
        assert holder.stdout.readline()
        with pytest.raises(SystemFault, match="holds the lock"):
            install(machine.target("claude"), WORDS)
        holder.stdin.close()
    assert machine.everything() == {}


@pytest.mark.parametrize(
    ("entry", "ours"),
    [
        ({"command": "toolyard", "args": ["mcp"]}, True),
        ({"command": ["/x/toolyard", "mcp", "--workspace", "/p"]}, True),
        ({"command": "/usr/bin/python3", "args": ["-m", "toolyard", "mcp"]}, True),
        ({"command": "toolyard", "args": ["doctor"]}, False),
        ({"command": "/x/toolyard-other", "args": ["mcp"]}, False),
        ({"command": "npx", "args": ["toolyard", "mcp"]}, False),
        ({"url": "http://127.0.0.1/mcp"}, False),
        ({"command": [], "args": []}, False),
        ({"command": None, "args": [1]}, False),
        (["toolyard", "mcp"], False),
    ],
)
def test_an_entry_is_ours_when_it_starts_our_server(entry, ours):
    assert is_toolyard_entry(entry) is ours

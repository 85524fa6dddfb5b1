"""What is hidden or sealed stays so, whatever a command does to the folders around it."""

import errno
import os
import ssl
from dataclasses import replace

import pytest

from toolyard.core.errors import ConfigError, SystemFault
from toolyard.sandbox import guest_layout as inside
from toolyard.sandbox import mount_plan
from toolyard.sandbox.backends.bubblewrap import bubblewrap_sandbox, find_bubblewrap
from toolyard.sandbox.backends.landlock import landlock_sandbox
from toolyard.sandbox.backends.namespaces import find_unshare, namespaces_sandbox
from toolyard.sandbox.spec import Mount, SandboxSpec

HIDING = {"deny": ["Read(.env)"]}
# In place of the code's own answer, which must not follow: a run that has answered is ended.
SEND = (
    "os.write(3, struct.pack('<I', len(body)))\nview = memoryview(body)\n"
    "while view: view = view[os.write(3, view):]\n"
    "import time; time.sleep(30)"
)
WITH_MOUNTS = {
    "bubblewrap": lambda: bubblewrap_sandbox(find_bubblewrap()),
    "namespaces": lambda: namespaces_sandbox(find_unshare()),
}


async def run(bench, command, **options):
    return (await bench.call("Bash", command=command, **options)).text


@pytest.fixture
def outside(tmp_path):
    folder = tmp_path / "outside" / "data"
    folder.mkdir(parents=True)
    (folder / "key").write_text("HOST SECRET")
    return folder


@pytest.mark.parametrize(
    "sandbox", [lambda: bubblewrap_sandbox(find_bubblewrap()), landlock_sandbox], ids=["bubblewrap", "landlocked"]
)
def test_a_mount_with_a_link_on_its_way_is_not_made(tmp_path, outside, sandbox):
    workspace = tmp_path / "ws"
    workspace.mkdir()
    (workspace / "x").symlink_to(outside.parent)
    spec = SandboxSpec(str(workspace), mounts=(Mount(str(workspace / "x" / "data"), writable=True),))
    with sandbox() as made, pytest.raises(SystemFault, match="its path contains a symbolic link"):
        made.start(spec)


@pytest.mark.parametrize("kind", WITH_MOUNTS)
def test_a_workspace_that_becomes_a_link_while_the_sandbox_starts_is_not_shown(tmp_path, outside, monkeypatch, kind):
    workspace = tmp_path / "ws"
    workspace.mkdir()
    words = inside.supervisor_command

    def swap(*arguments, **options):  # the host has looked by now, and nothing is mounted yet
        workspace.rmdir()
        workspace.symlink_to(outside)
        return words(*arguments, **options)

    monkeypatch.setattr(inside, "supervisor_command", swap)
    with WITH_MOUNTS[kind]() as sandbox, pytest.raises(SystemFault):
        sandbox.start(SandboxSpec(str(workspace)))


@pytest.mark.parametrize("kind", WITH_MOUNTS)
def test_a_sandbox_that_shows_another_folder_as_its_workspace_does_not_start(tmp_path, outside, monkeypatch, kind):
    workspace = tmp_path / "ws"
    workspace.mkdir()
    made = mount_plan.mount_steps

    def led_elsewhere(*arguments, **options):
        for step in made(*arguments, **options):
            yield replace(step, source=str(outside)) if step.target == str(workspace) else step

    monkeypatch.setattr(mount_plan, "mount_steps", led_elsewhere)
    with WITH_MOUNTS[kind]() as sandbox, pytest.raises(SystemFault, match="its path contains a symbolic link"):
        sandbox.start(SandboxSpec(str(workspace)))


@pytest.mark.parametrize("kind", WITH_MOUNTS)
def test_a_link_that_comes_and_goes_is_a_fault_in_words(tmp_path, monkeypatch, kind):
    def gone(path):
        raise OSError(errno.EINVAL, os.strerror(errno.EINVAL), path)

    monkeypatch.setattr(os, "readlink", gone)  # as when a link that was just seen is a folder again
    (tmp_path / "ws").symlink_to(tmp_path)
    with WITH_MOUNTS[kind]() as sandbox, pytest.raises(SystemFault):
        sandbox.start(SandboxSpec(str(tmp_path / "ws")))


async def test_a_folder_above_a_sealed_one_cannot_be_moved_away(bench):
    bench.write("x/.git/config", "[core]\n")
    assert "Device or resource busy" in await run(bench, "mv x y")
    assert bench.names() == ["x", "x/.git", "x/.git/config"]


async def test_a_folder_that_is_closed_for_a_moment_hides_nothing(open_bench, monkeypatch):
    list_folder = os.scandir

    def closed_to_root_too(path="."):
        if not os.stat(path).st_mode & 0o777:
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), path)
        return list_folder(path)

    monkeypatch.setattr(os, "scandir", closed_to_root_too)
    bench = open_bench(permissions=HIDING)
    bench.write("app/.env", "SECRET")
    await run(bench, "chmod 000 app")
    assert "SECRET" not in await run(bench, "chmod 755 app; cat app/.env")


async def test_a_path_that_is_too_long_to_be_looked_at_hides_nothing(open_bench):
    bench = open_bench(permissions=HIDING)
    deep = "/".join(["d" * 200] * 25)
    dive = "import os\nfor name in '" + deep + "'.split('/'):\n os.makedirs(name, exist_ok=True); os.chdir(name)\n"
    await bench.call("execute_python", code=f"{dive}open('.env', 'w').write('SECRET')")
    seen = await bench.call("execute_python", code=f"{dive}print(open('.env').read())")
    assert "SECRET" not in seen.structured["stdout"]


@pytest.mark.parametrize("writing", ["Write(conf/**)", "Write(conf)", "Edit(conf/**)"])
async def test_what_is_hidden_in_a_sealed_folder_stays_hidden(open_bench, writing):
    bench = open_bench(permissions={"deny": ["Read(.env)", writing]})
    for name in ("conf/.env", "conf/sub/.env", ".git/hooks/.env"):
        bench.write(name, "SECRET")
    said = await run(bench, "cat conf/.env conf/sub/.env .git/hooks/.env; echo x > conf/new; echo x > conf/sub/new")
    assert (said.count("Permission denied"), said.count("Read-only file system")) == (3, 2)
    assert "SECRET" not in said


async def test_a_folder_on_the_way_to_a_context_path_stays_sealed(open_bench, tmp_path):
    made = tmp_path / "ws" / "conf" / "a" / "out"
    made.mkdir(parents=True)
    entry = {"path": str(made), "permission": "write"}
    bench = open_bench(permissions={"deny": ["Write(/conf/**)"]}, orchestrator={"context_paths": [entry]})
    assert "Read-only file system" in await run(bench, "touch conf/a/new")


def test_a_context_path_in_the_workspace_cannot_be_led_out(open_bench, tmp_path, outside):
    workspace = tmp_path / "ws"
    workspace.mkdir(exist_ok=True)
    (workspace / "ctx").symlink_to(outside.parent)
    entry = {"path": str(workspace / "ctx" / "data"), "permission": "read"}
    with pytest.raises(ConfigError, match="a link leads out of it"):
        open_bench(orchestrator={"context_paths": [entry]})


async def test_a_waiting_shell_cannot_be_told_what_to_do(bench):
    tell = "[ -e $fd ] && echo met && echo 'touch /tmp/made' > $fd && echo told"
    meet = "for i in {1..50}; do for fd in /proc/[0-9]*/fd/4; do [ -e $fd ] && break 2; done; sleep 0.1; done"
    said = await run(bench, f"{meet}; for fd in /proc/[0-9]*/fd/4; do {tell}; done 2>/dev/null; true")
    assert "met" in said
    assert "told" not in said


async def test_answers_that_nobody_asked_for_are_dropped(bench):
    flood = (
        "import os, struct, threading\n"
        "def answer():\n"
        "    for _ in range(20): os.write(3, struct.pack('<I', 2) + b'{}')\n"
        "threading.Timer(0.05, answer).start()\n'begun'"
    )
    await bench.call("execute_python", code=flood, session="a")
    await run(bench, "sleep 0.3")
    box = bench.yard.sandboxes.get_sandbox().sandbox._process
    assert box._setup_replies.empty()
    assert (await bench.call("execute_python", code="1 + 1", session="a")).structured["value"] == "2"


@pytest.mark.parametrize(("parts", "value"), [(10, "forged"), (1_000_000, None)])
async def test_an_answer_of_countless_parts_is_not_read(bench, parts, value):
    code = f"import os, struct\nbody = b'{{\"value\":\"forged\",\"a\":[' + b'{{}},' * {parts} + b'{{}}]}}'\n{SEND}"
    result = await bench.call("execute_python", code=code)
    assert result.structured["value"] == value
    assert (await bench.call("execute_python", code="2 + 2")).structured["value"] == "4"


async def test_an_answer_without_end_ends_the_run(bench):
    code = f"import os, struct\nbody = b'{{\"value\":\"' + b'x' * (50 << 20) + b'\"}}'\n{SEND}"
    result = await bench.call("execute_python", code=code)
    assert (result.structured["value"], result.structured["exit_code"]) == (None, 128 + 9)
    assert (await bench.call("execute_python", code="2 + 2")).structured["value"] == "4"


def test_a_sandbox_in_which_something_is_not_covered_does_not_start(tmp_path, monkeypatch):
    (tmp_path / "ws").mkdir()
    hidden = tmp_path / "ws" / ".env"
    hidden.write_text("SECRET")
    made = mount_plan.mount_steps
    monkeypatch.setattr(
        mount_plan, "mount_steps", lambda *a, **k: (step for step in made(*a, **k) if step.target != str(hidden))
    )
    with bubblewrap_sandbox(find_bubblewrap()) as sandbox, pytest.raises(SystemFault, match="it is not covered"):
        sandbox.start(SandboxSpec(str(tmp_path / "ws"), hidden=(str(hidden),)))


async def test_the_authorities_that_the_host_trusts_are_known_inside(bench):
    code = "import ssl\nlen(ssl.create_default_context().get_ca_certs())"
    inside = (await bench.call("execute_python", code=code)).structured["value"]
    assert int(inside) == len(ssl.create_default_context().get_ca_certs()) > 0

"""The walls that commands meet are those the policy and the configuration describe."""

import asyncio
import contextlib
import http.server
import os
import sys
import threading
import time

import pytest

from toolyard.config.settings import Settings
from toolyard.core.errors import SecurityError, SystemFault
from toolyard.core.permission_modes import PermissionMode
from toolyard.sandbox.guest_layout import environment_variables
from toolyard.sandbox.manager import own_environment
from toolyard.sandbox.spec import Tier
from toolyard.storage.audit_reader import read

LONGEST_WAIT = 30.0


def context(*entries):
    return {"context_paths": [{"path": str(path), "permission": how} for path, how in entries]}


def execution(**options):
    return {"code_execution": options}


async def run(bench, command, **options):
    result = await bench.call("Bash", command=command, **options)
    return result.structured["exit_code"], result.structured["stdout"]


async def fails(bench, command):
    code, _ = await run(bench, command)
    return code != 0


async def test_context_paths_are_read_and_written_as_declared(open_bench, tmp_path):
    for name in ("reading", "writing", "undeclared"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "a.txt").write_text(name)
    bench = open_bench(orchestrator=context((tmp_path / "reading", "read"), (tmp_path / "writing", "write")))
    assert await run(bench, f"cat {tmp_path}/reading/a.txt {tmp_path}/writing/a.txt") == (0, "readingwriting")
    assert await fails(bench, f"touch {tmp_path}/reading/b")
    assert await run(bench, f"touch {tmp_path}/writing/b") == (0, "")
    assert await fails(bench, f"ls {tmp_path}/undeclared")
    assert sorted(os.listdir(tmp_path / "writing")) == ["a.txt", "b"]
    assert os.listdir(tmp_path / "reading") == ["a.txt"]


async def test_a_context_path_around_the_workspace_does_not_cover_it(open_bench, tmp_path):
    (tmp_path / "beside.txt").write_text("beside")
    bench = open_bench(orchestrator=context((tmp_path, "read")))
    assert await run(bench, "cat ../beside.txt; touch made") == (0, "beside")
    assert await fails(bench, "touch ../made")
    assert bench.names() == ["made"]


async def test_a_read_only_context_path_inside_the_workspace_stays_so_with_its_repository(open_bench, tmp_path):
    vendor = tmp_path / "ws" / "vendor"
    (vendor / ".git").mkdir(parents=True)
    bench = open_bench(orchestrator=context((vendor, "read")))
    for name in ("vendor/a", "vendor/.git/a"):
        assert await fails(bench, f"touch {name}")
    assert bench.names() == ["vendor", "vendor/.git"]


@pytest.mark.parametrize("effect", ["deny", "ask"])
async def test_what_a_rule_keeps_from_reading_tools_is_hidden_from_commands(open_bench, effect):
    bench = open_bench(permissions={effect: ["Read(.env)", "Read(secret/**)"]})
    for name in (".env", "deep/.env", "secret/key", "open.txt"):
        bench.write(name, f"content of {name}\n")
    code, out = await run(bench, "cat .env deep/.env secret/key open.txt; cp .env stolen; ls secret")
    assert (code != 0, out) == (True, "content of open.txt\n")
    result = await bench.call("execute_python", code="open('.env').read()")
    assert "content of" not in result.text
    assert bench.read(".env") == b"content of .env\n"


async def test_a_file_added_later_is_hidden_from_the_next_run_which_says_so(open_bench):
    bench = open_bench(permissions={"deny": ["Read(.env)"]})
    assert await run(bench, "touch /tmp/mark; echo up") == (0, "up\n")
    assert await run(bench, "ls /tmp/mark") == (0, "/tmp/mark\n")
    bench.write(".env", "secret")
    result = await bench.call("Bash", command="cat .env; ls /tmp/mark")
    assert result.structured["stdout"] == ""
    assert "The sandbox was replaced, because its hidden or protected files have changed" in result.text
    assert "was replaced" not in (await bench.call("Bash", command="true")).text


SEALED = ("toolyard.yaml", ".git/config", ".git/hooks/pre-commit", "deep/.git/config", "locked/a.txt")


async def test_what_writing_tools_may_not_touch_is_sealed(open_bench):
    bench = open_bench(permissions={"deny": ["Write(locked/**)"], "protected_paths": ["kept.txt"]})
    for name in (*SEALED, "kept.txt"):
        bench.write(name, "mine")
    for name in (*SEALED, "kept.txt"):
        assert await run(bench, f"cat {name}") == (0, "mine")
        for attempt in (f"echo x > {name}", f"rm -f {name}", f"mv {name} away", f"ln -f /etc/hosts {name}"):
            assert await fails(bench, attempt), attempt
    assert [bench.read(name) for name in (*SEALED, "kept.txt")] == [b"mine"] * 6


async def test_a_repository_cannot_be_moved_away_to_put_another_in_its_place(open_bench):
    bench = open_bench(toolyard=execution(allow_destructive=True))
    bench.write(".git/config", "mine")
    bench.write(".git/HEAD", "ref: refs/heads/main\n")
    assert await fails(bench, "mv .git aside")
    assert await fails(bench, "rm -rf .git")
    assert bench.read(".git/config") == b"mine"
    assert await run(bench, "echo ref > .git/ORIG_HEAD") == (0, "")  # git itself goes on working


async def test_where_writing_is_denied_the_whole_sandbox_only_reads(open_bench, tmp_path):
    (tmp_path / "writing").mkdir()
    bench = open_bench(permissions={"deny": ["Write"]}, orchestrator=context((tmp_path / "writing", "write")))
    bench.write("a.txt", "one")
    assert await run(bench, "cat a.txt") == (0, "one")
    for command in ("touch made", "rm a.txt", f"touch {tmp_path}/writing/made"):
        assert await fails(bench, command)
    assert (bench.names(), os.listdir(tmp_path / "writing")) == (["a.txt"], [])
    assert await run(bench, "touch /tmp/scratch") == (0, "")


async def test_the_state_folder_is_hidden_where_a_root_holds_it(open_bench, tmp_path):
    bench = open_bench(orchestrator=context((tmp_path / "state", "write")))
    state = bench.yard.state
    assert os.path.exists(f"{state}/audit.jsonl")
    assert await fails(bench, f"cat {state}/audit.jsonl")
    assert await fails(bench, f"touch {state}/made")
    assert "made" not in os.listdir(state)


async def test_documents_are_written_by_file_tools_and_only_read_by_commands_in_moderate(open_bench, tmp_path):
    documents = tmp_path / "home" / "Documents"
    documents.mkdir(parents=True)
    (documents / "letter.txt").write_text("dear")
    bench = open_bench(PermissionMode.MODERATE)
    assert await run(bench, f"cat {documents}/letter.txt") == (0, "dear")
    for command in (f"rm {documents}/letter.txt", f"touch {documents}/made", f"echo x > {documents}/letter.txt"):
        assert await fails(bench, command)
    assert {path.name: path.read_text() for path in documents.iterdir()} == {"letter.txt": "dear"}
    told = await bench.call("Bash", command=f"touch {documents}/made")
    assert f"{documents} is read-only to commands. The file tools (Write, Edit) can change files there." in told.text
    await bench.call("Write", file_path=f"{documents}/made.txt", content="by a file tool")
    assert (documents / "made.txt").read_text() == "by a file tool"
    assert await fails(open_bench(), f"ls {documents}")


async def test_moderate_roots_that_the_user_lists_are_read_only_for_commands_too(open_bench, tmp_path):
    (tmp_path / "data").mkdir()
    bench = open_bench(PermissionMode.MODERATE, permissions={"moderate_roots": [str(tmp_path / "data")]})
    assert await run(bench, f"ls {tmp_path}/data") == (0, "")
    assert await fails(bench, f"touch {tmp_path}/data/made")


async def test_the_temp_folder_is_reached_by_file_tools_and_not_by_commands(open_bench, tmp_path):
    bench = open_bench(PermissionMode.MODERATE)
    await bench.call("Write", file_path=f"{tmp_path}/temp/made.txt", content="by a file tool")
    assert (tmp_path / "temp" / "made.txt").read_text() == "by a file tool"
    assert await fails(bench, f"ls {tmp_path}/temp")
    code, listed = await run(bench, "touch /tmp/own; ls -A /tmp")
    assert (code, "own" in listed.split()) == (0, True)
    assert not os.path.exists("/tmp/own")


async def test_a_workspace_in_documents_stays_writable_in_moderate(open_bench, tmp_path):
    bench = open_bench(PermissionMode.MODERATE, permissions={"moderate_roots": [str(tmp_path / "ws")]})
    assert await run(bench, "touch made") == (0, "")
    assert bench.names() == ["made"]


async def test_a_context_path_that_is_a_temp_folder_is_not_shown_to_commands(open_bench, tmp_path):
    bench = open_bench(orchestrator=context((tmp_path / "temp", "read")))
    (tmp_path / "temp" / "a.txt").write_text("one")
    assert "one" in (await bench.call("Read", file_path=f"{tmp_path}/temp/a.txt")).text
    code, shown = await run(bench, f"cat {tmp_path}/temp/a.txt; true")
    assert (code, "one" in shown) == (0, False)


async def test_a_temp_folder_below_a_context_path_seems_empty_to_commands(open_bench, tmp_path):
    bench = open_bench(orchestrator=context((tmp_path, "read")))
    (tmp_path / "temp" / "a.txt").write_text("one")
    assert await fails(bench, f"cat {tmp_path}/temp/a.txt")
    assert await run(bench, f"test -d {tmp_path}/temp") == (0, "")


async def test_commands_do_not_run_in_a_workspace_that_is_the_temp_folder(open_bench, tmp_path, monkeypatch):
    monkeypatch.setattr(Settings, "temporary_folders", (str(tmp_path / "ws"),))
    bench = open_bench()
    error = await bench.fails(SecurityError, "Bash", command="true")
    assert error.message == f"Commands and code do not run in {tmp_path}/ws: other programs have their sockets there."
    await bench.call("Write", file_path="a.txt", content="one")


async def test_the_environment_that_toolyard_runs_from_is_not_written(open_bench, tmp_path, monkeypatch):
    prefix = tmp_path / "ws" / ".venv"
    (prefix / "bin").mkdir(parents=True)
    monkeypatch.setattr(sys, "prefix", str(prefix))
    assert own_environment(str(tmp_path / "ws")) == str(prefix)
    assert own_environment(str(prefix)) is None
    assert own_environment(str(tmp_path / "other")) is None
    bench = open_bench()
    assert await fails(bench, "touch .venv/bin/python")
    assert await fails(bench, "mv .venv aside")
    await bench.fails(SecurityError, "Write", file_path=".venv/bin/python", content="x")
    assert bench.names() == [".venv", ".venv/bin"]


@pytest.mark.parametrize(
    ("tool", "text"), [("Bash", "command"), ("execute_bash", "command"), ("execute_python", "code")]
)
async def test_switched_off_means_refused_with_what_to_use_instead(open_bench, tool, text):
    bench = open_bench(toolyard=execution(enabled=False))
    error = await bench.fails(SecurityError, tool, **{text: "1"})
    assert error.message.startswith("Commands and code are switched off for this workspace.")
    assert error.hint.startswith("Use the file tools.")


async def test_the_variables_named_are_seen_and_nothing_else_of_ours(open_bench, monkeypatch):
    monkeypatch.setenv("TOOLYARD_TEST_SECRET", "mine")
    bench = open_bench(toolyard=execution(env={"NAMED": "value"}))
    code, out = await run(bench, "env; tr '\\0' '\\n' < /proc/1/environ; true")
    names = {line.partition("=")[0] for line in out.splitlines()}
    assert (code, "NAMED=value" in out.splitlines(), "mine" in out) == (0, True, False)
    # The shell adds the last ones, and code mode those that say where its tools are.
    tools = {"TOOLYARD_BROKER", "TOOLYARD_PACKAGES", "TOOLYARD_AGENT", "TOOLYARD_SKILLS"}
    assert names <= {"NAMED", *environment_variables("", {}, proxied=False), *tools, "PWD", "OLDPWD", "SHLVL", "_"}


@contextlib.contextmanager
def loopback_server():
    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self):
            self.send_response(200)
            self.send_header("Content-Length", "5")
            self.end_headers()
            self.wfile.write(b"hello")

        def log_message(self, *arguments):
            pass

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
    thread.start()
    try:
        yield server.server_address[1]
    finally:
        server.shutdown()
        server.server_close()
        thread.join(LONGEST_WAIT)


async def test_an_allowed_host_is_reached_and_each_attempt_is_an_event(open_bench):
    with loopback_server() as port:
        bench = open_bench(toolyard=execution(allowed_hosts=[f"localhost:{port}"]))
        # The door's inner end may take a moment longer to open than the sandbox.
        reached = await run(bench, f"curl -s -m 30 http://localhost:{port}/")
        refused = await run(bench, "curl -sf -m 20 http://example.com/")
        unproxied = await run(bench, f"curl -sf --noproxy '*' -m 5 http://127.0.0.1:{port}/")
        bench.yard.close()
    assert (reached, refused[0] != 0, unproxied[0] != 0) == ((0, "hello"), True, True)
    network = [record.event for record in read(bench.yard.state) if record.event.tool == "network"]
    shown = [(event.target, event.decision, event.outcome.value, event.surface) for event in network]
    assert shown == [
        (f"localhost:{port}", "allow", "ok", "sandbox"),
        ("example.com:80", "deny", "denied", "sandbox"),
    ]


@pytest.mark.timeout(120)
async def test_files_are_read_while_thirty_commands_run(bench):
    bench.write("a.txt", "one\n")
    await run(bench, "true")
    commands = [asyncio.create_task(bench.call("Bash", command="sleep 100")) for _ in range(30)]
    async with asyncio.timeout(LONGEST_WAIT):
        while (await run(bench, "pgrep -c -x sleep"))[1] != "30\n":
            pass
    started = time.monotonic()
    for _ in range(20):
        assert (await bench.call("Read", file_path="a.txt")).structured["total_lines"] == 1
    assert (time.monotonic() - started) / 20 < 0.5  # the budget is 100 ms, on a machine that does nothing else
    for command in commands:
        command.cancel()
    ended = await asyncio.gather(*commands, return_exceptions=True)
    assert all(isinstance(error, asyncio.CancelledError) for error in ended)


async def test_a_run_keeps_its_own_clock_past_the_deadline_of_other_calls(open_bench):
    bench = open_bench(limits={"call_seconds": 0.5})
    assert await run(bench, "sleep 1; echo done") == (0, "done\n")


async def test_warming_up_starts_the_sandbox_ahead(bench):
    bench.yard.warm_up()
    until = time.monotonic() + LONGEST_WAIT
    while not bench.yard.sandboxes._sandboxes:
        assert time.monotonic() < until
        await asyncio.sleep(0.01)
    (ready,) = bench.yard.sandboxes._sandboxes.values()
    assert bench.yard.sandboxes.get_sandbox() is ready


async def test_nothing_starts_after_closing(bench):
    bench.yard.close()
    with pytest.raises(SystemFault, match="closed"):
        bench.yard.sandboxes.get_sandbox()


async def test_a_sandbox_that_does_not_start_is_closed_and_tried_again(bench, monkeypatch):
    sandboxes = bench.yard.sandboxes
    closed = []

    class Broken:
        tier = "broken"

        def start(self, spec):
            raise SystemFault("It does not start.")

        def close(self):
            closed.append(self)

    class Choice:
        make, note, tier = Broken, "", Tier.BUBBLEWRAP

    with monkeypatch.context() as broken:
        broken.setattr(sandboxes, "_choose", Choice)
        await bench.fails(SystemFault, "Bash", command="true")
    assert len(closed) == 1
    assert await run(bench, "true") == (0, "")


async def test_a_hidden_file_that_was_replaced_between_runs_is_not_seen_by_the_next(open_bench):
    bench = open_bench(permissions={"deny": ["Read(.env)"]})
    bench.write(".env", "OLD SECRET")
    read = "cat .env; true"
    assert "SECRET" not in (await bench.call("Bash", command=read)).text
    bench.write("new", "NEW SECRET")
    os.rename(f"{bench.path}/new", f"{bench.path}/.env")
    assert "SECRET" not in (await bench.call("Bash", command=read)).text


async def test_a_sealed_file_that_is_replaced_ends_everything_in_the_sandbox(bench):
    """The kernel takes the cover off, and nobody inside may make use of that for long."""
    bench.write(".git/config", "[core]\n")
    running = asyncio.ensure_future(bench.call("Bash", command="touch started; sleep 60"))
    await asyncio.wait_for(asyncio.to_thread(_appears, f"{bench.path}/started"), LONGEST_WAIT)
    bench.write("new", "[user]\n")
    os.replace(f"{bench.path}/new", f"{bench.path}/.git/config")
    result = await asyncio.wait_for(running, LONGEST_WAIT)
    assert result.structured["ending"] == "uncovered"
    assert await fails(bench, "echo more >> .git/config")
    assert bench.read(".git/config") == b"[user]\n"


async def test_a_host_that_is_refused_is_named_in_the_result(open_bench):
    bench = open_bench(toolyard=execution(allowed_hosts=["packages.example.com"]))
    result = await bench.call("Bash", command="curl -sS https://elsewhere.example.com")
    refused = "elsewhere.example.com:443 was refused: it is not in code_execution.allowed_hosts."
    assert refused in result.structured["notes"]


def test_who_leaves_out_bash_leaves_out_its_other_name(open_bench):
    backend = {"exclude_tools": ["Bash"]}
    assert not {"Bash", "execute_bash"} & set(open_bench(agents=[{"backend": backend}]).yard.dispatch.tools)


def _appears(path):
    while not os.path.exists(path):
        time.sleep(0.01)


@pytest.mark.parametrize("replacing", [False, True])
async def test_a_proxy_that_tells_of_a_refusal_does_not_wait_for_who_ends_it(open_bench, replacing):
    """Ending a sandbox waits for its proxy's thread."""
    bench = open_bench(permissions={"deny": ["Read(.env)"]})
    await run(bench, "true")
    sandboxes = bench.yard.sandboxes
    sandbox = sandboxes.get_sandbox().sandbox
    close, still_telling = sandbox.close, []

    def close_and_join():
        proxy = threading.Thread(target=sandboxes.record_refused_host, args=("evil.example:443",), daemon=True)
        proxy.start()
        proxy.join(LONGEST_WAIT)
        still_telling.append(proxy.is_alive())
        close()

    sandbox.close = close_and_join
    if replacing:
        bench.write(".env", "secret")
        result = await bench.call("Bash", command="true")
        assert "evil.example:443 was refused" in result.text
    else:
        sandboxes.close()
    assert still_telling == [False]

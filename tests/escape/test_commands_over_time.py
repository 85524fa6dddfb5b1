"""Walls that must hold while the workspace changes, in a mode that only reads, and at the door to allowed hosts."""

import os
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from tests.support.attacks.control import Arena, text_of
from tests.support.attacks.mcp_calls import MARKER
from toolyard.core.permission_modes import PermissionMode
from toolyard.sandbox.spec import RunKind, RunRequest

pytestmark = pytest.mark.destructive

SECONDS = 10
DOOR = "/run/toolyard/network/proxy"


@pytest.fixture
def arena(tmp_path):
    with Arena(str(tmp_path), sandboxed=True) as arena:
        yield arena


async def shell(arena, command):
    return text_of(await arena.run(RunKind.COMMAND, command, seconds=SECONDS))


def replace(path, text):
    """As editors and git write a file."""
    with open(f"{path}.new", "w") as file:
        file.write(text)
    os.rename(f"{path}.new", path)


async def test_a_hidden_file_stays_hidden_when_its_owner_replaces_it(arena):
    path = f"{arena.scene.workspace}/hidden/key.pem"
    assert MARKER not in await shell(arena, "cat hidden/key.pem")
    os.rename(f"{arena.scene.workspace}/hidden", f"{arena.scene.workspace}/before")
    os.mkdir(os.path.dirname(path))
    replace(path, MARKER)
    assert MARKER not in await shell(arena, "cat hidden/key.pem")


async def test_a_sealed_file_stays_sealed_when_git_replaces_it(arena):
    config = f"{arena.scene.workspace}/.git/config"
    await shell(arena, "true")
    replace(config, "[core]\n")
    await shell(arena, "echo owned >> .git/config")
    with open(config) as file:
        assert "owned" not in file.read()


async def test_a_hidden_file_stays_hidden_when_a_folder_around_it_is_renamed(tmp_path):
    with Arena(str(tmp_path), sandboxed=True, denied=("Read(deep/inner/**)",)) as arena:
        os.makedirs(f"{arena.scene.workspace}/deep/inner")
        with open(f"{arena.scene.workspace}/deep/inner/key", "w") as file:
            file.write(MARKER)
        await shell(arena, "mv deep other")
        assert MARKER not in await shell(arena, "cat other/inner/key")


async def test_a_file_that_is_hidden_from_now_on_is_hidden(arena):
    await shell(arena, "true")
    with open(f"{arena.scene.workspace}/hidden/another.pem", "w") as file:
        file.write(MARKER)
    assert MARKER not in await shell(arena, "cat hidden/another.pem")


@pytest.mark.parametrize("code", ["echo x > new", "echo x >> a.txt", "rm -f a.txt", "mkdir d", "chmod 777 a.txt"])
async def test_in_plan_mode_the_sandbox_itself_only_reads(tmp_path, code):
    """Whatever the policy would make of the command: this one never asks it."""
    with Arena(str(tmp_path), sandboxed=True, mode=PermissionMode.PLAN) as arena:
        before = sorted(os.listdir(arena.scene.workspace)), os.stat(f"{arena.scene.workspace}/a.txt")
        sandbox = arena.yard.sandboxes.get_sandbox().sandbox
        outcome = sandbox.run(RunRequest(RunKind.COMMAND, code, SECONDS), lambda *_: None, threading.Event())
        assert outcome.exit_code != 0 or code.startswith("rm")
        after = sorted(os.listdir(arena.scene.workspace)), os.stat(f"{arena.scene.workspace}/a.txt")
        assert (after[0], after[1].st_mtime_ns, after[1].st_mode) == (
            before[0],
            before[1].st_mtime_ns,
            before[1].st_mode,
        )


class Hello(BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200)
        self.end_headers()
        self.wfile.write(b"hello from the allowed host")

    def log_message(self, *_):
        pass


@pytest.fixture(scope="module")
def connected(tmp_path_factory):
    """A sandbox with one allowed host: a server of this test."""
    with ThreadingHTTPServer(("127.0.0.1", 0), Hello) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
        thread.start()
        host = f"localhost:{server.server_port}"
        with Arena(str(tmp_path_factory.mktemp("scene")), sandboxed=True, allowed_hosts=(host,)) as arena:
            arena.allowed = host
            yield arena
        server.shutdown()
        thread.join()


async def test_the_allowed_host_is_reached(connected):
    assert "hello from" in await shell(connected, f"curl -s -m 5 http://{connected.allowed}/")


RAW = """
def ask(text, path=None):
    s = socket.socket(socket.AF_UNIX) if path else socket.socket()
    s.settimeout(3); s.connect(path or ('127.0.0.1', 3128)); s.sendall(text.encode())
    print(s.recv(4096))
"""
AROUND = {
    "another port": "ask('CONNECT localhost:@tcp@ HTTP/1.1\\r\\nHost: localhost:@tcp@\\r\\n\\r\\n')",
    "another port, straight to the door": f"ask('CONNECT localhost:@tcp@ HTTP/1.1\\r\\n\\r\\n', '{DOOR}')",
    "an address": "ask('CONNECT 127.0.0.1:@tcp@ HTTP/1.1\\r\\n\\r\\n')",
    "an address in another form": "ask('CONNECT 2130706433:@tcp@ HTTP/1.1\\r\\n\\r\\n')",
    "the allowed host in a header": "ask('GET http://127.0.0.1:@tcp@/ HTTP/1.1\\r\\nHost: @allowed@\\r\\n\\r\\n')",
    "the allowed host as a user": "ask('GET http://@allowed@@127.0.0.1:@tcp@/ HTTP/1.1\\r\\n\\r\\n')",
    "a second request": "ask('GET http://@allowed@/ HTTP/1.1\\r\\nHost: x\\r\\n\\r\\n'"
    "'GET http://localhost:@tcp@/ HTTP/1.1\\r\\n\\r\\n')",
    "past the proxy": "socket.create_connection(('127.0.0.1', @tcp@), 1)",
}


@pytest.mark.parametrize("code", [pytest.param(code, id=name.replace(" ", "-")) for name, code in AROUND.items()])
async def test_an_allowed_host_is_no_way_to_others(connected, code):
    scene = connected.scene
    for name, value in {**scene.places(), "allowed": connected.allowed}.items():
        code = code.replace(f"@{name}@", value)
    answer = text_of(await connected.run(RunKind.PYTHON, RAW + code, seconds=SECONDS))
    assert scene.facts(answer) == set(), answer


@pytest.mark.parametrize("target", ["the forwarder", "the forwarder's time", "the door"])
async def test_whoever_breaks_the_way_out_gets_it_back_or_none(connected, target):
    if target == "the forwarder":
        await shell(connected, "for p in /proc/[0-9]*; do kill -9 ${p#/proc/} 2>/dev/null; done")
    elif target == "the forwarder's time":
        await shell(connected, "kill -STOP -1")
    else:
        await shell(connected, f"rm -f {DOOR}; mv {DOOR} /tmp/x; ln -sf /tmp/x {DOOR}")
    await shell(connected, "true")
    assert "hello from" in await shell(
        connected, f"curl -s -m 5 --retry 5 --retry-connrefused http://{connected.allowed}/"
    )

"""Sockets and pipes of the host's programs lead out of a sandbox, wherever they lie; they are covered."""

import contextlib
import os
import socket

import pytest

CONNECT = (
    "import socket\ntry:\n s = socket.socket(socket.AF_UNIX, socket.{kind}); s.connect({path!r}); print('reached')\n"
    "except OSError as e: print(e)"
)
KINDS = ("SOCK_STREAM", "SOCK_DGRAM", "SOCK_SEQPACKET")


@contextlib.contextmanager
def served(path, kind="SOCK_STREAM"):
    here = os.open(os.path.dirname(path), os.O_PATH)
    with socket.socket(socket.AF_UNIX, getattr(socket, kind)) as server:
        server.bind(f"/proc/self/fd/{here}/{os.path.basename(path)}")  # its path may be too long
        os.close(here)
        if kind != "SOCK_DGRAM":
            server.listen()
        yield server


async def said(bench, code, **options):
    return (await bench.call("execute_python", code=code, **options)).structured["stdout"]


def reading(path):
    return {"context_paths": [{"path": str(path), "permission": "read"}]}


@pytest.mark.parametrize("kind", KINDS)
async def test_a_service_in_a_read_only_context_path_cannot_be_reached(open_bench, tmp_path, kind):
    (tmp_path / "c" / "deep").mkdir(parents=True)
    bench = open_bench(orchestrator=reading(tmp_path / "c"))
    with served(f"{tmp_path}/c/deep/s", kind):
        there = f"import os\nos.chdir({str(tmp_path / 'c')!r})\n"
        assert "reached" not in await said(bench, there + CONNECT.format(kind=kind, path="deep/s"))


@pytest.mark.parametrize("kind", KINDS)
async def test_a_service_in_the_workspace_cannot_be_reached(bench, kind):
    with served(f"{bench.path}/s", kind):
        assert "reached" not in await said(bench, CONNECT.format(kind=kind, path="s"))


async def test_a_service_is_not_disturbed_by_being_looked_for(bench):
    with served(f"{bench.path}/s") as server:
        await said(bench, "1")
        server.setblocking(False)
        with pytest.raises(BlockingIOError):
            server.accept()


async def test_a_socket_that_nobody_listens_on_may_be_made_anew(bench):
    with served(f"{bench.path}/s"):
        pass
    again = "import os, socket\nos.unlink('s')\nsocket.socket(socket.AF_UNIX).bind('s')\nprint('bound')"
    assert await said(bench, again) == "bound\n"


async def test_a_pipe_in_a_read_only_context_path_cannot_be_written(open_bench, tmp_path):
    (tmp_path / "c").mkdir()
    os.mkfifo(tmp_path / "c" / "pipe")
    reader = os.open(tmp_path / "c" / "pipe", os.O_RDONLY | os.O_NONBLOCK)
    try:
        bench = open_bench(orchestrator=reading(tmp_path / "c"))
        code = f"import os\nos.write(os.open({str(tmp_path / 'c' / 'pipe')!r}, os.O_WRONLY | os.O_NONBLOCK), b'x')"
        result = await bench.call("execute_python", code=code)
        assert "PermissionError" in result.text
        assert os.read(reader, 9) == b""
    finally:
        os.close(reader)


async def test_sockets_and_pipes_of_commands_last_from_one_to_the_next(open_bench):
    bench = open_bench(permissions={"deny": ["Read(.env)"]})
    bench.write(".env", "SECRET")
    serve = "import os, socket\nos.mkfifo('pipe')\ns = socket.socket(socket.AF_UNIX); s.bind('s'); s.listen()"
    await said(bench, serve, session="server")
    assert await said(bench, "import os\n" + CONNECT.format(kind="SOCK_STREAM", path="s")) == "reached\n"

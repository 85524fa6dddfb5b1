"""From a program in the sandbox to the proxy: real programs, through the forwarder, with the list in between."""

import contextlib
import hashlib
import http.server
import importlib.util
import os
import shutil
import signal
import socket
import ssl
import subprocess
import sys
import threading
import time
import zipfile
from functools import partial
from ipaddress import ip_address
from pathlib import Path

import pytest

import toolyard_runtime
from benchmarks.processes import processor_seconds
from toolyard.sandbox.proxy.allow_list import AllowList
from toolyard.sandbox.proxy.server import ProxyLimits, ProxyServer
from toolyard_runtime.proxy_forwarder import CONNECTIONS

WAIT = 20
SOURCE = str(Path(toolyard_runtime.__file__).parent.parent)
CHILD = f"""
import sys
sys.path.insert(0, {SOURCE!r})
from toolyard_runtime import proxy_forwarder
listener = proxy_forwarder.listen()
print(listener.getsockname()[1], flush=True)
proxy_forwarder.serve(listener, sys.argv[1])
"""

needs_curl = pytest.mark.skipif(shutil.which("curl") is None, reason="curl is not installed")
needs_pip = pytest.mark.skipif(importlib.util.find_spec("pip") is None, reason="pip is not installed")
needs_openssl = pytest.mark.skipif(shutil.which("openssl") is None, reason="openssl is not installed")


class Quiet(http.server.SimpleHTTPRequestHandler):
    def log_message(self, *_):
        return


@pytest.fixture
def forward(tmp_path):
    """Starts the forwarder as a process of its own, to the unix socket `path`."""
    with contextlib.ExitStack() as stack:

        def start(path):
            command = [sys.executable, "-I", "-S", "-c", CHILD, str(path)]
            process = stack.enter_context(subprocess.Popen(command, stdout=subprocess.PIPE, text=True))
            stack.callback(process.kill)
            process.port = int(process.stdout.readline())
            return process

        yield start


@pytest.fixture
def web(tmp_path):
    """Serves a folder over HTTP, or HTTPS with `certificate`."""
    with contextlib.ExitStack() as stack:

        def start(folder, certificate=None):
            made = http.server.ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=str(folder)))
            made.daemon_threads = True
            if certificate:
                context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
                context.load_cert_chain(certificate)
                made.socket = context.wrap_socket(made.socket, server_side=True)
            thread = threading.Thread(target=made.serve_forever, args=(0.05,))
            thread.start()
            stack.callback(thread.join)
            stack.callback(made.server_close)
            stack.callback(made.shutdown)
            return made.server_port

        yield start


@pytest.fixture
def way_out(tmp_path, forward):
    """Proxy and forwarder together. `pkg.test` is the one name there is, and it is this machine."""
    with contextlib.ExitStack() as stack:

        def start(*allowed, **limits):
            proxy = ProxyServer(
                str(tmp_path / "proxy"),
                AllowList(allowed),
                lambda *each: told.append(each),
                limits=ProxyLimits(**limits),
                lookup=lambda *_: [ip_address("127.0.0.1")],
            )
            stack.enter_context(proxy)
            process = forward(proxy.path)
            process.told, process.proxy = told, proxy
            return process

        told = []
        yield start


def run(*command, cwd=None):
    clean = {"PATH": os.environ["PATH"], "HOME": "/nonexistent", "LC_ALL": "C"}
    return subprocess.run(command, capture_output=True, text=True, timeout=50, env=clean, cwd=cwd, check=False)


def curl(way, *arguments):
    return run("curl", "-sS", "--proxy", f"http://127.0.0.1:{way.port}", "--max-time", "20", *arguments)


# --- real programs -------------------------------------------------------------------------------------------------


@needs_curl
def test_curl_fetches_from_a_listed_host_and_from_no_other(tmp_path, web, way_out):
    (tmp_path / "site").mkdir()
    (tmp_path / "site" / "a.txt").write_text("the page")
    port = web(tmp_path / "site")
    way = way_out(f"pkg.test:{port}", f"127.0.0.1:{port}")
    for tunnel in ((), ("--proxytunnel",)):
        done = curl(way, *tunnel, f"http://pkg.test:{port}/a.txt")
        assert (done.stdout, done.stderr) == ("the page", "")
    done = curl(way, f"http://other.test:{port}/a.txt")
    assert done.stdout.startswith(f"other.test:{port} is not in code_execution.allowed_hosts.")
    done = curl(way, "--proxytunnel", f"http://other.test:{port}/a.txt")
    assert "403" in done.stderr
    assert way.told == [("pkg.test", port, True)] * 2 + [("other.test", port, False)] * 2


@needs_curl
@needs_openssl
def test_curl_speaks_tls_through_the_tunnel(tmp_path, web, way_out):
    both = tmp_path / "both.pem"
    subject = ("-subj", "/CN=pkg.test", "-addext", "subjectAltName=DNS:pkg.test")
    run("openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "1", *subject,
        "-keyout", str(tmp_path / "key.pem"), "-out", str(tmp_path / "cert.pem"))  # fmt: skip
    both.write_text((tmp_path / "key.pem").read_text() + (tmp_path / "cert.pem").read_text())
    (tmp_path / "site").mkdir()
    (tmp_path / "site" / "a.txt").write_text("the secret page")
    port = web(tmp_path / "site", both)
    way = way_out(f"pkg.test:{port}", f"127.0.0.1:{port}")
    done = curl(way, "--cacert", str(tmp_path / "cert.pem"), f"https://pkg.test:{port}/a.txt")
    assert (done.stdout, done.stderr) == ("the secret page", "")


@needs_curl
def test_curl_uploads_a_body_and_gets_the_answer_even_when_refused(tmp_path, web, way_out):
    port = web(tmp_path)
    way = way_out(f"pkg.test:{port}", f"127.0.0.1:{port}")
    big = tmp_path / "big"
    big.write_bytes(b"x" * 3_000_000)
    done = curl(way, "-T", str(big), f"http://pkg.test:{port}/")  # the server knows no PUT and says so at once
    assert "501" in done.stdout
    done = curl(way, "-T", str(big), f"http://other.test:{port}/", "-H", "Expect:")
    assert "is not in code_execution.allowed_hosts" in done.stdout


def make_index(folder):
    """A package index with one wheel in it, as pip reads them."""
    name = "tinything-1.0-py3-none-any.whl"
    wheel = folder / "files" / name
    wheel.parent.mkdir(parents=True)
    info = "tinything-1.0.dist-info"
    with zipfile.ZipFile(wheel, "w") as archive:
        archive.writestr("tinything.py", "answer = 42\n")
        archive.writestr(f"{info}/METADATA", "Metadata-Version: 2.1\nName: tinything\nVersion: 1.0\n")
        archive.writestr(
            f"{info}/WHEEL", "Wheel-Version: 1.0\nGenerator: t\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
        )
        archive.writestr(f"{info}/RECORD", "")
    digest = hashlib.sha256(wheel.read_bytes()).hexdigest()
    page = folder / "simple" / "tinything" / "index.html"
    page.parent.mkdir(parents=True)
    page.write_text(f'<!DOCTYPE html><a href="/files/{name}#sha256={digest}">{name}</a>')


def pip(way, *arguments, cwd):
    proxy = ("--proxy", f"http://127.0.0.1:{way.port}", "--retries", "1", "--timeout", "15")
    quiet = ("--disable-pip-version-check", "--no-cache-dir", "--isolated")
    return run(sys.executable, "-m", "pip", *quiet, *arguments, *proxy, cwd=cwd)


@needs_pip
def test_pip_installs_from_a_listed_index_and_from_no_other(tmp_path, web, way_out):
    make_index(tmp_path / "index")
    port = web(tmp_path / "index")
    way = way_out(f"pkg.test:{port}", f"127.0.0.1:{port}")
    trusted = ("--trusted-host", f"pkg.test:{port}", "--trusted-host", f"other.test:{port}")
    into = ("install", "--target", str(tmp_path / "installed"), *trusted, "tinything")

    done = pip(way, *into, "--index-url", f"http://pkg.test:{port}/simple", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "installed" / "tinything.py").read_text() == "answer = 42\n"

    done = pip(way, "download", "tinything", "--index-url", f"http://127.0.0.1:{port}/simple", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "tinything-1.0-py3-none-any.whl").exists()

    done = pip(way, *into, "--index-url", f"https://other.test:{port}/simple", cwd=tmp_path)
    assert done.returncode == 1
    assert f"403 other.test:{port} is not in code_execution.allowed_hosts" in done.stdout + done.stderr
    assert {host for host, _, allowed in way.told if allowed} == {"pkg.test", "127.0.0.1"}


# --- the forwarder itself ------------------------------------------------------------------------------------------


@pytest.fixture
def far(tmp_path):
    """A unix listener in the proxy's place."""
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(tmp_path / "far"))
        listener.listen(CONNECTIONS)
        listener.settimeout(WAIT)
        yield listener


def dial(process):
    return socket.create_connection(("127.0.0.1", process.port), timeout=WAIT)


def accept(far):
    connection, _ = far.accept()
    connection.settimeout(WAIT)
    return connection


def read_all(connection):
    data = b""
    while chunk := connection.recv(1 << 16):
        data += chunk
    return data


def test_bytes_go_both_ways_and_each_side_ends_for_itself(forward, far):
    with dial(forward(far.getsockname())) as near, accept(far) as other:
        near.sendall(b"question")
        near.shutdown(socket.SHUT_WR)
        assert read_all(other) == b"question"
        other.sendall(b"answer")
        other.shutdown(socket.SHUT_WR)
        assert read_all(near) == b"answer"


def test_a_side_that_does_not_read_stops_the_other_and_nothing_is_kept(forward, far):
    process = forward(far.getsockname())
    data = os.urandom(1 << 20) * 16
    with dial(process) as near, accept(far) as other:
        near.settimeout(1)
        with pytest.raises(TimeoutError):
            for _ in range(8):
                near.sendall(data)
        resident = int(Path(f"/proc/{process.pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
        assert resident < 64 << 20
        assert data.startswith(other.recv(1 << 16))


def test_a_program_that_goes_away_frees_the_proxy(forward, far):
    with accept_after(dial(forward(far.getsockname())), far) as other, pytest.raises(OSError):
        while True:
            other.sendall(b"x" * 65536)


def accept_after(near, far):
    other = accept(far)
    near.close()
    return other


def test_the_answer_of_a_proxy_that_hung_up_arrives_while_the_program_still_sends(forward, far):
    with dial(forward(far.getsockname())) as near:
        other = accept(far)
        near.sendall(b"x" * 1000)
        other.recv(10)
        other.sendall(b"refused")
        other.close()  # with bytes unread: the hardest way
        for _ in range(20):
            near.sendall(b"x" * 10_000)
        assert read_all(near) == b"refused"


def test_without_a_proxy_the_program_is_told(tmp_path, forward):
    with dial(forward(tmp_path / "nothing")) as near:
        near.sendall(b"GET http://a.test/ HTTP/1.1\r\n\r\n")
        assert read_all(near).startswith(b"HTTP/1.1 502 The network proxy of this sandbox does not answer\r\n")


def test_more_connections_than_it_holds_wait_and_cost_nothing(forward, far):
    process = forward(far.getsockname())
    with contextlib.ExitStack() as stack:
        near = [stack.enter_context(dial(process)) for _ in range(CONNECTIONS + 20)]
        held = [stack.enter_context(accept(far)) for _ in range(CONNECTIONS)]
        far.settimeout(0.3)
        with pytest.raises(TimeoutError):
            far.accept()
        before = processor_seconds(process.pid)
        time.sleep(0.5)
        assert processor_seconds(process.pid) - before < 0.2
        far.settimeout(WAIT)
        held[0].shutdown(socket.SHUT_WR)
        near[0].close()
        stack.enter_context(accept(far))


def test_a_storm_of_connections_leaves_it_working_and_idle(forward, way_out, web, tmp_path):
    port = web(tmp_path)
    way = way_out(f"127.0.0.1:{port}")
    for number in range(1500):
        with dial(way) as near:
            if number % 3:
                near.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\x01\0\0\0\0\0\0\0")  # end with a reset
            with contextlib.suppress(OSError):
                near.send(b"CONNECT \0" if number % 2 else b"")
    with dial(way) as near:
        near.sendall(f"GET http://127.0.0.1:{port}/ HTTP/1.0\r\n\r\n".encode())
        assert read_all(near).startswith(b"HTTP/1.0 200")
    deadline = time.monotonic() + WAIT
    while len(os.listdir(f"/proc/{way.pid}/fd")) > 6 and time.monotonic() < deadline:
        time.sleep(0.05)
    assert len(os.listdir(f"/proc/{way.pid}/fd")) <= 6
    before = processor_seconds(way.pid)
    time.sleep(0.3)
    assert processor_seconds(way.pid) - before < 0.1
    way.send_signal(signal.SIGTERM)
    assert way.wait(WAIT) == -signal.SIGTERM


def test_it_listens_on_loopback_alone(forward, far):
    process = forward(far.getsockname())
    rows = [line.split() for line in Path(f"/proc/{process.pid}/net/tcp").read_text().splitlines()[1:]]
    ours = [row[1] for row in rows if row[3] == "0A" and int(row[1].split(":")[1], 16) == process.port]
    assert ours == [f"0100007F:{process.port:04X}"]


def test_it_needs_nothing_but_the_standard_library():
    script = (
        f"import sys; sys.path.insert(0, {SOURCE!r}); import toolyard_runtime.proxy_forwarder; print(*sys.modules)"
    )
    done = run(sys.executable, "-I", "-S", "-c", script)
    heavy = {"asyncio", "ssl", "http", "email", "logging", "re", "threading", "subprocess", "typing", "dataclasses"}
    assert not heavy & set(done.stdout.split())

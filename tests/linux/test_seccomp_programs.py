"""Ordinary programs do not notice the seccomp filter."""

import shutil
import sys

import pytest

from toolyard.linux.seccomp import AllowedSockets, build_program

from .filtering import child, needs_seccomp

PYTHON = """
import asyncio, concurrent.futures, hashlib, multiprocessing, os, socket, sqlite3, subprocess, tempfile, threading
assert list(concurrent.futures.ThreadPoolExecutor(4).map(abs, range(50))) == list(range(50))
async def main():
    process = await asyncio.create_subprocess_exec("echo", "hi", stdout=subprocess.PIPE)
    assert (await process.communicate())[0] == b"hi\\n"
    server = await asyncio.start_server(lambda r, w: w.close(), "127.0.0.1", 0)
    reader, writer = await asyncio.open_connection(*server.sockets[0].getsockname())
    assert await reader.read() == b""
    writer.close()
    server.close()
asyncio.run(main())
with multiprocessing.get_context("fork").Pool(2) as pool:
    assert pool.map(abs, [-1, 2]) == [1, 2]
process = multiprocessing.get_context("spawn").Process(target=print, args=("spawned",))
process.start(); process.join(); assert process.exitcode == 0
with tempfile.TemporaryFile() as file:
    file.write(b"x")
socket.getaddrinfo("localhost", 80)
with tempfile.TemporaryDirectory() as folder:
    base = sqlite3.connect(folder + "/a.db")
    base.execute("create table t (x)")
    base.close()
"""

NODE = """
const fs = require('fs'), os = require('os'), path = require('path');
const { execFileSync } = require('child_process');
const { Worker } = require('worker_threads');
const folder = fs.mkdtempSync(path.join(os.tmpdir(), 'node-'));
(async () => {
  await fs.promises.writeFile(folder + '/a', 'x');
  await fs.promises.cp(folder + '/a', folder + '/b');
  if (execFileSync('cat', [folder + '/b']).toString() !== 'x') throw 'child';
  os.networkInterfaces();
  await new Promise((done, fail) => new Worker('1', { eval: true }).on('exit', done).on('error', fail));
  fs.rmSync(folder, { recursive: true });
})();
"""

SHELL = """
set -euo pipefail
cd "$1"
export HOME="$1" GIT_CONFIG_NOSYSTEM=1
git init -q repo && cd repo
echo text > file && chmod 755 file && mkdir -m 1775 sticky
git add file && git -c user.name=a -c user.email=a@b commit -qm first
git gc -q && git log --oneline | grep -q first
git clone -q . ../clone
cp -a ../clone ../copy && cp -p file ../copy/again && tar -C .. -czf ../all.tgz copy
mkdir ../out && tar -C ../out -xzpf ../all.tgz && diff -r ../copy ../out/copy
install -m 755 file ../installed && touch -d yesterday file && ln -s file link
mkfifo pipe && (echo through > pipe & cat pipe >/dev/null; wait)
seq 100 | xargs -P 4 -n 10 echo | sort | awk 'END { exit NR != 10 }'
timeout 5 true; nice true; setsid true; cat <(echo x) > /dev/null
find . -type f -newer link >/dev/null; df . >/dev/null; ps >/dev/null
"""


@needs_seccomp
@pytest.mark.parametrize("sockets", AllowedSockets)
def test_the_shell_git_tar_and_coreutils_work(tmp_path, sockets):
    done = child(build_program(sockets=sockets), argv=["bash", "-c", SHELL, "bash", str(tmp_path)])
    assert (done.returncode, done.stderr) == (0, "")


@needs_seccomp
def test_python_works_with_threads_processes_and_sockets():
    done = child(build_program(), argv=[sys.executable, "-W", "error", "-c", PYTHON])
    assert (done.returncode, done.stderr) == (0, "")


@needs_seccomp
@pytest.mark.skipif(shutil.which("node") is None, reason="node is not installed")
@pytest.mark.parametrize("sockets", AllowedSockets)
def test_node_works_with_files_children_and_workers(sockets):
    script = NODE.replace("os.networkInterfaces();", "") if sockets is AllowedSockets.NONE else NODE
    done = child(build_program(sockets=sockets), argv=["node", "-e", script])
    assert (done.returncode, done.stderr) == (0, "")


@needs_seccomp
@pytest.mark.skipif(shutil.which("npm") is None, reason="npm is not installed")
def test_npm_starts():
    done = child(build_program(), argv=["npm", "--version"])
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.strip()


@needs_seccomp
def test_a_folder_that_hands_on_its_group_is_refused_by_name(tmp_path):
    done = child(build_program(), argv=["mkdir", "-m", "2775", str(tmp_path / "shared")])
    assert done.returncode == 1
    assert "Operation not permitted" in done.stderr

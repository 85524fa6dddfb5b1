"""A tree of files to take snapshots of, and the peers that copy it."""

from __future__ import annotations

import os
import random
import shutil
import subprocess
import time
from collections.abc import Callable
from dataclasses import dataclass

from benchmarks.benchmark import Bench
from benchmarks.lean_client import BenchFault
from benchmarks.rounds import Measured

FILES_A_FOLDER = 50
FOLDERS_A_FOLDER = 20
USUAL_BYTES = (200, 10_000)
"""Of one file, from and to: 20,000 of them are about 100 MB."""
SMALL_BYTES = (100, 900)
_SETTLED_SECONDS = 0.2
"""After this no file is so new that its times cannot be trusted."""
_SEED = 11


@dataclass(frozen=True, slots=True)
class Tree:
    path: str
    files: int
    size: int
    one: str
    """A file somewhere in the middle."""

    @property
    def told(self) -> str:
        return f"{self.files:,} files, {self.size / 1e6:,.0f} MB"


def make_tree(bench: Bench, name: str, files: int, sizes: tuple[int, int] = USUAL_BYTES) -> Tree:
    """Files of random bytes, fifty to a folder, two levels down."""
    bench.say(f"making {files:,} files")
    top = bench.folder(name)
    chance = random.Random(_SEED)
    total = 0
    chosen = ""
    folder = top
    for number in range(files):
        if number % FILES_A_FOLDER == 0:
            part = number // FILES_A_FOLDER
            folder = os.path.join(top, f"part{part // FOLDERS_A_FOLDER}", f"folder{part % FOLDERS_A_FOLDER}")
            os.makedirs(folder)
        data = chance.randbytes(chance.randrange(*sizes))
        path = os.path.join(folder, f"file{number}.dat")
        with open(path, "wb") as file:
            file.write(data)
        total += len(data)
        if number == files // 2:
            chosen = path
    time.sleep(_SETTLED_SECONDS)
    return Tree(top, files, total, chosen)


def stat_walk(folder: str) -> int:
    """The floor: look at every file once, by path, and do nothing with it."""
    seen = 0
    with os.scandir(folder) as entries:
        for entry in entries:
            entry.stat(follow_symlinks=False)
            seen += 1
            if entry.is_dir(follow_symlinks=False):
                seen += stat_walk(entry.path)
    return seen


def timed(bench: Bench, work: Callable[[str], object]) -> Measured:
    """A contender that is handed a new folder, which is taken away after the clock has stopped."""

    def run() -> float:
        scratch = bench.folder(f"round-{time.monotonic_ns()}")
        try:
            started = time.perf_counter()
            work(scratch)
            return (time.perf_counter() - started) * 1e3
        finally:
            shutil.rmtree(scratch)

    return run


def copying(tree: Tree, *flags: str) -> Callable[[str], object]:
    return lambda scratch: command("cp", *flags, tree.path, os.path.join(scratch, "copy"))


def git_tree(tree: Tree) -> Callable[[str], object]:
    """The tree as git's objects, without a commit, in a repository beside it."""

    def work(scratch: str) -> None:
        where = (f"--git-dir={scratch}/git", f"--work-tree={tree.path}")
        command("git", "init", "--quiet", "--bare", f"{scratch}/git")
        command("git", *where, "-c", "core.bare=false", "add", "--all", "--force", cwd=tree.path)
        command("git", *where, "write-tree")

    return work


def command(*words: str, cwd: str | None = None) -> None:
    try:
        done = subprocess.run(words, cwd=cwd, capture_output=True, check=False)
    except FileNotFoundError as error:
        raise BenchFault(f"{words[0]} is not installed") from error
    if done.returncode != 0:
        raise BenchFault(f"{' '.join(words[:3])} failed: {done.stderr.decode(errors='replace').strip()}")


def bytes_written() -> int:
    """What this process has handed to write(2) and its kin so far: packs, index and log together."""
    with open("/proc/self/io", encoding="ascii") as file:
        return next(int(line.split()[1]) for line in file if line.startswith("wchar"))

"""Rules in gitignore's spelling, held against git itself."""

import os
import subprocess

import pytest

from toolyard.snapshots.archive.ignore_files import record_accepted
from toolyard.snapshots.archive.ignore_rules import IgnoreRules

PATHS = [
    "a",
    "b/a",
    "b/c/a",
    "x.log",
    "b/x.log",
    "build/out",
    "b/build/out",
    "b/c/d",
    "[x]",
    "#hash",
    "!bang",
    "a b ",
    "{a}",
    "B/A",
]
CASES = [
    "a",
    "/a",
    "a/",
    "*.log",
    "*.log\n!x.log",
    "*.log\n!/b/x.log",
    "build/",
    "/build/",
    "b/build",
    "b/*",
    "b/**",
    "**/a",
    "b/**/a",
    "**/c/",
    "?",
    "[ab]",
    "[!a]",
    "\\#hash",
    "\\!bang",
    "# a comment\n\na",
    "a b\\ ",
    "a b ",
    "{a}",
    "\\[x\\]",
    "b/c\n!b/c/a",
    "*\n!b\n!b/x.log",
    "*\n!*/\n!x.log",
]


def ours(rules, root):
    kept = []

    def walk(folder, rules):
        path = os.path.join(root, *folder)
        names = sorted(os.listdir(path))
        folders = [name for name in names if os.path.isdir(os.path.join(path, name))]
        files = [name for name in names if name not in folders]
        out = rules.ignored_names(folder, files, folders)
        kept.extend("/".join((*folder, name)) for name in files if name not in out)
        for name in folders:
            if name not in out and name != ".git":
                walk((*folder, name), rules)

    walk((), rules)
    return sorted(kept)


@pytest.mark.parametrize("rules", CASES)
def test_the_same_files_are_left_out_as_by_git(tmp_path, rules):
    for path in PATHS:
        target = tmp_path / "root" / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text("")
    root = str(tmp_path / "root")
    subprocess.run(["git", "init", "-q", root], check=True, timeout=30)
    (tmp_path / "rules").write_text(rules)
    listed = subprocess.run(
        ["git", "-c", f"core.excludesFile={tmp_path}/rules", "ls-files", "-z", "-o", "--exclude-standard"],
        cwd=root,
        capture_output=True,
        text=True,
        check=True,
        timeout=30,
    )
    assert ours(IgnoreRules(rules.splitlines()), root) == sorted(listed.stdout.split("\0")[:-1])


def held(place):
    with place.store.reader() as reader:
        tree = place.take().snapshot.tree
        from toolyard.snapshots.store.object_reader import walk_tree

        return sorted(os.fsdecode(path) for path, entry in walk_tree(reader, tree) if entry.is_file)


def test_each_folder_may_have_rules_of_its_own(place):
    place.accept("*.tmp\n")
    place.accept("/only-here\n!kept.tmp\n", b"a")
    for name in ("x.tmp", "a/x.tmp", "a/kept.tmp", "a/only-here", "a/b/only-here", "only-here"):
        place.write(name)
    assert held(place) == [
        ".toolyardignore",
        "a/.toolyardignore",
        "a/b/only-here",
        "a/kept.tmp",
        "only-here",
    ]


def test_new_rules_count_although_no_file_has_changed(place):
    place.write("d/x.log")
    place.write("d/y.txt")
    place.settle()
    place.take()
    place.write(".toolyardignore", "*.log\n")
    assert held(place) == [".toolyardignore", "d/x.log", "d/y.txt"], "nobody has accepted it yet"
    place.accept("*.log\n")
    assert held(place) == [".toolyardignore", "d/y.txt"]
    os.unlink(place.root / ".toolyardignore")
    assert held(place) == ["d/y.txt"], "what was accepted counts whatever becomes of the file"
    record_accepted(str(place.folder), str(place.root), b"", None)
    assert held(place) == ["d/x.log", "d/y.txt"]


def test_only_caches_and_our_own_temporary_files_are_left_out_by_default(place):
    for name in ("__pycache__/m.pyc", "node_modules/m.js", ".venv/bin/python", ".git/HEAD", ".toolyard-tmp-1234"):
        place.write(name)
    assert held(place) == [".git/HEAD", ".venv/bin/python", "node_modules/m.js"]
    place.reopened(ignore=(".venv/",))
    assert held(place) == [".git/HEAD", "__pycache__/m.pyc", "node_modules/m.js"]


def test_a_rule_file_that_is_a_pipe_or_a_link_is_no_rule_file(place):
    os.mkfifo(place.root / ".toolyardignore")
    place.write("d/f")
    os.symlink("/etc/passwd", place.root / "d" / ".toolyardignore")
    assert held(place) == ["d/f"]

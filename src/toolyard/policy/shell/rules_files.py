"""Effect rules for commands that change files."""

from __future__ import annotations

from typing import Final

from toolyard.policy.shell.effects import CommandEffect as E
from toolyard.policy.shell.rules import EffectRule

_DELETING: Final = (
    EffectRule(
        E.DELETES,
        ("rm", "rmdir", "unlink", "shred", "srm", "trash", "rimraf"),
        ("rm -rf build", "r''m x", "\\rm x", "$'rm' x", '"rm" x', "command rm x", "/bin/rm x", "busybox rm x"),
        ("rmx", "echo rm", "ls rm", "git commit -m 'rm x'"),
    ),
    EffectRule(
        E.DELETES,
        ("find", "fd", "rsync"),
        ("find . -name x -delete", "rsync -a --delete a b"),
        ("find . -name delete", "rsync -a a b"),
        options=("-delete", "--delete", "--remove-source-files"),
    ),
    EffectRule(
        E.DELETES,
        ("git",),
        ("git clean -fdx", "git -C x rm a", "git worktree remove x"),
        ("git status", "git clean -n", "git log -- rm"),
        subcommands=("clean", "rm", "worktree remove", "worktree prune"),
        unless=("-n", "--dry-run"),
    ),
    EffectRule(E.DELETES, ("make",), ("make clean",), ("make", "make cleaner"), subcommands=("clean", "distclean")),
    EffectRule(E.DELETES, ("cargo",), ("cargo clean",), ("cargo test",), subcommands=("clean",)),
    EffectRule(
        E.DELETES,
        ("docker", "podman"),
        ("docker rm x", "docker system prune -f", "docker volume rm x"),
        ("docker ps", "docker run --rm x"),
        subcommands=("rm", "rmi", "system prune", "volume rm", "image rm", "container rm", "image prune"),
    ),
)

_WRITING: Final = (
    EffectRule(
        E.WRITES,
        (
            "cp",
            "mv",
            "tee",
            "install",
            "dd",
            "touch",
            "mkdir",
            "ln",
            "truncate",
            "mkfifo",
            "mktemp",
            "patch",
            "rsync",
        ),
        ("cp a b", "ls | tee x", "find . -exec mv {} x \\;"),
        ("cat cp", "cpio -t"),
    ),
    EffectRule(
        E.WRITES,
        ("tar", "cpio"),
        ("tar xf a.tar", "tar -czf a.tgz x", "tar --extract -f a"),
        ("tar tf a.tar", "tar -tzf a.tgz"),
        unless=("-t", "--list", "t", "tf", "tvf", "tzf", "tjf", "ztf"),
    ),
    EffectRule(
        E.WRITES,
        ("unzip", "zip", "gzip", "gunzip", "bzip2", "bunzip2", "xz", "unxz", "zstd", "7z"),
        ("unzip a.zip", "gzip a"),
        ("unzip -l a.zip", "gzip -dc a", "xz --stdout a"),
        unless=("-l", "-c", "-t", "-p", "--list", "--stdout", "--test"),
    ),
    EffectRule(
        E.WRITES,
        ("sed", "perl", "ruby", "yq", "gsed"),
        ("sed -i s/a/b/ x", "sed -ni.bak p x", "sed --in-place=.bak p x", "perl -pi -e s/a/b/ x"),
        ("sed -n p x", "perl -e 1"),
        options=("-i", "--in-place", "--inplace"),
    ),
    EffectRule(
        E.WRITES,
        ("sort", "tree"),
        ("sort -o x y", "sort --output=x y"),
        ("sort x",),
        options=("-o", "--output"),
    ),
    EffectRule(
        E.WRITES,
        ("find",),
        ("find . -fprint x",),
        ("find . -print",),
        options=("-fprint", "-fprint0", "-fprintf", "-fls"),
    ),
    EffectRule(
        E.WRITES,
        ("git",),
        ("git add .", "git checkout -- a", "git -C x restore a"),
        ("git status", "git diff"),
        subcommands=(
            "add",
            "checkout",
            "switch",
            "restore",
            "mv",
            "apply",
            "init",
            "clone",
            "worktree add",
            "config",
        ),
    ),
    EffectRule(
        E.WRITES,
        ("git",),
        ("git diff --output=x", "git archive --output=x HEAD"),
        ("git diff",),
        options=("--output",),
    ),
    EffectRule(
        E.WRITES,
        ("ruff", "black", "isort", "prettier", "gofmt", "rustfmt", "clang-format", "autopep8", "eslint", "biome"),
        ("black .", "ruff format", "prettier --write ."),
        ("black --check .", "ruff check", "prettier --check .", "gofmt -l ."),
        unless=("--check", "--diff", "-l", "check", "--list-different", "-d"),
    ),
    EffectRule(
        E.WRITES,
        ("ruff", "eslint", "biome", "ast-grep", "sg"),
        ("ruff check --fix", "eslint --fix src", "sg run -p a -r b -U"),
        ("ruff check", "sg run -p a"),
        options=("--fix", "--write", "-U", "--update-all"),
    ),
    EffectRule(E.WRITES, ("curl",), ("curl -o x h", "curl -O h"), ("curl h",), options=("-o", "-O", "--output")),
    EffectRule(
        E.WRITES, ("wget",), ("wget h",), ("wget -qO- h", "wget --spider h"), unless=("-O-", "-qO-", "--spider")
    ),
)

FILE_RULES: Final = (*_DELETING, *_WRITING)

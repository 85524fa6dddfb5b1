"""Effect rules for commands that do more than change files: run code, use the network, git, packages, processes."""

from __future__ import annotations

from typing import Final

from toolyard.policy.shell.effects import CommandEffect as E
from toolyard.policy.shell.rules import EffectRule

_ASKS_ITSELF: Final = ("--version", "--help", "-V")

_CODE: Final = (
    EffectRule(
        E.RUNS_CODE,
        (
            *("python", "pypy", "ipython", "node", "deno", "bun", "ruby", "perl", "php", "lua", "luajit", "Rscript"),
            *(
                "julia",
                "java",
                "dotnet",
                "osascript",
                "tclsh",
                "awk",
                "gawk",
                "mawk",
                "nawk",
                "elixir",
                "ghc",
                "swift",
            ),
        ),
        ("python -c 'print(1)'", "python3.11 x.py", "env A=1 node x.js", "awk '{print $1}' x", "echo x | python"),
        ("python --version", "echo python", "which node"),
        unless=_ASKS_ITSELF,
    ),
    EffectRule(
        E.RUNS_CODE,
        ("bash", "sh", "dash", "zsh", "ksh", "ash", "fish", "eval", "source", ".", "trap", "alias", "enable"),
        ("bash -c ls", "eval ls", "echo cm0K | base64 -d | sh", ". ./x", "timeout 5 bash x.sh"),
        ("bash --version", "echo sh"),
        unless=("--version", "--help"),
    ),
    EffectRule(
        E.RUNS_CODE,
        ("parallel", "watch", "entr", "ssh"),
        ("ls | parallel wc", "watch make", "ssh host make"),
        ("watch --help", "echo parallel"),
        unless=("--help", "--version"),
    ),
    EffectRule(
        E.RUNS_CODE,
        ("find", "fd", "fdfind"),
        ("find . -exec wc {} +", "fd -x wc", "find . -ok rm {} \\;"),
        ("find . -name exec",),
        options=("-exec", "-execdir", "-ok", "-okdir", "-x", "-X", "--exec", "--exec-batch"),
    ),
    EffectRule(
        E.RUNS_CODE,
        ("rg", "sort", "tar"),
        ("rg --pre sh x", "sort --compress-program=x y", "tar xf a --to-command=x"),
        ("rg -x y", "tar -xf a"),
        options=(
            *("--pre", "--hostname-bin", "--compress-program", "--to-command", "--checkpoint-action"),
            "--use-compress-program",
        ),
    ),
    EffectRule(
        E.RUNS_CODE,
        (
            *("make", "gmake", "ninja", "just", "task", "rake", "gradle", "gradlew", "mvn", "bazel", "buck2", "ant"),
            *("pytest", "tox", "nox", "jest", "vitest", "mocha", "phpunit", "rspec", "npx", "uvx", "pipx", "bunx"),
            *("tsx", "ts-node", "pre-commit", "ctest", "expect", "script", "at", "batch", "crontab"),
        ),
        ("make test", "CI=1 pytest -q", "npx cowsay"),
        ("make --version", "cat Makefile"),
        unless=_ASKS_ITSELF,
    ),
    EffectRule(
        E.RUNS_CODE,
        (
            "npm",
            "yarn",
            "pnpm",
            "bun",
            "cargo",
            "go",
            "uv",
            "poetry",
            "pdm",
            "hatch",
            "rye",
            "cmake",
            "docker",
            "podman",
        ),
        ("npm run build", "npm test", "cargo test", "go run .", "uv run x", "cmake --build b", "docker exec x ls"),
        ("npm ls", "cargo tree", "go version"),
        subcommands=(
            *(
                "run",
                "test",
                "t",
                "start",
                "exec",
                "x",
                "dlx",
                "build",
                "bench",
                "check",
                "clippy",
                "generate",
                "vet",
            ),
            *("b", "compose"),
        ),
    ),
    EffectRule(
        E.RUNS_CODE,
        ("git",),
        ("git bisect run make", "git submodule foreach ls", "git difftool"),
        ("git log", "git bisect start"),
        subcommands=("bisect run", "submodule foreach", "difftool", "mergetool", "filter-branch"),
    ),
    EffectRule(
        E.RUNS_CODE,
        ("git",),
        ("git rebase --exec make main", "git diff --ext-diff"),
        ("git log", "git diff -- exec"),
        options=("--exec", "--ext-diff", "--textconv", "--upload-pack", "--receive-pack"),
    ),
    EffectRule(
        E.RUNS_CODE,
        ("git",),
        ("git -c core.pager=x log", "git --config-env=a=b log"),
        ("git switch -c x", "git log -c"),
        leading=("-c", "--config-env", "--exec-path"),
    ),
)

_NETWORK: Final = (
    EffectRule(
        E.NETWORK,
        (
            *(
                "curl",
                "wget",
                "ssh",
                "scp",
                "sftp",
                "nc",
                "ncat",
                "netcat",
                "telnet",
                "ftp",
                "ping",
                "dig",
                "nslookup",
            ),
            *(
                "host",
                "traceroute",
                "nmap",
                "socat",
                "aria2c",
                "http",
                "https",
                "httpie",
                "gh",
                "glab",
                "aws",
                "gcloud",
            ),
            *("az", "kubectl", "rclone", "whois", "psql", "mysql", "redis-cli", "mosh", "ab", "wrk", "yt-dlp"),
        ),
        ("curl https://example.org", "echo x | nc h 1", "timeout 5 wget h", "bash -c 'curl h | sh'"),
        ("curl --version", "echo curl", "grep wget x"),
        unless=_ASKS_ITSELF,
    ),
    EffectRule(
        E.NETWORK,
        ("git",),
        ("git push", "git -C x pull --rebase", "git clone h", "git remote update", "git submodule update --init"),
        ("git status", "git log push", "git remote -v"),
        subcommands=(
            *("push", "pull", "fetch", "clone", "ls-remote", "remote update", "remote show", "submodule update"),
            *("submodule add", "lfs pull", "lfs push", "lfs fetch"),
        ),
    ),
    EffectRule(
        E.NETWORK,
        ("docker", "podman"),
        ("docker pull x",),
        ("docker ps",),
        subcommands=("pull", "push", "login", "build", "search", "compose pull"),
    ),
)

_INSTALLING: Final = (
    *(
        EffectRule(
            effect,
            ("pip", "uv", "poetry", "pdm", "conda", "mamba", "npm", "pnpm", "yarn", "bun", "gem", "bundle", "cargo"),
            ("pip install x", "pip3 install -r r.txt", "uv pip install x", "npm ci", "cargo add x", "uv sync"),
            ("pip list", "npm run install-hooks", "uv pip list", "cargo tree"),
            subcommands=(
                *(
                    "install",
                    "i",
                    "ci",
                    "add",
                    "sync",
                    "update",
                    "upgrade",
                    "uninstall",
                    "remove",
                    "download",
                    "lock",
                ),
                *("pip install", "pip uninstall", "pip sync", "tool install", "python install", "create", "fetch"),
            ),
        )
        for effect in (E.INSTALLS, E.NETWORK)
    ),
    *(
        EffectRule(
            effect,
            (
                "apt",
                "apt-get",
                "dnf",
                "yum",
                "apk",
                "pacman",
                "zypper",
                "brew",
                "snap",
                "pipx",
                "go",
                "rustup",
                "composer",
            ),
            ("apt-get install -y x", "brew upgrade", "go get x", "go install x"),
            ("apt list", "brew list", "go build"),
            subcommands=("install", "add", "update", "upgrade", "remove", "get", "require", "purge", "dist-upgrade"),
        )
        for effect in (E.INSTALLS, E.NETWORK)
    ),
    EffectRule(E.INSTALLS, ("dpkg", "rpm"), ("dpkg -i x.deb",), ("dpkg -l",), options=("-i", "--install", "-U")),
)

_GIT: Final = (
    EffectRule(
        E.GIT,
        ("git",),
        ("git commit -m 'use vim'", "git push --force", "git -C x reset --hard", "git rebase main", "git stash"),
        ("git status", "git log", "git show HEAD", "git diff", "git branch", "git add ."),
        subcommands=(
            *("commit", "push", "merge", "rebase", "reset", "cherry-pick", "revert", "am", "pull", "filter-branch"),
            *("filter-repo", "update-ref", "gc", "prune", "reflog expire", "reflog delete", "remote add", "notes"),
            *("remote remove", "remote set-url", "stash", "replace", "symbolic-ref", "subtree"),
        ),
    ),
    EffectRule(
        E.GIT,
        ("git",),
        ("git branch -D x", "git tag -d v1", "git branch --delete x"),
        ("git branch -a", "git tag -l", "git diff -d"),
        subcommands=("branch", "tag"),
        options=("-D", "-d", "-m", "-M", "-f", "--delete", "--force", "--move"),
    ),
    EffectRule(
        E.GIT,
        ("git",),
        ("git tag v1", "git branch x"),
        ("git tag", "git branch", "git branch --list x", "git tag -l x"),
        subcommands=("branch", "tag"),
        operands=2,
        unless=("-l", "--list", "--contains", "--merged", "--no-merged", "--points-at", "-D", "-d", "--delete"),
    ),
)

_PROCESSES: Final = (
    EffectRule(
        E.PERMISSIONS,
        ("chmod", "chown", "chgrp", "chattr", "setfacl", "setcap", "umask"),
        ("chmod +x a", "find . -exec chown a {} +"),
        ("echo chmod", "ls -l"),
    ),
    EffectRule(
        E.ENDS_PROCESSES,
        ("kill", "pkill", "killall", "skill", "xkill", "fuser"),
        ("kill -9 12", "pgrep x | xargs kill"),
        ("kill -l", "pgrep x", "echo kill"),
        unless=("-l", "-L", "--list"),
    ),
    EffectRule(
        E.BACKGROUND,
        ("nohup", "setsid", "disown", "bg", "coproc", "daemonize", "start-stop-daemon", "at", "batch"),
        ("nohup make", "make & disown", "setsid -f x"),
        ("echo nohup",),
    ),
    EffectRule(
        E.BACKGROUND,
        ("docker", "podman", "tmux", "screen"),
        ("docker run -d x", "tmux new -d", "screen -dmS x"),
        ("docker ps", "docker run x"),
        options=("-d", "--detach"),
    ),
)

REACH_RULES: Final = (*_CODE, *_NETWORK, *_INSTALLING, *_GIT, *_PROCESSES)

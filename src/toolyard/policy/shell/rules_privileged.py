"""Effect rules for commands that need privileges or a terminal. Those with a refusal always fail in a sandbox."""

from __future__ import annotations

from typing import Final

from toolyard.policy.shell.effects import CommandEffect as E
from toolyard.policy.shell.rules import EffectRule

_NO_PRIVILEGES: Final = "Nothing can raise privileges here. Run it without them, inside the workspace."
_NO_SYSTEM: Final = "The sandbox cannot change the machine it runs on. Do the task without it."
_USE_EDIT: Final = "There is no terminal. Use the Edit or Write tool, or sed."
_USE_SCRIPT: Final = "There is no terminal. Give it a script, code after -c or -e, or input."
_USE_ONCE: Final = "There is no terminal. Run a command that prints once and ends, such as ps or cat."
_ASKS_ITSELF: Final = ("--version", "--help", "-V")

_PRIVILEGES: Final = (
    EffectRule(
        E.PRIVILEGES,
        ("sudo", "su", "doas", "pkexec", "sudoedit", "runuser", "visudo"),
        ("sudo rm x", "cd x && sudo make install", "su -c ls", "env A=1 sudo ls"),
        ("sudo --version", "echo sudo", "grep sudo x", "which sudo", "git commit -m 'sudo x'"),
        unless=_ASKS_ITSELF,
        refusal=_NO_PRIVILEGES,
    ),
    EffectRule(
        E.PRIVILEGES,
        ("mount", "umount", "chroot", "pivot_root", "swapon", "swapoff", "insmod", "rmmod", "modprobe", "losetup"),
        ("mount /dev/sda1 x", "chroot x ls"),
        ("mount", "mount --help", "echo mount"),
        operands=1,
        unless=_ASKS_ITSELF,
        refusal=_NO_SYSTEM,
    ),
    EffectRule(
        E.PRIVILEGES,
        ("reboot", "shutdown", "poweroff", "halt", "useradd", "userdel", "usermod", "groupadd", "passwd", "chpasswd"),
        ("reboot", "shutdown -h now", "useradd x"),
        ("echo reboot", "grep passwd x", "shutdown --help"),
        unless=_ASKS_ITSELF,
        refusal=_NO_SYSTEM,
    ),
    EffectRule(
        E.PRIVILEGES,
        (
            "systemctl",
            "service",
            "iptables",
            "nft",
            "sysctl",
            "mkfs",
            "fdisk",
            "parted",
            "hostnamectl",
            "timedatectl",
        ),
        ("systemctl restart x", "service x start"),
        ("echo systemctl", "systemctl --version"),
        unless=_ASKS_ITSELF,
    ),
)

_TERMINAL: Final = (
    EffectRule(
        E.TERMINAL,
        ("vim", "vi", "nvim", "view", "vimdiff"),
        ("vim a.py", "cd x && vi a"),
        (
            "vim --version",
            "vim -es -c wq a",
            "vim +wq a",
            "git commit -m 'use vim'",
            "nvim --headless a",
            "ls | vim -",
        ),
        unless=("-e", "-E", "-s", "-es", "-Es", "-c", "-h", "-", "+", "--headless", "--version", "--help"),
        refusal=_USE_EDIT,
    ),
    EffectRule(
        E.TERMINAL,
        ("nano", "pico", "micro", "joe", "hx", "kak", "emacs", "emacsclient", "mcedit"),
        ("nano a", "emacs -nw a"),
        ("emacs --batch -l x", "nano --version", "echo nano"),
        unless=(*_ASKS_ITSELF, "-h", "--batch", "-batch", "--script", "-e", "--eval"),
        refusal=_USE_EDIT,
    ),
    EffectRule(
        E.TERMINAL,
        ("top",),
        ("top", "top -d 1"),
        ("top -b -n 1", "top -bn1", "top -v"),
        unless=("-b", "-v", "-h", "-l"),
        refusal=_USE_ONCE,
    ),
    EffectRule(
        E.TERMINAL,
        ("htop", "btop", "atop", "iotop", "nvtop", "mc", "ranger", "nnn", "lazygit", "tig", "dialog", "whiptail"),
        ("htop", "lazygit"),
        ("htop --version", "echo mc"),
        unless=_ASKS_ITSELF,
        refusal=_USE_ONCE,
    ),
    EffectRule(
        E.TERMINAL,
        (
            *("python", "pypy", "ipython", "node", "irb", "ghci", "lua", "R", "julia", "bash", "sh", "zsh", "fish"),
            *("dash", "ksh", "tclsh", "iex", "scala", "jshell"),
        ),
        ("python", "cd x && node", "python3"),
        ("python x.py", "echo 1 | python", "python < x", "bash -c ls", "python <<E\n1\nE", "echo bash"),
        bare=True,
        refusal=_USE_SCRIPT,
    ),
    EffectRule(
        E.TERMINAL,
        ("crontab",),
        ("crontab -e",),
        ("crontab -l",),
        options=("-e",),
        refusal="There is no terminal, and scheduled jobs are not kept. Run the task now.",
    ),
    # These may still work: a pager only copies, an editor may be set, a key may be there.
    EffectRule(E.TERMINAL, ("less", "more", "most"), ("less a",), ("less --version",), unless=_ASKS_ITSELF),
    EffectRule(
        E.TERMINAL,
        ("watch", "tmux", "screen", "fzf", "gdb", "lldb", "pdb"),
        ("watch ls", "gdb x"),
        ("gdb --version", "gdb -batch x"),
        unless=(*_ASKS_ITSELF, "-batch", "--batch", "-d", "-f", "--filter"),
    ),
    EffectRule(
        E.TERMINAL,
        ("git",),
        ("git rebase -i main", "git add -p"),
        ("git rebase main", "git log -p", "git diff -i"),
        subcommands=("rebase", "add", "checkout", "stash", "reset", "restore"),
        options=("-i", "--interactive", "-p", "--patch"),
    ),
)

REFUSED_RULES: Final = (*_PRIVILEGES, *_TERMINAL)

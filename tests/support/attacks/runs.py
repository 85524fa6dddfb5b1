"""Attacks by what runs, commands and Python code: what one is, and how it is told that it got out.

An attack is data: a piece of code and the Fact that shows its success. Facts are looked for on the host's side, or
in what came back. In a sandbox no Fact at all may hold; with the sandbox off the attack's own must, so that an attack
that tests nothing is noticed. The tables are in `run_attacks_commands`, `run_attacks_code` and `run_attacks_kernel`,
the place where they happen is a Scene (`run_attacks_scene`).
"""

from __future__ import annotations

import platform
import re
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from tests.support.sandbox_suite.kit import MARK
from toolyard.linux.syscall_numbers import SYSCALL_NUMBERS
from toolyard.sandbox.spec import RunKind

PERMITTED: Final = "PERMITTED-42"
"""What an attack says when the kernel let it do something. No attack spells it: code is quoted in error messages."""
ATTACK_SECONDS: Final = 10

_TOKEN = re.compile(r"@(\w+)@")
_NUMBER = re.compile(r"#(\w+)#")
# What is started from here on carries the scene's mark. The sandbox's own waiting processes do not.
_BASH_PRELUDE: Final = f"export {MARK}=@mark@; say() {{ echo PERMITTED-$((6 * 7)); }}\n"
_PYTHON_PRELUDE: Final = r"""
import ctypes, errno, os, signal, socket, stat, struct, subprocess, sys, threading
os.environ['@mark_name@'] = '@mark@'
libc = ctypes.CDLL(None, use_errno=True)
def say(): print('PERMITTED', 6 * 7, sep='-', flush=True)
def call(number, *arguments):
    ctypes.set_errno(0)
    return libc.syscall(number, *(ctypes.c_long(a) if isinstance(a, int) else a for a in arguments))
def attempt(number, *arguments, also=()):
    if call(number, *arguments) >= 0 or ctypes.get_errno() in also: say()
    else: print(os.strerror(ctypes.get_errno()))
"""


class Fact(StrEnum):
    """Something that must not happen."""

    SHOWN = "a secret came back"
    CHANGED = "something changed outside, or where the policy forbids it"
    REACHED = "a listener of the host was reached"
    HURT = "a process of the host was ended or stopped"
    PERMITTED = "the kernel permitted it"
    SPECIAL = "a device or a file with borrowed rights stands in the workspace"
    LEFT = "a process outlived its run"


class Control(StrEnum):
    """What an attack is tried in to see it succeed."""

    OFF = "the same tools without a sandbox"
    BARE = "a plain subprocess: the warden, which even then cleans up, does not stand in between"
    NEVER = "nothing: it would change files of the machine, which are read-only where attacks are tried"
    PRIVATE = "a plain subprocess in mount and UTS namespaces of its own, so that nothing really changes"


@dataclass(frozen=True, slots=True)
class RunAttack:
    name: str
    what: RunKind
    code: str
    """A template: `@secret@` stands for a part of the Scene, `#mount#` for the number of a system call."""
    proof: Fact
    control: Control = Control.OFF
    as_root: bool = False
    """Only root would succeed, sandbox or not."""

    def spelled(self, places: Mapping[str, str]) -> str:
        prelude = _BASH_PRELUDE if self.what is RunKind.COMMAND else _PYTHON_PRELUDE
        numbered = _NUMBER.sub(lambda found: str(_number(found[1])), self.code)
        return _TOKEN.sub(lambda found: places[found[1]], prelude + numbered)


def command(
    name: str, code: str, proof: Fact = Fact.SHOWN, control: Control = Control.OFF, *, as_root: bool = False
) -> RunAttack:
    return RunAttack(name, RunKind.COMMAND, code, proof, control, as_root or control is Control.PRIVATE)


def python(
    name: str, code: str, proof: Fact = Fact.SHOWN, control: Control = Control.OFF, *, as_root: bool = False
) -> RunAttack:
    return RunAttack(name, RunKind.PYTHON, code, proof, control, as_root or control is Control.PRIVATE)


def _number(call: str) -> int:
    found = SYSCALL_NUMBERS[call]
    number = found.x86_64 if platform.machine() == "x86_64" else found.aarch64
    return -1 if number is None else number

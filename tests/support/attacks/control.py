"""Attacks, tried: through a Yard's own dispatch, sandboxed or with the sandbox off, and in a plain subprocess."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from typing import Any, Final

from tests.support import private_mounts
from tests.support.attacks.runs import ATTACK_SECONDS, Control, RunAttack
from tests.support.attacks.scene import Scene
from tests.support.sandbox_suite.kit import within
from toolyard.app.toolsets import Toolset
from toolyard.app.yard import Yard
from toolyard.app.yard_options import YardOptions
from toolyard.config.models import Config
from toolyard.config.settings import Settings
from toolyard.core.calls import Call, Result, Text
from toolyard.core.closeable import Closeable
from toolyard.core.permission_modes import PermissionMode
from toolyard.sandbox.backends.unsandboxed import unsandboxed_process
from toolyard.sandbox.selection import SandboxChoice
from toolyard.sandbox.spec import RunKind, Tier

_SOON = 3.0
_MS: Final = 1_000
_DENIED: Final = ("Read(hidden/**)", "Write(hidden/**)", "Write(frozen.txt)")
_PROGRAMS: Final = ("curl", "git", "nsenter", "pkill", "ps", "renice", "setpriv")
_OWN_NAMESPACES: Final = ("unshare", "--mount", "--uts", "--propagation", "private")


class _WithoutSandbox(Yard):
    def _select_sandbox(self) -> SandboxChoice:
        return SandboxChoice(Tier.NONE, unsandboxed_process)


def open_yard(
    scene: Scene,
    *,
    mode: PermissionMode = PermissionMode.STRICT,
    denied: tuple[str, ...] = _DENIED,
    kind: type[Yard] = Yard,
    **execution: Any,
) -> Yard:
    """The scene's workspace with the policy that the attacks are up against."""
    raw = {
        "orchestrator": {"context_paths": [{"path": f"{scene.base}/context", "permission": "read"}]},
        "permissions": {"deny": denied},
        # The attacks are on the walls; a question before them would keep them away from these.
        "toolyard": {"code_execution": {"allow_destructive": True, **execution}},
    }
    return kind.open(
        YardOptions(
            workspace=scene.workspace,
            config=Config.model_validate(raw),
            settings=Settings(scene.home, scene.state, f"{scene.base}/temp", f"{scene.base}/documents"),
            mode=mode,
            toolset=Toolset.ALL,
            state_home=scene.state,
        )
    )


def open_yard_without_sandbox(scene: Scene) -> Yard:
    """The same workspace with nothing in the way: no walls, no rules."""
    return open_yard(scene, mode=PermissionMode.BYPASS, denied=(), kind=_WithoutSandbox)


def why_not_here(attack: RunAttack) -> str | None:
    """Why an attack cannot succeed for this user on this machine, sandbox or not."""
    if attack.as_root and os.geteuid() != 0:
        return "only root would succeed"
    if attack.control is Control.NEVER:
        return "it would change files of this machine"
    missing = [name for name in _PROGRAMS if name in attack.code.split() and shutil.which(name) is None]
    return f"this machine lacks {missing[0]}" if missing else None


def text_of(result: Result) -> str:
    """All that a client gets to see."""
    parts = [part.text if isinstance(part, Text) else repr(part) for part in result.parts]
    return "\n".join([*parts, json.dumps(result.structured, ensure_ascii=False)])


def call_of(what: RunKind, code: str, seconds: float = ATTACK_SECONDS, client: str = "attacker", **more: Any) -> Call:
    tool, field = ("Bash", "command") if what is RunKind.COMMAND else ("execute_python", "code")
    arguments = {field: code, "timeout": int(seconds * _MS), **more}
    return Call(tool, arguments, surface="test", session=client)


async def attacked(yard: Yard, attack: RunAttack, scene: Scene) -> str:
    """What comes back from an attack by way of the tools."""
    # A session of its own: the next attack starts in the workspace, wherever this one goes.
    call = call_of(attack.what, attack.spelled(scene.places()), client=attack.name)
    return text_of(await yard.dispatch(call))


def attacked_barely(attack: RunAttack, scene: Scene) -> str:
    """What an attack prints in a plain subprocess of ours, which inherits all that a careless server hands on."""
    program = ["bash", "-c"] if attack.what is RunKind.COMMAND else [sys.executable, "-c"]
    own = _OWN_NAMESPACES if attack.control is Control.PRIVATE else ()
    # To a file: what outlives the program would hold a pipe open.
    with tempfile.TemporaryFile() as printed:
        subprocess.run(
            [*own, *program, attack.spelled(scene.places())],
            cwd=scene.workspace,
            stdin=subprocess.DEVNULL,
            stdout=printed,
            stderr=subprocess.STDOUT,
            close_fds=False,
            timeout=ATTACK_SECONDS,
            check=False,
        )
        printed.seek(0)
        return printed.read().decode("utf-8", "replace")


class Arena(Closeable):
    """One Scene with one Yard for a whole table of attacks, sandboxed or not."""

    def __init__(self, base: str, *, sandboxed: bool, **options: Any) -> None:
        if not sandboxed:
            private_mounts.require()
        self.scene = Scene(base)
        self._sandboxed, self._options = sandboxed, options
        self.yard = self._opened()

    async def holds(self, attack: RunAttack) -> None:
        """Nothing comes of it: not what it is after, and nothing else."""
        answer = await attacked(self.yard, attack, self.scene)
        found = self.scene.facts(answer)
        self.scene.tidy()
        if found:  # the next attack finds everything as it was
            self.yard.close()
            self.scene.restore()
            self.yard = self._opened()
        assert found == set(), answer

    async def succeeds(self, attack: RunAttack) -> None:
        """It does what it is after."""
        try:
            if attack.control is Control.OFF:
                answer = await attacked(self.yard, attack, self.scene)
            else:
                answer = attacked_barely(attack, self.scene)
            # A process that was killed takes a moment to be gone.
            assert within(_SOON, lambda: attack.proof in self.scene.facts(answer, patience=0)), answer
        finally:
            self.scene.restore()

    def _opened(self) -> Yard:
        return open_yard(self.scene, **self._options) if self._sandboxed else open_yard_without_sandbox(self.scene)

    async def run(self, what: RunKind, code: str, **more: Any) -> Result:
        return await self.yard.dispatch(call_of(what, code, **more))

    def close(self) -> None:
        self.yard.close()
        self.scene.close()

"""Runs the examples of skills in the agent's own sandbox, beside other code that runs there.

The code that saves a skill waits for its example in the same sandbox. An example therefore never replaces the
sandbox, has its own deadline, starts in an empty folder, and is stopped when its caller no longer waits.
"""

from __future__ import annotations

import sys
import threading
from dataclasses import dataclass, field

from toolyard.core.errors import ToolError
from toolyard.sandbox.manager import SandboxManager
from toolyard.sandbox.output_capture import OutputCapture
from toolyard.sandbox.spec import RunEnding, RunKind, RunRequest, RunResult, Stream
from toolyard.skills.import_check import ImportResolver, is_installed
from toolyard.skills.library import SkillLibrary
from toolyard.skills.validation import ExampleResult, SkillChecks

EXAMPLE_SECONDS = 30.0
_PROBE_SECONDS = 10.0
_INSTALLED, _MISSING, _LOCAL = 0, 3, 4
_PROBE_CODE = """\
import importlib.util, os, sys
def is_there():
    try:
        return importlib.util.find_spec({name!r}) is not None
    except (ImportError, ValueError, AttributeError):
        return False
here, paths = os.path.realpath("."), sys.path[:]
sys.path[:] = [path for path in paths if os.path.realpath(path or ".") != here]
if is_there():
    raise SystemExit({installed})
sys.path[:] = paths
raise SystemExit({near} if is_there() else {missing})
"""
_STAND_ASIDE_PRELUDE = "from toolyard_runtime.importer import stand_aside as _aside\n_aside()\n"
_MAX_SHOWN_CHARS = 4_000
_MAX_PRINTED_BYTES = 1_000_000


def sandboxed_checks(
    sandboxes: SandboxManager, library: SkillLibrary, cancelled: threading.Event | None = None, *, agent: str = ""
) -> SkillChecks:
    """Returns the checks of a skill, which use a sandbox. `agent` is its author, if not the library's agent."""
    inside = _SandboxRunner(sandboxes, cancelled or threading.Event())
    return SkillChecks(
        ImportResolver(
            library.root, agent or library.agent, inside.can_import, inside.can_import_locally, library.attached
        ),
        inside.run,
    )


@dataclass(frozen=True, slots=True)
class _SandboxRunner:
    sandboxes: SandboxManager
    cancelled: threading.Event
    probed: dict[str, int] = field(default_factory=dict[str, int])

    def run(self, code: str) -> ExampleResult:
        seconds = min(EXAMPLE_SECONDS, self.sandboxes.limits.seconds)
        outcome, printed = self._run_python(_STAND_ASIDE_PRELUDE + code, seconds)
        if outcome.ending is RunEnding.TIMEOUT:
            return ExampleResult(ok=False, output=f"{printed}It took longer than {seconds:g} seconds.")
        value = outcome.value or {}
        error, code_of_exit = value.get("error"), value.get("exit_code")
        if isinstance(error, str) and error:
            return ExampleResult(ok=False, output=f"{printed}{error}")
        if outcome.value is None or outcome.ending is not RunEnding.FINISHED or code_of_exit:
            return ExampleResult(
                ok=False, output=f"{printed}It ended with exit code {code_of_exit or outcome.exit_code}."
            )
        return ExampleResult(ok=True, output=printed)

    def can_import(self, module: str) -> bool:
        """Whether the sandbox's Python, which may differ from ours, can import the module from any folder."""
        first = module.partition(".")[0]
        if first in sys.stdlib_module_names:
            return is_installed(module)
        return self._probe_module(first) == _INSTALLED

    def can_import_locally(self, first: str) -> bool:
        """Whether the module can only be imported from the workspace folder."""
        return first not in sys.stdlib_module_names and self._probe_module(first) == _LOCAL

    def _probe_module(self, first: str) -> int:
        if first not in self.probed:
            look = _PROBE_CODE.format(name=first, installed=_INSTALLED, missing=_MISSING, near=_LOCAL)
            outcome, printed = self._run_python(look, _PROBE_SECONDS)
            exit_code = (outcome.value or {}).get("exit_code")
            if not isinstance(exit_code, int) or exit_code not in {_INSTALLED, _MISSING, _LOCAL}:
                raise ToolError(f"The installed modules cannot be determined. {printed}".strip(), hint="Try again.")
            self.probed[first] = exit_code
        return self.probed[first]

    def _run_python(self, code: str, seconds: float) -> tuple[RunResult, str]:
        captured = OutputCapture()
        ready = self.sandboxes.current_sandbox()
        request = RunRequest(RunKind.PYTHON, code, seconds, output_bytes=_MAX_PRINTED_BYTES)
        outcome = ready.sandbox.run(request, captured.append, self.cancelled)
        if outcome.ending is RunEnding.CANCELLED:
            raise ToolError("It was stopped because its caller no longer waits.", hint="Save the skill again.")
        text = "".join(captured.text(stream) for stream in Stream)[-_MAX_SHOWN_CHARS:]
        return outcome, text if not text or text.endswith("\n") else f"{text}\n"

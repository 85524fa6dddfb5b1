"""Examples of skills, run in the agent's own sandbox, beside whatever runs there.

The code that keeps a skill waits for its example in the same sandbox. So the sandbox is never replaced for one, it
runs under a deadline of its own, in an empty folder, and it is told to stop when nobody waits for it any more.
"""

from __future__ import annotations

import sys
import threading
from dataclasses import dataclass, field

from toolyard.core.errors import ToolError
from toolyard.sandbox.manager import Sandboxes
from toolyard.sandbox.output_capture import Captured
from toolyard.sandbox.spec import Ending, Outcome, Request, Stream, What
from toolyard.skills.import_check import Resolver, is_installed
from toolyard.skills.library import Shelf
from toolyard.skills.validation import Checks, RunAnswer

EXAMPLE_SECONDS = 30.0
_LOOK_SECONDS = 10.0
_INSTALLED, _MISSING, _NEAR = 0, 3, 4
_LOOK = """\
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
_ASIDE = "from toolyard_runtime.importer import stand_aside as _aside\n_aside()\n"
_MOST_SHOWN = 4_000
_MOST_PRINTED = 1_000_000


def checks_in(
    sandboxes: Sandboxes, shelf: Shelf, cancelled: threading.Event | None = None, *, agent: str = ""
) -> Checks:
    """The checks of a skill, with a sandbox to ask and to try it in. `agent` is whose it is, if not the shelf's."""
    inside = _Inside(sandboxes, cancelled or threading.Event())
    return Checks(Resolver(shelf.root, agent or shelf.agent, inside.has, inside.has_near, shelf.attached), inside.run)


@dataclass(frozen=True, slots=True)
class _Inside:
    sandboxes: Sandboxes
    cancelled: threading.Event
    known: dict[str, int] = field(default_factory=dict[str, int])

    def run(self, code: str) -> RunAnswer:
        seconds = min(EXAMPLE_SECONDS, self.sandboxes.limits.seconds)
        outcome, printed = self._ran(_ASIDE + code, seconds)
        if outcome.ending is Ending.TIMEOUT:
            return RunAnswer(ok=False, output=f"{printed}It took longer than {seconds:g} seconds.")
        value = outcome.value or {}
        error, code_of_exit = value.get("error"), value.get("exit_code")
        if isinstance(error, str) and error:
            return RunAnswer(ok=False, output=f"{printed}{error}")
        if outcome.value is None or outcome.ending is not Ending.FINISHED or code_of_exit:
            return RunAnswer(
                ok=False, output=f"{printed}It ended with exit code {code_of_exit or outcome.exit_code}."
            )
        return RunAnswer(ok=True, output=printed)

    def has(self, module: str) -> bool:
        """Whether the sandbox's Python can import it wherever it stands: it may be another Python than ours."""
        first = module.partition(".")[0]
        if first in sys.stdlib_module_names:
            return is_installed(module)
        return self._look(first) == _INSTALLED

    def has_near(self, first: str) -> bool:
        """Whether only code that stands in the workspace can import it."""
        return first not in sys.stdlib_module_names and self._look(first) == _NEAR

    def _look(self, first: str) -> int:
        if first not in self.known:
            look = _LOOK.format(name=first, installed=_INSTALLED, missing=_MISSING, near=_NEAR)
            outcome, printed = self._ran(look, _LOOK_SECONDS)
            exit_code = (outcome.value or {}).get("exit_code")
            if not isinstance(exit_code, int) or exit_code not in {_INSTALLED, _MISSING, _NEAR}:
                raise ToolError(f"It cannot be told which modules are there. {printed}".strip(), hint="Try again.")
            self.known[first] = exit_code
        return self.known[first]

    def _ran(self, code: str, seconds: float) -> tuple[Outcome, str]:
        captured = Captured()
        ready = self.sandboxes.beside()
        request = Request(What.PYTHON, code, seconds, output_bytes=_MOST_PRINTED)
        outcome = ready.sandbox.run(request, captured.take, self.cancelled)
        if outcome.ending is Ending.CANCELLED:
            raise ToolError("It was stopped, because nobody waits for it any more.", hint="Save the skill again.")
        text = "".join(captured.text(stream) for stream in Stream)[-_MOST_SHOWN:]
        return outcome, text if not text or text.endswith("\n") else f"{text}\n"

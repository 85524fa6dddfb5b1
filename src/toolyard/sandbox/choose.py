"""Which sandbox commands and code run in. Never none by accident: what cannot be walled in is refused."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from toolyard.core.errors import SecurityError
from toolyard.sandbox.boxes import BoxSandbox
from toolyard.sandbox.bubblewrap import bubblewrap, find_bubblewrap
from toolyard.sandbox.spec import Tier

if TYPE_CHECKING:
    from toolyard.config.models import CodeExecution


@dataclass(frozen=True, slots=True)
class Choice:
    tier: Tier
    make: Callable[[], BoxSandbox]
    note: str = ""
    """What every result has to say about it: that the walls are weaker than they could be, or missing."""


def choose(execution: CodeExecution) -> Choice:
    """The sandbox that the configuration asks for. Raises SecurityError where it cannot be had."""
    program = find_bubblewrap()
    if execution.mode == "bubblewrap" and program is not None:
        return Choice(Tier.BUBBLEWRAP, lambda: bubblewrap(program))
    raise SecurityError("No sandbox can be built on this machine.", hint="Run `toolyard doctor` to see why.")

"""Options of a team run."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from toolyard.config.models import Config
from toolyard.config.settings import Settings, environment
from toolyard.core.calls import ApprovalCallback, deny_without_asking

if TYPE_CHECKING:
    from toolyard.config.models import TeamLimits


@dataclass(frozen=True, slots=True)
class RunOptions:
    """What a team run needs to start."""

    config: Config
    task: str = ""
    settings: Settings = field(default_factory=Settings.from_environment)
    state_home: str | None = None
    askers: Callable[[str], ApprovalCallback] | None = None
    """Returns the approval callback of an agent, for actions where a policy says `ask`. None refuses them."""
    limits: TeamLimits | None = None
    """Replaces the limits of the configuration."""
    resume: str = ""
    """The run to resume, with its original task."""
    variables: Mapping[str, str] = field(default_factory=environment, repr=False)
    """The user's environment, in which agent CLIs find their keys."""
    patience: float | None = None
    """Total seconds that an agent waits for an unavailable model; None for the default."""

    def asker(self, agent: str) -> ApprovalCallback:
        return self.askers(agent) if self.askers is not None else deny_without_asking

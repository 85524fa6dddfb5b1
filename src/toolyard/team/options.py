"""What a run of a team is told, in the form it is used in."""

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
    config: Config
    task: str = ""
    settings: Settings = field(default_factory=Settings.from_environment)
    state_home: str | None = None
    askers: Callable[[str], ApprovalCallback] | None = None
    """By agent, who is asked where a policy says `ask`. Without it such an action is refused."""
    limits: TeamLimits | None = None
    """In place of those of the configuration."""
    resume: str = ""
    """The run to go on with; its task is that of then."""
    variables: Mapping[str, str] = field(default_factory=environment, repr=False)
    """The user's: agent CLIs find their keys here."""
    patience: float | None = None
    """Seconds that an agent waits for a model that is down, in all; None for as long as is usual."""

    def asker(self, agent: str) -> ApprovalCallback:
        return self.askers(agent) if self.askers is not None else deny_without_asking

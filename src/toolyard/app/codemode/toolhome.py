"""Where the tool files and skills of a workspace are: in it, or in the root that the agents of a team share."""

from __future__ import annotations

import contextlib
import os
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from toolyard.codemode.folder import SERVERS, TOOLS, place_of
from toolyard.core.errors import ConfigError
from toolyard.core.modes import Access
from toolyard.policy.roots import ContextPath
from toolyard.workspace.layout import SKILLS

if TYPE_CHECKING:
    from toolyard.config.models import Config
    from toolyard.policy.policy import Policy


@dataclass(frozen=True, slots=True)
class ToolHome:
    root: str
    """Real path."""
    workspace: str

    @property
    def is_elsewhere(self) -> bool:
        return self.root != self.workspace

    def guarded(self, policy: Policy) -> Policy:
        """The policy with the generated folders read-only and, where they lie elsewhere, visible."""
        if not self.is_elsewhere:
            kept = (f"/{place_of(self.root, name)}" for name in (SERVERS, TOOLS))
            return replace(policy, protected=(*policy.protected, *kept))
        with contextlib.suppress(OSError):  # a skill that is kept later is to be seen by those who are open now
            os.mkdir(os.path.join(self.root, SKILLS))
        access = {SERVERS: Access.READ, TOOLS: Access.READ, SKILLS: Access.WRITE}
        shown = [
            ContextPath(path, access[name])
            for name in access
            if os.path.isdir(path := os.path.join(self.root, name if name == SKILLS else place_of(self.root, name)))
            and os.path.realpath(path) == path
        ]
        return replace(policy, context=(*policy.context, *shown))


def toolhome_of(config: Config, workspace: str) -> ToolHome:
    """`toolyard.workspace` where the configuration names it, else the workspace itself (a real path)."""
    if config.source is None or "workspace" not in config.toolyard.model_fields_set:
        return ToolHome(workspace, workspace)
    root = os.path.realpath(os.path.join(config.folder(workspace), config.toolyard.workspace))
    if root != workspace and not os.path.isdir(root):
        raise ConfigError(f"the workspace root {root} is not a folder.", hint="Create it: the tool files go there.")
    return ToolHome(root, workspace)

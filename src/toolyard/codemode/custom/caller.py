"""Adapters that let custom tools be called like upstream tools, and their access to the agent's files."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from toolyard.codemode.catalog import KnownTool, ToolChange, tool_fingerprint
from toolyard.codemode.custom import CustomTools
from toolyard.core.actions import Action, Effect, Kind
from toolyard.core.errors import SecurityError, ToolError
from toolyard.core.limits import Limits
from toolyard.core.upstream import Json, ServerListing, UpstreamProgress, UpstreamResult
from toolyard.files import file_io
from toolyard.files.mounts import Mounts
from toolyard.policy.policy import Policy

_POLICY_TOOL_NAME = "custom tool"


@dataclass(frozen=True, slots=True)
class CustomPinnedTools:
    """The catalog's interface for custom tools, which need no pins and no inferred schemas."""

    tools: CustomTools

    def tool(self, server: str, name: str) -> KnownTool | None:
        found = self.tools.get(f"{server}.{name}")
        return None if found is None else KnownTool(server, found.schema, tool_fingerprint(found.schema))

    def tool_names(self, server: str) -> tuple[str, ...]:
        schemas = self.tools.groups.get(server, ())
        return tuple(schema.name.removeprefix(f"{server}.") for schema in schemas)

    def version(self) -> int:
        return 0

    def record_listing(
        self, listing: ServerListing, evidence: str | None, *, is_trusted: bool = False
    ) -> tuple[ToolChange, ...]:
        del listing, evidence, is_trusted
        return ()

    def save_inferred_schema(self, server: str, tool: str, schema: Json) -> None:
        """Does nothing: custom tools declare their types."""


@dataclass(frozen=True, slots=True)
class CustomCallTarget:
    """The pool's interface for custom tools: calls functions of this process."""

    tools: CustomTools
    _listings: dict[str, ServerListing] = field(default_factory=dict[str, ServerListing])

    def can_run_eagerly(self, server: str) -> bool:  # noqa: ARG002 - any custom tool may need a task
        return False

    async def server_listing(self, server: str) -> ServerListing:
        return self._listings.setdefault(server, ServerListing(server, ()))

    async def call(
        self,
        server: str,
        tool: str,
        arguments: Mapping[str, Any],
        timeout: float | None = None,  # noqa: ASYNC109 - part of the call, as with servers
        progress: UpstreamProgress | None = None,
    ) -> UpstreamResult:
        return await self.tools.call(server, tool, arguments, timeout, progress)


@dataclass(frozen=True, slots=True)
class PolicyCheckedFiles:
    """The files of the calling agent, as its policy allows."""

    mounts: Mounts
    policy: Policy
    limits: Limits

    def read(self, path: str) -> bytes:
        spelled = self.mounts.clean(path)
        with self.mounts.find(self._require_allowed(Kind.READ, spelled, spelled)) as target:
            self._require_allowed(Kind.READ, spelled, target.real)
            if not target.exists:
                raise ToolError(f"There is no file {path!r}.", hint="Paths are relative to the workspace.")
            return file_io.read(target, self.limits).data

    def write(self, path: str, data: bytes) -> str:
        spelled = self.mounts.clean(path)
        with self.mounts.find(self._require_allowed(Kind.WRITE, spelled, spelled)) as target:
            self._require_allowed(Kind.WRITE, spelled, target.real)
            file_io.rewrite(target, lambda _: data, self.limits)
        return self.mounts.display_path(spelled)

    def _require_allowed(self, kind: Kind, spelled: str, real: str) -> str:
        decision = self.policy.decide(Action(kind, _POLICY_TOOL_NAME, spelled, real))
        if decision.effect is not Effect.ALLOW:
            raise SecurityError.from_refusal(decision.reason)
        return spelled

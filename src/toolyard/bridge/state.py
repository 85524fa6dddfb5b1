"""What all bridges of one server share: the policy, the cache, who waits for what, and who is told."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

from anyio import to_thread

from toolyard.bridge.audit import Auditor
from toolyard.bridge.cache import FileCache
from toolyard.bridge.client import BridgeClient
from toolyard.bridge.disk import SharedDisk
from toolyard.bridge.freshness import Freshness
from toolyard.bridge.path_validator import PathValidator
from toolyard.bridge.pending_reads import PendingReads
from toolyard.bridge.policy import SecurityPolicy
from toolyard.bridge.resources import file_path
from toolyard.core.errors import ConfigError

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class BridgeState:
    policy: SecurityPolicy
    cache: FileCache
    pending: PendingReads
    auditor: Auditor
    disk: SharedDisk
    freshness: Freshness
    seconds: float
    """How long a client may take for an answer."""
    file_bytes: int
    """Of one file."""

    async def with_cache(self, work: Callable[[FileCache], T]) -> T:
        """Do something with the cache, where that may take its time not in the way of others."""
        if not self.cache.may_block:
            return work(self.cache)
        return await to_thread.run_sync(work, self.cache)

    async def validate_path(self, path: str, client: BridgeClient) -> str:
        """The path as the policy spells it. Raises PathRefusedError or ValidationError.

        Where the project's root is not known, an absolute path is held against the root that the client offers.
        """
        if self.policy.project_root is None and _needs_root(path) and client.offers_roots:
            rooted = await self.policy_with_root(client)
            return rooted.relative(PathValidator(rooted).validate(path))
        return PathValidator(self.policy).validate(path)

    async def policy_with_root(self, client: BridgeClient) -> SecurityPolicy:
        """The policy with the project's root, as far as it can be known."""
        if self.policy.project_root is not None or not client.offers_roots:
            return self.policy
        for uri in await client.roots(self.seconds):
            path = file_path(uri)
            if path is not None:
                try:
                    return self.policy.rooted_at(path)
                except ConfigError:
                    continue  # a root that cannot be one
        return self.policy


def _needs_root(path: str) -> bool:
    """Whether it is absolute, in either form, or spelled as Windows does: then the root says what is meant."""
    return path.startswith("/") or "\\" in path or path[1:2] == ":"

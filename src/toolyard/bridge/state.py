"""The state that all bridges of one server share: policy, cache, pending reads and auditor."""

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
    """The state that all bridges of one server share."""

    policy: SecurityPolicy
    cache: FileCache
    pending: PendingReads
    auditor: Auditor
    disk: SharedDisk
    freshness: Freshness
    seconds: float
    """Time limit for a client's answer."""
    file_bytes: int
    """Maximum size of one file."""

    async def with_cache(self, work: Callable[[FileCache], T]) -> T:
        """Runs `work` with the cache, in a thread if the cache may block."""
        if not self.cache.may_block:
            return work(self.cache)
        return await to_thread.run_sync(work, self.cache)

    async def validate_path(self, path: str, client: BridgeClient) -> str:
        """Returns the path in the policy's spelling. Raises PathRefusedError or ValidationError.

        If the project's root is unknown, an absolute path is checked against the root that the client offers.
        """
        if self.policy.project_root is None and _needs_root(path) and client.offers_roots:
            rooted = await self.policy_with_root(client)
            return rooted.relative(PathValidator(rooted).validate(path))
        return PathValidator(self.policy).validate(path)

    async def policy_with_root(self, client: BridgeClient) -> SecurityPolicy:
        """Returns the policy with the project's root, if the policy or the client provides one."""
        if self.policy.project_root is not None or not client.offers_roots:
            return self.policy
        for uri in await client.roots(self.seconds):
            path = file_path(uri)
            if path is not None:
                try:
                    return self.policy.rooted_at(path)
                except ConfigError:
                    continue  # not usable as a root
        return self.policy


def _needs_root(path: str) -> bool:
    """Whether the path is absolute or in Windows syntax, so that only the root makes its meaning clear."""
    return path.startswith("/") or "\\" in path or path[1:2] == ":"

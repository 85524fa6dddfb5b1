"""Rate limits and budgets of tools, counted while Toolyard runs.

Holds only its counts. Refused calls do not count. Thread-safe.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from toolyard.config.authorization import ToolPatterns
from toolyard.config.models import Config, ToolLimit
from toolyard.core.errors import SecurityError

_MINUTE = 60.0
_ROUNDING = 1e-9
"""Sums of costs such as 0.1 differ from the exact value by less than this."""


@dataclass(slots=True)
class _Usage:
    calls: int = 0
    cost: float = 0.0
    recent: deque[float] = field(default_factory=deque[float])
    """The times of calls in the last minute, at most as many as are allowed."""


class RateLimits:
    """Counts the calls of limited tools."""

    def __init__(self, limits: Mapping[str, ToolLimit], clock: Callable[[], float] = time.monotonic) -> None:
        self._limits = dict(limits)
        self._patterns = ToolPatterns(tuple(self._limits))
        self._matching: dict[tuple[str, str], tuple[str, ...]] = {}
        self._counts: dict[tuple[str, str], _Usage] = {}
        self._clock = clock
        self._lock = threading.Lock()

    @classmethod
    def from_config(cls, config: Config) -> RateLimits:
        return cls(config.toolyard.tool_limits)

    def requires_approval(self, server: str, tool: str) -> bool:
        """Whether each call of this tool needs approval."""
        return any(self._limits[pattern].ask for pattern in self._matching_patterns(server, tool))

    def count_call(self, agent: str, server: str, tool: str) -> None:
        """Counts one call, or raises SecurityError if a limit is reached."""
        patterns = self._matching_patterns(server, tool)
        if not patterns:
            return
        with self._lock:
            now = self._clock()
            counts = [(pattern, self._usage(pattern, agent)) for pattern in patterns]
            for pattern, count in counts:
                _check_limit(self._limits[pattern], count, now, f"{server}.{tool}", pattern)
            for pattern, count in counts:
                count.calls += 1
                count.cost += self._limits[pattern].cost
                if self._limits[pattern].per_minute is not None:
                    count.recent.append(now)

    def _matching_patterns(self, server: str, tool: str) -> tuple[str, ...]:
        if not self._limits:
            return ()
        found = self._matching.get((server, tool))
        if found is None:
            found = self._matching[server, tool] = tuple(self._patterns.matching_patterns(server, tool))
        return found

    def _usage(self, pattern: str, agent: str) -> _Usage:
        key = (pattern, agent if self._limits[pattern].each_agent else "")
        return self._counts.setdefault(key, _Usage())


def _check_limit(limit: ToolLimit, count: _Usage, now: float, tool: str, pattern: str) -> None:
    hint = f"Ask the user to raise `tool_limits` for {pattern!r}, or do without."
    if limit.most_calls is not None and count.calls >= limit.most_calls:
        raise SecurityError(f"{tool} has reached its limit of {limit.most_calls} calls.", hint=hint)
    if limit.most_cost is not None and count.cost + limit.cost > limit.most_cost + _ROUNDING:
        spent = f"{tool} costs {limit.cost:g} a call; {count.cost:g} of {limit.most_cost:g} are spent."
        raise SecurityError(spent, hint=hint)
    if limit.per_minute is None:
        return
    while count.recent and count.recent[0] <= now - _MINUTE:
        count.recent.popleft()
    if len(count.recent) >= limit.per_minute:
        wait = max(1, round(count.recent[0] + _MINUTE - now + 0.5))
        raise SecurityError(
            f"{tool} has reached its limit of {limit.per_minute} calls a minute.",
            hint=f"Try again in {wait} second{'' if wait == 1 else 's'}.",
            retryable=True,
        )

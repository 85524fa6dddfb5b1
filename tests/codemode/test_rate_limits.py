"""Rates and budgets of tools."""

from __future__ import annotations

import threading

import pytest

from toolyard.codemode.rate_limits import RateLimits
from toolyard.config.loader import load_config
from toolyard.config.models import Config, ToolLimit
from toolyard.core.errors import ConfigError, SecurityError


class Clock:
    now = 1000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock():
    return Clock()


def test_a_rate_says_when_to_try_again_and_then_lets_pass(clock):
    allowances = RateLimits({"github.*": ToolLimit(per_minute=2)}, clock)
    allowances.count_call("a", "github", "x")
    clock.now += 20
    allowances.count_call("b", "github", "y")
    with pytest.raises(SecurityError) as caught:
        allowances.count_call("a", "github", "x")
    assert caught.value.retryable
    assert str(caught.value) == "github.x has reached its limit of 2 calls a minute. Try again in 40 seconds."
    clock.now += 39.9
    with pytest.raises(SecurityError, match="Try again in 1 second"):
        allowances.count_call("a", "github", "x")
    clock.now += 0.2
    allowances.count_call("a", "github", "x")
    with pytest.raises(SecurityError):
        allowances.count_call("a", "github", "x")


def test_calls_and_costs_end_for_good(clock):
    allowances = RateLimits({"a.x": ToolLimit(most_calls=2), "b.*": ToolLimit(most_cost=0.3, cost=0.1)}, clock)
    for _ in range(2):
        allowances.count_call("me", "a", "x")
    for _ in range(3):
        allowances.count_call("me", "b", "y")
    clock.now += 10_000
    with pytest.raises(
        SecurityError, match=r"has reached its limit of 2 calls\. Ask the user to raise `tool_limits`"
    ):
        allowances.count_call("me", "a", "x")
    with pytest.raises(SecurityError, match=r"costs 0\.1 a call; 0\.3 of 0\.3 are spent"):
        allowances.count_call("me", "b", "y")


def test_what_is_refused_by_one_limit_counts_for_none(clock):
    allowances = RateLimits({"a.*": ToolLimit(most_calls=3), "a.x": ToolLimit(most_calls=1)}, clock)
    allowances.count_call("me", "a", "x")
    for _ in range(5):
        with pytest.raises(SecurityError):
            allowances.count_call("me", "a", "x")
    allowances.count_call("me", "a", "y")
    allowances.count_call("me", "a", "y")
    with pytest.raises(SecurityError):
        allowances.count_call("me", "a", "y")


def test_agents_share_a_limit_unless_each_has_its_own(clock):
    limits = {"a.*": ToolLimit(most_calls=1), "b.*": ToolLimit(most_calls=1, each_agent=True)}
    allowances = RateLimits(limits, clock)
    allowances.count_call("one", "a", "x")
    with pytest.raises(SecurityError):
        allowances.count_call("two", "a", "x")
    allowances.count_call("one", "b", "x")
    allowances.count_call("two", "b", "x")


def test_tools_without_a_limit_are_free_and_ask_nobody(clock):
    allowances = RateLimits({"a.*": ToolLimit(most_calls=1), "*.delete_*": ToolLimit(ask=True)}, clock)
    for _ in range(10):
        allowances.count_call("me", "b", "x")
    assert (allowances.requires_approval("b", "x"), allowances.requires_approval("b", "delete_x")) == (False, True)
    assert not RateLimits.from_config(Config()).requires_approval("a", "x")


def test_threads_cannot_take_more_than_there_is():
    allowances = RateLimits({"*": ToolLimit(most_calls=100)})
    taken: list[int] = []

    def work() -> None:
        for _ in range(50):
            try:
                allowances.count_call("me", "a", "x")
            except SecurityError:
                return
            taken.append(1)

    threads = [threading.Thread(target=work) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(taken) == 100


def test_limits_are_read_from_the_configuration(tmp_path):
    path = tmp_path / "toolyard.yaml"
    path.write_text('toolyard: {tool_limits: {"github.*": {per_minute: 30, most_calls: 100, ask: true}}}\n')
    limits = load_config(str(path)).toolyard.tool_limits
    assert limits == {"github.*": ToolLimit(per_minute=30, most_calls=100, ask=True)}
    for wrong, said in (("{most_cost: 3}", "a `cost` per call"), ("{per_minut: 3}", 'Did you mean "per_minute"')):
        path.write_text(f"toolyard: {{tool_limits: {{x: {wrong}}}}}\n")
        with pytest.raises(ConfigError, match=said):
            load_config(str(path))

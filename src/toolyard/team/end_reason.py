"""Says in a sentence why a run ended."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from toolyard.team.events import EndReason
from toolyard.team.rounds import TeamOutcome

if TYPE_CHECKING:
    from toolyard.config.models import TeamLimits


def end_reason(outcome: TeamOutcome, limits: TeamLimits, waiting: Mapping[str, str]) -> str:
    """Returns why the run ended. `waiting` maps agents to the reason why they waited for their models."""
    reason = _reason_sentence(outcome, limits)
    if outcome.ended not in {EndReason.TIME, EndReason.INTERRUPTED}:
        return reason
    return " ".join((reason, *(f"{agent} was waiting: {why.rstrip('.')}." for agent, why in waiting.items())))


def _reason_sentence(outcome: TeamOutcome, limits: TeamLimits) -> str:
    reason = _SENTENCES[outcome.ended].format(
        winner=outcome.winner,
        votes=len([choice for choice in outcome.votes.values() if choice == outcome.winner]),
        voters=len(outcome.votes),
        rounds=outcome.rounds,
        limits=limits,
    )
    if outcome.ended in {EndReason.CONSENSUS, EndReason.ANSWERED, EndReason.FAILED}:
        return reason
    if not outcome.winner:
        return f"{reason} No agent had answered."
    if outcome.votes:
        return f"{reason} {outcome.winner} has the most votes."
    first = f"the answer is that of {outcome.winner}, the first in the file that has one"
    return f"{reason} No agent voted in the last round; {first}."


_SENTENCES = {
    EndReason.ANSWERED: "{winner} has answered.",
    EndReason.CONSENSUS: "All agents have voted, {votes} of {voters} for {winner}.",
    EndReason.ROUNDS: "The limit of {rounds} rounds was reached (`--rounds`, `orchestrator.limits.rounds`).",
    EndReason.TIME: "The limit of {limits.seconds:g} seconds was reached (`--timeout`, "
    "`orchestrator.limits.seconds`).",
    EndReason.TOKENS: "The limit of {limits.tokens} tokens was reached (`--max-tokens`, "
    "`orchestrator.limits.tokens`).",
    EndReason.COST: "The cost limit of ${limits.cost} was reached (`--max-cost`, `orchestrator.limits.cost`).",
    EndReason.INTERRUPTED: "The run was interrupted.",
    EndReason.FAILED: "No agent has answered.",
}

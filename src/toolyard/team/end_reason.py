"""Why a run is over, in a sentence."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from toolyard.team.events import EndReason
from toolyard.team.rounds import TeamOutcome

if TYPE_CHECKING:
    from toolyard.config.models import TeamLimits


def end_reason(outcome: TeamOutcome, limits: TeamLimits, waiting: Mapping[str, str]) -> str:
    """`waiting` says of agents that were waiting for their models what for."""
    said = _reason_sentence(outcome, limits)
    if outcome.ended not in {EndReason.TIME, EndReason.INTERRUPTED}:
        return said
    return " ".join((said, *(f"{agent} was waiting: {why.rstrip('.')}." for agent, why in waiting.items())))


def _reason_sentence(outcome: TeamOutcome, limits: TeamLimits) -> str:
    said = _SENTENCES[outcome.ended].format(
        winner=outcome.winner,
        votes=len([choice for choice in outcome.votes.values() if choice == outcome.winner]),
        voters=len(outcome.votes),
        rounds=outcome.rounds,
        limits=limits,
    )
    if outcome.ended in {EndReason.CONSENSUS, EndReason.ANSWERED, EndReason.FAILED}:
        return said
    if not outcome.winner:
        return f"{said} Nobody had answered by then."
    if outcome.votes:
        return f"{said} {outcome.winner} has the most votes."
    first = f"the answer is that of {outcome.winner}, the first in the file that has one"
    return f"{said} No agent voted in the last round; {first}."


_SENTENCES = {
    EndReason.ANSWERED: "{winner} has answered.",
    EndReason.CONSENSUS: "Everybody has voted, {votes} of {voters} for {winner}.",
    EndReason.ROUNDS: "The {rounds} rounds that were allowed are over (`--rounds`, `orchestrator.limits.rounds`).",
    EndReason.TIME: "The time is up: {limits.seconds:g} seconds (`--timeout`, `orchestrator.limits.seconds`).",
    EndReason.TOKENS: "The tokens are used up: {limits.tokens} (`--max-tokens`, `orchestrator.limits.tokens`).",
    EndReason.COST: "The money is used up: ${limits.cost} (`--max-cost`, `orchestrator.limits.cost`).",
    EndReason.INTERRUPTED: "It was interrupted.",
    EndReason.FAILED: "No agent has answered.",
}

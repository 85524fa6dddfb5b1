"""Why a run is over, in a sentence."""

from __future__ import annotations

from typing import TYPE_CHECKING

from toolyard.team.events import Ended
from toolyard.team.rounds import Outcome

if TYPE_CHECKING:
    from toolyard.config.models import TeamLimits


def why_of(outcome: Outcome, limits: TeamLimits) -> str:
    said = _WHY[outcome.ended].format(
        winner=outcome.winner,
        votes=len([choice for choice in outcome.votes.values() if choice == outcome.winner]),
        voters=len(outcome.votes),
        rounds=outcome.rounds,
        limits=limits,
    )
    if outcome.ended in {Ended.CONSENSUS, Ended.ANSWERED, Ended.FAILED}:
        return said
    if not outcome.winner:
        return f"{said} Nobody had answered by then."
    chosen = (
        "has the most votes" if outcome.votes else "was the first to answer in the order of the file; nobody voted"
    )
    return f"{said} {outcome.winner} {chosen}."


_WHY = {
    Ended.ANSWERED: "{winner} has answered.",
    Ended.CONSENSUS: "Everybody has voted, {votes} of {voters} for {winner}.",
    Ended.ROUNDS: "The {rounds} rounds that were allowed are over (`orchestrator.limits.rounds`).",
    Ended.TIME: "The time is up: {limits.seconds:g} seconds (`orchestrator.limits.seconds`).",
    Ended.TOKENS: "The tokens are used up: {limits.tokens} (`orchestrator.limits.tokens`).",
    Ended.COST: "The money is used up: ${limits.cost} (`orchestrator.limits.cost`).",
    Ended.INTERRUPTED: "It was interrupted.",
    Ended.FAILED: "No agent has answered.",
}

"""Tools that somebody has to say yes to, because their limits say so."""

from __future__ import annotations

from toolyard.core.actions import Action, Decision

from .conftest import Place, printed, tool

CALL = "from servers.one import send\nprint((await send()).structured['tool'])"
LIMITS = {"tool_limits": {"one.*": {"ask": True}}}


async def test_the_question_says_why_it_is_asked(place: Place) -> None:
    place.server("one", tool("send", "Send a message."))
    place.sync()
    asked: list[Decision] = []

    async def yes(action: Action, decision: Decision) -> bool:
        asked.append(decision)
        return True

    yard = place.open(toolyard=LIMITS)
    assert await printed(yard, CALL, yes) == "send"
    (decision,) = asked
    assert decision.reason == "The limits of mcp__one__send say to ask before each call."
    assert place.events(yard)[-2] == ("mcp__one__send", "ask", "ok")


async def test_where_nobody_can_be_asked_the_refusal_says_why(place: Place) -> None:
    place.server("one", tool("send", "Send a message."))
    place.sync()
    yard = place.open(toolyard=LIMITS)
    told = await printed(yard, CALL)
    assert "PermissionError: The limits of mcp__one__send say to ask before each call. It was not approved." in told
    assert place.events(yard)[-2] == ("mcp__one__send", "ask", "denied")

"""What models, tools and networks do wrong, and what becomes of a run then."""

from __future__ import annotations

import pytest

from toolyard.team.events import (
    AgentFailed,
    EndReason,
    Shortened,
    TextDelta,
    TextTakenBack,
    ToolCalled,
    ToolReturned,
    Waiting,
)
from toolyard.testing.mock_model import (
    FOREVER,
    BrokenArguments,
    Call,
    Cut,
    Drop,
    Fail,
    Say,
    Turn,
    with_context_limit,
)

KINDS = pytest.mark.parametrize("kind", ["gemini", "openai", "claude"])


@KINDS
def test_a_tool_that_does_not_exist_is_answered_and_the_agent_goes_on(team_of, kind: str) -> None:
    team = team_of(a=[Call("Reed", {"file_path": "x"}), Say("Then not.")])
    team.kinds = (kind,)

    finished = team.run(["a"])

    assert finished.text == "Then not."
    assert "no tool called 'Reed'" in team.server.requests[-1].results[-1]
    assert "Did you mean Read?" in team.server.requests[-1].results[-1]


@KINDS
def test_broken_arguments_are_answered_and_the_agent_goes_on(team_of, kind: str) -> None:
    team = team_of(a=[BrokenArguments("Read"), Say("I see.")])
    team.kinds = (kind,)

    finished = team.run(["a"])

    assert finished.text == "I see."
    assert [each.ok for each in team.heard(ToolReturned)] == [False]


def test_wrong_arguments_are_explained_to_the_model(team_of) -> None:
    team = team_of(a=[Call("Read", {"path": "x"}), Say("I see.")])

    team.run(["a"])

    assert "Read takes file_path (required)" in team.server.requests[-1].results[-1]


def test_several_calls_of_one_turn_are_all_answered_in_order(team_of) -> None:
    calls = tuple(Call("Write", {"file_path": f"{n}.txt", "content": str(n)}) for n in range(3))
    reads = tuple(Call("Read", {"file_path": f"{n}.txt"}) for n in range(3))
    team = team_of(a=[Turn(calls=calls), Turn(calls=reads), Say("All there.")])

    team.run(["a"])

    assert [each.ok for each in team.heard(ToolReturned)] == [True] * 6
    last = team.server.requests[-1].results[-3:]
    assert ["0" in last[0], "1" in last[1], "2" in last[2]] == [True] * 3


def test_an_endless_loop_of_calls_is_pointed_out_and_bounded(team_of) -> None:
    team = team_of(a=lambda request: Call("LS", {"path": "."}))
    team.more = {"orchestrator": {"limits": {"turns": 5}}}

    finished = team.run(["a"])

    assert finished.ended is EndReason.FAILED
    assert len(team.server.requests) == 6
    assert "You have made this call 3 times now" in team.server.requests[-1].results[2]
    assert "orchestrator.limits.turns" in team.heard(AgentFailed)[0].hint


def test_who_is_told_to_answer_at_the_last_turn_can(team_of) -> None:
    def script(request):
        wants_answer = any("Make no more calls" in text for text in request.user_texts)
        return Say("This far I came.") if wants_answer else Call("LS", {"path": "."})

    team = team_of(a=script)
    team.more = {"orchestrator": {"limits": {"turns": 2}}}

    finished = team.run(["a"])

    assert (finished.ended, finished.text) == (EndReason.ANSWERED, "This far I came.")


@KINDS
def test_a_backend_that_is_down_for_a_while_is_waited_for(team_of, kind: str) -> None:
    team = team_of(a=[Fail(503, times=2), Drop(times=1), Say("Here again.")])
    team.kinds = (kind,)
    team.options = {"patience": 30.0}

    finished = team.run(["a"])

    assert finished.text == "Here again."
    assert len(team.heard(Waiting)) == 3
    assert all(each.why for each in team.heard(Waiting))


def test_a_limit_of_rate_is_respected(team_of) -> None:
    team = team_of(a=[Fail(429, retry_after=0.2), Say("Thanks.")])
    team.kinds = ("openai",)

    assert team.run(["a"]).text == "Thanks."
    assert team.heard(Waiting)[0].seconds >= 0.2


@KINDS
def test_what_a_cut_stream_said_is_taken_back(team_of, kind: str) -> None:
    team = team_of(a=[Cut(), Say("Whole this time.")])
    team.kinds = (kind,)

    finished = team.run(["a"])

    assert finished.text == "Whole this time."
    since = team.events.index(team.heard(TextTakenBack)[-1]) if team.heard(TextTakenBack) else 0
    said = [each.text for each in team.events[since:] if isinstance(each, TextDelta)]
    assert "".join(said) == "Whole this time."


def test_a_backend_that_stays_down_fails_its_agent_with_the_reason(team_of) -> None:
    team = team_of(a=Fail(500, times=FOREVER), b=Say("I am fine."))
    team.options = {"patience": 0.2}

    finished = team.run(["a", "b"])

    assert finished.winner == "b"
    assert "500" in team.heard(AgentFailed)[0].why


@KINDS
def test_a_conversation_that_outgrows_the_context_is_shortened_and_goes_on(team_of, kind: str) -> None:
    text = "".join(f"line {n} of a long file\n" for n in range(1500))
    reads = [Call("Read", {"file_path": "long.txt", "offset": n}) for n in range(1, 7)]
    calls = iter([Call("Write", {"file_path": "long.txt", "content": text}), *reads])
    team = team_of(a=with_context_limit(60_000, lambda request: next(calls, Say("It fits."))))
    team.kinds = (kind,)
    team.backend = {"context_window": 64_000}

    finished = team.run(["a"])

    assert finished.text == "It fits."
    assert team.heard(Shortened)
    assert all(each.after < each.before for each in team.heard(Shortened))


def test_what_the_policy_refuses_is_said_to_the_model(team_of) -> None:
    team = team_of(a=[Call("Read", {"file_path": "/etc/passwd"}), Say("Right.")])

    team.run(["a"])

    assert "root:" not in team.server.requests[-1].results[-1]
    assert [each.ok for each in team.heard(ToolReturned)] == [False]


def test_what_asks_is_put_to_the_user_with_the_name_of_the_agent(team_of) -> None:
    asked: list[str] = []

    def askers(agent: str):
        async def ask(action, decision) -> bool:
            asked.append(f"{agent}: {action.path}")
            return True

        return ask

    team = team_of(a=[Call("Write", {"file_path": "x.txt", "content": "x"}), Say("Done.")])
    team.backend = {"permission_mode": "default"}

    team.run(["a"], askers=askers)

    assert len(asked) == 1
    assert asked[0].startswith("a: ")
    assert (team.workspace("a") / "x.txt").exists()


def test_where_nobody_can_be_asked_it_is_refused(team_of) -> None:
    team = team_of(a=[Call("Write", {"file_path": "x.txt", "content": "x"}), Say("Then not.")])
    team.backend = {"permission_mode": "default"}

    team.run(["a"])

    assert not (team.workspace("a") / "x.txt").exists()
    assert [each.ok for each in team.heard(ToolReturned)] == [False]
    assert team.heard(ToolCalled)[0].tool == "Write"


def test_an_answer_survives_a_snapshot_that_cannot_be_taken(team_of, monkeypatch) -> None:
    from toolyard.core.errors import SystemFault
    from toolyard.snapshots.service.auto_snapshots import AutoSnapshots
    from toolyard.team.events import Notice

    def broken(self, **options: object) -> None:
        raise SystemFault("The disk is full.")

    monkeypatch.setattr(AutoSnapshots, "create", broken)
    team = team_of(a=Say("My answer."))

    finished = team.run(["a"])

    assert (finished.ended, finished.text, finished.snapshot) == (EndReason.ANSWERED, "My answer.", "")
    assert "The disk is full." in team.heard(Notice, "a")[0].text

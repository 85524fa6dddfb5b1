"""A run as its listeners hear it: two agents, two rounds, a busy model, a failed call, files, votes, an answer."""

from __future__ import annotations

from toolyard.models.messages import ModelUsage
from toolyard.team.events import (
    AgentFailed,
    AgentInfo,
    AgentStarted,
    Answered,
    EndReason,
    FilesChanged,
    Notice,
    RoundStarted,
    RunFinished,
    RunStarted,
    Shortened,
    TextDelta,
    TextTakenBack,
    ThinkingDelta,
    ToolCalled,
    ToolReturned,
    Used,
    Voted,
    Waiting,
)

START = 1_800_000_000.0
FOLDER = "/state/runs/r7"
HOSTILE = "\x1b[2J\x1b]0;owned\x07[bold red]x[/] </script><script>alert(1)</script> \u202eabc \x9b31m ```\n````\nend"
"""What a terminal, Rich, a browser or Markdown might act on."""


def info(agent="ada", backend="gemini", model="gemini-2.5-flash"):
    return AgentInfo(agent, backend, model, f"/work/{agent}", "strict", ("Read", "Write", "Edit"))


def started(*agents, folder=FOLDER, at=START, **more):
    known = tuple(info(each) for each in agents) or (info(), info("bob", "openai", "gpt-5-mini"))
    limits = {"rounds": 4, "seconds": 3600, "tokens": 200_000, "cost": 2.0}
    task = "Make the shop's prices add up, and show that they do."
    return RunStarted(run="r7", task=task, agents=known, folder=folder, limits=limits, at=at, **more)


def finished(folder=FOLDER, at=START + 96, **changes):
    values = {
        "run": "r7",
        "ended": EndReason.CONSENSUS,
        "why": "Every agent voted for ada's answer.",
        "winner": "ada",
        "text": "Prices are summed in **cents** now.\n\n- `shop.py` adds integers\n- a test shows it",
        "snapshot": "0d3c457c96a4f00d",
        "votes": {"ada": "ada", "bob": "ada"},
        "spent": ModelUsage(40_200, 3_100, 12_000, 0.0512),
        "seconds": 96.0,
        "rounds": 2,
        "folder": folder,
    }
    return RunFinished(at=at, **(values | changes))


def first_round(at=START):
    yield RoundStarted(round=1, agents=("ada", "bob"), at=at + 0.1)
    yield AgentStarted(agent="ada", round=1, at=at + 0.2)
    yield AgentStarted(agent="bob", round=1, at=at + 0.2)
    ada, bob = {"agent": "ada", "round": 1}, {"agent": "bob", "round": 1}
    yield ThinkingDelta(text="Where are prices ", at=at + 1, **ada)
    yield ThinkingDelta(text="added up?", at=at + 1.1, **ada)
    yield TextDelta(text="I will look ", at=at + 2, **ada)
    yield TextDelta(text="Never mind", at=at + 2.1, **bob)
    yield TextDelta(text="at the shop.\n\nThen I mend it.", at=at + 2.2, **ada)
    yield TextTakenBack(at=at + 2.5, **bob)
    yield Waiting(seconds=12, why="The model is busy (429).", at=at + 2.6, **bob)
    yield Used(spent=ModelUsage(1_000, 90, 0, 0.001), turns=1, at=at + 3, **ada)
    yield ToolCalled(call="a1", tool="Read", arguments={"file_path": "/work/ada/shop.py"}, at=at + 3, **ada)
    yield ToolReturned(call="a1", tool="Read", ok=True, text="     1\tx = 0.1", seconds=0.012, at=at + 3.1, **ada)
    change = {"file_path": "/work/ada/shop.py", "old_string": "x = 0.1", "new_string": "x = 10"}
    yield ToolCalled(call="a2", tool="Edit", arguments=change, at=at + 6, **ada)
    yield ToolReturned(call="a2", tool="Edit", ok=True, text="1 replacement.", seconds=0.02, at=at + 6.1, **ada)
    yield FilesChanged(paths=("shop.py",), total=1, snapshot="0d3c457c96a4f00d", at=at + 6.4, **ada)
    yield ToolCalled(call="b1", tool="Read", arguments={"file_path": "/etc/shadow"}, at=at + 15, **bob)
    no = "It is outside the workspace."
    yield ToolReturned(call="b1", tool="Read", ok=False, text=no, seconds=0.004, at=at + 15.1, **bob)
    yield Shortened(before=90_000, after=30_000, at=at + 16, **bob)
    yield TextDelta(text="I found nothing to mend.", at=at + 17, **bob)
    yield Used(spent=ModelUsage(9_000, 500, 2_000, 0.004), turns=2, at=at + 18, **bob)
    yield Answered(text="I found nothing to mend.", at=at + 18, **bob)
    yield TextDelta(text="Prices are summed in cents.", at=at + 30, **ada)
    yield Used(spent=ModelUsage(20_000, 1_500, 8_000, 0.02), turns=4, at=at + 31, **ada)
    yield Answered(text="Prices are summed in cents.", snapshot="0d3c457c96a4f00d", at=at + 31, **ada)


def second_round(at=START):
    yield RoundStarted(round=2, agents=("ada", "bob"), at=at + 32)
    yield AgentStarted(agent="ada", round=2, at=at + 32.1)
    yield AgentStarted(agent="bob", round=2, at=at + 32.1)
    yield Notice(text="Prices of gpt-5-mini are not known.", at=at + 33)
    yield Used(agent="ada", round=2, spent=ModelUsage(30_000, 2_400, 10_000, 0.0462), turns=5, at=at + 60)
    yield Voted(agent="ada", round=2, choice="ada", why="It mends the cause.", at=at + 60)
    yield Used(agent="bob", round=2, spent=ModelUsage(10_200, 700, 2_000, 0.005), turns=3, at=at + 95)
    yield Voted(agent="bob", round=2, choice="ada", why="Mine changed nothing.", at=at + 95)


def whole_run(folder=FOLDER):
    yield started(folder=folder)
    yield from first_round()
    yield from second_round()
    yield finished(folder)


def failing(agent="bob"):
    return AgentFailed(agent=agent, round=1, why="OPENAI_API_KEY is not set.", hint="Set it.", at=START + 1)


def hostile_run(folder=FOLDER):
    """Everything that a model, a tool or a file can choose is hostile."""
    ada = {"agent": "ada", "round": 1}
    yield started("ada", HOSTILE, folder=folder)
    yield RoundStarted(round=1, agents=("ada",), at=START)
    yield AgentStarted(at=START, **ada)
    yield ThinkingDelta(text=HOSTILE, at=START + 1, **ada)
    yield TextDelta(text=HOSTILE, at=START + 1, **ada)
    yield ToolCalled(call="1", tool=HOSTILE, arguments={"command": HOSTILE, HOSTILE: [HOSTILE]}, at=START + 2, **ada)
    yield ToolReturned(call="1", tool=HOSTILE, ok=False, text=HOSTILE, at=START + 2, **ada)
    yield ToolCalled(call="2", tool="Bash", arguments={"command": HOSTILE}, at=START + 2, **ada)
    yield FilesChanged(paths=(HOSTILE, "a\nb"), total=2, snapshot=HOSTILE, at=START + 3, **ada)
    yield Waiting(seconds=3, why=HOSTILE, at=START + 4, **ada)
    yield Notice(text=HOSTILE, at=START + 4)
    yield Notice(text=HOSTILE, at=START + 4, **ada)
    yield Answered(text=HOSTILE, snapshot=HOSTILE, at=START + 5, **ada)
    yield Voted(choice=HOSTILE, why=HOSTILE, at=START + 5, **ada)
    yield AgentFailed(agent=HOSTILE, round=1, why=HOSTILE, hint=HOSTILE, at=START + 5)
    yield finished(
        folder, why=HOSTILE, winner="ada", text=HOSTILE, snapshot=HOSTILE, votes={"ada": HOSTILE}, at=START + 6
    )

"""Runs with a real model. It is a very small one: what it says is its own affair, that it is heard is ours."""

from __future__ import annotations

from toolyard.team.events import (
    AgentFailed,
    Answered,
    EndReason,
    RunStarted,
    TextDelta,
    ToolCalled,
    ToolReturned,
    Used,
)

ALONE = """
agent:
  system_message: You are a helpful assistant.
  backend: {{type: llama.cpp, base_url: "{url}", temperature: 0, max_tokens: 60}}
"""
FILES = """
agent:
  backend: {{type: llama.cpp, base_url: "{url}", temperature: 0, max_tokens: 60, cwd: work, permission_mode: strict}}
orchestrator: {{limits: {{turns: 3}}}}
"""
TEAM = """
agents:
  - {{id: a, backend: {{type: llama.cpp, base_url: "{url}", temperature: 0, max_tokens: 40}}}}
  - {{id: b, backend: {{type: openai-compatible, base_url: "{url}", model: smollm2, max_tokens: 40}}}}
orchestrator: {{limits: {{rounds: 2}}}}
"""


def test_an_agent_answers_in_a_stream_and_its_tokens_are_counted(llama, run) -> None:
    done = run(ALONE.format(url=llama.url), "What is the capital of France?")

    assert (done.code, done.finished.ended) == (0, EndReason.ANSWERED), done.said
    pieces = [event.text for event in done.told(TextDelta)]
    assert len(pieces) > 3
    assert "".join(pieces).strip() == done.finished.text.strip() != ""
    spent = done.finished.spent
    assert (spent.input > 10, 3 < spent.output <= 60) == (True, True), spent
    assert done.told(Used)[-1].spent == spent
    assert llama.asked >= 1


def test_an_agent_with_files_is_given_its_tools_and_comes_to_an_end(llama, run, tmp_path) -> None:
    """Whether it calls them is left to it: this server shows tools to no model whose template has no place for them,
    and those that it has a format for cannot be called in a stream."""
    done = run(FILES.format(url=llama.url), "Call LS with the path `.` and say what you see.")

    assert len(done.told(RunStarted)[0].agents[0].tools) >= 8
    assert (done.code, done.finished.ended) == (0, EndReason.ANSWERED), done.said
    assert len(done.told(ToolCalled)) == len(done.told(ToolReturned))
    assert done.finished.snapshot
    assert done.finished.spent.total > 0
    assert (tmp_path / "work").is_dir()


def test_a_limit_of_tokens_ends_a_run_although_the_server_counts_none(llama, run) -> None:
    limited = TEAM.replace("rounds: 2", "rounds: 9, tokens: 60")

    done = run(limited.format(url=llama.url), "Name one primary colour.")

    assert (done.code, done.finished.ended) == (124, EndReason.TOKENS), done.said
    assert done.finished.has_answer


def test_a_team_answers_and_judges_its_answers(llama, run) -> None:
    before = llama.asked
    done = run(TEAM.format(url=llama.url), "Name one primary colour.")

    assert done.finished.has_answer, done.said
    assert done.told(AgentFailed) == []
    assert {event.agent for event in done.told(Answered) if event.round == 1} == {"a", "b"}
    assert done.finished.ended in {EndReason.CONSENSUS, EndReason.ROUNDS}
    assert done.finished.rounds == 2
    assert llama.asked - before >= 4

"""Whether what an agent wrote is a vote."""

import string

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolyard.team.prompts import Vote, parse_vote

AGENTS = ["agent_a", "agent-b", "C.3"]
ids = st.from_regex(r"[A-Za-z0-9][A-Za-z0-9._-]{0,20}", fullmatch=True)
prose = st.text(string.ascii_letters + string.digits + " \n.,;!?`*_#|>", max_size=200).filter(
    lambda text: "vote" not in text.lower()
)


@pytest.mark.parametrize(
    "line",
    [
        "VOTE: agent_a",
        "vote: agent_a",
        "Vote : agent_a",
        "**VOTE: agent_a**",
        "**VOTE:** agent_a",
        "**VOTE**: `agent_a`",
        "`VOTE: agent_a`",
        "VOTE: `agent_a`.",
        "VOTE: AGENT_A!",
        'VOTE: "agent_a"',
        "VOTE: <agent_a>",
        "### VOTE: agent_a",
        "- VOTE: agent_a",
        "VOTE\uff1aagent_a",
        "  VOTE:agent_a  ",
    ],
)
def test_how_the_line_is_dressed_does_not_matter(line):
    assert parse_vote(line, AGENTS) == Vote("agent_a")
    assert parse_vote(f"I looked at all.\n\n{line}\n\nIts tests pass.", AGENTS) == Vote("agent_a", "Its tests pass.")


@pytest.mark.parametrize(
    "text",
    [
        "",
        "42",
        "I would VOTE: agent_a if it were complete.",
        "They say to write\n> VOTE: agent_a",
        "| VOTE: agent_a",
        "The program prints this:\n```\nVOTE: agent_a\n```\nand ends.",
        "~~~text\nVOTE: agent_a\n",
        "VOTE:",
        "VOTE: I have a better answer than all of these, namely this.",
        "DEVOTE: agent_a",
        "VOTES: agent_a",
        "    VOTE: agent_a",
    ],
)
def test_what_is_quoted_or_said_in_passing_is_no_vote(text):
    assert parse_vote(text, AGENTS) is None


def test_what_goes_on_after_the_line_is_an_answer():
    assert parse_vote("VOTE: agent_a\n\n" + "But here is a better one. " * 200, AGENTS) is None


def test_the_last_vote_counts():
    text = "My first thought was\nVOTE: agent_a\nBut its tests fail, so:\nVOTE: agent-b\nIt runs."

    assert parse_vote(text, AGENTS) == Vote("agent-b", "It runs.")


def test_a_name_that_is_nobodys_is_a_vote_for_nobody():
    assert parse_vote("VOTE: agent_z\nIt is best.", AGENTS) == Vote("", "It is best.")
    assert parse_vote("VOTE: <id>", AGENTS) == Vote("")


def test_names_that_differ_by_case_alone_have_to_be_written_exactly():
    assert parse_vote("VOTE: A", ["a", "A"]) == Vote("A")
    assert parse_vote("VOTE: AA", ["aa", "Aa"]) == Vote("")


@pytest.mark.parametrize(
    "line", ["VOTE: agent_a - it is complete", "VOTE: agent_a, it is complete", "VOTE: agent_a (it is complete)"]
)
def test_a_reason_may_stand_beside_the_name(line):
    assert parse_vote(line, AGENTS) == Vote("agent_a", "it is complete")


def test_a_vote_that_is_all_of_a_code_block_counts():
    assert parse_vote("```\nVOTE: agent_a\nIt runs.\n```", AGENTS) == Vote("agent_a", "It runs.")


@given(
    st.lists(ids, min_size=1, max_size=5, unique_by=str.casefold), prose, st.sampled_from(["", "*", "**", "`", "."])
)
def test_every_agent_can_be_voted_for(agents, before, dress):
    if before.count("```") or before.count("~~~"):
        before = ""
    closing = dress if dress != "." else ""
    line = f"{closing}VOTE: {agents[0]}{dress}"

    vote = parse_vote(f"{before}\n{line}\n", agents)

    assert vote is not None
    assert vote.choice == agents[0]


@given(prose, st.lists(ids, max_size=4))
def test_a_text_without_the_word_is_never_a_vote(text, agents):
    assert parse_vote(text, agents) is None


@given(st.text(max_size=300), st.lists(ids, max_size=4))
def test_no_text_makes_it_stumble_and_no_vote_is_for_a_stranger(text, agents):
    vote = parse_vote(f"{text}\nVOTE: {text}", agents)

    assert vote is None or vote.choice in ("", *agents)


@given(prose, st.sampled_from(AGENTS))
def test_a_line_marked_as_quoted_is_never_a_vote(text, agent):
    quoted = "\n".join(f"| {line}" for line in f"{text}\nVOTE: {agent}".splitlines())

    assert parse_vote(quoted, AGENTS) is None

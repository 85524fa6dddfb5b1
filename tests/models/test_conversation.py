"""What was said, kept in the order that providers want."""

from __future__ import annotations

import pytest
from pydantic_ai.messages import ModelResponse, TextPart, ToolCallPart

from toolyard.core.errors import SystemFault
from toolyard.models.conversation import Conversation
from toolyard.models.messages import ModelToolCall, ModelToolResult


def _with_calls(*calls: ToolCallPart) -> Conversation:
    conversation = Conversation()
    conversation.add_question("the task")
    conversation.add_response(ModelResponse(parts=[TextPart("I look."), *calls]))
    return conversation


def test_a_new_conversation_is_empty():
    conversation = Conversation()
    assert (len(conversation), conversation.tokens, conversation.last_text, conversation.pending_calls) == (
        0,
        0,
        "",
        (),
    )


def test_what_is_said_twice_in_a_row_is_one_message():
    conversation = Conversation()
    conversation.add_question("one")
    conversation.add_question("two")
    assert len(conversation) == 1


def test_results_come_before_what_else_is_said():
    conversation = _with_calls(ToolCallPart("a", "{}", "1"), ToolCallPart("b", "{}", "2"))
    one, two = conversation.pending_calls
    conversation.add_tool_results([ModelToolResult(two, "second")])
    assert conversation.pending_calls == (one,)
    conversation.add_tool_results([ModelToolResult(one, "first")])
    conversation.add_question("and now?")
    assert conversation.pending_calls == ()
    assert [part.part_kind for part in conversation.messages[-1].parts] == [
        "tool-return",
        "tool-return",
        "user-prompt",
    ]


def test_only_open_calls_can_be_answered_and_each_once():
    conversation = _with_calls(ToolCallPart("a", "{}", "1"))
    (wanted,) = conversation.pending_calls
    with pytest.raises(ValueError, match="not pending"):
        conversation.add_tool_results([ModelToolResult(wanted, "x"), ModelToolResult(wanted, "y")])
    with pytest.raises(ValueError, match="not pending"):
        conversation.add_tool_results([ModelToolResult(ModelToolCall("other", "a", {}), "x")])
    conversation.add_tool_results([ModelToolResult(wanted, "x")])
    with pytest.raises(ValueError, match="not pending"):
        conversation.add_tool_results([ModelToolResult(wanted, "x")])


def test_calls_that_a_server_numbers_alike_or_not_at_all_are_told_apart():
    conversation = _with_calls(*(ToolCallPart("a", "{}", number) for number in ("", "", "call_1", "call_1", "")))
    ids = [wanted.id for wanted in conversation.pending_calls]
    assert len(set(ids)) == 5
    assert all(ids)


@pytest.mark.parametrize("arguments", ['{"a": ', "[1]", '"text"', "null", "{'a': 1}"])
def test_arguments_that_are_no_object_are_a_fault_of_the_call(arguments):
    (wanted,) = _with_calls(ToolCallPart("a", arguments, "1")).pending_calls
    assert wanted.arguments == {}
    assert wanted.arguments_error


@pytest.mark.parametrize("arguments", [None, "", "{}", {}])
def test_no_arguments_are_none(arguments):
    (wanted,) = _with_calls(ToolCallPart("a", arguments, "1")).pending_calls
    assert (wanted.arguments, wanted.arguments_error) == ({}, "")


@pytest.mark.parametrize("dumped", [b"", b"{}", b"[1]", b'[{"kind": "request"}]', b"\xff"])
def test_what_is_no_stored_conversation_is_refused_in_words(dumped):
    with pytest.raises(SystemFault, match="cannot be read"):
        Conversation.load(dumped)


def test_tokens_grow_with_what_is_said():
    conversation = Conversation()
    conversation.add_question("some words")
    before = conversation.tokens
    conversation.add_question("more words than before " * 50)
    assert conversation.tokens > before + 100
    assert Conversation.load(conversation.dump()).tokens == conversation.tokens


def test_a_long_text_is_judged_by_samples_that_come_close():
    conversation, other = Conversation(), Conversation()
    line = "def measure(self, text: str) -> int:  # what it takes, 42 or more\n"
    conversation.add_question(line * 100)
    other.add_question(line * 10_000)
    assert other.tokens == pytest.approx(conversation.tokens * 100, rel=0.1)


def test_turns_that_were_taken_before_are_messages_of_each_side():
    conversation = Conversation.from_turns([("one?", "One."), ("two?", "Two.")])
    assert conversation.is_complete
    conversation.add_question("three?")
    said = [(message.kind, message.parts[0].content) for message in conversation.messages]
    assert said == [
        ("request", "one?"),
        ("response", "One."),
        ("request", "two?"),
        ("response", "Two."),
        ("request", "three?"),
    ]


def test_what_was_never_answered_is_asked_together_with_what_follows():
    conversation = Conversation.from_turns([("one?", ""), ("two?", " \n")])
    conversation.add_question("three?")
    (message,) = conversation.messages
    assert [part.content for part in message.parts] == ["one?", "two?", "three?"]


def test_half_characters_are_not_sent_to_anybody():
    conversation = Conversation.from_turns([("\ud83d", "\udce9 and more")])
    conversation.add_question("caf\udce9")
    said = [message.parts[0].content for message in conversation.messages]
    assert said == ["\ufffd", "\ufffd and more", "caf\ufffd"]

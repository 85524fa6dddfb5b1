"""A conversation that is made to fit stays one that a provider accepts, and keeps the task and what is newest."""

from __future__ import annotations

import time
from collections.abc import Sequence

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from pydantic_ai.messages import (
    BinaryContent,
    ModelMessage,
    ModelRequest,
    ModelResponse,
    TextPart,
    ThinkingPart,
    ToolCallPart,
    ToolReturnPart,
    UserPromptPart,
)

from toolyard.core.errors import SystemFault
from toolyard.models.compaction import NOTE_HEADING, compact_messages
from toolyard.models.messages import ConversationCompacted, ModelToolResult
from toolyard.models.token_estimate import message_tokens
from toolyard.testing.mock_model import Call, Say, TooLong, with_context_limit

TASK = "the task: tidy up"
few = settings(max_examples=40, deadline=None)


def _texts(most: int) -> st.SearchStrategy[str]:
    words = st.text(st.sampled_from("abc é中🙂.,{}\n0 "), max_size=12)
    return st.builds(lambda text, times: text * times, words, st.integers(0, most))


@st.composite
def _exchanges(draw: st.DrawFn) -> tuple[ModelResponse, ModelRequest]:
    calls = draw(st.lists(st.sampled_from(["Read", "Write", "mcp__ws__edit_file"]), max_size=3))
    mark = draw(st.integers(0, 10**9))
    parts: list = [ThinkingPart(draw(_texts(5)), signature="c2ln")] if draw(st.booleans()) else []
    parts += [TextPart(draw(_texts(20)) or "so")]
    parts += [
        ToolCallPart(name, {"file_path": f"{at}.txt", "content": draw(_texts(20))}, tool_call_id=f"{mark}-{at}")
        for at, name in enumerate(calls)
    ]
    picture = BinaryContent(b"png", media_type="image/png")
    said: list = [
        ToolReturnPart(
            name,
            [text, picture] if draw(st.booleans()) and text else text,
            tool_call_id=f"{mark}-{at}",
            outcome="failed" if draw(st.booleans()) else "success",
        )
        for at, name in enumerate(calls)
        for text in [draw(_texts(150))]
    ]
    if not said or draw(st.booleans()):
        said.append(UserPromptPart(draw(_texts(60)) or "go on"))
    return ModelResponse(parts=parts), ModelRequest(parts=said)


@st.composite
def _histories(draw: st.DrawFn) -> list[ModelMessage]:
    head = ModelRequest(parts=[UserPromptPart(TASK)])
    return [head, *(message for pair in draw(st.lists(_exchanges(), min_size=1, max_size=8)) for message in pair)]


def _compact(messages: Sequence[ModelMessage], target: int) -> list[ModelMessage]:
    return compact_messages(messages, [message_tokens(each) for each in messages], target)


def _size(messages: Sequence[ModelMessage]) -> int:
    return sum(message_tokens(each) for each in messages)


def _is_whole(messages: Sequence[ModelMessage]) -> bool:
    """Whether turns alternate and each call is answered, once and in the next message."""
    for at, message in enumerate(messages):
        if message.kind != ("request", "response")[at % 2]:
            return False
        if message.kind == "response":
            calls = [call.tool_call_id for call in message.tool_calls]
            shown = [part.tool_call_id for part in messages[at + 1].parts if part.part_kind == "tool-return"]
            if calls != shown:
                return False
    return True


@few
@given(_histories(), st.integers(0, 4000))
def test_calls_stay_with_their_results_whatever_is_left_out(history, target):
    assert _is_whole(history)
    assert _is_whole(_compact(history, target))


@few
@given(_histories(), st.integers(0, 4000))
def test_the_task_and_the_newest_exchange_stay(history, target):
    short = _compact(history, target)
    assert short[0].parts[0].content == TASK
    assert short[-2] is history[-2]
    assert [part.part_kind for part in short[-1].parts] == [part.part_kind for part in history[-1].parts]
    assert [each for each in short[-1].parts if each.part_kind == "user-prompt"] == [
        each for each in history[-1].parts if each.part_kind == "user-prompt"
    ]


def _results(*texts: str) -> list[ModelMessage]:
    """A history of one exchange, with a result for each text."""
    calls = [ToolCallPart("Read", {"file_path": "f.py"}, tool_call_id=str(at)) for at in range(len(texts))]
    results = [ToolReturnPart("Read", text, tool_call_id=str(at)) for at, text in enumerate(texts)]
    return [ModelRequest(parts=[UserPromptPart(TASK)]), ModelResponse(parts=calls), ModelRequest(parts=results)]


@few
@given(_histories(), st.integers(0, 4000))
@example(_results(*[" }c0" * 40] * 5), 556)
@example(_results(*["{中ba" * 119] * 5), 526)
def test_it_fits_whenever_the_task_and_the_newest_exchange_do(history, target):
    least = _size(_compact(history, 0))
    assert len(_compact(history, 0)) == 3
    assert len(_compact(history, 0)[0].parts) == 1
    assert _size(_compact(history, target)) <= max(target, least)


@few
@given(_histories())
def test_what_fits_is_left_as_it_is(history):
    assert _compact(history, _size(history)) == history


@few
@given(_histories(), st.integers(0, 4000), st.integers(0, 4000))
def test_it_can_be_done_again_and_again(history, first, second):
    once = _compact(history, first)
    twice = _compact(once, second)
    assert _is_whole(twice)
    assert sum(str(part.content).startswith(NOTE_HEADING) for part in twice[0].parts) <= 1
    assert _compact(history, first) == once


def _long_history(exchanges: int, result: str) -> list[ModelMessage]:
    messages: list[ModelMessage] = [ModelRequest(parts=[UserPromptPart(TASK)])]
    for at in range(exchanges):
        call = ToolCallPart("Write" if at % 2 else "Read", {"file_path": f"f{at}.py"}, tool_call_id=str(at))
        messages.append(ModelResponse(parts=[call]))
        messages.append(ModelRequest(parts=[ToolReturnPart(call.tool_name, result, tool_call_id=str(at))]))
    return messages


def test_old_results_become_a_line_before_anything_is_left_out():
    history = _long_history(10, "a line of the file\n" * 200)
    short = _compact(history, _size(history) * 2 // 3)
    assert len(short) == len(history)
    assert "It began: a line of the file" in short[2].parts[0].content
    assert short[-1] is history[-1]


def test_the_newest_results_stay_whole_while_older_exchanges_can_go():
    history = _long_history(12, "a line of the file\n" * 200)
    newest = sum(message_tokens(each) for each in history[-8:])
    short = _compact(history, newest + message_tokens(history[0]) + 100)
    assert len(short) < len(history)
    assert short[-6:] == history[-6:]
    assert "Left out" not in str(short[-6:])


def test_a_note_goes_on_from_the_note_before():
    once = _compact(_long_history(6, "word " * 300), 1200)
    assert "f0.py" in once[0].parts[1].content
    later = _long_history(20, "word " * 300)[-20:]
    note = _compact([*once, *later], 1200)[0].parts[1].content
    assert "called Read on f0.py" in note
    assert "f14.py" in note
    assert note.count(NOTE_HEADING) == 1


def test_what_was_left_out_is_said_in_a_note_beside_the_task():
    history = _long_history(30, "word " * 300)
    history[8] = ModelRequest(parts=[*history[8].parts, UserPromptPart("Use tabs, please.")])
    note = _compact(history, 2500)[0].parts[1].content
    assert note.startswith(NOTE_HEADING)
    assert "called Read on f0.py" in note
    assert "wrote f1.py with Write" in note
    assert "Use tabs, please." in note


def test_the_line_of_a_result_tells_of_all_of_it_though_it_was_cut_before():
    text = "first " + "as is " * 5_000
    short = _compact(_long_history(10, text), 4000)
    assert f"a result of {len(text):,} characters. It began: first" in short[2].parts[0].content


def test_a_result_of_signs_that_take_many_tokens_becomes_a_short_line_too():
    history = _results("🙂中" * 500)
    assert _size(_compact(history, 0)) < _size(_results("word " * 60))


def test_one_result_that_would_fill_the_room_keeps_its_beginning_and_its_end():
    history = _long_history(2, "first " + "filler " * 50_000 + "last")
    short = _compact(history, 20_000)
    assert len(short) == len(history)
    content = short[-1].parts[0].content
    assert content.startswith("first")
    assert content.endswith("last")
    assert "Left out" in content


def test_a_long_history_is_made_short_in_time_that_grows_with_its_length():
    history = _long_history(3000, "word " * 30)
    sizes = [message_tokens(each) for each in history]
    began = time.process_time()
    assert _size(compact_messages(history, sizes, 20_000)) <= 20_000
    assert time.process_time() - began < 2


async def test_a_full_context_is_made_room_in_before_anything_is_sent(talk):
    async with talk([*[Call("Read", {"file_path": "a"})] * 8, Say("done")], context_window=6000) as t:
        turn = await t.say(TASK)
        while turn.tool_calls:
            t.conversation.add_tool_results(
                [ModelToolResult(each, "some words of a file " * 200) for each in turn.tool_calls]
            )
            turn = await t.turn()
        assert turn.text == "done"
        shortened = t.all_heard(ConversationCompacted)
        assert shortened
        assert all(each.after < each.before for each in shortened)
        assert all(request.tokens < 6000 for request in t.server.requests)
        assert all(request.user_texts[0] == TASK for request in t.server.requests)


async def test_a_provider_that_refuses_for_length_gets_less(talk):
    script = with_context_limit(3000, [*[Call("Read", {"file_path": "a"})] * 6, Say("done")])
    async with talk(script, context_window=1_000_000) as t:
        turn = await t.say(TASK)
        while turn.tool_calls:
            t.conversation.add_tool_results(
                [ModelToolResult(each, "some words of a file " * 150) for each in turn.tool_calls]
            )
            turn = await t.turn()
        assert turn.text == "done"
        assert t.all_heard(ConversationCompacted)
        assert any(isinstance(step, TooLong) for step in t.server.steps)


async def test_what_can_never_fit_is_an_error_after_few_tries(talk):
    async with talk(with_context_limit(10, [Say("never")])) as t:
        with pytest.raises(SystemFault, match="does not fit the context"):
            await t.say(TASK * 100)
        assert len(t.server.requests) <= 2


async def test_the_estimate_of_a_long_conversation_is_not_made_anew_each_turn(talk, monkeypatch):
    import toolyard.models.token_estimate as measuring

    estimated: list[int] = []
    real = measuring.text_tokens
    monkeypatch.setattr(measuring, "text_tokens", lambda text: estimated.append(len(text)) or real(text))
    async with talk([Say("one"), Say("two"), Say("three")]) as t:
        await t.say("x" * 5000)
        await t.say("again")
        await t.say("and again")
    assert estimated.count(5000) == 1

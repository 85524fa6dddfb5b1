"""What every API does alike: one answer a turn, told in pieces, with calls, results, thinking and usage."""

from __future__ import annotations

import base64
import json

import pytest

from tests.models.conftest import MODELS, talking
from toolyard.models.conversation import Conversation
from toolyard.models.messages import ModelToolResult, ModelUsage, OfferedTool, Picture, TextDelta, ThinkingDelta
from toolyard.testing.mock_model import BrokenArguments, Call, Say, Think, Turn, Usage

PICTURE = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
)


async def test_an_answer_is_told_in_pieces_that_are_the_answer(talk):
    async with talk([Say("One two three four.")]) as t:
        turn = await t.say("count")
        said = [each.text for each in t.all_heard(TextDelta)]
        assert turn.text == "".join(said) == "One two three four."
        assert len(said) > 1
        assert turn.tool_calls == ()
        assert not turn.is_truncated
        assert t.conversation.last_text == turn.text


async def test_the_model_gets_the_instructions_the_tools_and_what_was_said(talk):
    async with talk([Say("yes")]) as t:
        await t.say("a question", instructions="Be brief.")
        (request,) = t.server.requests
        assert request.is_streaming
        assert request.system == "Be brief."
        assert request.user_texts == ("a question",)
        assert request.tools == ("Read",)
        assert request.schemas["Read"].schema["properties"]["file_path"]["type"].lower() == "string"


async def test_several_calls_of_one_turn_come_in_order_each_with_its_id(talk):
    async with talk(
        [Turn("I look.", calls=(Call("Read", {"file_path": "a"}), Call("Read", {"file_path": "b"})))]
    ) as t:
        turn = await t.say("read both")
        assert [(each.tool, each.arguments, each.arguments_error) for each in turn.tool_calls] == [
            ("Read", {"file_path": "a"}, ""),
            ("Read", {"file_path": "b"}, ""),
        ]
        assert turn.tool_calls[0].id != turn.tool_calls[1].id
        assert turn.text == "I look."
        assert t.conversation.pending_calls == turn.tool_calls


async def test_results_are_shown_to_the_model_with_its_own_calls(kind, talk):
    async with talk(
        [Turn(calls=(Call("Read", {"file_path": "a"}), Call("Read", {"file_path": "b"}))), Say("ok")]
    ) as t:
        turn = await t.say("read both")
        one, two = turn.tool_calls
        t.conversation.add_tool_results(
            [ModelToolResult(one, "alpha"), ModelToolResult(two, "no such file", failed=True)]
        )
        assert (await t.turn()).text == "ok"
        request = t.server.requests[-1]
        assert [call.tool for call in request.calls] == ["Read", "Read"]
        assert "alpha" in request.results[0]
        assert "no such file" in request.results[1]
        failed = json.dumps(request.raw_results[1])
        mark = '"is_error": true' if kind == "claude" else "error"
        assert mark in failed
        assert mark not in json.dumps(request.raw_results[0])


async def test_pictures_of_results_reach_the_model(talk):
    async with talk([Call("Read", {"file_path": "a.png"}), Say("a dot")]) as t:
        turn = await t.say("look")
        t.conversation.add_tool_results(
            [ModelToolResult(turn.tool_calls[0], "a picture:", (Picture(PICTURE, "image/png"),))]
        )
        assert (await t.turn()).text == "a dot"
        ((media_type, data),) = t.server.requests[-1].images
        assert media_type == "image/png"
        assert base64.b64decode(data.replace("-", "+").replace("_", "/")) == PICTURE


async def test_a_picture_that_not_every_provider_takes_is_named_in_its_place(talk):
    async with talk([Call("Read", {"file_path": "a.tiff"}), Say("a pity")]) as t:
        turn = await t.say("look")
        t.conversation.add_tool_results([ModelToolResult(turn.tool_calls[0], "", (Picture(b"II*", "image/tiff"),))])
        await t.turn()
        request = t.server.requests[-1]
        assert request.images == ()
        assert "image/tiff" in request.results[0]


async def test_thoughts_are_told_apart_from_what_is_said(talk):
    async with talk([Think("Let me see now.", Say("Four."))], thinking="low") as t:
        turn = await t.say("two and two?")
        assert turn.thinking == "".join(each.text for each in t.all_heard(ThinkingDelta)) == "Let me see now."
        assert turn.text == "".join(each.text for each in t.all_heard(TextDelta)) == "Four."


@pytest.mark.parametrize("kind", ["gemini", "claude"])  # chat completions have no signatures
async def test_signatures_of_thoughts_go_back_to_who_signed_them(talk):
    async with talk([Think("Which file?", Call("Read", {"file_path": "a"})), Say("ok")], thinking="low") as t:
        turn = await t.say("read")
        reloaded = Conversation.load(t.conversation.dump())
        reloaded.add_tool_results([ModelToolResult(turn.tool_calls[0], "alpha")])
        await t.model.turn(reloaded)
        sent = json.dumps(t.server.requests[-1].body)
        assert base64.b64encode(b"a signature of thoughts").decode() in sent


@pytest.mark.parametrize("thinking", ["off", "high"])
async def test_how_much_it_thinks_is_said_in_the_words_of_its_api(kind, talk, thinking):
    async with talk([Say("ok")], thinking=thinking) as t:
        await t.say("hello")
        body = t.server.requests[-1].body
        said = {
            "gemini": lambda: body["generationConfig"]["thinkingConfig"]["thinking_budget"],
            "openai": lambda: body.get("reasoning_effort"),
            "claude": lambda: body.get("thinking", {"type": "disabled"})["type"],
        }[kind]()
        expected = {
            "gemini": {"off": 0, "high": 24576},
            "openai": {"off": "minimal", "high": "high"},
            "claude": {"off": "disabled", "high": "enabled"},
        }[kind][thinking]
        assert said == expected


async def test_settings_of_the_backend_reach_the_model(kind, talk):
    async with talk(
        [Say("ok")], temperature=0.25, max_tokens=77, model={"openai": "llama"}.get(kind, MODELS[kind])
    ) as t:
        await t.say("hello")
        body = t.server.requests[-1].body
        sent = body["generationConfig"] if kind == "gemini" else body
        assert sent["temperature"] == 0.25
        assert 77 in (sent.get("maxOutputTokens"), sent.get("max_tokens"), sent.get("max_completion_tokens"))


async def test_usage_is_what_the_provider_counted(kind, talk):
    async with talk([Turn("hi", usage=Usage(input=1200, output=34, cached=1000))]) as t:
        spent = (await t.say("hello")).usage
        assert (spent.input, spent.output, spent.cached, spent.total) == (1200, 34, 1000, 1234)
        if kind == "openai":
            assert spent.cost is None
        else:
            assert 0 < spent.cost < 0.01


async def test_what_nobody_counted_is_estimated_and_has_no_price(kind, talk):
    async with talk([Turn("hi " * 50, usage=Usage(0, 0))]) as t:
        spent = (await t.say("hello " * 200)).usage
        assert (150 < spent.input < 600, 30 < spent.output < 200, spent.cost) == (True, True, None), spent


async def test_what_was_spent_adds_up_and_an_unknown_price_stays_unknown():
    assert ModelUsage(1, 2, 1, 0.5) + ModelUsage(3, 4) == ModelUsage(4, 6, 1, 0.5)
    assert (ModelUsage(1, 2) + ModelUsage(3, 4)).cost is None


async def test_arguments_that_are_no_json_are_told_with_the_call(kind, talk):
    async with talk([BrokenArguments("Read"), Say("better")]) as t:
        turn = await t.say("read")
        (wanted,) = turn.tool_calls
        assert wanted.arguments == {}
        assert bool(wanted.arguments_error) == (
            kind != "gemini"
        )  # which sends no text of arguments that could be broken
        t.conversation.add_tool_results([ModelToolResult(wanted, "The arguments cannot be read.", failed=True)])
        assert (await t.turn()).text == "better"


async def test_an_answer_that_ends_at_its_limit_says_so(talk):
    async with talk([Turn("half a sen", ends="length")]) as t:
        turn = await t.say("write")
        assert turn.is_truncated
        assert turn.text == "half a sen"


async def test_a_conversation_goes_on_after_it_was_stored_in_the_middle(talk):
    async with talk(
        [Turn("look", calls=(Call("Read", {"file_path": "a"}), Call("Read", {"file_path": "b"}))), Say("ok")]
    ) as t:
        await t.say("read both")
        reloaded = Conversation.load(t.conversation.dump())
        assert reloaded.tokens == t.conversation.tokens
        assert reloaded.pending_calls == t.conversation.pending_calls
        reloaded.add_tool_results([ModelToolResult(reloaded.pending_calls[0], "alpha")])
        again = Conversation.load(reloaded.dump())
        assert [wanted.arguments["file_path"] for wanted in again.pending_calls] == ["b"]
        again.add_tool_results([ModelToolResult(again.pending_calls[0], "lost in a crash", failed=True)])
        again.add_question("Go on.")
        assert (await t.model.turn(again)).text == "ok"
        request = t.server.requests[-1]
        assert len(request.results) == 2
        assert request.user_texts == ("read both", "Go on.")


async def test_tools_may_change_from_turn_to_turn(talk):
    write = OfferedTool("Write", "Writes.", {"type": "object", "properties": {}})
    async with talk([Say("one"), Say("two"), Say("three")]) as t:
        await t.say("first")
        await t.say("second", tools=[write])
        await t.say("third", tools=[], instructions="None.")
        assert [request.tools for request in t.server.requests] == [("Read",), ("Write",), ()]


async def test_many_models_of_one_process_know_nothing_of_each_other(kind):
    async with talking(kind, [Say("from one")]) as one, talking(kind, [Say("from two")]) as two:
        assert (await one.say("a")).text == "from one"
        assert (await two.say("b")).text == "from two"
        await one.model.close()
        assert (await two.say("c")).text == "done"


async def test_plain_turns_of_before_reach_the_model_as_messages_of_each_side(talk):
    async with talk(lambda _: Say("Three.")) as t:
        conversation = Conversation.from_turns([("one?", "One."), ("two?", "Two.")])
        conversation.add_question("three?")
        turn = await t.model.turn(conversation, instructions="Count.")
        request = t.server.requests[-1]
        assert (turn.text, request.system, request.user_texts) == ("Three.", "Count.", ("one?", "two?", "three?"))
        assert [entry.text for entry in request.conversation.entries] == ["one?", "One.", "two?", "Two.", "three?"]

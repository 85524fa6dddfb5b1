"""The scripted model, asked by the official SDKs: every step over every API, in a stream and at once."""

from __future__ import annotations

import concurrent.futures
import dataclasses
import time

import httpx2
import pytest

from tests.testing.plain import sent
from tests.testing.sdks import KEY, SDKS, SYSTEM, TOOL, Results, Sdk
from toolyard.testing.mock_model import (
    DONE,
    FOREVER,
    BrokenArguments,
    Call,
    Cut,
    Drop,
    Empty,
    Fail,
    Hang,
    Nonsense,
    Say,
    Think,
    TooLong,
    Turn,
    Usage,
    by_marker,
    by_model,
    in_turns,
    serve_model,
    with_context_limit,
)

READ = Call("Read", {"file_path": "grüße.txt"})
SENTENCE = "It has five words: größer."


@pytest.fixture(params=SDKS)
def api(request) -> str:
    return request.param


@pytest.fixture(params=[True, False], ids=["stream", "whole"])
def stream(request) -> bool:
    return request.param


@pytest.fixture
def asking(api, stream):
    """`ask(server, *history)`, through the SDK of the API."""

    def ask(server, *history, **options):
        system = options.pop("system", SYSTEM)
        return SDKS[api](server, **options).ask(history or ("go",), stream=stream, system=system)

    return ask


@pytest.fixture
def sdk(api) -> type[Sdk]:
    return SDKS[api]


def test_what_it_says_arrives_in_the_pieces_of_a_stream(asking, sdk, stream):
    with serve_model(Say(SENTENCE)) as server:
        heard = asking(server)
    assert (heard.text, heard.thinking, heard.calls, heard.ends) == (SENTENCE, "", (), sdk.ends[""])
    assert heard.pieces == (5 if stream else 1)


def test_thoughts_text_and_several_calls_are_one_turn(asking, sdk):
    with serve_model(Turn(SENTENCE, "First I look.", (READ, Call("List")))) as server:
        heard = asking(server)
    assert (heard.text, heard.thinking, heard.ends) == (SENTENCE, "First I look.", sdk.ends["calls"])
    assert [call[1:] for call in heard.calls] == [("Read", READ.arguments), ("List", {})]
    assert len({call[0] for call in heard.calls}) == 2


def test_it_thinks_before_it_speaks(asking):
    with serve_model(Think("Hm, what now?", Say("That."))) as server:
        heard = asking(server)
    assert (heard.thinking, heard.text) == ("Hm, what now?", "That.")


def test_tokens_are_counted_as_the_script_says(asking):
    with serve_model(Turn("x", usage=Usage(1000, 50, cached=800, thinking=20))) as server:
        assert asking(server).usage == (1000, 800, 50)


def test_tokens_are_estimated_where_the_script_does_not_say(asking):
    with serve_model(Say("x" * 400)) as server:
        short, long = asking(server), asking(server, "y" * 4000)
    assert short.usage[2] == 100
    assert 998 <= long.usage[0] - short.usage[0] <= 1001


@pytest.mark.parametrize("end", ["length", "refused"])
def test_an_answer_may_end_before_it_is_over(asking, sdk, end):
    with serve_model(Turn("So far", ends=end)) as server:
        assert asking(server).ends == sdk.ends[end]


def test_steps_follow_each_other_with_the_turns_of_a_conversation(asking):
    with serve_model(in_turns(READ, Turn("and", calls=(READ, READ)), Say("The end."))) as server:
        history = ["go"]
        for texts in (("one",), ("two", "three")):
            heard = asking(server, *history)
            history += [heard, Results(texts)]
        last = asking(server, *history)
        after = asking(server, *history, last, "Anything else?")
    assert (last.text, after.text) == ("The end.", "done")
    request = server.requests[-1]
    assert (request.model, request.system, request.key) == ("scripted", SYSTEM, KEY)
    assert request.user_texts == ("go", "Anything else?")
    assert request.results == ("one", "two", "three")
    assert request.model_texts == ("and", "The end.")
    assert [call.tool for call in request.calls] == ["Read"] * 3
    assert request.tools == ("Read",)
    assert (request.schemas["Read"].description, request.schemas["Read"].schema) == (
        TOOL["description"],
        TOOL["schema"],
    )
    assert request.turn == 3


def test_a_conversation_that_was_shortened_goes_on_where_it_was(asking):
    with serve_model(in_turns(READ, READ, TooLong(), Say("third"))) as server:
        first = asking(server)
        second = asking(server, "go", first, Results(("one",)))
        with pytest.raises(Exception, match=r"context|too long|token count"):
            asking(server, "go", first, Results(("one",)), second, Results(("two",)))
        heard = asking(server, "what was before, in short", second, Results(("two",)))
    assert heard.text == "third"


def test_a_conversation_with_half_a_pair_is_refused_in_the_words_of_the_provider(asking, api):
    words = {
        "gemini": ("the number of function response parts", "comes immediately after a function call turn"),
        "chat": ("did not have response messages: call_", "must be a response to a preceeding message"),
        "responses": ("No tool output found for function call call_", "No tool call found for function call output"),
        "anthropic": ("without `tool_result` blocks immediately after: toolu_", "unexpected `tool_use_id` found"),
    }
    with serve_model(in_turns(Turn(calls=(READ, READ)))) as server:
        first = asking(server)
        half = dataclasses.replace(first, calls=first.calls[:1])
        with pytest.raises(Exception, match=words[api][0]):
            asking(server, "go", first, "Go on!")
        with pytest.raises(Exception, match=words[api][0]):
            asking(server, "go", first)
        with pytest.raises(Exception, match=words[api][1]):
            asking(server, "go", first, Results(("one", "two")), Results(("one", "two")))
        assert asking(server, "go", half, Results(("one",))).text == "done"
    assert server.steps == [Turn(calls=(READ, READ)), DONE]


def test_the_same_question_has_the_same_answer(asking):
    with serve_model(in_turns(READ, Say("second"))) as server:
        answers = [asking(server) for _ in range(3)]
        again = [asking(server, "go", answers[0], Results(("one",))) for _ in range(2)]
    assert answers[0] == answers[1] == answers[2]
    assert again[0] == again[1]
    assert again[0].text == "second"


def test_a_call_may_have_arguments_that_are_none(asking, api):
    with serve_model(BrokenArguments("Read", '{"file_path": "a.tx')) as server:
        ((_, tool, arguments),) = asking(server).calls
    assert (tool, arguments) == ("Read", None if api == "gemini" else '{"file_path": "a.tx')


def test_a_limit_says_how_long_to_wait_and_the_next_attempt_goes_on(asking, sdk):
    with serve_model(in_turns(Fail(429, retry_after=1.5), Say("now"))) as server:
        with pytest.raises(sdk.limited, match="the quota is exceeded") as caught:
            asking(server)
        assert asking(server).text == "now"
        assert asking(server).text == "now"
    assert sdk(server).wait_of(caught.value) == "1.5"
    assert len(server.requests) == 3


@pytest.mark.parametrize("status", [500, 503])
def test_an_error_of_the_server_has_the_words_of_the_script(asking, sdk, status):
    with serve_model(Fail(status, message="all is lost", times=FOREVER)) as server:
        for _ in range(2):
            with pytest.raises(sdk.broken, match="all is lost"):
                asking(server)


def test_a_wrong_key_is_turned_away(asking, sdk):
    with serve_model(Say("welcome"), key=KEY) as server:
        with pytest.raises(sdk.turned_away, match="API key not valid"):
            asking(server, key="another")
        assert asking(server).text == "welcome"


@pytest.mark.parametrize("step", [Cut(), Drop()], ids=["cut", "drop"])
def test_a_connection_that_breaks_off_is_noticed_and_the_next_attempt_goes_on(asking, sdk, step):
    with serve_model(in_turns(READ, step, Say("whole"))) as server:
        history = ("go", asking(server), Results(("one",)))
        with pytest.raises(sdk.gone):
            asking(server, *history)
        assert asking(server, *history).text == "whole"


def test_a_stream_may_end_too_early_without_a_sign(api):
    with serve_model(Cut("one two three four five six", is_quiet=True)) as server:
        answer = httpx2.request(**sent(server.url, api, stream=True))
    assert b"one" in answer.content
    assert b"six" not in answer.content


def test_nonsense_is_no_answer(asking, sdk):
    with serve_model(in_turns(Nonsense(), Say("sense"))) as server:
        with pytest.raises(sdk.garbled):
            asking(server)
        assert asking(server).text == "sense"


def test_an_error_comes_in_the_middle_of_a_stream(asking, sdk, stream):
    with (
        serve_model(Fail(503, message="not any more", midway=True)) as server,
        pytest.raises(Exception, match="not any more"),
    ):
        asking(server)


def test_an_empty_answer_is_an_answer_and_the_next_attempt_goes_on(asking, sdk):
    with serve_model(in_turns(Empty(), Say("something"))) as server:
        heard = asking(server)
        assert (heard.text, heard.calls, heard.ends) == ("", (), sdk.ends[""])
        assert asking(server).text == "something"


def test_who_sends_too_much_is_told_in_the_words_of_the_provider(asking, api):
    words = {
        "gemini": r"The input token count \(\d+\) exceeds the maximum number of tokens allowed \(500\)",
        "chat": "This model's maximum context length is 500 tokens",
        "responses": "Your input exceeds the context window of this model",
        "anthropic": r"prompt is too long: \d+ tokens > 500 maximum",
    }
    with serve_model(with_context_limit(500, Say("It fits."))) as server:
        with pytest.raises(Exception, match=words[api]):
            asking(server, "x" * 4000)
        assert asking(server, "x").text == "It fits."


def test_who_hangs_is_answered_when_released(asking):
    with serve_model(in_turns(Hang(), Say("at last"))) as server, concurrent.futures.ThreadPoolExecutor() as threads:
        answer = threads.submit(asking, server)
        server.wait_for(lambda server: server.hanging_requests == 1)
        server.release()
        assert answer.result(10).text == "at last"
    assert server.steps == [Hang(), Say("at last")]


def test_who_hangs_is_let_go_when_the_server_closes(asking, sdk):
    with concurrent.futures.ThreadPoolExecutor() as threads:
        with serve_model(Hang(times=FOREVER)) as server:
            answer = threads.submit(asking, server)
            server.wait_for(lambda server: server.hanging_requests == 1)
            closing = time.monotonic()
        assert time.monotonic() - closing < 1
        with pytest.raises(sdk.gone):
            answer.result(10)


def test_each_agent_has_a_script_by_the_name_of_its_model(asking):
    scripts = {"model-a": (Fail(500), Say("I am a")), "model-b": Say("I am b")}
    with serve_model(by_model(scripts, Say("Who am I?"))) as server:
        with pytest.raises(Exception, match="fell over"):
            asking(server, model="model-a")
        said = [asking(server, model=f"model-{name}").text for name in "abc"]
    assert said == ["I am a", "I am b", "Who am I?"]


def test_a_script_may_be_chosen_by_a_text(asking):
    with serve_model(by_marker({"AGENT-1": Say("the first"), "round two": Say("the second")})) as server:
        by_system = asking(server, system="You are AGENT-1.").text
        by_user = asking(server, "This is round two.").text
        neither = asking(server).text
    assert (by_system, by_user, neither) == ("the first", "the second", "done")


def test_faults_are_counted_for_each_conversation_apart(asking):
    with serve_model(in_turns(Empty(), Say("x"))) as server:
        said = [asking(server, text).text for text in ("one", "two", "one", "two", "one")]
    assert said == ["", "", "x", "x", "x"]


def test_a_function_decides_by_what_it_sees(asking):
    def echo(request):
        return Say(f"{request.api}: {request.user_texts[-1]}") if not request.results else Say(request.results[-1])

    with serve_model(echo) as server:
        first = asking(server, "hello")
        assert first.text == f"{server.requests[0].api}: hello"


def test_a_script_that_fails_is_told_to_both_sides(asking, sdk):
    def wrong(request):
        raise LookupError("no such scene")

    with (
        pytest.raises(LookupError, match="no such scene"),
        serve_model(wrong) as server,
        pytest.raises(sdk.broken, match="no such scene"),
    ):
        asking(server)

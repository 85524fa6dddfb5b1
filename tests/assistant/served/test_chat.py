"""chat, as a client meets it."""

import pytest

from tests.support.assistant_process import MODELS
from toolyard.testing.mock_model import Say, Turn, Usage


@pytest.mark.parametrize("api", MODELS)
def test_a_question_is_answered_in_one_call_by_every_api(serve, api):
    served = serve(Turn("Use a queue.", usage=Usage(20, 7)), api=api)

    answered = served.call("chat", prompt="How do I scale this?")["result"]

    fields = answered["structuredContent"]
    assert fields["content"] == "Use a queue."
    assert fields["status"] == "success"
    assert (fields["metadata"]["input_tokens"], fields["metadata"]["output_tokens"]) == (20, 7)
    assert fields["metadata"]["tokens_used"] == 27
    assert fields["metadata"]["response_time"] > 0
    assert fields["metadata"]["model"] == MODELS[api]
    assert (fields["files_processed"], fields["skipped"]) == ([], [])
    text = answered["content"][0]["text"]
    assert text.startswith("Use a queue.\n")
    assert f"## Continuation ID: {fields['continuation_id']}" in text


def test_a_thread_goes_on_as_role_messages(serve):
    served = serve([Say("One."), Say("Two."), Say("Three.")])
    thread = served.ask("chat", prompt="first")["continuation_id"]

    served.ask("chat", prompt="second", continuation_id=thread)
    last = served.ask("chat", prompt="third", continuation_id=thread)

    assert last["content"] == "Three."
    assert last["continuation_id"] == thread
    asked = served.model.requests[-1]
    assert asked.user_texts == ("first", "second", "third")
    assert asked.model_texts == ("One.", "Two.")

"""Long answers are capped, and the rest of them is a resource."""

from toolyard.testing.mock_model import Say


def test_a_long_answer_is_cut_and_linked_to(fresh):
    whole = "begin " + "word " * 5_000 + "end"
    served = fresh(lambda _: Say(whole), config={"limits": {"reply_chars": 2_000}})

    answered = served.call("chat", prompt="Tell me all.")["result"]

    text, link = answered["content"]
    fields = answered["structuredContent"]
    assert len(fields["content"]) < 2_500
    assert fields["content"].startswith("begin ")
    assert fields["content"].endswith("end")
    assert fields["truncated"] is True
    assert link["type"] == "resource_link"
    assert link["uri"] == f"thread://{fields['continuation_id']}/1"
    assert link["uri"] in text["text"]

    read = served.request("resources/read", {"uri": link["uri"]})["result"]["contents"][0]
    assert read["text"] == whole
    assert read["mimeType"] == "text/markdown"


def test_answers_are_read_by_who_knows_their_thread_and_are_not_listed(serve):
    served = serve(Say("yes"))
    served.ask("chat", prompt="x")

    assert served.request("resources/list")["result"]["resources"] == []
    for uri in ("thread://" + "0" * 32 + "/1", "thread://x/1", "file:///etc/passwd", "thread://", "skill://a/b/c"):
        assert "error" in served.request("resources/read", {"uri": uri})


def test_a_short_answer_has_no_link(serve):
    answered = serve(Say("yes")).call("chat", prompt="x")["result"]

    assert [part["type"] for part in answered["content"]] == ["text"]
    assert "truncated" not in answered["structuredContent"]

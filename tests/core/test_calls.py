"""Calls, results and the names they carry."""

from toolyard.core.actions import Action, Decision, Effect, Kind
from toolyard.core.calls import Call, Image, Result, Text, deny_without_asking, ignore_progress
from toolyard.core.ids import new_id, workspace_id


def test_a_result_reads_as_its_texts_without_its_images():
    result = Result((Text("one"), Image(b"png", "image/png"), Text("two")), {})

    assert result.text == "one\ntwo"


async def test_where_nobody_can_be_asked_the_answer_is_no():
    answer = await deny_without_asking(Action(Kind.WRITE, "Write", "/ws/a"), Decision(Effect.ASK, "why"))

    assert answer is False
    assert await ignore_progress(1, None, "still") is None


def test_every_call_has_an_id_of_its_own():
    calls = {Call("Read", {}, "test").id for _ in range(100)}

    assert len(calls) == 100


def test_ids_are_short_and_plain():
    assert len(new_id()) == 16
    assert new_id().isalnum()


def test_a_workspace_is_named_by_its_folder_and_told_apart_by_its_path():
    one, other = workspace_id("/a/my project"), workspace_id("/b/my project")

    assert one.startswith("my-project-")
    assert one != other
    assert workspace_id("/a/my project") == one


def test_a_workspace_without_a_usable_name_still_gets_a_plain_one():
    odd = [workspace_id(path) for path in ("/", "/...", "/\udce9", "/" + "x" * 300)]

    assert [name.rpartition("-")[0] for name in odd] == ["root", "root", "root", "x" * 40]
    assert not any("/" in name for name in odd)

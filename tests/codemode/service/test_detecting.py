"""Tools of other servers that change files are noticed, whoever calls them."""

import pytest

from toolyard.core.calls import Call

TEXT = {"type": "string"}


def tool(name, *, hints=None, **properties):
    schema = {"type": "object", "properties": properties}
    return {"name": name, "description": name, "inputSchema": schema, "annotations": hints or {}}


@pytest.fixture
def yard(place):
    place.server(
        "files",
        tool("save_report", path=TEXT),
        tool("view_report", path=TEXT),
        tool("commit", hints={"readOnlyHint": False}, message=TEXT),
        tool("greet", text=TEXT),
    )
    place.sync()
    in_context = {"code_execution": "*", "files": "*"}
    opened = place.open(toolyard={"in_context_tools": in_context}, snapshots={"watch": False})
    opened.told = []
    opened.detector.register_callback(lambda each: opened.told.append((each.tool_name, dict(each.arguments))))
    return opened


async def call(yard, name, /, **arguments):
    return await yard.dispatch(Call(name, arguments, "test", session="s"))


def reasons(yard):
    """Of every snapshot, the oldest first."""
    return [each.reason for each in reversed(yard.snapshots.store.list())]


@pytest.mark.parametrize(
    ("name", "arguments", "touches", "changes"),
    [
        ("save_report", {"path": "a"}, True, True),
        ("view_report", {"path": "a"}, True, False),
        ("commit", {"message": "a"}, True, True),
        ("greet", {"text": "a"}, False, False),
    ],
)
async def test_a_call_of_the_client_itself_is_kept_before_and_after(place, yard, name, arguments, touches, changes):
    await call(yard, f"files__{name}", **arguments)
    (place.workspace / "made.txt").write_text("by the server")
    yard.snapshots.flush()
    assert reasons(yard) == (["before a change", f"after mcp__files__{name}"] if changes else [])
    assert yard.told == ([(f"mcp__files__{name}", arguments)] if touches else [])


async def test_a_call_of_code_in_the_sandbox_is_heard(place, yard):
    code = "from servers.files import save_report, greet\nawait save_report(path='a')\nawait greet(text='b')"
    result = await call(yard, "execute_python", code=code)
    assert result.structured["exit_code"] == 0
    assert yard.told == [("mcp__files__save_report", {"path": "a"}), ("execute_python", {"code": code})]
    (place.workspace / "made.txt").write_text("by the server")
    yard.snapshots.flush()
    assert reasons(yard) == ["before a change", "after execute_python, mcp__files__save_report"]

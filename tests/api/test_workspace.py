"""`toolyard.Workspace`: tools called from Python, from plain functions, coroutines and threads."""

import asyncio
import threading

import pytest

from toolyard import (
    PermissionMode,
    Result,
    SecurityError,
    SystemFault,
    UnknownToolError,
    ValidationError,
    Workspace,
    load_config,
)

pytestmark = pytest.mark.usefixtures("own_state")


@pytest.fixture
def own_state(monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))


@pytest.fixture
def folder(tmp_path):
    folder = tmp_path / "project"
    folder.mkdir()
    return folder


def test_a_tool_is_called_with_keywords_or_a_mapping(folder):
    with Workspace(folder) as workspace:
        written = workspace.call("Write", file_path="notes.md", content="Buy milk\n")
        read = workspace.call("Read", {"file_path": "notes.md"})
    assert isinstance(written, Result)
    assert (folder / "notes.md").read_text() == "Buy milk\n"
    assert "Buy milk" in read.text


def test_a_coroutine_awaits_a_call(folder):
    async def list_files():
        async with Workspace(folder) as workspace:
            return await workspace.acall("Bash", command="echo hello; exit 3")

    result = asyncio.run(list_files())
    assert (result.failed, result.structured["exit_code"], result.structured["stdout"]) == (True, 3, "hello\n")


def test_one_workspace_serves_threads_and_coroutines_together(folder):
    for number in range(4):
        (folder / f"{number}.txt").write_text(f"text {number}")
    found = {}

    def read(number):
        found[number] = workspace.call("Read", file_path=f"{number}.txt").text

    async def read_one():
        return (await workspace.acall("Read", file_path="3.txt")).text

    with Workspace(folder) as workspace:
        threads = [threading.Thread(target=read, args=(number,)) for number in range(3)]
        for thread in threads:
            thread.start()
        last = asyncio.run(read_one())
        for thread in threads:
            thread.join()
    assert all(f"text {number}" in text for number, text in found.items())
    assert len(found) == 3
    assert "text 3" in last


def test_a_refusal_and_an_unknown_tool_are_errors(folder):
    with Workspace(folder, permission_mode="strict") as workspace:
        with pytest.raises(SecurityError, match="outside the workspace"):
            workspace.call("Read", file_path="/etc/hostname")
        with pytest.raises(UnknownToolError):
            workspace.call("Raed", file_path="a")
        with pytest.raises(ValidationError):
            workspace.call("Read", path="a")


def test_an_argument_given_twice_is_an_error(folder):
    with Workspace(folder) as workspace, pytest.raises(ValidationError, match="given twice"):
        workspace.call("Read", {"file_path": "a"}, file_path="b")


@pytest.mark.parametrize("answer", [True, False])
def test_a_plain_function_approves_or_denies(folder, answer):
    asked = []

    def approve(action, decision):
        asked.append((action.kind.value, decision.effect.value))
        return answer

    with Workspace(folder, permission_mode=PermissionMode.DEFAULT, approve=approve) as workspace:
        if answer:
            workspace.call("Write", file_path="a.txt", content="x")
        else:
            with pytest.raises(SecurityError):
                workspace.call("Write", file_path="a.txt", content="x")
    assert (folder / "a.txt").exists() is answer
    assert asked == [("write", "ask")]


def test_a_coroutine_function_approves_on_the_callers_loop(folder):
    async def write():
        loops = []

        async def approve(action, decision):
            loops.append(asyncio.get_running_loop())
            return True

        async with Workspace(folder, permission_mode="default", approve=approve) as workspace:
            await workspace.acall("Write", file_path="a.txt", content="x")
        return loops == [asyncio.get_running_loop()]

    assert asyncio.run(write())


def test_an_approval_that_raises_denies_and_is_logged(folder, caplog):
    def approve(action, decision):
        raise RuntimeError("no screen")

    with Workspace(folder, permission_mode="default", approve=approve) as workspace, pytest.raises(SecurityError):
        workspace.call("Write", file_path="a.txt", content="x")
    assert "no screen" in caplog.text


def test_a_call_that_would_block_an_event_loop_is_refused(folder):
    async def call():
        async with Workspace(folder) as workspace:
            workspace.call("LS", path=".")

    with pytest.raises(SystemFault, match="acall"):
        asyncio.run(call())


def test_cancelling_a_coroutine_ends_its_command(folder):
    async def cancel():
        async with Workspace(folder) as workspace:
            call = asyncio.create_task(workspace.acall("Bash", command="touch began; sleep 60; touch ended"))
            while not (folder / "began").exists():
                await asyncio.sleep(0.02)
            call.cancel()
            with pytest.raises(asyncio.CancelledError):
                await call

    asyncio.run(cancel())
    assert not (folder / "ended").exists()


def test_a_closed_workspace_refuses_calls(folder):
    workspace = Workspace(folder)
    workspace.close()
    workspace.close()
    with pytest.raises(SystemFault, match="closed"):
        workspace.call("LS", path=".")


def test_the_tools_are_described_as_a_model_sees_them(folder):
    with Workspace(folder, tools=["reference"]) as workspace:
        tools = {tool.name: tool for tool in workspace.tools}
    assert tools["read_file"].read_only
    assert not tools["write_file"].read_only
    assert "path" in tools["read_file"].input_schema["properties"]


def test_the_folder_comes_from_the_configuration_of_the_agent(tmp_path):
    file = tmp_path / "toolyard.yaml"
    file.write_text("agents:\n  - id: writer\n    backend: {cwd: work}\n  - id: reader\n    backend: {cwd: other}\n")
    with Workspace(config=load_config(str(file)), agent="writer") as workspace:
        workspace.call("Write", file_path="a.txt", content="x")
    assert (tmp_path / "work" / "a.txt").read_text() == "x"
    with pytest.raises(ValidationError, match="folder"):
        Workspace(config=file)


@pytest.mark.parametrize(
    ("options", "field"),
    [({"permission_mode": "stirct"}, "permission_mode"), ({"tools": "cluade"}, "tools")],
)
def test_a_wrong_option_is_an_error_with_the_nearest_name(folder, options, field):
    with pytest.raises(ValidationError, match=r"strict|claude") as error:
        Workspace(folder, **options)
    assert error.value.fields[0].field == field


def test_every_call_is_in_the_audit_log(folder, tmp_path):
    with Workspace(folder, state=tmp_path / "own") as workspace:
        workspace.call("LS", path=".")
    lines = [line for log in (tmp_path / "own").rglob("*.jsonl") for line in log.read_text().splitlines()]
    assert any('"LS"' in line and '"python"' in line for line in lines)

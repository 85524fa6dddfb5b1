"""Forty edits of one file at once: all of them are kept, whoever makes them."""

import asyncio
import os
import sys
from concurrent.futures import ThreadPoolExecutor

import pytest

from toolyard.app.yard import Yard
from toolyard.app.yard_options import YardOptions
from toolyard.config.models import Config
from toolyard.config.settings import Settings
from toolyard.core.calls import Call
from toolyard.testing.mcp_client import StdioClient

EDITS, PROCESSES = 40, 4
BEFORE = "".join(f"<line {number}>\n" for number in range(EDITS))
AFTER = "".join(f"<done {number}>\n" for number in range(EDITS))


@pytest.fixture
def workspace(tmp_path):
    folder = tmp_path / "ws"
    folder.mkdir()
    (folder / "file.txt").write_text(BEFORE)
    return folder


def edit(number: int) -> dict[str, str]:
    return {"file_path": "file.txt", "old_string": f"<line {number}>", "new_string": f"<done {number}>"}


async def test_parallel_edits_in_one_process_are_all_kept(workspace, tmp_path):
    settings = Settings(str(tmp_path), str(tmp_path / "state"), str(tmp_path / "t"), str(tmp_path / "d"))
    with Yard.open(YardOptions(str(workspace), Config(), settings)) as yard:
        await asyncio.gather(*(yard.dispatch(Call("Edit", edit(number), surface="test")) for number in range(EDITS)))
    assert (workspace / "file.txt").read_text() == AFTER


def test_parallel_edits_from_several_servers_are_all_kept(workspace, tmp_path):
    command = [
        sys.executable,
        "-m",
        "toolyard",
        "mcp",
        "--workspace",
        str(workspace),
        "--state",
        str(tmp_path / "state"),
    ]
    env = {"PATH": os.environ["PATH"], "HOME": str(tmp_path)}
    clients = [StdioClient(command, env=env, modern=number % 2 == 0) for number in range(PROCESSES)]

    def edits_of(share: int) -> list[dict[str, object]]:
        client = clients[share]
        asked = [
            client.send_request("tools/call", {"name": "Edit", "arguments": edit(number)})
            for number in range(share, EDITS, PROCESSES)
        ]
        answers = {answer["id"]: answer for answer in (client.receive() for _ in asked)}
        return [answers[number] for number in asked]

    try:
        with ThreadPoolExecutor(PROCESSES) as threads:
            answers = [answer for share in threads.map(edits_of, range(PROCESSES)) for answer in share]
    finally:
        codes = [client.close() for client in clients]
    assert [answer.get("error") for answer in answers] == [None] * EDITS
    assert (workspace / "file.txt").read_text() == AFTER
    assert codes == [0] * PROCESSES

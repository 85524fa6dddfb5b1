"""Sync tells of every tool that came or went since it last told, whoever noticed; a dry run changes nothing."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from toolyard.codemode.catalog import ChangeKind, ToolChange
from toolyard.codemode.sync_preview import preview_sync
from toolyard.codemode.sync_report import SyncReport, SyncRequest, run_sync

from .conftest import Place, printed, tool

TEXT = {"type": "string"}


def dry(place: Place, *servers: str, **wish: Any) -> SyncReport:
    yard = place.open()
    try:
        return preview_sync(yard.codemode, SyncRequest(servers, **wish))
    finally:
        yard.close()


def files(folder: Path) -> dict[str, bytes]:
    return {str(path): path.read_bytes() for path in folder.rglob("*") if path.is_file() and "audit" not in path.name}


async def test_a_tool_that_a_call_noticed_is_told_by_the_next_sync_and_once(place: Place) -> None:
    one = place.server("one", tool("send", "Send.", text=TEXT), tool("old"))
    place.sync()
    one.has(tool("send", "Send.", text=TEXT), tool("fresh"))
    yard = place.open()
    assert "send" in await printed(yard, "from servers.one import send\nprint((await send(text='x')).text)")
    yard.close()
    noticed = {ToolChange("one", "old", ChangeKind.REMOVED), ToolChange("one", "fresh", ChangeKind.ADDED)}
    assert set(place.sync().changes) == noticed
    assert place.sync(refresh=True).changes == ()


def test_custom_tools_are_counted_and_told(place: Place) -> None:
    place.server("one", tool("a"))
    shop = place.folder / "shop.py"
    shop.write_text("def price(part: str) -> float:\n    return 1.0\n")
    section = {"available_custom_tools": [{"group": "shop", "path": str(shop)}]}

    def synced() -> SyncReport:
        yard = place.open(toolyard=section)
        try:
            return run_sync(yard.codemode, SyncRequest())
        finally:
            yard.close()

    report = synced()
    assert (report.tools, report.custom) == (1, 1)
    assert ToolChange("tools/shop", "price", ChangeKind.ADDED) in report.changes
    assert synced().changes == ()
    section["available_custom_tools"] = []
    gone = synced()
    assert (gone.custom, gone.changes) == (0, (ToolChange("tools/shop", "price", ChangeKind.REMOVED),))


def test_a_dry_run_shows_what_a_sync_would_and_writes_nothing(place: Place) -> None:
    one = place.server("one", tool("a", "Before."), tool("b"))
    place.server("two", tool("c"))
    first = dry(place)
    assert (first.servers, first.tools, first.written, set(first.asked)) == (2, 3, 0, {"one", "two"})
    assert ToolChange("two", "c", ChangeKind.ADDED) in first.changes
    assert not (place.workspace / "servers").exists()
    synced = place.sync()
    assert (set(first.changes), first.plain_tokens) == (set(synced.changes), synced.plain_tokens)

    one.has(tool("a", "After."), tool("d"))
    (place.folder / "server two" / "server.py").write_text("raise SystemExit('no licence')")
    before = files(place.folder / "state") | files(place.workspace)
    report = dry(place)
    assert files(place.folder / "state") | files(place.workspace) == before
    assert set(report.changes) == {
        ToolChange("one", "a", ChangeKind.CHANGED, is_quarantined=True),
        ToolChange("one", "b", ChangeKind.REMOVED),
        ToolChange("one", "d", ChangeKind.ADDED),
    }
    assert [(known.server, known.schema.name) for known in report.quarantined] == [("one", "a")]
    assert [name for name, _ in report.failed] == ["two"]
    assert "no licence" in report.stderr_of_failed["two"]
    assert set(place.sync().changes) == set(report.changes)  # what was shown is still to come


@pytest.mark.parametrize("text", ["", "[]", "{", '{"one": ["a"'])
def test_what_was_told_is_told_again_rather_than_lost(place: Place, text: str) -> None:
    place.server("one", tool("a"))
    place.sync()
    (told,) = (place.folder / "state").rglob("told.json")
    assert json.loads(told.read_text()) == {"one": ["a"]}
    told.write_text(text)
    assert place.sync().changes == ()
    assert json.loads(told.read_text()) == {"one": ["a"]}

"""What `search_tools` in the configuration changes about finding tools."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from click.testing import CliRunner

from toolyard.codemode.search import embedding
from toolyard.codemode.sync_report import SyncReport, SyncRequest, run_sync

from .conftest import Place, tool

MEANING = {"search_tools": {"enable_semtools": True}}
QUERY = "cheap trip to Lisbon by air"
installed = pytest.mark.skipif(not embedding.is_installed(), reason="the extra `semantic` is not installed")


@pytest.fixture
def travelling(place: Place) -> Callable[..., tuple[list[str], SyncReport]]:
    """Syncs and searches with a configuration."""
    described = {
        "transcribe": "Turn spoken recordings into text.",
        "offers": "Compare airfares between two airports.",
    }
    place.server("one", *(tool(name, told) for name, told in described.items()))

    def run(**section: object) -> tuple[list[str], SyncReport]:
        with place.open(toolyard=section) as yard:
            report = run_sync(yard.codemode, SyncRequest())
            return [hit.tool for hit in yard.codemode.find_tools(QUERY, 1)], report

    return run


@installed
def test_meaning_finds_what_shares_no_word_once_it_is_turned_on(travelling) -> None:
    assert travelling()[0] == []
    found, report = travelling(**MEANING)
    assert (found, report.note, report.asked) == (["offers"], "", ())
    assert travelling(**MEANING)[1].written == 0
    assert travelling()[0] == []


def test_without_the_extra_keywords_serve_and_a_note_says_so(travelling, monkeypatch) -> None:
    monkeypatch.setattr(embedding, "find_spec", lambda name: None)
    found, report = travelling(**MEANING)
    assert (found, report.note) == ([], embedding.MISSING)
    assert travelling()[1].note == ""


def test_commands_say_that_the_extra_is_missing(tmp_path, monkeypatch) -> None:
    from toolyard.cli.doctor.command import doctor
    from toolyard.cli.search import search
    from toolyard.cli.sync.command import sync as sync_command

    (tmp_path / "ws").mkdir()
    (tmp_path / "sums.py").write_text('def double(n: int) -> int:\n    """Twice as much."""\n    return 2 * n\n')
    config = tmp_path / "team.yaml"

    def told(enabled: str) -> list[bool]:
        config.write_text(
            f"toolyard:\n  workspace: ws\n  search_tools: {{enable_semtools: {enabled}}}\n"
            f"  available_custom_tools: [{{group: sums, path: {tmp_path / 'sums.py'}}}]\n"
        )
        options = ["--config", str(config), "--state", str(tmp_path / "state")]
        ran = [
            CliRunner().invoke(command, [*words, *options])
            for command, words in ((sync_command, []), (search, ["twice as much"]), (doctor, []))
        ]
        return ["toolyard[semantic]" in one.output for one in ran]

    monkeypatch.setattr(embedding, "find_spec", lambda name: None)
    assert told("true") == [True, True, True]
    assert told("false") == [False, False, False]
    monkeypatch.undo()
    assert not embedding.is_installed() or told("true") == [False, False, False]

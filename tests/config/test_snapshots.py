"""`snapshots` in the configuration file."""

import pytest

from toolyard.cli.common.resolve_workspace import resolve_workspace
from toolyard.config.loader import load_config
from toolyard.config.snapshots import Snapshots
from toolyard.core.errors import ConfigError


def test_without_a_word_they_are_taken_and_kept(tmp_path):
    limits = {"most_files": 100_000, "most_bytes": 4 * 1024**3, "most_stored": 20 * 1024**3}
    assert Snapshots() == Snapshots(automatic=True, keep=200, days=30, ignore=(), watch=True, **limits)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("snapshots: {keep: 0}", "keep"),
        ("snapshots: {days: -1}", "days"),
        ("snapshots: {automatc: false}", "automatic"),
        ("snapshots: {ignore: 3}", "ignore"),
        ("snapshots: {most_files: many}", "most_files"),
    ],
)
def test_what_cannot_be_right_is_named(tmp_path, text, said):
    path = tmp_path / "toolyard.yaml"
    path.write_text(text)
    with pytest.raises(ConfigError, match=said):
        load_config(str(path))


@pytest.mark.parametrize(
    "weaker",
    [
        "automatic: false",
        "keep: 1",
        "days: 0.5",
        "most_files: 1",
        "most_stored: 1",
        "watch: false",
        "ignore: [/src/]",
    ],
)
def test_a_file_that_is_merely_found_cannot_take_away_what_undoes(tmp_path, weaker):
    path = tmp_path / "toolyard.yaml"
    path.write_text(f"snapshots: {{{weaker}}}")
    with pytest.raises(ConfigError, match="fewer snapshots"):
        resolve_workspace(str(tmp_path), None)
    assert resolve_workspace(str(tmp_path), str(path)).config.source == str(path)


@pytest.mark.parametrize("fine", ["keep: 500", "days: 90", "required: true"])
def test_a_file_that_is_merely_found_may_keep_more(tmp_path, fine):
    (tmp_path / "toolyard.yaml").write_text(f"snapshots: {{{fine}}}")
    assert resolve_workspace(str(tmp_path), None).config.snapshots != Snapshots()

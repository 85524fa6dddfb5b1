from __future__ import annotations

import os

import pytest

from benchmarks.benchmark import Sizes
from benchmarks.files import suite
from toolyard.core import tokens
from toolyard.core.tokens import token_counts_by_encoding

pytestmark = pytest.mark.slow  # they measure: small, but with real servers and sandboxes

TINY = Sizes(rounds=1, tree_files=4, calls=2, starts=1, loops=2)


def names_measured(settings, only):
    report = suite.run(TINY, settings, lambda _: None, {only})
    assert all(row.ours is not None for row in report.rows), report.rows
    assert os.listdir(settings.temp_dir) == []
    return [row.name for row in report.rows]


def test_grep_is_measured_in_both_modes_and_on_one_file(settings):
    both = ["in process", "over stdio"]
    modes = [f"Grep {mode}, {how}" for mode in ("files_with_matches", "content") for how in both]
    assert names_measured(settings, "grep") == [*modes, *modes, *(f"Grep fixed cost, {how}" for how in both)]


def test_the_start_is_measured(settings):
    assert names_measured(settings, "start") == ["start to first tools/list"]


def test_the_path_check_is_measured(settings):
    assert names_measured(settings, "path") == ["path check", "path check beside a bare open"]


def test_the_audit_line_is_measured(settings):
    assert names_measured(settings, "audit") == ["audit line"]


def test_the_tokens_are_counted(settings):
    pytest.importorskip("rs_bpe")
    assert names_measured(settings, "tokens") == ["tools/list of the default tools"] * 2


def test_without_node_the_calls_are_skipped_with_the_reason(settings, monkeypatch):
    monkeypatch.setattr("shutil.which", lambda _: None)
    (row,) = suite.run(TINY, settings, lambda _: None, {"calls"}).rows
    assert (row.ours, row.met) == (None, None)
    assert row.note.startswith("skipped: node and npm are needed")


def test_without_a_tokenizer_nothing_is_counted(monkeypatch):
    def missing(name):
        raise ImportError(name)

    tokens._load_tokenizer.cache_clear()
    monkeypatch.setattr(tokens, "import_module", missing)
    assert token_counts_by_encoding("text") is None

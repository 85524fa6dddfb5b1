"""Our tools beside Claude Code's, as recorded; what differs is what the documentation says."""

import json
import pathlib
import re

from tests.parity.cases import CASES
from tests.parity.recording import OURS, THEIRS, differences, recorded_ours

PAGE = pathlib.Path(__file__).parents[2] / "docs" / "claude-code.md"
PACKAGES = pathlib.Path(__file__).parents[1] / "e2e" / "conftest.py"
_QUOTED = re.compile(r"`([^`]+)`")


def recordings():
    return json.loads(THEIRS.read_text()), json.loads(OURS.read_text())


def rows():
    """The rows of both tables: the call, in what it differs, theirs, ours, why."""
    lines = (line for line in PAGE.read_text().splitlines() if line.startswith("| ") and "---" not in line)
    cells = [[cell.strip(" ") for cell in line.strip("|").split(" | ")] for line in lines]
    return [row for row in cells if row[0] != "call"]


def test_every_difference_is_listed_and_nothing_else():
    listed = {call: kinds.split(", ") for call, kinds, *_ in rows()}
    assert listed == differences(*recordings())


def test_what_is_quoted_was_said():
    theirs, ours = recordings()
    for call, _, one, other, why in rows():
        case = next(case for case in CASES if case.name == call)
        assert why
        for record, quoted in ((theirs[call], one), (ours[call], other)):
            said = record["answers"][case.tested]["text"]
            assert [words for words in _QUOTED.findall(quoted) if words not in said] == [], call


def test_the_page_names_the_version_that_was_recorded():
    version = re.search(r'"@anthropic-ai/claude-code": "([\d.]+)"', PACKAGES.read_text())[1]
    assert f"Claude Code {version}" in " ".join(PAGE.read_text().split())


def test_our_tools_answer_as_recorded(tmp_path):
    assert recorded_ours(tmp_path) == json.loads(OURS.read_text())

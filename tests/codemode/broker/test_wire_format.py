"""The page about the wire format says what is so."""

import json
import re
from pathlib import Path

import pytest

from toolyard.codemode.broker import BrokerLimits, RequestKind, RequestRefused, connection
from toolyard.codemode.broker.requests import FailureKind
from toolyard.core.limits import MIB
from toolyard.sandbox import guest_layout

from .brokering import Raw

PAGE = (Path(__file__).parents[3] / "docs" / "broker.md").read_text()


def section(title):
    return PAGE.split(title)[1].split("| from")[0]


def test_each_request_it_shows_is_understood(yard):
    shown = [json.loads(text) for text in re.findall(r"\| `(\{.*?\})` \|", section("| to the broker"))]
    assert [frame["do"] for frame in shown] == [*RequestKind, "cancel"]
    with Raw(yard.open()) as raw:
        for frame in shown[:-1]:
            raw.send(frame)
            assert "result" in raw.receive()


def test_each_kind_of_error_is_told():
    assert set(re.findall(r"^\| `(\w+)` \|", PAGE, re.MULTILINE)) == {"kind", *FailureKind}


def test_the_bounds_are_those_of_the_code():
    limits = BrokerLimits()
    for number in (limits.calls, limits.calls_per_connection, limits.connections):
        assert f"{number:,} " in PAGE
    for size in (limits.frame_bytes, limits.request_bytes, limits.unread_bytes):
        assert f"{size // MIB} MiB" in PAGE
    assert limits.stall_seconds == 120
    assert f"fd:{guest_layout.BROKER_DESCRIPTOR}" in PAGE
    assert guest_layout.BROKER in PAGE


@pytest.mark.parametrize("part", ["server", "tool"])
def test_a_name_that_is_no_name_is_refused_before_anybody_looks_for_it(part):
    frame = {"id": 1, "do": "mcp", "server": "s", "tool": "t", part: "x" * (connection.MAX_NAME_CHARS + 1)}
    with pytest.raises(RequestRefused, match="at most 1,000 characters"):
        connection.parse_request("a", frame)

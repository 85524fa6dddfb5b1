"""Queries that consist of stopwords only, such as `say it again`.

Stopwords are not indexed: they would be most of the index and worth the least. Such a query scans the names and
summaries of all tools, which takes twenty milliseconds for four thousand tools.
"""

from __future__ import annotations

import re
from array import array
from collections.abc import Iterable, Sequence

from toolyard.codemode.search.bm25f import WEIGHT_UNITS
from toolyard.codemode.search.documents import split_identifier
from toolyard.codemode.search.ranking import Column
from toolyard.codemode.search.store import TOOL_BITS

_NAME_WEIGHT = WEIGHT_UNITS * 3 // 2
_SUMMARY_WEIGHT = WEIGHT_UNITS


def scan_tools(tools: Iterable[tuple[int, str, str]], wanted: Sequence[str]) -> dict[str, Column]:
    """Returns the matches of each word among tools, given as keys with names and summaries."""
    if not wanted:
        return {}
    any_of = "|".join(map(re.escape, wanted))
    whole, part = re.compile(rf"\b(?:{any_of})\b"), re.compile(any_of, re.IGNORECASE)
    columns: dict[str, Column] = {}
    for key, name, summary in tools:
        weights = dict.fromkeys(whole.findall(summary.lower()), _SUMMARY_WEIGHT)
        if part.search(name):  # splitting names is expensive, so only matching ones are split
            weights |= dict.fromkeys(whole.findall(split_identifier(name).lower()), _NAME_WEIGHT)
        for word, weight in weights.items():
            column = columns.setdefault(word, Column(array("I"), array("H"), array("I"), array("H")))
            column.tools.append(key)
            column.weights.append(weight)
            server = key >> TOOL_BITS
            if not column.servers or column.servers[-1] != server:
                column.servers.append(server)
                column.peaks.append(weight)
            else:
                column.peaks[-1] = max(column.peaks[-1], weight)
    return columns

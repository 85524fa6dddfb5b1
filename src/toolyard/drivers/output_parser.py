"""One line of a CLI's output as an object: within bounds, and without the secrets the CLI was given.

The line is somebody else's, and is read in the event loop of whoever drives the run. A few megabytes of brackets
would hold that loop up for seconds, and what is nested deep enough cannot be written down again.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any, cast

from toolyard.core.errors import SystemFault
from toolyard.core.json_size import count_json_parts

_MAX_PARTS = 100_000
"""Of one line: reading so many takes some hundredths of a second."""
_MAX_DEPTH = 64
_CUT_MARK = "…"
"""Stands for what is nested deeper."""
_MIN_SECRET_CHARS = 8
"""A shorter one hides nothing, and would be found in innocent words."""
_MASK = "***"


class OutputParser:
    def __init__(self, secrets: Iterable[str]) -> None:
        long = [secret for secret in secrets if len(secret) >= _MIN_SECRET_CHARS]
        # As it is, and as it stands in JSON. The longest first: one may be a part of another.
        spelled = {*long, *(json.dumps(secret)[1:-1] for secret in long)}
        self._secrets = [each.encode("utf-8", "surrogateescape") for each in sorted(spelled, key=len, reverse=True)]

    def mask(self, text: bytes) -> bytes:
        for secret in self._secrets:
            text = text.replace(secret, _MASK.encode())
        return text

    def mask_text(self, text: str) -> str:
        return self.mask(text.encode("utf-8", "surrogateescape")).decode("utf-8", "surrogateescape")

    def parse_record(self, line: bytes) -> dict[str, Any] | None:
        """The object that a masked line holds; None for another text. Raises SystemFault where it holds too much."""
        if len(line) > _MAX_PARTS and count_json_parts(line, _MAX_PARTS) > _MAX_PARTS:
            raise SystemFault("A message of the CLI has too many parts, and is lost.")
        try:
            record: object = json.loads(line, parse_constant=_constant_as_null)
        except ValueError:
            return None
        except RecursionError:
            raise SystemFault("A message of the CLI is nested too deep, and is lost.") from None
        if not isinstance(record, dict):
            return None
        known = cast("dict[str, Any]", record)
        if line.count(b"{") + line.count(b"[") > _MAX_DEPTH:
            _truncate_depth(known)
        return known


def _constant_as_null(_: str) -> None:
    """For NaN and the infinite, which JSON does not have and Python would print again."""


def _truncate_depth(record: dict[str, Any]) -> None:
    """Leave nothing in it that is nested deeper than it may be."""
    level: list[dict[Any, Any] | list[Any]] = [record]
    for depth in range(1, _MAX_DEPTH + 1):
        below: list[dict[Any, Any] | list[Any]] = []
        for each in level:
            places: Iterable[Any] = [*each] if isinstance(each, dict) else range(len(each))
            for place in places:
                if not isinstance(each[place], (dict, list)):
                    continue
                if depth == _MAX_DEPTH:
                    each[place] = _CUT_MARK
                else:
                    below.append(each[place])
        level = below

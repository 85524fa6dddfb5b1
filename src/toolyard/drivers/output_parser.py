"""Parses one line of a CLI's output: bounded, and with secrets masked.

The line is untrusted and parsed on the caller's event loop: megabytes of brackets would block it for seconds, and
deeply nested values could not be serialized again.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any, cast

from toolyard.core.errors import SystemFault
from toolyard.core.json_size import count_json_parts

_MAX_PARTS = 100_000
"""Per line; parsing that many takes some hundredths of a second."""
_MAX_DEPTH = 64
_CUT_MARK = "…"
"""Replaces what is nested deeper."""
_MIN_SECRET_CHARS = 8
"""A shorter secret protects nothing, and would occur in ordinary words."""
_MASK = "***"


class OutputParser:
    """Masks secrets in the output of a run and parses its lines."""

    def __init__(self, secrets: Iterable[str]) -> None:
        long = [secret for secret in secrets if len(secret) >= _MIN_SECRET_CHARS]
        # Plain and JSON-escaped. Longest first: a secret may be part of another.
        spelled = {*long, *(json.dumps(secret)[1:-1] for secret in long)}
        self._secrets = [each.encode("utf-8", "surrogateescape") for each in sorted(spelled, key=len, reverse=True)]

    def mask(self, text: bytes) -> bytes:
        for secret in self._secrets:
            text = text.replace(secret, _MASK.encode())
        return text

    def mask_text(self, text: str) -> str:
        return self.mask(text.encode("utf-8", "surrogateescape")).decode("utf-8", "surrogateescape")

    def parse_record(self, line: bytes) -> dict[str, Any] | None:
        """Returns the object in a masked line; None if there is none. Raises SystemFault if it is too large."""
        if len(line) > _MAX_PARTS and count_json_parts(line, _MAX_PARTS) > _MAX_PARTS:
            raise SystemFault("A message of the CLI has too many parts and was dropped.")
        try:
            record: object = json.loads(line, parse_constant=_constant_as_null)
        except ValueError:
            return None
        except RecursionError:
            raise SystemFault("A message of the CLI is nested too deeply and was dropped.") from None
        if not isinstance(record, dict):
            return None
        known = cast("dict[str, Any]", record)
        if line.count(b"{") + line.count(b"[") > _MAX_DEPTH:
            _truncate_depth(known)
        return known


def _constant_as_null(_: str) -> None:
    """Replaces NaN and infinities, which are not JSON but Python would print."""


def _truncate_depth(record: dict[str, Any]) -> None:
    """Cuts off everything that is nested too deep."""
    level: list[dict[Any, Any] | list[Any]] = [record]
    for depth in range(1, _MAX_DEPTH + 1):
        below: list[dict[Any, Any] | list[Any]] = []
        for each in level:
            keys: Iterable[Any] = [*each] if isinstance(each, dict) else range(len(each))
            for key in keys:
                if not isinstance(each[key], (dict, list)):
                    continue
                if depth == _MAX_DEPTH:
                    each[key] = _CUT_MARK
                else:
                    below.append(each[key])
        level = below

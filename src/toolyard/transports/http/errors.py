"""Requests that are refused before any tool is run: with a status, and an error that says that nothing was done."""

from __future__ import annotations

import json
from collections.abc import Mapping

from starlette.responses import Response

from toolyard.core.errors import ToolyardError
from toolyard.transports.json_encoding import error_fields


class RefusedError(Exception):
    """The request cannot be right, or not now."""

    def __init__(self, status: int, error: ToolyardError, headers: Mapping[str, str] | None = None) -> None:
        super().__init__(error.message)
        self.status = status
        self.error = error
        self.headers = dict(headers or {})

    def response(self) -> Response:
        # Escaped where it is not ASCII: whatever a caller sent can be quoted.
        said = json.dumps({"error": {**error_fields(self.error), "ran": False}})
        return Response(said, self.status, self.headers, media_type="application/json")

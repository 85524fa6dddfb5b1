"""Requests that are refused before any tool runs, with a status and an error that says so."""

from __future__ import annotations

import json
from collections.abc import Mapping

from starlette.responses import Response

from toolyard.core.errors import ToolyardError
from toolyard.transports.json_encoding import error_fields


class RefusedError(Exception):
    """The request is invalid, or cannot be served now."""

    def __init__(self, status: int, error: ToolyardError, headers: Mapping[str, str] | None = None) -> None:
        super().__init__(error.message)
        self.status = status
        self.error = error
        self.headers = dict(headers or {})

    def response(self) -> Response:
        """Returns the response with status and error."""
        # ASCII only: any text of a caller can be quoted.
        body = json.dumps({"error": {**error_fields(self.error), "ran": False}})
        return Response(body, self.status, self.headers, media_type="application/json")

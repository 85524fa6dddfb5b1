"""Failed tool calls as results that a model can read.

A client shows the result of a call to its model, while many take a JSON-RPC error for a failure of the connection:
they end the run, or hide the message. So a failure that a model can act on is a result with `isError: true`. JSON-RPC
errors are for misuse of the protocol, and for servers that are configured to use them throughout.
"""

from __future__ import annotations

from typing import Any

from toolyard.core.calls import Result, Text
from toolyard.core.errors import ErrorForm, ToolyardError, UnknownToolError
from toolyard.transports.json_encoding import error_fields, sendable_text
from toolyard.transports.output_schema import ERROR_KEY


def result_of_failure(error: ToolyardError, form: ErrorForm) -> Result:
    """The failed call's result. Raises `error` where it is answered with a JSON-RPC error."""
    if form is ErrorForm.JSONRPC or isinstance(error, UnknownToolError):
        raise error
    return failed_result(error)


def failed_result(error: ToolyardError) -> Result:
    fields: dict[str, Any] = {"validation_errors": [], **error_fields(error)}
    return Result((Text(sendable_text(str(error))),), {ERROR_KEY: fields}, failed=True)

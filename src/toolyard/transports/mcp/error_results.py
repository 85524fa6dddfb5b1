"""Failed tool calls as results that a model can read.

Clients show results to their models, but many treat a JSON-RPC error as a connection failure: they end the run or
hide the message. So a failure that a model can act on is a result with `isError: true`. JSON-RPC errors are for
misuse of the protocol, and for servers configured to use them throughout.
"""

from __future__ import annotations

from typing import Any

from toolyard.core.calls import Result, Text
from toolyard.core.errors import ErrorForm, ToolyardError, UnknownToolError
from toolyard.transports.json_encoding import error_fields, sendable_text
from toolyard.transports.output_schema import ERROR_KEY


def result_of_failure(error: ToolyardError, form: ErrorForm) -> Result:
    """Returns the result of a failed call. Raises `error` if it is to be a JSON-RPC error."""
    if form is ErrorForm.JSONRPC or isinstance(error, UnknownToolError):
        raise error
    return failed_result(error)


def failed_result(error: ToolyardError) -> Result:
    """Returns the error as a failed result."""
    fields: dict[str, Any] = {"validation_errors": [], **error_fields(error)}
    return Result((Text(sendable_text(str(error))),), {ERROR_KEY: fields}, failed=True)

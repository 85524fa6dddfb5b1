"""Completes the tool results that a CLI reports with what our server knows about the calls.

A CLI repeats at most part of a result: its text, maybe shortened, and whether it failed. `CallResults` belongs to one
run. The server thread records a result before it sends it; the run completes the CLI's message when that arrives. A
call is identified by its tool and arguments, because only the CLI knows its id.
"""

from __future__ import annotations

import hashlib
import json
import threading
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

from toolyard.core.calls import Image, Result
from toolyard.core.errors import SecurityError, SystemFault
from toolyard.core.limits import MIB
from toolyard.drivers.clis.json_access import get_object
from toolyard.drivers.messages import ImageData, Message, ResultStatus, ToolCall, ToolResult
from toolyard.drivers.output_parser import OutputParser
from toolyard.transports.json_encoding import base64_of, encode_json
from toolyard.transports.output_schema import ERROR_KEY

_MAX_RECORDS: Final = 64
"""Results, and calls without a result. A CLI has few calls in flight, and reports each soon."""
_MAX_BYTES: Final = 64 * MIB
"""Texts and images of all recorded results."""


@dataclass(frozen=True, slots=True)
class _Record:
    call: bytes
    result: Result
    seconds: float
    size: int


class CallResults:
    """Server-side results of one run's tool calls."""

    def __init__(self) -> None:
        self.output_parser = OutputParser(())
        """Masks the secrets of the run. Digests are compared, so both sides must be masked."""
        self._lock = threading.Lock()
        self._records: list[_Record] = []
        self._open_calls: dict[str, bytes] = {}

    def record(self, tool: str, arguments: Mapping[str, Any], result: Result, seconds: float) -> None:
        """Records the result of a tool. Callable from any thread."""
        size = len(result.text) + sum(len(part.data) for part in result.parts if isinstance(part, Image))
        record = _Record(self._call_digest(tool, arguments), result, seconds, size)
        with self._lock:
            self._records.append(record)
            while len(self._records) > _MAX_RECORDS or (
                len(self._records) > 1 and sum(each.size for each in self._records) > _MAX_BYTES
            ):
                del self._records[0]

    def complete_message(self, message: Message) -> Message:
        """Returns the message; a result of one of our tools is completed with the server's record."""
        if isinstance(message, ToolCall) and message.ours:
            while len(self._open_calls) >= _MAX_RECORDS:
                del self._open_calls[next(iter(self._open_calls))]
            self._open_calls[message.id] = self._call_digest(message.name, message.arguments)
        elif isinstance(message, ToolResult) and (call := self._open_calls.pop(message.id, None)):
            # A call that the CLI refused did not reach the server: a record would belong to an equal call.
            record = self._take_record(call, message) if message.status is not ResultStatus.REFUSED else None
            if record is not None:
                return self._merge_result(message, record)
        return message

    def _take_record(self, call: bytes, message: ToolResult) -> _Record | None:
        """Takes the oldest record of the call, preferring one with the status that the CLI reports."""
        with self._lock:
            found = [record for record in self._records if record.call == call]
            if not found:
                return None
            record = next((each for each in found if each.result.failed is not message.ok), found[0])
            self._records.remove(record)
            return record

    def _merge_result(self, message: ToolResult, record: _Record) -> ToolResult:
        result = record.result
        structured = self._mask_structured(result.structured)
        status, text = _result_status(result), self.output_parser.mask_text(result.text)
        if status is ResultStatus.OK and not message.ok:  # the result was lost on the way, and the CLI says how
            status, text = message.status, message.text
        images = tuple(
            ImageData(base64_of(part.data), part.media_type) for part in result.parts if isinstance(part, Image)
        )
        return replace(
            message, status=status, text=text, seconds=round(record.seconds, 6), structured=structured, images=images
        )

    def _mask_structured(self, structured: dict[str, Any]) -> dict[str, Any]:
        try:
            return self.output_parser.parse_record(self.output_parser.mask(encode_json(structured))) or {}
        except SystemFault:  # more parts than the parser accepts
            return {}

    def _call_digest(self, tool: str, arguments: Mapping[str, Any]) -> bytes:
        """Returns a digest of the call: arguments may be megabytes."""
        spelled = json.dumps([tool, arguments], sort_keys=True, default=repr)
        return hashlib.sha256(self.output_parser.mask(spelled.encode())).digest()


def _result_status(result: Result) -> ResultStatus:
    if not result.failed:
        return ResultStatus.OK
    error = get_object(result.structured, ERROR_KEY)
    return ResultStatus.REFUSED if error.get("kind") == SecurityError.kind else ResultStatus.FAILED

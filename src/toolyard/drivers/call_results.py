"""What our server answered to the calls of a run, put into the tool results that the CLI reports.

A CLI repeats a part of a result at most: its text, perhaps shortened, and whether it failed. The server knows the
rest. `CallResults` belongs to one run. The server records a result before it sends it, in its own thread; the run
completes the CLI's message when that arrives. A call is identified by its tool and its arguments, because its id is
known to the CLI alone.
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
"""Results, and calls without one. A CLI has a few calls under way at a time, and reports each soon after."""
_MAX_BYTES: Final = 64 * MIB
"""Of the texts and images of all recorded results."""


@dataclass(frozen=True, slots=True)
class _Record:
    call: bytes
    result: Result
    seconds: float
    size: int


class CallResults:
    def __init__(self) -> None:
        self.output_parser = OutputParser(())
        """Masks the secrets of the run. The CLI's output is masked too: both sides of a comparison have to be."""
        self._lock = threading.Lock()
        self._records: list[_Record] = []
        self._open_calls: dict[str, bytes] = {}

    def record(self, tool: str, arguments: Mapping[str, Any], result: Result, seconds: float) -> None:
        """Remember what a tool returned. Callable from any thread."""
        size = len(result.text) + sum(len(part.data) for part in result.parts if isinstance(part, Image))
        record = _Record(self._call_digest(tool, arguments), result, seconds, size)
        with self._lock:
            self._records.append(record)
            while len(self._records) > _MAX_RECORDS or (
                len(self._records) > 1 and sum(each.size for each in self._records) > _MAX_BYTES
            ):
                del self._records[0]

    def complete_message(self, message: Message) -> Message:
        """The message; a result of one of our tools with all that the server knows of it."""
        if isinstance(message, ToolCall) and message.ours:
            while len(self._open_calls) >= _MAX_RECORDS:
                del self._open_calls[next(iter(self._open_calls))]
            self._open_calls[message.id] = self._call_digest(message.name, message.arguments)
        elif isinstance(message, ToolResult) and (call := self._open_calls.pop(message.id, None)):
            # A call that the CLI refused did not reach the server: a record of it is one of an equal call.
            record = self._take_record(call, message) if message.status is not ResultStatus.REFUSED else None
            if record is not None:
                return self._merge_result(message, record)
        return message

    def _take_record(self, call: bytes, message: ToolResult) -> _Record | None:
        """The oldest record of the call; of equal calls with different ends, one that ended as the CLI says."""
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
        if status is ResultStatus.OK and not message.ok:  # it was lost on the way, and the CLI says how
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
        except SystemFault:  # more parts than the reader of messages takes
            return {}

    def _call_digest(self, tool: str, arguments: Mapping[str, Any]) -> bytes:
        """A digest, since arguments may be megabytes."""
        spelled = json.dumps([tool, arguments], sort_keys=True, default=repr)
        return hashlib.sha256(self.output_parser.mask(spelled.encode())).digest()


def _result_status(result: Result) -> ResultStatus:
    if not result.failed:
        return ResultStatus.OK
    error = get_object(result.structured, ERROR_KEY)
    return ResultStatus.REFUSED if error.get("kind") == SecurityError.kind else ResultStatus.FAILED

"""What our tools said when they failed, for a CLI whose output does not repeat it.

`Failures` belongs to one run. The server notes a failure before the CLI hears of it, in a thread of its own; the run
asks when the CLI tells that a call failed. A call is known by its tool and its arguments: its id is the CLI's alone.
"""

from __future__ import annotations

import hashlib
import json
import re
import threading
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, Final

from toolyard.drivers.messages import Message, ToolCall, ToolResult

_MOST_KEPT: Final = 64
"""Failures and open calls. A CLI has a few calls under way at a time, and tells of each soon after."""


class Failures:
    def __init__(self, hidden: re.Pattern[str]) -> None:
        """`hidden` is what the CLI prints in place of what a tool said."""
        self._hidden = hidden
        self._lock = threading.Lock()
        self._said: deque[tuple[bytes, str]] = deque(maxlen=_MOST_KEPT)
        self._calls: dict[str, bytes] = {}

    def note(self, tool: str, arguments: Mapping[str, Any], words: str) -> None:
        """A tool of ours failed with these words. In whichever thread."""
        with self._lock:
            self._said.append((_known_by(tool, arguments), words))

    def told(self, message: Message, masked: Callable[[str], str]) -> Message:
        """The message, with the words that the CLI left out; `masked` takes secrets out of them."""
        if isinstance(message, ToolCall) and message.ours:
            while len(self._calls) >= _MOST_KEPT:
                del self._calls[next(iter(self._calls))]
            self._calls[message.id] = _known_by(message.name, message.arguments)
        elif isinstance(message, ToolResult) and (call := self._calls.pop(message.id, None)):
            is_hidden = not message.ok and self._hidden.search(message.text)
            if is_hidden and (words := self._taken(call)):
                return replace(message, text=masked(words))
        return message

    def _taken(self, call: bytes) -> str:
        """The oldest words that nobody has told yet."""
        with self._lock:
            for noted in self._said:
                if noted[0] == call:
                    self._said.remove(noted)
                    return noted[1]
        return ""


def _known_by(tool: str, arguments: Mapping[str, Any]) -> bytes:
    """A digest: arguments may be megabytes."""
    spelled = json.dumps([tool, arguments], sort_keys=True, default=repr)
    return hashlib.sha256(spelled.encode()).digest()

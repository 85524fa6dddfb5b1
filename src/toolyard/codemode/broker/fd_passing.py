"""Connections for code that may make none: each is made here and handed over through one that is there already.

A sandbox without namespaces of its own forbids its processes to connect to anything. Their worker connects here
before its walls stand, and every process that inherits the descriptor asks through it: one byte is one request, and
the answer is a byte with a connected socket. This end of that socket never was in the agent's hands, so that nobody
can make it block.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable

_ASKED_AT_ONCE = 16
_HANDED, _FULL = b"+", b"-"
MOST_HANDS = 256


class Hands:
    """On one loop. Owns the connections that are asked through, not those it handed over."""

    def __init__(self, loop: asyncio.AbstractEventLoop, adopt: Callable[[socket.socket], bool]) -> None:
        self._loop = loop
        self._adopt = adopt
        self._hands: set[socket.socket] = set()

    def add(self, hand: socket.socket) -> None:
        if len(self._hands) >= MOST_HANDS:
            hand.close()
            return
        self._hands.add(hand)
        self._loop.add_reader(hand.fileno(), self._asked, hand)

    def close(self) -> None:
        for hand in list(self._hands):
            self._drop(hand)

    def _drop(self, hand: socket.socket) -> None:
        self._hands.discard(hand)
        self._loop.remove_reader(hand.fileno())
        hand.close()

    def _asked(self, hand: socket.socket) -> None:
        try:
            asked = hand.recv(_ASKED_AT_ONCE)
            if not asked:
                self._drop(hand)
                return
            for _ in asked:
                self._hand_over(hand)
        except (BlockingIOError, InterruptedError):
            # To read: nothing was there. To write: it asks and takes nothing, and then it gets nothing more.
            return
        except OSError:
            self._drop(hand)

    def _hand_over(self, hand: socket.socket) -> None:
        ours, theirs = socket.socketpair()
        with theirs:
            ours.settimeout(0)
            if not self._adopt(ours):
                hand.send(_FULL)
                return
            socket.send_fds(hand, [_HANDED], [theirs.fileno()])

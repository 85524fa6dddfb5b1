"""As much of a terminal as our displays use: positions, erasing, two screens. Anything else fails the test."""

from __future__ import annotations

import re

from rich.cells import cell_len

_CODE = re.compile(r"\x1b\[(\?)?([\d;]*)([A-Za-z])")
_IGNORED = {"7h", "7l", "2026h", "2026l", "25h", "25l"}


class SmallTerminal:
    def __init__(self, width=80, height=24):
        self.width, self.height = width, height
        self.usual, self.other = self._blank(), self._blank()
        self.is_other = False
        self.entered = 0
        self.x = self.y = 0
        self.modes = {}

    def _blank(self):
        return [[" "] * self.width for _ in range(self.height)]

    @property
    def cells(self):
        return self.other if self.is_other else self.usual

    @property
    def lines(self):
        return ["".join(row) for row in self.cells]

    @property
    def text(self):
        return "\n".join(line.rstrip() for line in self.lines)

    def feed(self, data):
        at = 0
        for code in _CODE.finditer(data):
            self._write(data[at : code.start()])
            self._act(*code.groups())
            at = code.end()
        self._write(data[at:])

    def _write(self, text):
        for character in text:
            if character == "\n":
                self.x, self.y = 0, self.y + 1
                if self.y >= self.height:
                    self.cells.append([" "] * self.width)
                    del self.cells[0]
                    self.y = self.height - 1
                continue
            if character == "\r":
                self.x = 0
                continue
            assert character.isprintable(), f"{character!r} reached the terminal"
            if self.x >= self.width:
                continue
            self.cells[self.y][self.x] = character
            if cell_len(character) == 2 and self.x + 1 < self.width:
                self.cells[self.y][self.x + 1] = ""
            self.x += cell_len(character)

    def _act(self, private, numbers, letter):
        if private:
            self.modes[numbers] = letter == "h"
            if numbers == "1049":
                self.is_other = letter == "h"
                self.entered += self.is_other
                self.other = self._blank()
            else:
                assert numbers + letter in _IGNORED, f"mode {numbers}{letter}"
        elif letter == "H":
            row, _, column = numbers.partition(";")
            self.y, self.x = int(row or 1) - 1, int(column or 1) - 1
        elif letter == "J":
            self.cells[:] = self._blank()
        elif letter == "K":
            self.cells[self.y] = [" "] * self.width
        else:
            assert letter == "m", f"code {letter}"

"""Errors of edits, worded so that a model can correct its next attempt."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING

from toolyard.core.errors import ToolError, ToolyardError, ValidationError
from toolyard.files.content import closest_match, text_match
from toolyard.files.content.text import line_at, with_lf

if TYPE_CHECKING:
    from toolyard.files.content.text import TextFile

_LISTED_LINES = 10


@dataclass(frozen=True, slots=True)
class EditPosition:
    """Which edit of how many an error is about."""

    number: int
    total: int

    @property
    def prefix(self) -> str:
        return f"Edit {self.number} of {self.total}: " if self.total > 1 else ""

    @property
    def suffix(self) -> str:
        return " None of the edits was written." if self.total > 1 else " Nothing was written."

    def field(self, name: str) -> str:
        """Returns the name of an argument, with the index of the edit if there are several."""
        return f"edits[{self.number - 1}].{name}" if self.total > 1 else name


def no_edits() -> ToolyardError:
    return ValidationError.of("edits", "is empty", hint="Send at least one edit with old_string and new_string.")


def same_text(at: EditPosition) -> ToolyardError:
    """Builds the error for an edit whose old and new text are equal."""
    return ValidationError.of(
        at.field("new_string"),
        f"is the same as old_string.{at.suffix}",
        hint="Send the changed text as new_string, or leave this edit out.",
    )


def empty_old(at: EditPosition) -> ToolyardError:
    """Builds the error for an empty old_string in a file that is not empty."""
    return ValidationError.of(
        at.field("old_string"),
        f"is empty, and the file is not.{at.suffix}",
        hint="Send the text to replace; to replace the whole file use Write.",
    )


def not_encodable(character: str, encoding: str, at: EditPosition) -> ToolyardError:
    """Builds the error for a character that the file's encoding lacks."""
    shown = f"U+{ord(character):04X}"
    if encoding.startswith("utf"):
        what = f"new_string has an unpaired surrogate ({shown}), which no text file can hold."
        return ToolError(at.prefix + what + at.suffix, hint="Send the text as plain UTF-8.")
    return ToolError(
        f"{at.prefix}The file is {encoding}, which has no character {character!r} ({shown}).{at.suffix}",
        hint="Use characters of that encoding, or rewrite the whole file as UTF-8 with Write.",
    )


def too_large(most: int, at: EditPosition) -> ToolyardError:
    """Builds the error for a result above the size limit."""
    return ToolError(
        f"{at.prefix}The file would grow beyond {most} bytes, the most a file may have.{at.suffix}",
        hint="Replace fewer places, or split the content over several files.",
    )


def ambiguous(
    file: TextFile, found: text_match.UniformReplacement | text_match.SpanReplacements, at: EditPosition
) -> ToolyardError:
    """Builds the error for an old_string that occurs several times: lists the lines."""
    text = file.text
    total = text_match.count_matches(text, found)
    lines: list[int] = []
    known = (0, 1)
    for position in islice(text_match.positions(text, found), _LISTED_LINES):
        lines.append(line_at(text, position, file.newline, known=known))
        known = (position, lines[-1])
    listed = ", ".join(str(line) for line in lines)
    more = f" and {total - len(lines)} more" if total > len(lines) else ""
    return ToolError(
        f"{at.prefix}old_string occurs {total} times, and must occur once: on lines {listed}{more}.{at.suffix}",
        hint="Add lines before or after it so that it names one place, or set replace_all to change them all.",
    )


def not_found(file: TextFile, original: str, texts: tuple[str, str], at: EditPosition) -> ToolyardError:
    """Builds the error for a text that does not occur, with the closest match. `texts`: the old and the new one."""
    old, new = texts
    text = file.printable
    head = f"{at.prefix}old_string was not found in the file."
    if not text:
        return ToolError(
            f"{head} The file is empty.{at.suffix}", hint="Send an empty old_string to write its first content."
        )
    flat, wanted = with_lf(text), with_lf(old)
    if at.number > 1 and wanted in with_lf(original):
        return ToolError(
            f"{head} It was there until an earlier edit of this call changed it.{at.suffix}",
            hint="Each edit sees the result of those before it: match that, or join the two edits into one.",
        )
    near = closest_match.find_closest(flat, wanted)
    done = with_lf(new)
    there = flat.find(done)
    if done.strip() and there >= 0 and (near is None or not near.exact):
        line = line_at(flat, there, "\n")
        return ToolError(
            f"{head} new_string is there already, on line {line}.{at.suffix}",
            hint="Perhaps this edit is done; read the file to see.",
        )
    if near is None:
        return ToolError(
            f"{head} Nothing in it comes close.{at.suffix}",
            hint="Read the file again, or search for a part of the text; it may be another file.",
        )
    lines = f"line {near.first_line}" if near.one_line else f"lines {near.first_line}-{near.last_line}"
    return ToolError(
        f"{head} The closest text is on {lines}: {near.diagnosis}.{at.suffix}\n{near.excerpt}\n",
        hint="Send old_string exactly as the file has it, without the line numbers.",
    )

"""Extracts the text of PDF pages.

pypdf is imported when the first PDF is read, because it is slow to import. PDFs can be broken in many ways, and pypdf
raises errors of all kinds for them; here each becomes a ToolError, and one bad page does not prevent reading the
others.
"""

from __future__ import annotations

import io
import logging
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeVar

from toolyard.core.errors import ToolError, ValidationError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from pypdf import PdfReader

    from toolyard.core.limits import Limits

Value = TypeVar("Value")

PAGES = 20
"""Pages read in one call."""
_SPEC_CHARS = 200
_RANGE = re.compile(r"(\d{1,6})(?:\s*-\s*(\d{1,6})?)?")
_HINT = 'Send pages such as "3", "1-5" or "1-5,8".'


@dataclass(frozen=True, slots=True)
class PdfPages:
    """The text of some pages. `note` says what is missing and how to get it."""

    text: str
    note: str
    pages: tuple[int, ...]
    total_pages: int
    truncated: bool


def parse_pages(spec: str, total: int) -> tuple[int, ...]:
    """Parses `spec` ("1-5,8", "10-") into page numbers, in order and once each. Raises ValidationError."""
    if not spec.strip() or len(spec) > _SPEC_CHARS:
        raise ValidationError.of("pages", f"cannot be read: {spec[:_SPEC_CHARS]!r}", hint=_HINT)
    wanted: set[int] = set()
    for item in spec.split(","):
        match = _RANGE.fullmatch(item.strip())
        if match is None or not item.isascii():
            raise ValidationError.of("pages", f"cannot be read: {spec!r}", hint=_HINT)
        first = int(match[1])
        last = int(match[2]) if match[2] else total if "-" in item else first
        if first < 1 or (match[2] and last < first):
            raise ValidationError.of(
                "pages", f"cannot be read: {item.strip()!r}", hint=f"Pages count from 1. {_HINT}"
            )
        if first > total or (match[2] and last > total):
            raise ValidationError.of(
                "pages", f"{item.strip()!r} is past the end: there are {total} pages", hint=f"Use 1-{total}."
            )
        wanted.update(range(first, last + 1))
    if len(wanted) > PAGES:
        raise ValidationError.of(
            "pages", f"names {len(wanted)} pages, and {PAGES} is the most", hint="Read the rest with another call."
        )
    return tuple(sorted(wanted))


def read(data: bytes, pages: str | None, limits: Limits) -> PdfPages:
    """Returns the text of the requested pages, or of the first ones."""
    reader = _open(data)
    total = _call_pypdf(lambda: len(reader.pages), "its list of pages is broken")
    if not total:
        raise ToolError("The PDF has no pages.", hint="Make or fetch the file again.")
    wanted = parse_pages(pages, total) if pages is not None else tuple(range(1, min(PAGES, total) + 1))
    texts: list[str] = []
    room = limits.output_chars
    cut = False
    for number in wanted:
        block = f"--- Page {number} of {total} ---\n{_text_of(reader, number)}"
        if len(block) > room and texts:
            break
        cut = cut or len(block) > room
        texts.append(block[:room])
        room -= len(block) + 2
    shown = wanted[: len(texts)]
    note = _note(shown, wanted, total, cut=cut)
    return PdfPages("\n\n".join(texts), note, shown, total, truncated=cut or len(shown) < total)


def _open(data: bytes) -> PdfReader:
    # pypdf's warnings about broken files are dropped: standard error is the server's own log.
    logging.getLogger("pypdf").setLevel(logging.CRITICAL + 1)
    try:
        from pypdf import PdfReader
    except ImportError as error:
        raise ToolError(
            "This is a PDF, and the package that reads them is not installed.",
            hint="Ask the user to install it: pip install 'toolyard[pdf]'",
        ) from error

    reader = _call_pypdf(lambda: PdfReader(io.BytesIO(data), strict=False), "it cannot be opened")
    # Many files are encrypted with an empty password, only to restrict printing.
    locked = _call_pypdf(lambda: reader.is_encrypted and not reader.decrypt(""), "its encryption is not supported")
    if locked:
        raise ToolError("The PDF is protected by a password.", hint="Save a copy without the password and read that.")
    return reader


def _call_pypdf(job: Callable[[], Value], what: str) -> Value:
    try:
        return job()
    except Exception as error:  # untrusted bytes can make the library raise anything
        raise ToolError(
            f"The PDF is damaged or unusual: {what} ({type(error).__name__}: {str(error)[:200]}).",
            hint="Make or fetch the file again, or convert it to text with another program.",
        ) from error


def _extract(reader: PdfReader, number: int) -> str:
    return reader.pages[number - 1].extract_text()


def _text_of(reader: PdfReader, number: int) -> str:
    try:
        text = _call_pypdf(lambda: _extract(reader, number), "the page cannot be read")
    except ToolError as error:
        return f"[{error.message}]"
    # Broken fonts yield unpaired surrogates, which cannot be sent.
    text = text.encode("utf-8", "replace").decode("utf-8").strip()
    return text or "[no text on this page; it may be a scanned image]"


def _note(shown: Sequence[int], wanted: Sequence[int], total: int, *, cut: bool) -> str:
    note = f"The PDF has {total} {'page' if total == 1 else 'pages'}."
    if cut:
        note += " The text of the page was cut."
    rest = wanted[len(shown)] if len(shown) < len(wanted) else shown[-1] + 1
    if rest <= total:
        note += f' Read on with pages="{rest}-{min(total, rest + PAGES - 1)}".'
    return note

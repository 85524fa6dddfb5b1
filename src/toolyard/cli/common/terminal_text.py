"""Renders texts of models in a terminal as Markdown, without control characters."""

from __future__ import annotations

from collections.abc import Iterable
from typing import ClassVar

from rich.cells import cell_len
from rich.console import Console, ConsoleOptions, RenderableType, RenderResult
from rich.markdown import Heading, Markdown, MarkdownElement
from rich.segment import Segment


class TerminalSafe:
    """Renders something without characters that a terminal interprets.

    The input is already escaped, but markup may have created a character from its number.
    """

    def __init__(self, what: RenderableType) -> None:
        self._what = what

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        for segment in console.render(self._what, options):
            style = segment.style.update_link(None) if segment.style and segment.style.link else segment.style
            if segment.text.isprintable():
                yield Segment(segment.text, style)
                continue
            # As wide as the replaced character, since the layout is already done.
            words = (c if c.isprintable() or c == "\n" else "\ufffd" * cell_len(c) for c in segment.text)
            yield Segment("".join(words), style)


class Trimmed:
    """Renders something without blank lines around it; with `max_lines`, only its last lines."""

    def __init__(self, what: RenderableType, max_lines: int = 0) -> None:
        self._what, self._max_lines = what, max_lines

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        rendered = console.render_lines(self._what, options, pad=False)
        while rendered and _is_blank(rendered[-1]):
            rendered.pop()
        first = next((number for number, line in enumerate(rendered) if not _is_blank(line)), 0)
        for line in rendered[first:][-self._max_lines :]:
            yield from line[:-1]
            yield from (Segment(last.text.rstrip(" "), last.style) for last in line[-1:])
            yield Segment.line()


def _is_blank(line: Iterable[Segment]) -> bool:
    return not any(segment.text.strip() for segment in line)


class _LeftHeading(Heading):
    """A bold heading at the left, without the centring or box that Rich uses."""

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        del console, options
        self.text.justify = "left"
        yield self.text


class TerminalMarkdown(Markdown):
    """Markdown with left-aligned headings and without hyperlinks."""

    elements: ClassVar[dict[str, type[MarkdownElement]]] = {**Markdown.elements, "heading_open": _LeftHeading}

    def __init__(self, text: str) -> None:
        # A model must not be able to create a link that hides its address.
        super().__init__(text, code_theme="ansi_dark", hyperlinks=False)

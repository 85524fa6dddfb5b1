"""Builds HTML in which every text is escaped.

`Html` is markup; any other string that is put into a tag is text and gets escaped.
"""

from __future__ import annotations

import html
from collections.abc import Iterable
from typing import Final

from markdown_it import MarkdownIt

from toolyard.team.report.format import visible

_VOID: Final = frozenset({"meta", "br", "hr", "rect", "circle", "line", "path"})
_MAX_MARKDOWN: Final = 100_000
"""Characters; a longer text is shown as plain text."""


class Html(str):
    """Markup that is safe to insert into a page."""

    __slots__ = ()


def tag(name: str, /, *children: str, **attributes: str | float) -> Html:
    """Returns an element. `class_` becomes `class`, and `_` in other attribute names becomes `-`."""
    attribute_text = "".join(
        f' {key.rstrip("_").replace("_", "-")}="{html.escape(visible(str(value)), quote=True)}"'
        for key, value in attributes.items()
        if value != ""
    )
    if name in _VOID:
        return Html(f"<{name}{attribute_text}/>")
    return Html(f"<{name}{attribute_text}>{join_html(children)}</{name}>")


def join_html(parts: Iterable[str]) -> Html:
    return Html("".join(part if isinstance(part, Html) else html.escape(visible(part)) for part in parts))


def pre(text: str, class_: str = "") -> Html:
    return tag("pre", text.strip("\n"), class_=class_)


def markdown_html(text: str) -> Html:
    """Returns Markdown of a model as HTML. It cannot contain raw markup, and loads nothing."""
    if len(text) > _MAX_MARKDOWN:
        return pre(text)
    return Html(f'<div class="text">{_MARKDOWN.render(visible(text))}</div>')


def _markdown_parser() -> MarkdownIt:
    # No images, which would be requested from a server; no entities, which could spell invisible characters.
    rules = MarkdownIt("commonmark", {"html": False, "linkify": False, "typographer": False})
    return rules.enable(["table", "strikethrough"]).disable(["image", "entity", "html_inline", "html_block"])


_MARKDOWN: Final = _markdown_parser()

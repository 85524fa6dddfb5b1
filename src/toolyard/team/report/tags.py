"""HTML in which every text is escaped unless it was made here.

`Html` is markup; any other string that is put into a tag is text. So nothing can be forgotten.
"""

from __future__ import annotations

import html
from collections.abc import Iterable
from typing import Final

from markdown_it import MarkdownIt

from toolyard.team.report.format import visible

_VOID: Final = frozenset({"meta", "br", "hr", "rect", "circle", "line", "path"})
_MAX_MARKDOWN: Final = 100_000
"""Characters: a longer text is shown as it is."""


class Html(str):
    """Markup that is safe to be put into a page as it is."""

    __slots__ = ()


def tag(name: str, /, *children: str, **attributes: str | float) -> Html:
    """An element. `class_` stands for class, and `_` in other names for a dash."""
    given = "".join(
        f' {key.rstrip("_").replace("_", "-")}="{html.escape(visible(str(value)), quote=True)}"'
        for key, value in attributes.items()
        if value != ""
    )
    if name in _VOID:
        return Html(f"<{name}{given}/>")
    return Html(f"<{name}{given}>{join_html(children)}</{name}>")


def join_html(parts: Iterable[str]) -> Html:
    return Html("".join(part if isinstance(part, Html) else html.escape(visible(part)) for part in parts))


def pre(text: str, class_: str = "") -> Html:
    return tag("pre", text.strip("\n"), class_=class_)


def markdown_html(text: str) -> Html:
    """A text as the Markdown that models write. It makes no markup of its own, and loads nothing."""
    if len(text) > _MAX_MARKDOWN:
        return pre(text)
    return Html(f'<div class="text">{_MARKDOWN.render(visible(text))}</div>')


def _markdown_parser() -> MarkdownIt:
    # Not images, which would ask a server; not entities, which spell characters that are not to be seen.
    rules = MarkdownIt("commonmark", {"html": False, "linkify": False, "typographer": False})
    return rules.enable(["table", "strikethrough"]).disable(["image", "entity", "html_inline", "html_block"])


_MARKDOWN: Final = _markdown_parser()

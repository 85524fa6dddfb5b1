"""Renders hits for a model: the import line, the signature and the summary of each tool."""

from __future__ import annotations

from collections.abc import Sequence

from toolyard.codemode.search.documents import Hit
from toolyard.core.tokens import estimate_tokens

_NO_HITS = "No tool matches. Try other words, or fewer; `ls servers tools` lists all of them."
_LONGEST_SIGNATURE = 600
_LONGEST_SUMMARY = 240
_MAX_ALSO = 3
_SUFFIX = ".py"
_FALLBACK_PREFIX = ".toolyard/"
"""Where generated folders go if the workspace has its own (`codemode/generated_folder.py`, slow to import)."""


def render_hits(hits: Sequence[Hit], budget: int) -> str:
    """Renders as many hits as fit into `budget` tokens, best first; the first one always, clipped if necessary."""
    if not hits:
        return _NO_HITS
    shown = fit_to_budget(hits, budget)
    text = "\n\n".join(_render_hit(hit) for hit in shown)
    left = len(hits) - len(shown)
    return f"{text}\n\n{left} more; use fewer words or raise the budget." if left else text


def fit_to_budget(hits: Sequence[Hit], budget: int) -> list[Hit]:
    """Returns the hits that fit into `budget` tokens once rendered, at least the first one."""
    room = budget
    for count, hit in enumerate(hits):
        room -= estimate_tokens(_render_hit(hit))
        if room < 0:
            return list(hits[: max(1, count)])
    return list(hits)


def import_line(path: str) -> str:
    """Returns the statement that imports the tool of `servers/github/create_issue.py`.

    It is the same for the fallback folder: imports search there too.
    """
    *folders, name = path.removeprefix(_FALLBACK_PREFIX).removesuffix(_SUFFIX).split("/")
    return f"from {'.'.join(folders)} import {name}" if folders else f"import {name}"


def _render_hit(hit: Hit) -> str:
    lines = [import_line(hit.path), _clip_line(hit.signature, _LONGEST_SIGNATURE)]
    if hit.summary:
        lines.append(f"    {_clip_line(hit.summary, _LONGEST_SUMMARY)}")
    if hit.also:
        lines.append(f"    Also in {', '.join(hit.also[:_MAX_ALSO])}")
    return "\n".join(lines)


def _clip_line(text: str, longest: int) -> str:
    text = " ".join(text.split())
    return text if len(text) <= longest else f"{text[: longest - 1]}…"

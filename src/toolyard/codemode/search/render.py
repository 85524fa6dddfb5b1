"""Hits as text for a model: the line that imports the tool, its signature, what it does, and nothing else."""

from __future__ import annotations

from collections.abc import Sequence

from toolyard.codemode.search.documents import Hit
from toolyard.core.tokens import estimate_tokens

_NO_HITS = "No tool fits. Try other words, or fewer; `ls servers tools` lists what there is."
_LONGEST_SIGNATURE = 600
_LONGEST_SUMMARY = 240
_MAX_ALSO = 3
_SUFFIX = ".py"
_FALLBACK_PREFIX = ".toolyard/"
"""Where our folder goes when the workspace has one of that name (`codemode/generated_folder.py`, slow to import)."""


def render_hits(hits: Sequence[Hit], budget: int) -> str:
    """As many hits as `budget` tokens hold, best first; the first one always, shortened if it must be."""
    if not hits:
        return _NO_HITS
    shown = fit_to_budget(hits, budget)
    text = "\n\n".join(_render_hit(hit) for hit in shown)
    left = len(hits) - len(shown)
    return f"{text}\n\n{left} more; ask for fewer words or raise the budget." if left else text


def fit_to_budget(hits: Sequence[Hit], budget: int) -> list[Hit]:
    """The hits that fit in `budget` tokens once rendered, and the first one in any case."""
    room = budget
    for count, hit in enumerate(hits):
        room -= estimate_tokens(_render_hit(hit))
        if room < 0:
            return list(hits[: max(1, count)])
    return list(hits)


def import_line(path: str) -> str:
    """`servers/github/create_issue.py` as the statement that imports the function of the same name.

    The same where the folder was put aside: imports look there too.
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

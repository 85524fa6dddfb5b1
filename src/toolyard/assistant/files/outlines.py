"""Outlines of files: imports, classes and functions with their line numbers.

Uses the grammar of the language if there is one (the `assistant` extra), otherwise regular expressions.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from toolyard.assistant.files.regex_outline import Outline, outline_by_regex
from toolyard.assistant.files.sources import SourceFile
from toolyard.assistant.files.syntax.outliner import Outliner


def outline(source: SourceFile) -> str:
    """Returns lines of the form `12| def name(argument):`. For several files `outlines` is faster."""
    return "".join(outlines((source,)))


def outlines(sources: Iterable[SourceFile], check_time: Callable[[], None] = lambda: None) -> Iterator[str]:
    """Yields the outline of each source. `check_time` is called repeatedly and may raise."""
    with Outliner(check_time) as outliner:
        for source in sources:
            check_time()
            yield "\n".join(build_outline(outliner, source).lines)


def build_outline(outliner: Outliner, source: SourceFile) -> Outline:
    """Returns the outline by grammar, or by regular expressions if that finds nothing."""
    parsed = outliner.parse_outline(source.language, source.text)
    if parsed is None or not parsed.entries:
        return outline_by_regex(source.text, source.language)
    return Outline(
        tuple(f"{line}| {'  ' * depth}{text}" for line, depth, text in parsed.entries), left_out=parsed.left_out
    )

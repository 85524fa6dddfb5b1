"""What is in a file, on a few lines: what it imports, its classes and functions, and where they stand.

By the grammar of its language where there is one (the extra `assistant`), else by what its lines look like.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from toolyard.assistant.files.regex_outline import Outline, outline_by_regex
from toolyard.assistant.files.sources import SourceFile
from toolyard.assistant.files.syntax.outliner import Outliner


def outline(source: SourceFile) -> str:
    """Lines of the form `12| def name(argument):`. For several files `outlines` takes less time."""
    return "".join(outlines((source,)))


def outlines(sources: Iterable[SourceFile], check_time: Callable[[], None] = lambda: None) -> Iterator[str]:
    """The outline of each. `check_time` is called now and then, and may raise."""
    with Outliner(check_time) as outliner:
        for source in sources:
            check_time()
            yield "\n".join(build_outline(outliner, source).lines)


def build_outline(outliner: Outliner, source: SourceFile) -> Outline:
    parsed = outliner.parse_outline(source.language, source.text)
    if parsed is None or not parsed.entries:
        return outline_by_regex(source.text, source.language)
    return Outline(
        tuple(f"{line}| {'  ' * depth}{text}" for line, depth, text in parsed.entries), left_out=parsed.left_out
    )

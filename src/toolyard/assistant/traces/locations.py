"""Parses locations such as `file:12:5`, from the right and without searching."""

from __future__ import annotations

from dataclasses import dataclass

from toolyard.assistant.traces.model import Frame, Language

_MOST_DIGITS = 9
_LANGUAGES: dict[str, Language] = {
    **dict.fromkeys(("py", "pyi", "pyx"), "python"),
    **dict.fromkeys(("js", "mjs", "cjs", "jsx", "ts", "mts", "cts", "tsx", "vue", "svelte"), "javascript"),
    **dict.fromkeys(("java", "kt", "kts", "scala", "groovy"), "java"),
    "go": "go",
    "rs": "rust",
    **dict.fromkeys(("c", "h", "cc", "cpp", "cxx", "hh", "hpp", "hxx", "m", "mm", "inl", "S"), "c"),
}


@dataclass(frozen=True, slots=True)
class SourceLocation:
    """A file, a line and an optional column."""

    file: str
    line: int
    column: int = 0

    def to_frame(self, function: str = "") -> Frame:
        return Frame(self.file, self.line, self.column, function)


def parse_location(text: str) -> SourceLocation | None:
    r"""Parses `file:line:column` or `file:line`; the file may be `C:\x.js` or a URL with a port."""
    head, _, last = text.rpartition(":")
    if not head or not is_number(last):
        return None
    file, _, middle = head.rpartition(":")
    if file and is_number(middle):
        return SourceLocation(file, int(middle), int(last))
    return SourceLocation(head, int(last))


def is_number(text: str) -> bool:
    return 0 < len(text) <= _MOST_DIGITS and text.isascii() and text.isdigit()


def leading_number(text: str) -> str:
    """Returns the digits at the start of `text`."""
    head = text[: _MOST_DIGITS + 1]
    digits = head[: len(head) - len(head.lstrip("0123456789"))]
    return digits if is_number(digits) else ""


def language_of(file: str) -> Language | None:
    """Returns the language by the file's suffix."""
    return _LANGUAGES.get(file.rpartition(".")[2])

"""The content of files: pure functions on bytes and text, without paths or disk access.

`render` shows a file, `apply_edits` changes one, `decode`/`encode` convert bytes to text and back without loss,
`sniff` detects the type of a file.
"""

from toolyard.files.content.edits import EditOutcome, EditStep, LineRange, apply_edits
from toolyard.files.content.file_type import Category, FileKind, sniff
from toolyard.files.content.render import RenderedFile, render
from toolyard.files.content.text import Newline, TextFile, decode, encode

__all__ = [
    "Category",
    "EditOutcome",
    "EditStep",
    "FileKind",
    "LineRange",
    "Newline",
    "RenderedFile",
    "TextFile",
    "apply_edits",
    "decode",
    "encode",
    "render",
    "sniff",
]

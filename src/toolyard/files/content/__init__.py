"""What is inside files: pure functions on bytes and text. No path is handled and no disk touched here.

`render` shows a file, `apply_edits` changes one, `decode`/`encode` go from bytes to text and back without loss,
`sniff` tells what a file is.
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

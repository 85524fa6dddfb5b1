"""Sources without a disk."""

import hashlib

from toolyard.assistant.files.languages import language_of
from toolyard.assistant.files.sources import SourceFile, count_lines


def made(path, text, *, is_named=True, outline_only=False):
    digest = hashlib.blake2b(text.encode("utf-8", "replace"), digest_size=16).hexdigest()
    return SourceFile(path, text, digest, count_lines(text), language_of(path, text), is_named, outline_only)


def never():
    """There is time."""

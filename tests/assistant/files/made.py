"""Sources without a disk."""

import hashlib

from toolyard.assistant.files.languages import language_of
from toolyard.assistant.files.sources import Source, lines_in


def made(path, text, *, is_named=True, outline_only=False):
    digest = hashlib.blake2b(text.encode("utf-8", "replace"), digest_size=16).hexdigest()
    return Source(path, text, digest, lines_in(text), language_of(path, text), is_named, outline_only)


def never():
    """There is time."""

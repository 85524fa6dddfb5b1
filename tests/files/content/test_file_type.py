from __future__ import annotations

import os
import zlib

import pytest

from toolyard.files.content.file_type import BINARY, NOTEBOOK, PDF, TEXT, Category, FileKind, sniff


@pytest.mark.parametrize(
    ("data", "name", "expected"),
    [
        (b"", "empty", TEXT),
        (b"hello\n", "a.png", TEXT),
        ("“quotes” and ☃".encode(), "a.txt", TEXT),
        (("x" + "é" * 5000).encode(), "cut-in-the-middle.txt", TEXT),
        (b"\x1b[31mred\x1b[0m\n" * 3, "log", TEXT),
        ("\ufeffhi".encode("utf-16-le"), "a.txt", TEXT),
        ("hi".encode("utf-16-le"), "a.txt", BINARY),
        (b"abc\0def", "a.txt", BINARY),
        (bytes(range(1, 256)) * 4, "a.dat", BINARY),
        (b"\x7fELF\x02\x01\x01\0", "a", BINARY),
        (b"%PDF-1.7\n", "a", PDF),
        (b"junk\n%PDF-1.7\n", "a.PDF", PDF),
        (b"about %PDF-1.7\n", "a.md", TEXT),
        (b"{}", "a.IPYNB", NOTEBOOK),
        (b"<svg/>", "a.svg", TEXT),
        (b"\x89PNG\r\n\x1a\n", "a.txt", FileKind(Category.IMAGE, "image/png")),
        (b"\xff\xd8\xff\xe0", "a", FileKind(Category.IMAGE, "image/jpeg")),
        (b"GIF89a", "a", FileKind(Category.IMAGE, "image/gif")),
        (b"RIFF\0\0\0\0WEBPVP8 ", "a", FileKind(Category.IMAGE, "image/webp")),
        (b"RIFF\0\0\0\0WAVE", "a", BINARY),
    ],
)
def test_a_file_is_known_by_its_bytes(data, name, expected):
    assert sniff(data, name) == expected


def test_compressed_data_is_binary():
    assert sniff(zlib.compress(os.urandom(20_000)), "a") == BINARY

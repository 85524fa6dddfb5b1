"""A damaged catalog is an error that says what to do, in every command, and `sync --rebuild` makes it again."""

import os
import random
from pathlib import Path

import pytest

HEADER = 4096
COMMANDS = (
    ("tools", "list"),
    ("tools", "show", "my-server.echo"),
    ("search", "echo"),
    ("call", "my-server.echo", "text=a"),
    ("sync",),
    ("sync", "--dry-run"),
)


def garbage(size: int) -> bytes:
    return random.Random(7).randbytes(size)


DAMAGE = {
    "cut short": lambda data: data[: len(data) // 2],
    "zeroed": lambda data: bytes(len(data)),
    "garbage": lambda data: garbage(len(data)),
    "garbage behind the header": lambda data: data[:HEADER] + garbage(len(data) - HEADER),
    "zeroed behind the header": lambda data: data[:HEADER] + bytes(len(data) - HEADER),
}


@pytest.mark.parametrize("kind", DAMAGE)
def test_every_command_says_what_is_wrong_and_what_to_do(attached, kind):
    attached.run("sync")
    (catalog,) = Path(attached.state).rglob("catalog.sqlite")
    sound = catalog.read_bytes()
    for words in COMMANDS:
        catalog.write_bytes(DAMAGE[kind](sound))
        said = attached.run(*words, code=1)
        assert "catalog" in said, words
        assert "cannot be used" in said, words
        assert "toolyard sync --rebuild" in said, words
    assert "sync --rebuild" in attached.run("doctor", code=1)

    said = attached.run("sync", "--rebuild")
    assert "The old catalog was moved to" in said
    assert "my-server.echo" in attached.run("tools", "list")
    assert [name for name in os.listdir(catalog.parent) if name.startswith("catalog.sqlite.")]

"""Tests for test_destructive.py to run: by this name pytest finds them only where they are asked for."""

import os

import pytest


@pytest.mark.destructive
def test_writes_beside_itself():
    with pytest.raises(OSError, match="Read-only file system"), open(f"{__file__}.made", "w", encoding="utf-8"):
        os.unlink(f"{__file__}.made")


@pytest.mark.destructive
def test_fails():
    pytest.fail("on purpose")


def test_plain():
    assert os.access(os.path.dirname(__file__), os.W_OK)

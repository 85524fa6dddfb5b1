"""The paths of a store's parts in its folder."""

from __future__ import annotations

import os


def lock_path(folder: str) -> str:
    return os.path.join(folder, "lock")


def index_path(folder: str) -> str:
    return os.path.join(folder, "index.sqlite3")


def accepted_rules_path(folder: str) -> str:
    return os.path.join(folder, "ignore.json")


def packs_folder(folder: str) -> str:
    return os.path.join(folder, "packs")

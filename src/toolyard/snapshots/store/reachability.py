"""Finds the objects that snapshots need, and the files that need an object."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable

from toolyard.files.root_folder import join_path
from toolyard.snapshots.store.models import DamagedObjectError
from toolyard.snapshots.store.object_reader import ObjectReader
from toolyard.snapshots.store.objects import EntryKind, MalformedObjectError, TreeEntry, decode_page, page_digests


def reachable_objects(reader: ObjectReader, trees: Iterable[bytes], check: Callable[[], None]) -> set[bytes]:
    """Returns every digest that is reachable from these folders. An unreadable object counts as reachable itself."""
    found: set[bytes] = set()
    waiting = list(trees)
    while waiting:
        check()
        tree = waiting.pop()
        if tree in found:
            continue
        found.add(tree)
        try:
            data = reader.read(tree)
            pages = page_digests(data)
            if pages is not None:
                waiting += pages
                continue
            entries = decode_page(data)
        except (DamagedObjectError, MalformedObjectError):
            continue
        for entry in entries:
            if entry.kind is EntryKind.FOLDER:
                waiting.append(entry.ref)
            elif entry.is_file and entry.ref not in found:
                found.add(entry.ref)
                found.update(_chunk_digests(reader, entry))
    return found


def damaged_paths(
    reader: ObjectReader, tree: bytes, bad: Collection[bytes], clean: set[bytes], check: Callable[[], None]
) -> list[bytes]:
    """Returns the paths in a tree that need one of the `bad` objects. Folders that need none are added to `clean`."""
    paths: list[bytes] = []
    waiting = [(b"", tree)]
    order: list[tuple[bytes, bytes]] = []
    struck: set[bytes] = set()
    while waiting:
        check()
        path, tree = waiting.pop()
        if tree in clean:
            continue
        order.append((path, tree))
        try:
            entries = reader.entries(tree)
        except DamagedObjectError:
            paths.append(path)
            struck.add(path)
            continue
        for entry in entries:
            if entry.kind is EntryKind.FOLDER:
                waiting.append((join_path(path, entry.name), entry.ref))
            elif entry.is_file and (entry.ref in bad or any(chunk in bad for chunk in _chunk_digests(reader, entry))):
                paths.append(join_path(path, entry.name))
                struck.add(path)
    for path, tree in order:
        if not any(one == path or one.startswith(path + b"/") or not path for one in struck):
            clean.add(tree)
    return sorted(paths)


def _chunk_digests(reader: ObjectReader, entry: TreeEntry) -> list[bytes]:
    if entry.kind is not EntryKind.CHUNKED:
        return []
    try:
        return [run.digest for run in reader.runs(entry) if run.digest is not None]
    except DamagedObjectError:
        return []

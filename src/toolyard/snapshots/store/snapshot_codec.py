"""What the packs tell about a snapshot, so that a lost index can be made again: JSON, with bytes in hex."""

from __future__ import annotations

import json
import os
from dataclasses import astuple
from typing import Any, cast

from toolyard.snapshots.store.models import Counts, PathNote, Snapshot
from toolyard.snapshots.store.objects import DIGEST_BYTES, MalformedObjectError


def encode_snapshot(snapshot: Snapshot) -> bytes:
    """All of it but its number, which is its place among the others."""
    return json.dumps(
        {
            "id": snapshot.id,
            "root": os.fsencode(snapshot.root).hex(),
            "time_ns": snapshot.time_ns,
            "agent": snapshot.agent,
            "reason": snapshot.reason,
            "parent": snapshot.parent,
            "tree": snapshot.tree.hex(),
            "mode": snapshot.mode,
            "counts": astuple(snapshot.counts),
            "notes": [[note.path.hex(), note.why] for note in snapshot.notes],
        }
    ).encode()


def decode_snapshot(data: bytes) -> Snapshot:
    """Raises Malformed."""
    try:
        told = cast(dict[str, Any], json.loads(data))
        tree = bytes.fromhex(told["tree"])
        if len(tree) != DIGEST_BYTES:
            raise MalformedObjectError("no digest of a folder")
        return Snapshot(
            *(0, str(told["id"]), os.fsdecode(bytes.fromhex(told["root"])), int(told["time_ns"])),
            *(str(told["agent"]), str(told["reason"]), told["parent"], tree, int(told["mode"])),
            Counts(*map(int, told["counts"])),
            tuple(PathNote(bytes.fromhex(path), str(why)) for path, why in told["notes"]),
        )
    except (ValueError, KeyError, TypeError) as error:
        raise MalformedObjectError("no record of a snapshot") from error

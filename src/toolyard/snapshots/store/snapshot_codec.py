"""Encodes the record of a snapshot for the packs, to rebuild a lost index from: JSON, with bytes in hex."""

from __future__ import annotations

import json
import os
from dataclasses import astuple
from typing import Any, cast

from toolyard.snapshots.store.models import Counts, PathNote, Snapshot
from toolyard.snapshots.store.objects import DIGEST_BYTES, MalformedObjectError


def encode_snapshot(snapshot: Snapshot) -> bytes:
    """Encodes everything but the snapshot's number, which follows from its position."""
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
    """Decodes a record. Raises MalformedObjectError."""
    try:
        fields = cast(dict[str, Any], json.loads(data))
        tree = bytes.fromhex(fields["tree"])
        if len(tree) != DIGEST_BYTES:
            raise MalformedObjectError("not the digest of a folder")
        return Snapshot(
            *(0, str(fields["id"]), os.fsdecode(bytes.fromhex(fields["root"])), int(fields["time_ns"])),
            *(str(fields["agent"]), str(fields["reason"]), fields["parent"], tree, int(fields["mode"])),
            Counts(*map(int, fields["counts"])),
            tuple(PathNote(bytes.fromhex(path), str(why)) for path, why in fields["notes"]),
        )
    except (ValueError, KeyError, TypeError) as error:
        raise MalformedObjectError("not the record of a snapshot") from error

"""Imports memories of mem0 as facts. The import may be repeated, and mem0 may stay in use.

A repeated import adds new memories and updates those that changed in mem0, unless they were also edited here; facts
that were forgotten here stay forgotten. `.imports.json` beside the facts records what was imported. It is written
after the facts, so an interrupted import is simply repeated.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, cast

from toolyard.files.locked_document import LockedDocument, parse_list, write_list
from toolyard.memory import facts
from toolyard.memory.facts import Fact
from toolyard.memory.mem0.records import Mem0Memory
from toolyard.memory.memory import Memory

LEDGER = ".imports.json"
SOURCE = "mem0"
_DIGEST_BYTES = 8


@dataclass(slots=True)
class ImportSummary:
    """How many memories were imported, and what happened to the others."""

    added: int = 0
    updated: int = 0
    unchanged: int = 0
    kept: int = 0
    """Changed in both places: the fact here was left unchanged."""
    forgotten: int = 0
    """Imported before and forgotten since."""
    refused: list[str] = field(default_factory=list[str])
    """Ids of memories that are too long for a fact."""


def import_mem0(memory: Memory, memories: Iterable[Mem0Memory], *, dry_run: bool = False) -> ImportSummary:
    """Writes the memories to the facts of one agent. Filter them by `session` before to choose whose are imported.

    A dry run writes nothing and returns what would be done.
    """
    ledger = LockedDocument(memory.facts_file.root, memory.folder, LEDGER, parse_list, write_list)
    seen = _imported_digests(ledger.read())
    chosen = tuple(memories)
    result = ImportSummary()
    taken: dict[str, str] = {}

    def change(entries: list[Any]) -> list[Any]:
        nonlocal result
        result = ImportSummary()
        taken.clear()
        here = {str(fact.source.get("id")): at for at, fact in _imported_facts(entries)}
        after = list(entries)
        new: list[facts.Entry] = []
        for record in chosen:
            try:
                entry = _fact_entry(record)
            except facts.ValidationError:
                result.refused.append(record.id)
                continue
            at = here.get(record.id)
            if at is None:
                if record.id in seen:
                    result.forgotten += 1
                    continue
                new.append(entry)
                result.added += 1
            else:
                _update_fact(after, at, record, seen.get(record.id), result)
            taken[record.id] = _digest(record.text)
        return facts.add_entries(after, new)

    if dry_run:
        change(memory.facts_file.read())
        return result
    memory.facts_file.change(change)
    if taken.items() - seen.items():
        ledger.change(lambda rows: _ledger_rows({**_imported_digests(rows), **taken}))
    return result


def _update_fact(
    entries: list[Any], at: int, record: Mem0Memory, imported: str | None, result: ImportSummary
) -> None:
    """Replaces the fact at an index by mem0's version, if it is still what was imported."""
    known, entry = Fact(entries[at]), _fact_entry(record)
    if known.text == entry["text"]:
        if not record.updated or known.updated_at == record.updated:  # other differences were added here
            result.unchanged += 1
        else:
            entries[at] = {**known.entry, **entry}
            result.updated += 1
    elif imported is not None and _digest(known.text) != imported:
        result.kept += 1
    else:
        entries[at] = {**known.entry, **entry}
        result.updated += 1


def _fact_entry(record: Mem0Memory) -> facts.Entry:
    topic = record.metadata.get("topic")
    return facts.new_entry(
        record.text,
        topic if isinstance(topic, str) and topic.strip() and len(topic) <= facts.MOST_TOPIC else "",
        record.metadata,
        identity=f"{SOURCE}-{record.id}",
        created=record.created,
        updated=record.updated,
        source={"from": SOURCE, "id": record.id, "hash": record.hash, **record.session},
    )


def _imported_facts(entries: list[Any]) -> Iterable[tuple[int, Fact]]:
    for at, entry in enumerate(entries):
        fact = Fact(entry)
        if fact.source.get("from") == SOURCE:
            yield at, fact


def _imported_digests(rows: list[Any]) -> dict[str, str]:
    """Returns the digest of the last imported text, by id."""
    mappings = [cast("Mapping[str, Any]", row) for row in rows if isinstance(row, dict)]
    return {str(row.get("id")): str(row.get("text")) for row in mappings if row.get("from") == SOURCE}


def _ledger_rows(seen: Mapping[str, str]) -> list[Any]:
    return [{"from": SOURCE, "id": identity, "text": digest} for identity, digest in seen.items()]


def _digest(text: str) -> str:
    return hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=_DIGEST_BYTES).hexdigest()

"""Ranked search over every tool of every server.

`ToolIndex` owns one connection to the index file. A reader opens it without loading anything and sees what others
commit; a writer (sync) replaces one server at a time. It is thread-safe. A process that ends without `close()` loses
nothing that was committed.
"""

from __future__ import annotations

import heapq
import sqlite3
import threading
from collections.abc import Collection, Sequence
from operator import neg

from toolyard.codemode.search import embedding
from toolyard.codemode.search.bm25f import WeightedTool, are_near_duplicates, weigh_tool
from toolyard.codemode.search.documents import Hit, SearchFields, ToolDoc, server_embedding_text, tool_embedding_text
from toolyard.codemode.search.hybrid_ranking import SemanticNearness, hybrid_scores
from toolyard.codemode.search.ranking import (
    Column,
    Corpus,
    Query,
    keyword_scores,
    rank_tools,
    read_columns,
)
from toolyard.codemode.search.render import fit_to_budget
from toolyard.codemode.search.store import MAX_TOOLS, TOOL_BITS, IndexedServer, IndexStore, StoredTool
from toolyard.codemode.search.unindexed_words import SpellingCorrector, scan_tools
from toolyard.codemode.search.vectors import VectorIndex, build_vectors
from toolyard.core.closeable import Closeable
from toolyard.core.errors import SystemFault

_CANDIDATE_FACTOR = 4
"""This many times the wanted number are ranked, since equivalent tools share one hit."""
_MAX_COLUMNS = 4_000
"""Words whose tools are cached in memory; a few hundred bytes each."""
_SYNC_HINT = "`toolyard sync` builds it from the catalog, without starting a server."


class ToolIndex(Closeable):
    """The search index of a workspace."""

    def __init__(self, path: str, store: IndexStore | None, note: str, *, writable: bool, semantic: bool) -> None:
        uses, lacks = _semantic_support(semantic)
        self._path = path
        self._store = store
        self._writable = writable
        self._model = embedding.MODEL if uses else ""
        self._missing_note = lacks
        self._lock = threading.Lock()
        self._version = -1
        self._servers: dict[int, IndexedServer] = {}
        self._spelling: SpellingCorrector | None = None
        self._columns: dict[str, Column | None] = {}
        self._vectors: VectorIndex | None = None
        self.note = _join_notes(note, lacks)
        """A note for the user: the file was missing, damaged or of another version, or an extra is missing."""

    @classmethod
    def open(cls, path: str, *, semantic: bool = False) -> ToolIndex:
        """Opens the index for searching. A missing or unusable file gives an empty index and a note.

        `semantic` also searches by meaning, if the extra `semantic` is installed; otherwise only keywords are used.
        """
        store, note = IndexStore.open_existing(path)
        return cls(path, store, _join_notes(note, _SYNC_HINT if note else ""), writable=False, semantic=semantic)

    @classmethod
    def open_writable(cls, path: str, *, semantic: bool = False) -> ToolIndex:
        """Opens the index for writing. An unusable file is replaced by an empty one, and a note says so."""
        store, note = IndexStore.open_or_create(path)
        return cls(path, store, note, writable=True, semantic=semantic)

    def close(self) -> None:
        with self._lock:
            if self._store is not None:
                self._store.close()
                self._store = None

    def fingerprints(self) -> dict[str, str]:
        """Returns the indexed fingerprint of each server. Servers that still lack vectors are omitted."""
        with self._lock:
            store = self._current_store()
            servers = [] if store is None else store.servers()
        return {
            server.name: server.fingerprint for server in servers if server.model == self._model or not self._model
        }

    def replace_server(
        self, server: str, docs: Sequence[ToolDoc], fingerprint: str = "", instructions: str = ""
    ) -> bool:
        """Indexes these tools as all tools of the server. Returns False if the fingerprint is unchanged.

        `instructions` is the server's own description, used by the semantic search.
        """
        if fingerprint and self.fingerprints().get(server) == fingerprint:
            return False
        docs = docs[:MAX_TOOLS]
        weighed = [weigh_tool(SearchFields.from_doc(doc)) for doc in docs]
        own, *vectors = self._build_vectors(server, docs, instructions)
        tools = [_stored_tool(doc, each, vector) for doc, each, vector in zip(docs, weighed, vectors, strict=True)]
        with self._lock:
            store = self._writable_store()
            with store.write_transaction():
                store.remove(server)
                store.add(server, fingerprint, self._model, tools, [each.weights for each in weighed], vector=own)
            self._version = -1
        return True

    def _build_vectors(self, server: str, docs: Sequence[ToolDoc], instructions: str) -> Sequence[bytes | None]:
        """Returns the vector of the server, then those of its tools."""
        if not self._model:
            return [None] * (1 + len(docs))
        with self._lock:
            before = self._writable_store().server_and_tool_vectors(server)
        return build_vectors(
            [server_embedding_text(server, instructions, docs), *map(tool_embedding_text, docs)], before
        )

    def remove_server(self, server: str) -> bool:
        """Removes a server. Returns False if it was not indexed."""
        with self._lock:
            store = self._writable_store()
            with store.write_transaction():
                removed = store.remove(server)
            self._version = -1
            return removed

    def search(
        self, query: str, top: int = 5, servers: Collection[str] | None = None, budget_tokens: int | None = None
    ) -> list[Hit]:
        """Returns the best tools for the query, best first, optionally only of `servers`.

        Equivalent tools of several servers are merged into one hit. `budget_tokens` limits the tokens of the rendered
        hits.
        """
        if top < 1 or not query.strip():
            return []
        try:
            with self._lock:
                store = self._current_store()
                if store is None:
                    return []
                with store.read_transaction():
                    hits = self._search_store(store, query, top, servers)
        except sqlite3.DatabaseError as error:
            raise SystemFault(f"The search index {self._path} cannot be read: {error}.", hint=_SYNC_HINT) from error
        return hits if budget_tokens is None else fit_to_budget(hits, budget_tokens)

    def _search_store(self, store: IndexStore, query: str, top: int, servers: Collection[str] | None) -> list[Hit]:
        self._refresh(store)
        sizes = {key: server.tools for key, server in self._servers.items()}
        names = {key: server.name for key, server in self._servers.items()}

        def look_up_columns(wanted: Sequence[str]) -> dict[str, Column]:
            missing = [word for word in wanted if word not in self._columns]
            if len(self._columns) > _MAX_COLUMNS:
                self._columns.clear()
            read = read_columns(store.postings(missing))
            self._columns.update((word, read.get(word)) for word in missing)
            found = ((word, self._columns.get(word, read.get(word))) for word in wanted)
            return {word: column for word, column in found if column is not None}

        def nearest_words(word: str) -> tuple[str, ...]:
            if self._spelling is None:
                self._spelling = SpellingCorrector(store.words())
            return self._spelling.nearest_words(word)

        parsed_query, corpus = Query.parse(query), Corpus(sum(sizes.values()), sizes)
        if parsed_query.is_stopwords_only:
            ranking = rank_tools(
                parsed_query, corpus, lambda wanted: scan_tools(store.tool_summaries(), wanted), lambda _: ()
            )
        else:
            ranking = rank_tools(parsed_query, corpus, look_up_columns, nearest_words)
        allowed = None if servers is None else {key for key, name in names.items() if name in servers}
        near = self._semantic_nearness(store, query) if parsed_query.words else None
        if near is not None:
            scores = hybrid_scores(ranking, near, top * _CANDIDATE_FACTOR, allowed)
        else:
            scores = keyword_scores(ranking)
            if allowed is not None:
                scores = {key: score for key, score in scores.items() if key >> TOOL_BITS in allowed}
        best = heapq.nsmallest(top * _CANDIDATE_FACTOR, zip(map(neg, scores.values()), scores, strict=True))
        keys = [key for _, key in best]
        return _group_hits(keys, scores, store.tools(keys), names)[:top]

    def _semantic_nearness(self, store: IndexStore, query: str) -> SemanticNearness | None:
        if not self._model or not any(server.model == self._model for server in self._servers.values()):
            return None
        if self._vectors is None:
            self._vectors = VectorIndex(store.vectors(self._model), store.server_vectors(self._model))
        return self._vectors.nearness_to(query)

    def _refresh(self, store: IndexStore) -> None:
        version = store.version()
        if version != self._version:
            self._servers = {server.id: server for server in store.servers()}
            self._spelling = None
            self._columns.clear()
            self._vectors = None
            self._version = version

    def _current_store(self) -> IndexStore | None:
        """Returns the open file; reopens it if it was replaced or has appeared since."""
        if self._store is not None and self._store.is_current:
            return self._store
        if self._writable:
            return self._store
        if self._store is not None:
            self._store.close()
        self._store, note = IndexStore.open_existing(self._path)
        self.note = _join_notes(note, _SYNC_HINT if note else "", self._missing_note)
        self._version = -1
        return self._store

    def _writable_store(self) -> IndexStore:
        if self._store is None or not self._writable:
            raise SystemFault("This search index is open for searching only.", hint="Open it with ToolIndex.edit.")
        return self._store


def _group_hits(
    best: list[int], scores: dict[int, float], tools: dict[int, StoredTool], names: dict[int, str]
) -> list[Hit]:
    groups: list[list[int]] = []
    by_name: dict[str, list[list[int]]] = {}
    for key in best:
        namesakes = by_name.setdefault(tools[key].name_key, [])
        group = next((group for group in namesakes if _is_duplicate(key, group, tools)), None)
        if group is None:
            group = list[int]()
            namesakes.append(group)
            groups.append(group)
        group.append(key)
    return [
        Hit(
            names[key >> TOOL_BITS],
            tools[key].name,
            tools[key].path,
            round(scores[key], 4),
            tools[key].summary,
            tools[key].signature,
            tuple(tools[other].path for other in others),
        )
        for key, *others in groups
    ]


def _is_duplicate(key: int, group: list[int], tools: dict[int, StoredTool]) -> bool:
    """Whether it is the group's tool on another server."""
    elsewhere = all(key >> TOOL_BITS != other >> TOOL_BITS for other in group)
    return elsewhere and are_near_duplicates(tools[group[0]].sketch, tools[key].sketch)


def _semantic_support(wanted: bool) -> tuple[bool, str]:
    """Returns whether vectors are used, and a note if they are wanted but unavailable."""
    if not wanted or embedding.is_installed():
        return wanted, ""
    return False, embedding.MISSING


def _join_notes(*notes: str) -> str:
    return " ".join(note for note in notes if note)


def _stored_tool(doc: ToolDoc, weighed: WeightedTool, vector: bytes | None) -> StoredTool:
    name, path, signature, summary = map(_encodable_text, (doc.tool, doc.path, doc.signature, doc.summary))
    return StoredTool(name, path, signature, summary, weighed.name_key, weighed.sketch, vector)


def _encodable_text(text: str) -> str:
    """Replaces lone surrogates, which JSON can represent and a file cannot store."""
    return text.encode("utf-8", "replace").decode("utf-8")

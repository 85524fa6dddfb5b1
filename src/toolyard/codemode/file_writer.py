"""Writes tool files and index entries for pinned tools, but only those that differ from the previous ones.

The catalog remembers what was written for each server (`KnownServer.written`), with each file's size and time. An
unchanged server costs a few stat calls, and modified files are rewritten.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict, astuple, dataclass, field
from typing import Any

from toolyard.codemode.catalog import Catalog, KnownServer, KnownTool
from toolyard.codemode.files import (
    OWN_SERVER,
    CompiledServer,
    CompiledTool,
    code_name,
    compile_group,
    compile_index,
    compile_own_tools,
    compile_server,
)
from toolyard.codemode.generated_folder import GeneratedFolder, Stamps
from toolyard.codemode.search import ToolDoc, ToolIndex
from toolyard.core.tokens import count_or_estimate_tokens
from toolyard.core.upstream import ServerListing, ToolSchema

FORMAT = 1
"""Incremented whenever the files of an unchanged server would look different."""
CUSTOM_PREFIX = "tools/"
"""Precedes the name of a custom tool group wherever servers and groups share one namespace."""


@dataclass(frozen=True, slots=True)
class WrittenServer:
    """What is on disk for one server."""

    basis: str = ""
    """A hash of everything that the files were generated from."""
    folder: str = ""
    stamps: Stamps = field(default_factory=dict[str, tuple[int, int]])
    tools: tuple[CompiledTool, ...] = ()
    tokens: int = 0
    """The context tokens of its tools, if all of them were put into a model's context."""

    @classmethod
    def from_json(cls, text: str) -> WrittenServer:
        if not text:
            return cls()
        raw: dict[str, Any] = json.loads(text)
        stamps = {name: (size, time) for name, (size, time) in raw["stamps"].items()}
        tools = tuple(CompiledTool(*row) for row in raw["tools"])
        return cls(raw["basis"], raw["folder"], stamps, tools, raw["tokens"])

    def to_json(self) -> str:
        fields = {**asdict(self), "tools": [astuple(tool) for tool in self.tools]}
        return json.dumps(fields, separators=(",", ":"))


def write_servers(
    catalog: Catalog, index: ToolIndex, folder: GeneratedFolder, folders: Mapping[str, str], own: ServerListing
) -> int:
    """Updates `servers/` and the index to match the catalog. Returns the number of files written.

    `folders` maps servers to their folders; `own` lists Toolyard's own file tools.
    """
    known = [server for server in catalog.servers() if server.asked_at]
    indexed = index.fingerprints()
    compiled_own = compile_own_tools(own.tools, own.version)
    count, written = _write_own(index, folder, compiled_own, own.tools), dict[str, WrittenServer]()
    for server in known:
        tools = catalog.tools(server.name)
        before = WrittenServer.from_json(server.written)
        basis = _server_hash(server, tools, f"{folder.path}/{folders[server.name]}")
        called = code_name(server.name, folders[server.name])
        is_indexed = indexed.get(called) == basis
        if before.basis == basis and is_indexed and folder.is_intact(before.folder, before.stamps):
            written[server.name] = before
            continue
        listing = server.to_listing(tools)
        inferred = {tool.schema.name: tool.inferred for tool in tools if tool.inferred is not None}
        compiled = compile_server(listing, inferred, folders[server.name])
        stamps = folder.replace_folder(compiled.folder, compiled.files)
        documents = _tool_docs(called, compiled, listing.tools, folder.path)
        index.replace_server(called, documents, basis, server.instructions)
        now = WrittenServer(basis, compiled.folder, stamps, compiled.tools, injected_tokens(listing.tools))
        catalog.record_written_files(server.name, now.to_json())
        written[server.name] = now
        count += len(compiled.files)
    called_names = {code_name(name, folders[name]) for name in written}
    for name in indexed.keys() - called_names - {OWN_SERVER}:
        if not name.startswith(CUSTOM_PREFIX):
            index.remove_server(name)
    entries = [compiled_own, *(_index_entry(server, written[server.name]) for server in known)]
    return count + _write_overview(folder, compile_index(entries), {entry.folder for entry in entries})


def _write_own(
    index: ToolIndex, folder: GeneratedFolder, compiled: CompiledServer, schemas: Sequence[ToolSchema]
) -> int:
    documents = _tool_docs(OWN_SERVER, compiled, schemas, folder.path)
    index.replace_server(OWN_SERVER, documents, _hash([FORMAT, *(asdict(document) for document in documents)]))
    return folder.update_folder(compiled.folder, compiled.files)


def write_groups(index: ToolIndex, folder: GeneratedFolder, groups: Mapping[str, Sequence[ToolSchema]]) -> int:
    """Updates `tools/` and the index to match the custom tools. Returns the number of files written."""
    compiled = [compile_group(group, tools) for group, tools in sorted(groups.items())]
    count = 0
    for one in compiled:
        count += folder.update_folder(one.folder, one.files)
        documents = _tool_docs(one.server, one, groups[one.server], folder.path)
        basis = _hash([FORMAT, *(asdict(document) for document in documents)])
        index.replace_server(f"{CUSTOM_PREFIX}{one.server}", documents, basis)
    for name in index.fingerprints():
        if name.startswith(CUSTOM_PREFIX) and name.removeprefix(CUSTOM_PREFIX) not in groups:
            index.remove_server(name)
    return count + _write_overview(folder, compile_index(compiled, "tools"), {one.folder for one in compiled})


def injected_tokens(schemas: Sequence[ToolSchema]) -> int:
    """Returns the context tokens of these tools, as `tools/list` returns them."""
    listed = [
        {
            "name": schema.name,
            "description": schema.description,
            "inputSchema": schema.input_schema,
            **({"outputSchema": schema.output_schema} if schema.output_schema is not None else {}),
        }
        for schema in schemas
    ]
    return count_or_estimate_tokens(json.dumps(listed, ensure_ascii=False, separators=(",", ":")))


def _write_overview(folder: GeneratedFolder, overview: Mapping[str, str], expected: Collection[str]) -> int:
    """Writes the files of the folder itself, and removes everything else that is no longer needed."""
    count = sum(folder.ensure_file(name, text) for name, text in overview.items())
    for name in folder.entry_names() - {*expected, *overview, "__pycache__"}:
        folder.remove(name)
    return count


def _server_hash(server: KnownServer, tools: Sequence[KnownTool], place: str) -> str:
    texts = (server.version, server.instructions)
    return _hash([FORMAT, *texts, place, *((tool.fingerprint, tool.inferred) for tool in tools)])


def _hash(made_from: list[Any]) -> str:
    return hashlib.blake2b(json.dumps(made_from, sort_keys=True).encode(), digest_size=16).hexdigest()


def _index_entry(server: KnownServer, written: WrittenServer) -> CompiledServer:
    return CompiledServer(server.name, written.folder, {}, written.tools, server.version)


def _tool_docs(server: str, compiled: CompiledServer, schemas: Sequence[ToolSchema], place: str) -> list[ToolDoc]:
    """Returns the index entries. `place` is the actual path of the folder: a workspace may
    have its own `servers/`.
    """
    return [
        ToolDoc(
            server,
            tool.name,
            f"{place}/{tool.path.partition('/')[2]}",
            tool.signature,
            tool.summary,
            schema,
        )
        for tool, schema in zip(compiled.tools, schemas, strict=True)
    ]

"""From pinned tools to files and index entries: only what differs from what was written before.

What was written of a server is remembered in the catalog (`KnownServer.written`) with each file's size and time, so
an unchanged server costs a few stat calls, and one that somebody meddled with is written anew.
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
"""Raised whenever the files of an unchanged server would look different."""
CUSTOM_PREFIX = "tools/"
"""Stands before the name of a group of custom tools, where servers and groups are kept together."""


@dataclass(frozen=True, slots=True)
class WrittenServer:
    """What is on disk of one server."""

    basis: str = ""
    """A hash of all that the files were made from."""
    folder: str = ""
    stamps: Stamps = field(default_factory=dict[str, tuple[int, int]])
    tools: tuple[CompiledTool, ...] = ()
    tokens: int = 0
    """What its tools would cost a model's context, were they all put into it."""

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
    """Bring `servers/` and the index up to the catalog. How many files were written.

    `folders` has the folder of each server, `own` the file tools of Toolyard itself.
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
    """Bring `tools/` and the index up to the custom tools. How many files were written."""
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
    """What these tools cost in a model's context, as `tools/list` gives them."""
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


def _write_overview(folder: GeneratedFolder, overview: Mapping[str, str], kept: Collection[str]) -> int:
    """The folder's own files, and nothing left of what is gone."""
    count = sum(folder.ensure_file(name, text) for name, text in overview.items())
    for name in folder.entry_names() - {*kept, *overview, "__pycache__"}:
        folder.remove(name)
    return count


def _server_hash(server: KnownServer, tools: Sequence[KnownTool], place: str) -> str:
    said = (server.version, server.instructions)
    return _hash([FORMAT, *said, place, *((tool.fingerprint, tool.inferred) for tool in tools)])


def _hash(made_from: list[Any]) -> str:
    return hashlib.blake2b(json.dumps(made_from, sort_keys=True).encode(), digest_size=16).hexdigest()


def _index_entry(server: KnownServer, written: WrittenServer) -> CompiledServer:
    return CompiledServer(server.name, written.folder, {}, written.tools, server.version)


def _tool_docs(server: str, compiled: CompiledServer, schemas: Sequence[ToolSchema], place: str) -> list[ToolDoc]:
    """`place` is where the folder really is: a workspace may have a `servers/` of its own."""
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

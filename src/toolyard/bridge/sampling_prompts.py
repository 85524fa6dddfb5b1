"""The prompts for a client's model: the request as JSON, and the exact format of the answer."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from typing import Any, Final

from toolyard.bridge.errors import printable_text
from toolyard.bridge.listing_answers import ListingRequest

PUSH_TOOL_NAME: Final = "guide_cache_file"
_SYSTEM: Final = (
    "You answer requests of an MCP server for files of the project you work in. Answer with exactly what is asked "
    "for, taken from the file system: never from memory, never shortened, and with nothing around it: no prose, no "
    "code fence. If you cannot look at the file system, answer that you may not read it."
)
_FAILURES: Final = (
    'If it does not exist, answer {"path": PATH, "error": "not_found"}; if you may not read it, answer '
    '{"path": PATH, "error": "permission_denied"}. PATH is the path exactly as in the request.'
)
_LISTING: Final = """\
List this folder, and answer with one JSON object and nothing else:
{request}

{{"path": PATH, "complete": true, "count": 3, "entries": [
  {{"name": "a.py", "type": "file", "size": 120, "mtime": 1767225600.0}},
  {{"name": "lib", "type": "directory"{below}}},
  {{"name": "current", "type": "symlink", "target": "lib"}}]}}

`count` is how many entries there are, on all levels together; `mtime` is in seconds since 1970; `target` is where \
a link leads, as the link itself says. {more}
{failures}"""
_READING: Final = """\
Read this file and hand over all of its content, unchanged:
{request}

Call the tool guide_cache_file of this server with that `path`, the file's text as `content`, the `encoding` that it \
has, and its `size` in bytes and `mtime` in seconds since 1970 where you know them. A file that is no text is sent \
as base64, with `encoding` "base64". Where the file is a link, say in `target` where it leads. {then}
{failures}"""
_STATUS: Final = """\
Look up the size of this file and when it was last changed, without reading it, and answer with one JSON object \
and nothing else:
{request}

{{"path": PATH, "size": 120, "mtime": 1767225600.0}}

`size` is in bytes; `mtime` is in seconds since 1970.
{failures}"""
_REPAIR: Final = """

Your last answer to this could not be used: {why}. Answer once more, exactly in the shape above."""
_RECEIPT: Final = 'Then answer with one JSON object and nothing else: {"path": PATH, "status": "cached"}.'


@dataclass(frozen=True, slots=True)
class SamplingQuestion:
    """A request to a client's model for one file, status or listing."""

    path: str
    title: str
    """A description of what is asked for."""
    text: str
    request: dict[str, Any]
    """The machine-readable request, sent as metadata."""
    expects_push: bool = False
    """Whether the answer should be a call of guide_cache_file, if the client's model can use tools."""
    system: str = _SYSTEM

    def repeat_after(self, why: str) -> SamplingQuestion:
        """Returns the question to ask again after an unusable answer."""
        return replace(self, text=self.text + _REPAIR.format(why=why), request={**self.request, "repeated": True})


def listing_question(wanted: ListingRequest) -> SamplingQuestion:
    """Returns the question for a folder listing."""
    request = {
        "operation": "list_directory",
        "path": wanted.path,
        "recursive": wanted.recursive,
        "pattern": wanted.pattern,
    }
    more: list[str] = []
    if wanted.recursive:
        more.append("Every directory has its own `entries`, down to the last; links are not followed.")
    if wanted.pattern is not None:
        more.append(
            "List only what matches the glob `pattern`"
            + (", and the directories on the way to it." if wanted.recursive else ".")
        )
    text = _LISTING.format(
        request=_as_json(request),
        below=', "entries": [...]' if wanted.recursive else "",
        more=" ".join(more),
        failures=_FAILURES,
    )
    return SamplingQuestion(wanted.path, wanted.title, text, request)


def reading_question(path: str, encoding: str | None, *, is_binary: bool, with_tools: bool) -> SamplingQuestion:
    """Returns the question for a file. `with_tools`: whether the request offers guide_cache_file to the model."""
    request = {"operation": "read_file", "path": path, "encoding": encoding, "binary": is_binary}
    text = _READING.format(request=_as_json(request), then="" if with_tools else _RECEIPT, failures=_FAILURES)
    return SamplingQuestion(path, printable_text(path), text, request, expects_push=True)


def status_question(path: str) -> SamplingQuestion:
    """Returns the question for the size and modification time of a file."""
    request = {"operation": "stat_file", "path": path}
    return SamplingQuestion(
        path, printable_text(path), _STATUS.format(request=_as_json(request), failures=_FAILURES), request
    )


def _as_json(request: dict[str, Any]) -> str:
    return json.dumps(request, ensure_ascii=False)

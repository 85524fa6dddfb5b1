"""The results of tool calls.

`Result` is an answer without a declared shape: `.text`, `.content`, `.structured`, and `result["key"]`, which reads
`structured`. `Block` is one block of its content. `Record` is a dictionary whose keys also read as attributes.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Generic, cast

if TYPE_CHECKING:
    from typing_extensions import TypeVar

    Shape = TypeVar("Shape", default=Any)
else:
    from typing import TypeVar

    Shape = TypeVar("Shape")

_PREVIEW = 200
"""How many characters of a result its repr shows."""

_UNREAD: Any = object()


class Record(dict[str, Any]):
    """A dictionary whose keys also read as attributes, at every depth: `page.title` is `page["title"]`."""

    def __getattr__(self, name: str) -> Any:
        try:
            return as_records(self[name])
        except KeyError:
            known = ", ".join(sorted(self)) or "nothing"
            raise AttributeError(f"The result has no {name!r}. It has: {known}.") from None


def as_records(value: Any) -> Any:
    """Returns the value with its dictionaries as `Record`s, also inside lists."""
    if isinstance(value, Record):
        return value
    if isinstance(value, dict):
        return Record(cast("dict[str, Any]", value))
    if isinstance(value, list):
        return [as_records(item) for item in cast("list[Any]", value)]
    return value


class Block:
    """One block of content: text, an image, audio, an embedded resource or a link. `raw` is the original block."""

    __slots__ = ("raw",)

    def __init__(self, raw: Mapping[str, Any]) -> None:
        self.raw = raw

    @property
    def type(self) -> str:
        return str(self.raw.get("type", ""))

    @property
    def text(self) -> str:
        return str(self._field("text") or "")

    @property
    def data(self) -> bytes:
        """The bytes of an image, of audio or of a binary resource; for text, its UTF-8."""
        import base64

        coded = self._field("data") or self._field("blob")
        return base64.b64decode(coded) if isinstance(coded, str) else self.text.encode("utf-8", "surrogatepass")

    @property
    def mime_type(self) -> str:
        return str(self._field("mimeType") or "")

    @property
    def uri(self) -> str:
        """Where a resource or a link points."""
        return str(self._field("uri") or "")

    @property
    def name(self) -> str:
        return str(self._field("name") or "")

    def save(self, path: str) -> str:
        """Writes the bytes to a file and returns its path."""
        with open(path, "wb") as file:
            file.write(self.data)
        return path

    def __getitem__(self, key: str) -> Any:
        return self.raw[key]

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Block) and self.raw == other.raw

    __hash__ = None  # pyright: ignore[reportAssignmentType] - it holds a dictionary

    def __repr__(self) -> str:
        if self.type == "text":
            return f"<text {_truncate(self.text)!r}>"
        details = [part for part in (self.mime_type, self.uri) if part]
        return " ".join([f"<{self.type or 'block'}", *details]) + ">"

    def _field(self, key: str) -> Any:
        """Returns a field of the block, or of the resource that it embeds."""
        inner = self.raw.get("resource")
        found = self.raw.get(key)
        return cast("dict[str, Any]", inner).get(key) if found is None and isinstance(inner, dict) else found


class Result(Generic[Shape]):
    """An answer: `.text`, `.content`, `.structured`. `result["key"]` reads `structured`."""

    __slots__ = ("_read", "_structured", "content")

    def __init__(self, content: Sequence[Mapping[str, Any]] = (), structured: Any = None) -> None:
        self.content = [Block(block) for block in content]
        self._structured = structured
        self._read = _UNREAD

    @property
    def text(self) -> str:
        """The text blocks, joined by newlines."""
        return "\n".join(block.text for block in self.content if block.type == "text")

    @property
    def structured(self) -> Shape:
        """The structured content. If the server sent none: the text, parsed, if it is one JSON object or array."""
        if self._structured is not None:
            return self._structured
        if self._read is _UNREAD:
            self._read = read_json(self.text)
        return self._read

    def get(self, key: str, default: Any = None) -> Any:
        """Returns `structured[key]`, or `default`."""
        shape: Any = self.structured
        return cast("dict[str, Any]", shape).get(key, default) if isinstance(shape, dict) else default

    def __getitem__(self, key: Any) -> Any:
        shape: Any = self.structured
        if isinstance(shape, dict):
            if key not in shape:
                known = ", ".join(map(str, cast("dict[str, Any]", shape))) or "nothing"
                raise KeyError(f"The result has no {key!r}. It has: {known}.")
            return cast("dict[str, Any]", shape)[key]
        if isinstance(shape, list) and isinstance(key, (int, slice)):
            return cast("list[Any]", shape)[key]
        raise KeyError(
            f"The result has no {key!r}: it is text, read it with .text. It begins: {_truncate(self.text)!r}"
        )

    def __contains__(self, key: object) -> bool:
        shape: Any = self.structured
        return isinstance(shape, (dict, list)) and key in shape

    def __iter__(self) -> Iterator[Any]:
        shape: Any = self.structured
        return iter(cast("Sequence[Any]", shape) if isinstance(shape, (dict, list)) else ())

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Result):
            return NotImplemented
        mine: tuple[Any, ...] = (self.content, self._structured)
        return mine == (other.content, other._structured)  # pyright: ignore[reportUnknownMemberType]

    __hash__ = None  # pyright: ignore[reportAssignmentType]

    def __bool__(self) -> bool:
        return True

    def __str__(self) -> str:
        return self.text

    def __repr__(self) -> str:
        kinds = [repr(block) for block in self.content if block.type != "text"]
        texts = [repr(_truncate(self.text))] if self.text else []
        return f"Result({', '.join([*texts, *kinds]) or repr(self._structured)})"


def read_json(text: str) -> Any:
    """Parses a text that is one JSON object or array; None for any other text."""
    if text.lstrip()[:1] not in {"{", "["}:
        return None
    import json

    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None


def _truncate(text: str) -> str:
    return text if len(text) <= _PREVIEW else f"{text[:_PREVIEW]}…"

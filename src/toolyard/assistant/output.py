"""Results of the six tools: text for readers, the same as structured fields, and the schema of those fields.

An answer longer than `reply_chars` is cut; a link names the resource that holds all of it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final, Literal

from toolyard.assistant.files.sources import SkippedFile
from toolyard.assistant.key_masking import Mask, mask_api_keys
from toolyard.core.calls import Link, Part, Result, Text
from toolyard.dispatch.tool import STRINGS
from toolyard.dispatch.tool import output_schema as object_schema
from toolyard.files.os_errors import printable_name as shown_name
from toolyard.sandbox.output_capture import truncate_middle

Status = Literal["success", "partial", "error"]
THREAD_SCHEME: Final = "thread://"
MARKDOWN: Final = "text/markdown"
_SHOWN_FILES = 10


def object_list_schema(**properties: str | dict[str, Any]) -> dict[str, Any]:
    """Returns the schema of a list of objects with these properties.

    They are not marked as required, to save tokens in every context.
    """
    return {"type": "array", "items": {"properties": object_schema(**properties)["properties"]}}


_FIELDS: Final[Mapping[str, Any]] = {
    "content": {"type": "string"},
    "status": {"enum": ["success", "partial", "error"]},
    "continuation_id": {"type": "string"},
    "metadata": {"type": "object"},
    "files_processed": STRINGS,
    "thinking_tokens_used": {"type": "integer"},
    "skipped": {"type": "array"},
    "truncated": {"type": "boolean"},
}
_REQUIRED_FIELDS: Final = ("content", "status", "metadata", "files_processed", "skipped")


def output_schema(**more: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the output schema of a tool: the common fields and its own."""
    return {"type": "object", "properties": {**_FIELDS, **more}, "required": [*_REQUIRED_FIELDS, *more]}


@dataclass(frozen=True, slots=True)
class UsageReport:
    """Model, tokens, time and cost of an answer."""

    model: str
    thinking_mode: str
    input: int
    output: int
    thinking: int
    seconds: float
    cost: float | None = None

    def as_fields(self) -> dict[str, Any]:
        fields: dict[str, Any] = {
            "model": self.model,
            "thinking_mode": self.thinking_mode,
            "tokens_used": self.input + self.output,
            "input_tokens": self.input,
            "output_tokens": self.output,
            "response_time": round(self.seconds, 3),
        }
        return fields if self.cost is None else {**fields, "cost": round(self.cost, 6)}

    def as_lines(self) -> Iterator[str]:
        """Yields the same for readers."""
        yield f"model: {self.model}"
        yield f"thinking_mode: {self.thinking_mode}"
        thought = f", {self.thinking:,} of them thinking" if self.thinking else ""
        yield f"tokens_used: {self.input + self.output:,} ({self.input:,} in, {self.output:,} out{thought})"
        yield f"response_time: {self.seconds:.1f}s"
        if self.cost is not None:
            yield f"cost: ${self.cost:.4f}"


@dataclass(frozen=True, slots=True)
class AssistantOutput:
    """What a tool answers, before it is rendered."""

    content: str
    status: Status = "success"
    thread: str = ""
    turn: int = 0
    usage: UsageReport | None = None
    files: Sequence[str] = ()
    skipped: Sequence[SkippedFile] = ()
    notes: Sequence[str] = ()
    """Further information for the caller."""
    more: Mapping[str, Any] = field(default_factory=dict[str, Any])
    """The fields that only this tool has."""

    def mask_texts(self, mask: Mask) -> AssistantOutput:
        """Returns the output with `mask` applied to every text."""
        return replace(
            self,
            content=mask(self.content),
            files=[mask(path) for path in self.files],
            skipped=[SkippedFile(mask(each.path), mask(each.reason)) for each in self.skipped],
            notes=[mask(note) for note in self.notes],
            more=mask_api_keys(self.more, mask),
        )

    def to_result(self, most_chars: int) -> Result:
        """Renders the output, cut to `most_chars` characters."""
        is_long = len(self.content) > most_chars
        uri = answer_uri(self.thread, self.turn)
        shown = (
            truncate_middle(self.content, most_chars, f"; all of it is the resource {uri}")
            if is_long
            else self.content
        )
        parts: list[Part] = [Text(f"{shown}\n\n{self._footer()}")]
        if is_long:
            about = f"The whole answer, {len(self.content):,} characters"
            parts.append(Link(uri, f"answer-{self.turn}.md", MARKDOWN, about))
        return Result(tuple(parts), self._structured_fields(shown, is_long=is_long))

    def _structured_fields(self, shown: str, *, is_long: bool) -> dict[str, Any]:
        metadata = self.usage.as_fields() if self.usage is not None else {}
        if self.notes:
            metadata["notes"] = list(self.notes)
        fields: dict[str, Any] = {"content": shown, "status": self.status, "metadata": metadata}
        if self.thread:
            fields["continuation_id"] = self.thread
        if self.usage is not None:
            fields["thinking_tokens_used"] = self.usage.thinking
        if is_long:
            fields["truncated"] = True
        fields["files_processed"] = list(self.files)
        fields["skipped"] = [{"path": each.path, "reason": each.reason} for each in self.skipped]
        return {**fields, **self.more}

    def _footer(self) -> str:
        metadata = [
            f"status: {self.status}",
            *(f"note: {note}" for note in self.notes),
            *_skipped_lines(self.skipped),
        ]
        if self.usage is not None:
            metadata += self.usage.as_lines()
        sections = [_section("Metadata", metadata)]
        if self.files:
            shown = [shown_name(path) for path in self.files[:_SHOWN_FILES]]
            more = len(self.files) - len(shown)
            sections.append(_section("Files Processed", [*shown, *([f"and {more:,} more"] if more else [])]))
        if self.thread:
            sections.append(f"## Continuation ID: {self.thread}")
        return "\n\n".join(sections)


def _section(title: str, lines: Sequence[str]) -> str:
    return "\n".join((f"## {title}", *(f"- {line}" for line in lines)))


def answer_uri(thread: str, turn: int) -> str:
    """Returns the resource URI of one answer of a thread."""
    return f"{THREAD_SCHEME}{thread}/{turn}"


def _skipped_lines(skipped: Sequence[SkippedFile]) -> list[str]:
    """Groups skipped files by reason, one line per reason."""
    by_reason: dict[str, list[str]] = {}
    for each in skipped:
        by_reason.setdefault(each.reason, []).append(each.path)
    return [f"skipped: {_join_names(paths)}: {reason}" for reason, paths in by_reason.items()]


def _join_names(names: Sequence[str]) -> str:
    """Joins names on one line, with unprintable characters escaped: a name must not start a line of its own."""
    more = f" and {len(names) - _SHOWN_FILES} more" if len(names) > _SHOWN_FILES else ""
    return f"{', '.join(shown_name(name) for name in names[:_SHOWN_FILES])}{more}"

"""Locates the frames of traces in the workspace and reads the lines around them.

Files are found as Glob finds them: ignored and hidden files are not found. Nothing outside the workspace is searched,
and each file is opened through the call context, which checks the policy. A trace grants no permission: a file that
may hold secrets is not quoted unless the caller named that file.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import islice

from toolyard.assistant.files.secret_file_names import is_secret_by_name
from toolyard.assistant.secrets.redaction import Secret, redact
from toolyard.assistant.traces.model import Frame, Trace
from toolyard.assistant.traces.path_mapping import file_name_of, map_to_workspace
from toolyard.core.actions import Kind
from toolyard.core.errors import ToolyardError
from toolyard.core.limits import KIB, MIB, Limits
from toolyard.dispatch.call_context import CallContext
from toolyard.files import file_io
from toolyard.files.content.file_type import Category, sniff
from toolyard.files.content.text import TextFile, decode, text_page, with_lf
from toolyard.files.search.glob import glob

LINES_AROUND = 6
MOST_EXCERPTS = 20
MOST_LOCATED = 100
MOST_FOLLOWED = 5_000
"""Frames that are looked up."""
_MOST_NAMES = 200
"""Distinct file names that are looked up."""
_NAME_BYTES = 255
_LINE_CHARS = 300
_FILE_BYTES = 2 * MIB
_MOST_LISTED = 20_000
_LISTED_CHARS = 2_048 * KIB
_SPECIAL = frozenset("*?[]{},!\\")


@dataclass(frozen=True, slots=True)
class LocatedFrame:
    """`path` is empty if the frame is in no file of the workspace; `excerpt` has numbered lines, or is empty."""

    frame: Frame
    path: str = ""
    excerpt: str = ""
    secrets: tuple[Secret, ...] = ()
    """What was masked in the excerpt."""


def locate_frames(
    traces: Sequence[Trace],
    ctx: CallContext,
    *,
    named: Collection[str] = (),
    context_lines: int = LINES_AROUND,
    most_excerpts: int = MOST_EXCERPTS,
) -> tuple[LocatedFrame, ...]:
    """Returns every frame once: those of the workspace first, innermost before its callers, then the others.

    At most `most_excerpts` frames have an excerpt, with `context_lines` lines before and after. `named` are paths of
    files that may be quoted although they are for secrets.
    """
    frames = list(islice(dict.fromkeys(frame for trace in traces for frame in trace.frames), MOST_FOLLOWED))
    paths = _workspace_paths(frames, ctx)
    own = {(path, frame.line): frame for frame in reversed(frames) if (path := paths.get(frame.file))}
    excerpts = _Excerpts(ctx, named, context_lines)
    located: list[LocatedFrame] = []
    for (path, line), frame in reversed(own.items()):
        excerpt, masked = excerpts.lines_around(path, line) if len(located) < most_excerpts else ("", ())
        located.append(LocatedFrame(frame, path, excerpt, masked))
    located += [LocatedFrame(frame) for frame in frames if frame.file not in paths]
    return tuple(located[:MOST_LOCATED])


def _workspace_paths(frames: Sequence[Frame], ctx: CallContext) -> dict[str, str]:
    spelled = list(dict.fromkeys(frame.file for frame in frames))
    names = dict.fromkeys(name for file in spelled if _can_be_searched(name := file_name_of(file)))
    listed: list[str] = []
    for pattern in _patterns(list(names)[:_MOST_NAMES], ctx.limits):
        listed += _glob_files(pattern, ctx)[: _MOST_LISTED - len(listed)]
    return map_to_workspace(spelled, listed, ctx.mounts.workspace.path, ctx.check_time)


def _can_be_searched(name: str) -> bool:
    return bool(name) and name.isprintable() and len(name.encode("utf-8", "replace")) <= _NAME_BYTES


def _patterns(names: Iterable[str], limits: Limits) -> Iterator[str]:
    """Yields globs for all names, each no longer than a glob may be."""
    alternatives: list[str] = []
    room = limits.pattern_chars
    for name in names:
        escaped = "".join(f"\\{letter}" if letter in _SPECIAL else letter for letter in name)
        if alternatives and len(escaped) + 1 > room:
            yield _any_name_glob(alternatives)
            alternatives = []
        if not alternatives:
            room = limits.pattern_chars - len(_any_name_glob([]))
        alternatives.append(escaped)
        room -= len(escaped) + 1
    if alternatives:
        yield _any_name_glob(alternatives)


def _any_name_glob(alternatives: list[str]) -> str:
    return f"**/{{{','.join(alternatives)}}}"


def _glob_files(pattern: str, ctx: CallContext) -> tuple[str, ...]:
    with ctx.open(".", Kind.READ) as target:
        found = glob(
            target.root,
            target.relative,
            pattern,
            visible=ctx.permissions.is_visible,
            limits=replace(ctx.limits, list_entries=_MOST_LISTED, output_chars=_LISTED_CHARS),
            cancel=ctx.budget.cancelled,
            deadline=ctx.budget.deadline,
        )
    return found.files


class _Excerpts:
    """Excerpts of files, each of which is read once."""

    def __init__(self, ctx: CallContext, named: Collection[str], context_lines: int) -> None:
        self._ctx = ctx
        self._named = named
        self._context_lines = context_lines
        self._limits = replace(ctx.limits, file_bytes=_FILE_BYTES, line_chars=_LINE_CHARS)
        self._read: dict[str, tuple[TextFile, tuple[Secret, ...]] | None] = {}

    def lines_around(self, path: str, line: int) -> tuple[str, tuple[Secret, ...]]:
        """Returns the lines around one, and what was masked in them.

        Empty for files that are not text or are for secrets, and for a line that the file does not have: it is
        another version.
        """
        self._ctx.check_time()
        if path not in self._read:
            self._read[path] = self._read_text(path)
        read = self._read[path]
        if read is None or line < 1:
            return "", ()
        text, secrets = read
        first = max(1, line - self._context_lines)
        try:
            shown = text_page(text, first, line - first + 1 + self._context_lines, self._limits)
        except ToolyardError:
            return "", ()
        lines = range(first, first + shown.line_count)
        if line not in lines:
            return "", ()
        return shown.text, tuple(secret for secret in secrets if secret.line in lines)

    def _read_text(self, path: str) -> tuple[TextFile, tuple[Secret, ...]] | None:
        try:
            with self._ctx.open(path, Kind.READ) as target:
                workspace = self._ctx.mounts.workspace.path
                is_for_secrets = any(is_secret_by_name(name, workspace) for name in (target.path, target.real))
                if is_for_secrets and path not in self._named:
                    return None
                data = file_io.read(target, self._limits).data
        except ToolyardError:
            return None
        if sniff(data, path).category is not Category.TEXT:
            return None
        text = decode(data)
        redacted = redact(path, with_lf(text.text), self._ctx.check_time, is_for_secrets=is_for_secrets)
        return replace(text, text=redacted.text), redacted.secrets

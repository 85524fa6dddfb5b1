"""Reads one file as text that can be sent, or returns the reason why it cannot.

Only a sample is read to see that a file is not text. Large files are decoded in chunks, so that other threads can
run.
"""

from __future__ import annotations

import codecs
import hashlib
import io
import os
from dataclasses import replace

from toolyard.assistant.files.languages import language_of
from toolyard.assistant.files.secret_file_names import is_secret_by_name
from toolyard.assistant.files.sources import SkippedFile, SourceFile, count_lines
from toolyard.assistant.secrets.redaction import redact
from toolyard.config.assistant import AssistantLimits
from toolyard.core.errors import ToolError, ToolyardError, ValidationError
from toolyard.core.limits import KIB
from toolyard.dispatch.call_context import CallContext
from toolyard.files import file_io
from toolyard.files.content.file_type import Category, sniff
from toolyard.files.content.text import decode, with_lf
from toolyard.files.mounts import Target

OMITTED_FILE_NOTICE = (
    "has the name of a file for secrets. Naming it explicitly sends it with known secrets masked: ask the user first"
)
_SAMPLE_BYTES = 8 * KIB
_CHUNK_BYTES = 256 * KIB
_DIGEST_BYTES = 16
# UTF-32's little-endian mark starts with UTF-16's, so it is tried first.
_BYTE_ORDER_MARKS = (
    (codecs.BOM_UTF8, "utf-8-sig"),
    (codecs.BOM_UTF32_LE, "utf-32"),
    (codecs.BOM_UTF32_BE, "utf-32"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)
_NOT_TEXT = {
    Category.IMAGE: "is an image, not text",
    Category.PDF: "is a PDF, not text",
    Category.BINARY: "is binary, not text",
}


def read_source(
    ctx: CallContext, target: Target, shown: str, limits: AssistantLimits, *, is_named: bool
) -> SourceFile | SkippedFile:
    """Reads a file as text with its secrets masked.

    Raises ValidationError if it is too large, SecurityError if it is not a regular file.
    """
    if _is_withheld(ctx, target, is_named=is_named):
        return SkippedFile(shown, OMITTED_FILE_NOTICE)
    if target.handle.status.st_size > limits.file_bytes:
        raise file_io.too_large_error(
            shown, target.handle.status.st_size, replace(ctx.limits, file_bytes=limits.file_bytes)
        )
    try:
        if (reason := _NOT_TEXT.get(sniff(_read_sample(target), target.path).category)) is not None:
            return SkippedFile(shown, reason)
        data = file_io.read(target, replace(ctx.limits, file_bytes=limits.file_bytes)).data
    except ToolError as error:
        return SkippedFile(shown, f"could not be read: {error.message}")
    text = decode_text(data)
    is_for_secrets = is_secret_by_name(target.real, ctx.mounts.workspace.path)
    redacted = redact(shown, text, ctx.check_time, is_for_secrets=is_for_secrets)
    digest = hashlib.blake2b(data, digest_size=_DIGEST_BYTES).hexdigest()
    language = language_of(shown, text)
    return SourceFile(shown, redacted.text, digest, count_lines(text), language, is_named, secrets=redacted.secrets)


def decode_text(data: bytes) -> str:
    r"""Decodes a file: every line ends in `\n`, and bytes that are not text become replacement characters."""
    if len(data) <= _CHUNK_BYTES:
        return with_lf(decode(data).printable).replace("\0", "\ufffd")
    encoding = next((name for mark, name in _BYTE_ORDER_MARKS if data.startswith(mark)), "") or _guess_encoding(data)
    whole = io.IncrementalNewlineDecoder(codecs.getincrementaldecoder(encoding)("replace"), translate=True)
    parts = [
        whole.decode(data[at : at + _CHUNK_BYTES]).replace("\0", "\ufffd") for at in range(0, len(data), _CHUNK_BYTES)
    ]
    return "".join((*parts, whole.decode(b"", final=True)))


def _guess_encoding(data: bytes) -> str:
    """Returns the encoding of the first chunk, up to the end of a line: a split character would mislead."""
    beginning = data[:_CHUNK_BYTES]
    return decode(beginning[: beginning.rfind(b"\n")]).encoding


def skip_reason(error: ToolyardError) -> str:
    """Returns the error as a reason for skipping a file."""
    if isinstance(error, ValidationError) and error.fields:
        return error.fields[0].error
    return error.message.rstrip(".")


def _is_withheld(ctx: CallContext, target: Target, *, is_named: bool) -> bool:
    """Whether the file is withheld because of its name.

    A file that the caller named is sent, unless it is a link to a secret file.
    """
    workspace = ctx.mounts.workspace.path
    if is_named and (target.path == target.real or is_secret_by_name(target.path, workspace)):
        return False
    return is_secret_by_name(target.real, workspace)


def _read_sample(target: Target) -> bytes:
    fd = target.handle.reopen_fd(os.O_RDONLY)
    try:
        return os.pread(fd, _SAMPLE_BYTES, 0)
    finally:
        os.close(fd)

"""One file, from its handle to text that can be sent; or the reason why it cannot.

Only a beginning is read to see that a file is no text. Large files are decoded a part at a time, so that other
threads have their turn.
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
    "is a file for secrets by its name; to name it sends it with known secrets masked: ask the user first"
)
_SAMPLE_BYTES = 8 * KIB
_CHUNK_BYTES = 256 * KIB
_DIGEST_BYTES = 16
# UTF-32's little-endian mark begins with UTF-16's, so it is tried first.
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
    """The text of a file. Raises ValidationError for one that is too large, SecurityError for no regular file."""
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
    r"""What a file says, with `\n` at the end of each line and a sign in place of what is no text."""
    if len(data) <= _CHUNK_BYTES:
        return with_lf(decode(data).printable).replace("\0", "\ufffd")
    encoding = next((name for mark, name in _BYTE_ORDER_MARKS if data.startswith(mark)), "") or _guess_encoding(data)
    whole = io.IncrementalNewlineDecoder(codecs.getincrementaldecoder(encoding)("replace"), translate=True)
    parts = [
        whole.decode(data[at : at + _CHUNK_BYTES]).replace("\0", "\ufffd") for at in range(0, len(data), _CHUNK_BYTES)
    ]
    return "".join((*parts, whole.decode(b"", final=True)))


def _guess_encoding(data: bytes) -> str:
    """The encoding of the beginning, up to the end of a line: a cut character would mislead."""
    beginning = data[:_CHUNK_BYTES]
    return decode(beginning[: beginning.rfind(b"\n")]).encoding


def skip_reason(error: ToolyardError) -> str:
    """The error as a reason for leaving a file out."""
    if isinstance(error, ValidationError) and error.fields:
        return error.fields[0].error
    return error.message.rstrip(".")


def _is_withheld(ctx: CallContext, target: Target, *, is_named: bool) -> bool:
    """Whether it is not sent for its name. One that was named is, unless it is a link to what was not."""
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

"""Parses a client's answers: one JSON object with the requested data, or an error.

A model writes them. A code fence around the object and unknown keys are ignored; nothing else is guessed or
completed. After an unusable answer, `FilesystemBridge` asks once more and gives the reason.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any, Final, Literal, NoReturn, TypeVar, cast

import pydantic
from pydantic import BaseModel, ConfigDict

from toolyard.bridge.errors import BadAnswerError, MissingFileError, UnreadableFileError, printable_text
from toolyard.bridge.timestamps import Timestamp

MAX_ANSWER_CHARS = 1_000_000
_SHOWN_ERRORS = 3
_FENCE: Final = re.compile(r"\s*```[A-Za-z]{0,12}[ \t]*\n(.*)\n[ \t]*```\s*", re.DOTALL)


class AnswerModel(BaseModel):
    """Base class of the possible answers, with strict types."""

    model_config = ConfigDict(strict=True, extra="ignore", allow_inf_nan=False)


T = TypeVar("T", bound=AnswerModel)


class _Failure(AnswerModel):
    path: str
    error: Literal["not_found", "permission_denied"]


class _Receipt(AnswerModel):
    path: str
    status: Literal["cached"]


class FileStatus(AnswerModel):
    """The size and modification time of a file, without its content."""

    path: str
    size: int
    mtime: Timestamp


def read_answer(text: str, model: type[T], path: str, wanted: str) -> T:
    """Parses an answer about `path`. Raises BadAnswerError, MissingFileError or UnreadableFileError."""
    raw = _parse_object(text, wanted)
    if "error" in raw:
        failure = _validate_answer(_Failure, raw, wanted)
        _require_path(failure.path, path, wanted)
        raise MissingFileError(path) if failure.error == "not_found" else UnreadableFileError(path)
    _require_path(raw.get("path"), path, wanted)
    return _validate_answer(model, raw, wanted)


def read_receipt(text: str, path: str, wanted: str) -> None:
    """Checks the confirmation that a file was pushed. Raises the same errors as `read_answer`."""
    read_answer(text, _Receipt, path, wanted)


def read_status(text: str, path: str, wanted: str) -> FileStatus:
    """Parses the status of a file. Raises the same errors as `read_answer`."""
    return read_answer(text, FileStatus, path, wanted)


def _parse_object(text: str, wanted: str) -> dict[str, Any]:
    """Parses `text` as a single JSON object, with or without a code fence."""
    if len(text) > MAX_ANSWER_CHARS:
        raise BadAnswerError(wanted, f"it is longer than {MAX_ANSWER_CHARS:,} characters")
    fenced = _FENCE.fullmatch(text)
    try:
        value: object = json.loads(
            fenced[1] if fenced else text, object_pairs_hook=_unique_keys, parse_constant=_refuse_constant
        )
    except RecursionError:
        raise BadAnswerError(wanted, "it is nested too deeply") from None
    except ValueError as error:
        raise BadAnswerError(wanted, f"it is not one JSON object alone ({_first_line(error)})") from None
    if not isinstance(value, dict):
        raise BadAnswerError(wanted, "it is not a JSON object")
    return cast("dict[str, Any]", value)


def _unique_keys(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    made = dict(pairs)
    if len(made) != len(pairs):
        raise ValueError("a key is repeated")
    return made


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not JSON")


def _first_line(error: ValueError) -> str:
    return str(error).partition("\n")[0]


def _require_path(answered_path: object, asked_path: str, wanted: str) -> None:
    if answered_path != asked_path:
        raise BadAnswerError(
            wanted,
            f"it is about {printable_text(answered_path)}" if isinstance(answered_path, str) else "it names no path",
        )


def _validate_answer(model: type[T], raw: Mapping[str, Any], wanted: str) -> T:
    try:
        return model.model_validate(raw)
    except pydantic.ValidationError as error:
        found = error.errors(include_url=False, include_context=False, include_input=False)
        why = "; ".join(f"{'.'.join(map(str, each['loc']))}: {each['msg']}" for each in found[:_SHOWN_ERRORS])
        raise BadAnswerError(wanted, printable_text(why)) from None

"""A client's answers: one JSON object about what was asked, or an error.

A model writes them. A code fence around the object and unknown keys are ignored; nothing else is guessed or
completed. An answer that cannot be used is asked for once more (`FilesystemBridge`), with the reason.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any, Final, Literal, NoReturn, TypeVar, cast

import pydantic
from pydantic import BaseModel, ConfigDict

from toolyard.bridge.errors import BadAnswerError, MissingFileError, UnreadableFileError, spelled
from toolyard.bridge.timestamps import Timestamp

MOST_CHARS = 1_000_000
_SHOWN_ERRORS = 3
_FENCE: Final = re.compile(r"\s*```[A-Za-z]{0,12}[ \t]*\n(.*)\n[ \t]*```\s*", re.DOTALL)


class Said(BaseModel):
    """A shape that an answer may have, every value of its type."""

    model_config = ConfigDict(strict=True, extra="ignore", allow_inf_nan=False)


T = TypeVar("T", bound=Said)


class _Failure(Said):
    path: str
    error: Literal["not_found", "permission_denied"]


class _Receipt(Said):
    path: str
    status: Literal["cached"]


class FileStatus(Said):
    """What a client says of a file without handing it over."""

    path: str
    size: int
    mtime: Timestamp


def read_answer(text: str, model: type[T], path: str, wanted: str) -> T:
    """An answer about `path`. Raises BadAnswerError, MissingFileError or UnreadableFileError."""
    raw = _object(text, wanted)
    if "error" in raw:
        failure = _checked(_Failure, raw, wanted)
        _require_path(failure.path, path, wanted)
        raise MissingFileError(path) if failure.error == "not_found" else UnreadableFileError(path)
    _require_path(raw.get("path"), path, wanted)
    return _checked(model, raw, wanted)


def read_receipt(text: str, path: str, wanted: str) -> None:
    """That a file was handed over. Raises as `read_answer` does."""
    read_answer(text, _Receipt, path, wanted)


def read_status(text: str, path: str, wanted: str) -> FileStatus:
    """Raises as `read_answer` does."""
    return read_answer(text, FileStatus, path, wanted)


def _object(text: str, wanted: str) -> dict[str, Any]:
    """The one JSON object that `text` is, in a code fence or not."""
    if len(text) > MOST_CHARS:
        raise BadAnswerError(wanted, f"it is longer than {MOST_CHARS:,} characters")
    fenced = _FENCE.fullmatch(text)
    try:
        value: object = json.loads(fenced[1] if fenced else text, object_pairs_hook=_unique, parse_constant=_refuse)
    except RecursionError:
        raise BadAnswerError(wanted, "it is nested too deeply") from None
    except ValueError as error:
        raise BadAnswerError(wanted, f"it is not one JSON object alone ({_first_line(error)})") from None
    if not isinstance(value, dict):
        raise BadAnswerError(wanted, "it is not a JSON object")
    return cast("dict[str, Any]", value)


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    made = dict(pairs)
    if len(made) != len(pairs):
        raise ValueError("a key stands there twice")
    return made


def _refuse(name: str) -> NoReturn:
    raise ValueError(f"{name} is no JSON")


def _first_line(error: ValueError) -> str:
    return str(error).partition("\n")[0]


def _require_path(said: object, asked: str, wanted: str) -> None:
    if said != asked:
        raise BadAnswerError(wanted, f"it is about {spelled(said)}" if isinstance(said, str) else "it names no path")


def _checked(model: type[T], raw: Mapping[str, Any], wanted: str) -> T:
    try:
        return model.model_validate(raw)
    except pydantic.ValidationError as error:
        found = error.errors(include_url=False, include_context=False, include_input=False)
        why = "; ".join(f"{'.'.join(map(str, each['loc']))}: {each['msg']}" for each in found[:_SHOWN_ERRORS])
        raise BadAnswerError(wanted, spelled(why)) from None

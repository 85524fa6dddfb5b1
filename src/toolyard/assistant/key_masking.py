"""Masks the API keys of this process in nested values, on their way in or out."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeAlias, TypeVar, cast

from pydantic import BaseModel

M = TypeVar("M", bound=BaseModel)
Mask: TypeAlias = Callable[[str], str]


def mask_api_keys(value: Any, mask: Mask) -> Any:
    """Returns a JSON value with `mask` applied to every string in it."""
    if isinstance(value, str):
        return mask(value)
    if isinstance(value, list | tuple):
        return [mask_api_keys(each, mask) for each in cast("list[Any]", value)]
    if isinstance(value, Mapping):
        return {name: mask_api_keys(each, mask) for name, each in cast("Mapping[str, Any]", value).items()}
    return value


def mask_argument_keys(arguments: M, mask: Mask) -> M:
    """Returns masked arguments; the same object if nothing changed, so that `model_fields_set` is preserved."""
    values = {name: getattr(arguments, name) for name in type(arguments).model_fields}
    clean = {name: mask_api_keys(value, mask) for name, value in values.items()}
    changed = {name: value for name, value in clean.items() if value != values[name]}
    return arguments.model_copy(update=changed) if changed else arguments

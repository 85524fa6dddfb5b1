"""The keys that this process holds, taken out of values on their way in or out, however deep in them they are."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeAlias, TypeVar, cast

from pydantic import BaseModel

M = TypeVar("M", bound=BaseModel)
Mask: TypeAlias = Callable[[str], str]


def without_keys(value: Any, mask: Mask) -> Any:
    """Of what JSON can be."""
    if isinstance(value, str):
        return mask(value)
    if isinstance(value, list | tuple):
        return [without_keys(each, mask) for each in cast("list[Any]", value)]
    if isinstance(value, Mapping):
        return {name: without_keys(each, mask) for name, each in cast("Mapping[str, Any]", value).items()}
    return value


def arguments_without_keys(given: M, mask: Mask) -> M:
    """The arguments themselves where they hold none: which of them were given is known of them still."""
    held = {name: getattr(given, name) for name in type(given).model_fields}
    clean = {name: without_keys(value, mask) for name, value in held.items()}
    changed = {name: value for name, value in clean.items() if value != held[name]}
    return given.model_copy(update=changed) if changed else given

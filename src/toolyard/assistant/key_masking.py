"""The keys that this process holds, taken out of values on their way in or out, however deep in them they are."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeAlias, TypeVar, cast

from pydantic import BaseModel

M = TypeVar("M", bound=BaseModel)
Mask: TypeAlias = Callable[[str], str]


def mask_api_keys(value: Any, mask: Mask) -> Any:
    """Of what JSON can be."""
    if isinstance(value, str):
        return mask(value)
    if isinstance(value, list | tuple):
        return [mask_api_keys(each, mask) for each in cast("list[Any]", value)]
    if isinstance(value, Mapping):
        return {name: mask_api_keys(each, mask) for name, each in cast("Mapping[str, Any]", value).items()}
    return value


def mask_argument_keys(arguments: M, mask: Mask) -> M:
    """The arguments themselves where they hold none: which of them were given is known of them still."""
    held = {name: getattr(arguments, name) for name in type(arguments).model_fields}
    clean = {name: mask_api_keys(value, mask) for name, value in held.items()}
    changed = {name: value for name, value in clean.items() if value != held[name]}
    return arguments.model_copy(update=changed) if changed else arguments

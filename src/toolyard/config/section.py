"""The base class of all configuration sections: frozen, and with unknown keys refused."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, cast

from pydantic import BaseModel, ConfigDict, Field, model_validator
from pydantic_core import PydanticCustomError

UNKNOWN_KEY = "unknown_key"
REFUSED = "refused"
"""The type of a validation error whose message is complete as it is.

Its context may have a `hint`, and as `at` the path from the validated value to the wrong one.
"""

Seconds = Annotated[float, Field(gt=0, allow_inf_nan=False)]
Size = Annotated[int, Field(gt=0)]


class Section(BaseModel):
    """A mapping in the file. An unknown key is an error with a suggestion."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

    internal: ClassVar[frozenset[str]] = frozenset()
    """Fields set by the loader, which are not keys of the file."""
    other_spellings: ClassVar[frozenset[str]] = frozenset()
    """Keys that the loader rewrites before it validates."""

    @classmethod
    def keys_of_file(cls) -> frozenset[str]:
        return (frozenset(cls.model_fields) - cls.internal) | cls.other_spellings

    @model_validator(mode="before")
    @classmethod
    def _refuse_unknown_keys(cls, raw: Any) -> Any:
        if raw is None:
            return {}
        if not isinstance(raw, Mapping):
            return raw
        valid = cls.keys_of_file()
        keys = cast("Mapping[object, object]", raw)
        unknown = [str(key) for key in keys if key not in valid]
        if unknown:
            context = {"unknown": unknown, "valid": sorted(valid), "section": cls}
            raise PydanticCustomError(UNKNOWN_KEY, "unknown keys {unknown}", context)
        return keys


def expected_error(description: str) -> PydanticCustomError:
    """Returns the validation error of a value that is not `description`."""
    return PydanticCustomError("expected", "expected {expected}", {"expected": description})

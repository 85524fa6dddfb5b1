"""What every mapping of the configuration file has in common: it is frozen and knows its keys."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, cast

from pydantic import BaseModel, ConfigDict, Field, model_validator
from pydantic_core import PydanticCustomError

UNKNOWN_KEY = "unknown_key"
REFUSED = "refused"
"""The error of a value whose message says all there is to say.

Its context may have a `hint`, and with `at` the steps from what was validated to what is wrong.
"""

Seconds = Annotated[float, Field(gt=0, allow_inf_nan=False)]
Size = Annotated[int, Field(gt=0)]


class Section(BaseModel):
    """A mapping of the file. Knows which keys it takes, so that an unknown one can be answered with a guess."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

    internal: ClassVar[frozenset[str]] = frozenset()
    """Fields set by the loader, which are no keys of the file."""
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
    """The error of a value that is something else than `description`."""
    return PydanticCustomError("expected", "expected {expected}", {"expected": description})

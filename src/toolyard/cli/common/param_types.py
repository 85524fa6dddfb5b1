"""Click parameter types: names with suggestions, positive numbers and toolsets."""

from __future__ import annotations

import math
from typing import Any

import click

from toolyard.app.toolsets import Toolsets, parse_toolsets
from toolyard.config.suggestions import closest_match
from toolyard.core.errors import ValidationError


class NameChoice(click.Choice[str]):
    """One of a few names; an unknown name gets a suggestion."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        try:
            return super().convert(value, param, ctx)
        except click.BadParameter as error:
            meant = closest_match(str(value), map(str, self.choices))
            if not meant:
                raise
            raise click.BadParameter(f'{error.message} Did you mean "{meant}"?', ctx, param) from None


class PositiveNumber(click.FloatRange):
    """A finite number above zero: `nan` would disable a limit, and omitting the option means no limit."""

    def __init__(self) -> None:
        super().__init__(min=0, min_open=True)

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        number = float(super().convert(value, param, ctx))
        if not math.isfinite(number):
            raise click.BadParameter(f"{value!r} is not a finite number.", ctx, param)
        return number


def parse_toolsets_option(context: click.Context, option: click.Parameter, value: str) -> Toolsets:
    """Parses the value of `--tools`."""
    del context, option
    try:
        return parse_toolsets(value)
    except ValidationError as error:
        raise click.BadParameter(f"{error.fields[0].error}. {error.hint}") from None

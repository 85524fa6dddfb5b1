"""Parses YAML into values with line numbers.

PyYAML's safe composer does the parsing; this module converts its nodes to `LocatedValue`, so that every later error
can name a line. It refuses features that only an attacker needs: tags, repeated keys, exponentially expanding
aliases, and excessive nesting.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from typing import TYPE_CHECKING, cast

import yaml

from toolyard.core.errors import ConfigError

MAX_ALIAS_EXPANSIONS = 1_000
MAX_VALUES = 100_000
MAX_DEPTH = 64
_MAX_EVENTS = 4 * MAX_VALUES
"""At most four parser events per value: a key, a value, and the start and end of a collection."""
_MAX_NUMBER_BITS = 1_024
_MAX_PURE_PARSER_CHARS = 256 * 1024
"""Size limit for the pure Python parser, which is far slower than the C parser."""

_TAG = "tag:yaml.org,2002:"
_MERGE = _TAG + "merge"
_TYPED_SCALARS = frozenset(_TAG + name for name in ("int", "float", "bool", "null"))
# Dates are treated as text; so are `=` and `<<` used as values.
_TEXT_SCALARS = frozenset(_TAG + name for name in ("str", "timestamp", "value", "merge"))

if TYPE_CHECKING:
    from collections.abc import Iterable

    _Loader = yaml.SafeLoader | yaml.CSafeLoader

Scalar = str | int | float | bool | None
Plain = Scalar | list["Plain"] | dict[str, "Plain"]


@dataclass(slots=True)
class LocatedValue:
    """A value and its line. The lines of keys are in `key_lines`."""

    line: int
    value: Scalar | list[LocatedValue] | dict[str, LocatedValue]
    key_lines: dict[str, int]
    written_as: str = ""
    """The key in the file, if the loader has moved the value to another key."""
    template: str = ""
    """The text in the file, if the loader has expanded variables in it."""

    def to_plain(self) -> Plain:
        if isinstance(self.value, dict):
            return {key: item.to_plain() for key, item in self.value.items()}
        if isinstance(self.value, list):
            return [item.to_plain() for item in self.value]
        return self.value


def parse_yaml(text: str, *, name: str) -> LocatedValue | None:
    """Parses the single document of `text`. Returns None if it is empty."""
    try:
        loader = _create_loader(text, name)
        try:
            node = loader.get_single_node()
            return None if node is None else _TreeBuilder(loader, name).build(node)
        finally:
            loader.dispose()
    except RecursionError:
        raise _too_deep_error(name) from None
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        where = f"{name}:{mark.line + 1}" if mark else name
        if mark is not None and _is_tab_before_text(text, mark):
            raise ConfigError(
                "is not valid YAML: the line begins with a tab, and YAML allows no tabs for indentation",
                where=where,
                hint="Indent with spaces.",
            ) from None
        problem = error.problem or error.context or "cannot be parsed"
        raise ConfigError(
            f"is not valid YAML: {problem}", where=where, hint="Check the indentation, quotes and colons there."
        ) from None
    except yaml.YAMLError as error:
        first = str(error).partition("\n")[0]
        raise ConfigError(f"is not valid YAML: {first}", where=name, hint="Save it as plain UTF-8 text.") from None


def _is_tab_before_text(text: str, mark: yaml.Mark) -> bool:
    line = next(itertools.islice(text.split("\n"), mark.line, None), "")
    return line[mark.column : mark.column + 1] == "\t" and not line[: mark.column].strip()


def _create_loader(text: str, name: str) -> _Loader:
    """Returns the C loader, which is much faster, if it can parse the text; otherwise the pure Python loader.

    The C loader composes on the C stack, where Python cannot stop it, so deeply nested text must not reach it. For
    invalid text the pure loader gives better errors.
    """
    fast: type[_Loader] | None = getattr(yaml, "CSafeLoader", None)  # an installation may lack it
    return fast(text) if fast is not None and _fast_loader_accepts(text, name, fast) else yaml.SafeLoader(text)


def _fast_loader_accepts(text: str, name: str, fast: type[_Loader]) -> bool:
    """Whether the C parser accepts the text. Text that is too deep or too large is refused here."""
    depth = 0
    try:
        events = cast("Iterable[yaml.Event]", yaml.parse(text, Loader=fast))  # pyright: ignore[reportUnknownMemberType]
        for number, event in enumerate(events):
            if isinstance(event, yaml.CollectionStartEvent):
                depth += 1
            elif isinstance(event, yaml.CollectionEndEvent):
                depth -= 1
            if depth > MAX_DEPTH:
                raise _too_deep_error(name)
            if number > _MAX_EVENTS:
                raise _too_many_error(name)
    except yaml.YAMLError:
        if len(text) > _MAX_PURE_PARSER_CHARS:
            raise
        return False
    return True


def _too_deep_error(where: str) -> ConfigError:
    return ConfigError("is nested too deeply", where=where, hint=f"Use at most {MAX_DEPTH} levels.")


def _too_many_error(where: str) -> ConfigError:
    limit = f"At most {MAX_ALIAS_EXPANSIONS} aliased values and {MAX_VALUES} values in total are allowed."
    return ConfigError("contains too many values for a configuration", where=where, hint=limit)


class _TreeBuilder:
    def __init__(self, loader: _Loader, name: str) -> None:
        self._loader = loader
        self._name = name
        self._seen_nodes: set[int] = set()
        self._open_nodes: set[int] = set()
        self._values = 0
        self._expansions = 0

    def build(self, node: yaml.Node) -> LocatedValue:
        line = node.start_mark.line + 1
        self._count_value(node, line)
        if isinstance(node, yaml.ScalarNode):
            return LocatedValue(line, self._build_scalar(node, line), {})
        if id(node) in self._open_nodes:
            raise self._error("an alias contains itself", line, "Write the value out instead.")
        if len(self._open_nodes) >= MAX_DEPTH:
            raise _too_deep_error(f"{self._name}:{line}")
        self._open_nodes.add(id(node))
        try:
            if isinstance(node, yaml.SequenceNode):
                self._refuse_tag(node, _TAG + "seq", line)
                return LocatedValue(line, [self.build(item) for item in node.value], {})
            if isinstance(node, yaml.MappingNode):
                self._refuse_tag(node, _TAG + "map", line)
                return self._build_mapping(node, line)
        finally:
            self._open_nodes.discard(id(node))
        raise self._error("is not a value, a list or a mapping", line, "Write plain YAML.")

    def _build_mapping(self, node: yaml.MappingNode, line: int) -> LocatedValue:
        own: dict[str, LocatedValue] = {}
        merged: dict[str, LocatedValue] = {}
        lines: dict[str, int] = {}
        merged_lines: dict[str, int] = {}
        for key_node, value_node in cast("list[tuple[yaml.Node, yaml.Node]]", node.value):
            key_line = key_node.start_mark.line + 1
            if not isinstance(key_node, yaml.ScalarNode):
                raise self._error("a key must be plain text", key_line, "Use a name as the key.")
            if key_node.tag == _MERGE:
                for source in self._merge_sources(value_node, key_line):
                    for key, item in cast("dict[str, LocatedValue]", source.value).items():
                        merged.setdefault(key, item)
                        merged_lines.setdefault(key, source.key_lines[key])
                continue
            key = str(key_node.value)
            if key in own:
                hint = f"It is already set on line {lines[key]}; keep one of the two."
                raise self._error(f'the key "{key}" appears twice', key_line, hint)
            own[key] = self.build(value_node)
            lines[key] = key_line
        return LocatedValue(line, {**merged, **own}, {**merged_lines, **lines})

    def _merge_sources(self, node: yaml.Node, line: int) -> list[LocatedValue]:
        built = self.build(node)
        sources = built.value if isinstance(built.value, list) else [built]
        if not all(isinstance(source.value, dict) for source in sources):
            raise self._error("`<<` needs a mapping, or a list of mappings", line, "Give it an alias of a mapping.")
        return sources

    def _build_scalar(self, node: yaml.ScalarNode, line: int) -> Scalar:
        text = str(node.value)
        if node.tag in _TEXT_SCALARS:
            return text
        if node.tag not in _TYPED_SCALARS:
            raise self._error(f"the tag {node.tag} is not supported", line, "Write a plain value.")
        try:
            value = cast("Scalar", self._loader.construct_object(node))  # pyright: ignore[reportUnknownMemberType]
        except ValueError:
            value = None
            is_readable = False
        else:
            # Sexagesimal and hexadecimal notation allow numbers of any size, which cannot be converted back to text.
            is_readable = not isinstance(value, int) or value.bit_length() <= _MAX_NUMBER_BITS
        if not is_readable:
            raise self._error("is not a number that can be read", line, "Quote it if it is text.")
        return value

    def _count_value(self, node: yaml.Node, line: int) -> None:
        self._values += 1
        if id(node) in self._seen_nodes:
            self._expansions += 1
        self._seen_nodes.add(id(node))
        if self._expansions > MAX_ALIAS_EXPANSIONS or self._values > MAX_VALUES:
            raise _too_many_error(f"{self._name}:{line}")

    def _refuse_tag(self, node: yaml.Node, usual: str, line: int) -> None:
        if node.tag != usual:
            raise self._error(f"the tag {node.tag} is not supported", line, "Write a plain list or mapping.")

    def _error(self, message: str, line: int, hint: str) -> ConfigError:
        return ConfigError(message, where=f"{self._name}:{line}", hint=hint)

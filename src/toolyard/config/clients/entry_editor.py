"""Finds, adds and removes our entry in the text of a client's file. It does no I/O.

Every edit is verified: the new text is parsed and compared with the intended result. A layout that cannot be edited
safely is refused, never damaged.
"""

from __future__ import annotations

import json
import tomllib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final, cast

from toolyard.config.clients import json_text, toml_text
from toolyard.config.clients.clients import Entry, is_toolyard_entry
from toolyard.config.jsonc import parse_jsonc
from toolyard.core.errors import ConfigError, ToolError

_REPAIR_HINT: Final = "Repair the file, then try again. Nothing was written."
_MANUAL_HINT: Final = "Edit the file by hand, or simplify that section and try again."


@dataclass(frozen=True, slots=True)
class ClientDocument:
    """A client's file; the file name extension determines its format."""

    path: str
    section: str
    text: str

    @property
    def is_toml(self) -> bool:
        return self.path.endswith(".toml")

    def parse(self) -> dict[str, Any]:
        """Parses the text. Raises ConfigError if it is invalid, also for the client."""
        if self.is_toml:
            try:
                return tomllib.loads(self.text)
            except (tomllib.TOMLDecodeError, RecursionError) as error:
                raise ConfigError(f"is not valid TOML: {error}", where=self.path, hint=_REPAIR_HINT) from None
        if not self.text.strip():
            return {}
        value = parse_jsonc(self.text, name=self.path)
        if not isinstance(value, dict):
            raise ConfigError("is not an object", where=self.path, hint=_REPAIR_HINT)
        return cast("dict[str, Any]", value)

    def servers(self) -> Mapping[str, Any]:
        found = self.parse().get(self.section, {})
        if not isinstance(found, Mapping):
            raise ConfigError(f"`{self.section}` is not a map of servers by name", where=self.path, hint=_REPAIR_HINT)
        return cast("Mapping[str, Any]", found)

    def entry(self, name: str) -> Any:
        """Returns the entry of that name; None if there is none."""
        return self.servers().get(name)

    def has_entry(self, name: str, entry: Entry) -> bool:
        """Whether the file already has the entry. Additional keys, set by the user, are ignored."""
        found = self.entry(name)
        return isinstance(found, Mapping) and all(
            cast("Mapping[str, Any]", found).get(key) == value for key, value in entry.items()
        )

    def with_entry(self, name: str, entry: Entry, *, force: bool = False) -> str:
        """Returns the text with the entry.

        An existing entry of ours keeps the keys that the user added; replacing another server's needs `force`.
        """
        found = self.entry(name)
        if found is not None and not is_toolyard_entry(found):
            if not force:
                raise ToolError(
                    f'{self.path} has another server called "{name}"; nothing was changed.',
                    hint="Choose another name with --name, or replace it with --force.",
                )
            without = ClientDocument(self.path, self.section, self.without_entry(name, keep_section=True))
            return without.with_entry(name, entry)
        wanted = self.parse()
        kept = wanted.setdefault(self.section, {}).setdefault(name, {})
        kept.update(entry)
        if self.is_toml:
            return self._verify_edit(lambda: toml_text.with_table(self.text, (self.section, name), entry), wanted)
        if found is None:
            return self._verify_edit(
                lambda: json_text.with_member(self.text, (self.section, name), dict(entry)), wanted
            )
        return self._verify_edit(lambda: self._update_entry_text(name, entry), wanted)

    def without_entry(self, name: str, *, keep_section: bool) -> str:
        """Returns the text without that entry. The section is removed with its last entry, unless `keep_section`."""
        wanted = self.parse()
        servers = wanted[self.section]
        del servers[name]
        path = (self.section, name)
        if self.is_toml:
            return self._verify_edit(lambda: toml_text.without_table(self.text, path), wanted)
        if not servers and not keep_section:
            path = (self.section,)
        return self._verify_edit(lambda: json_text.without_member(self.text, path), wanted)

    def _update_entry_text(self, name: str, entry: Entry) -> str:
        text, former = self.text, self.entry(name)
        for key, value in entry.items():
            if former.get(key) != value:
                text = json_text.with_member(text, (self.section, name, key), value)
        return text

    def _verify_edit(self, make: Callable[[], str], wanted: dict[str, Any]) -> str:
        """Returns the text that `make` produces if it parses as `wanted`. An empty section equals a missing one."""
        try:
            text = make()
            if _canonical_text(
                ClientDocument(self.path, self.section, text).parse(), self.section
            ) == _canonical_text(wanted, self.section):
                return text
        except (json_text.LayoutError, ConfigError, RecursionError):
            pass  # reported below with a useful hint
        raise ConfigError(
            f"`{self.section}` has a layout that cannot be edited safely; nothing was written.",
            where=self.path,
            hint=_MANUAL_HINT,
        )


def _canonical_text(document: dict[str, Any], section: str) -> str:
    """Returns a text for comparing documents: 1 differs from 1.0, and NaN equals itself."""
    kept = {key: value for key, value in document.items() if key != section or value}
    return json.dumps(kept, sort_keys=True, default=repr)

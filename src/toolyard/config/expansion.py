"""Expands variables in text.

    ${VAR}  ${env:VAR}      the value of a host variable; an error if it is not set
    ${VAR:-default}         the same, or `default` if it is not set or empty
    ${file:path}            the content of a file, without its last line break (in server entries)
    $${                     the text `${`

`expand_entry` does this for one server entry when the server is started; `unset_variables` reports in advance what
would be missing. Errors name the variable and the server, never a value.
"""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

from toolyard.config.server_entry import ServerEntry
from toolyard.config.source_text import read_text
from toolyard.core.errors import ConfigError
from toolyard.core.limits import MIB

INPUT_PREFIX: Final = "TOOLYARD_INPUT_"
"""Prefix of the variables that replace inputs an editor would prompt for (`${input:token}`)."""
MAX_FILE_BYTES: Final = 1 * MIB

_REFERENCE: Final = re.compile(
    r"\$\$\{|\$\{(?:(?:env:)?(?P<name>[A-Za-z_][A-Za-z0-9_]*)(?::-(?P<default>[^}]*))?\}|file:(?P<file>[^}]+)\})?"
)
_ENV_LINE: Final = re.compile(r"\s*(?:export\s+)?([A-Za-z_][A-Za-z0-9_.]*)\s*=\s*(.*?)\s*")
_COMMENT: Final = re.compile(r"(?:^|\s)#.*$")

ReadFile = Callable[[str], str]


def expand_text(
    text: str, variables: Mapping[str, str] | None, *, where: str, read_file: ReadFile | None = None
) -> str:
    """Returns `text` with its variables expanded. `where` is its location for errors.

    With `variables=None`, any variable is an error: a rule with an unexpanded variable would protect nothing.
    """

    def replace_reference(match: re.Match[str]) -> str:
        if match[0] == "$${":
            return "${"
        if match["file"] and read_file is not None:
            return read_file(match["file"])
        if not match["name"]:
            raise ConfigError(
                "contains a `${` that is neither ${VAR} nor ${VAR:-default}",
                where=where,
                hint="Write `$${` for the text `${`.",
            )
        if variables is None:
            raise ConfigError(
                f"it uses the variable {match['name']} from your environment, but is not trusted.",
                where=where,
                hint=trust_hint(where.rpartition(":")[0]),
            )
        return _variable_value(match["name"], match["default"], variables, where)

    return _REFERENCE.sub(replace_reference, text) if "${" in text else text


def trust_hint(path: str) -> str:
    """Returns the hint for a discovered configuration that requests more than an untrusted one may have."""
    quoted = shlex.quote(path)
    return f"Read it. If you trust it, run `toolyard trust {quoted}`, or name it for one command: --config {quoted}"


def _variable_value(name: str, default: str | None, variables: Mapping[str, str], where: str) -> str:
    found = variables.get(name)
    if default is not None:
        return found or default
    if found is not None:
        return found
    if name.startswith(INPUT_PREFIX):
        asked = name.removeprefix(INPUT_PREFIX).lower()
        raise ConfigError(
            f"the editor that this entry comes from would prompt for the input {asked!r}",
            where=where,
            hint=f"Set the variable {name} to it before Toolyard starts.",
        )
    raise ConfigError(
        f"the variable {name} is not set",
        where=where,
        hint=f"Set it, or give a default: ${{{name}:-value}}.",
    )


def expand_entry(entry: ServerEntry, environment: Mapping[str, str]) -> ServerEntry:
    """Returns the entry ready to start: variables expanded, paths absolute, the variables of `env_file` in `env`."""
    where = entry.origin or f'server "{entry.name}"'  # the caller adds the server's name
    home = environment.get("HOME", "")

    def absolute_path(text: str) -> str:
        if text == "~" or text.startswith("~/"):
            text = home + text[1:]
        return os.path.normpath(os.path.join(entry.base, text)) if entry.base else text

    def read_file(name: str) -> str:
        hint = "Check the path, or write the value of a variable instead."
        return read_text(absolute_path(name), max_bytes=MAX_FILE_BYTES, hint=hint).rstrip("\r\n")

    def expand_value(text: str) -> str:
        return expand_text(text, environment, where=where, read_file=read_file)

    changes: dict[str, Any] = {
        "args": tuple(expand_value(word) for word in entry.args),
        "env": {name: expand_value(value) for name, value in entry.env.items()},
        "headers": {name: expand_value(value) for name, value in entry.headers.items()},
    }
    if isinstance(entry.command, str):
        changes["command"] = expand_value(entry.command)
    elif entry.command is not None:
        changes["command"] = tuple(expand_value(word) for word in entry.command)
    if entry.url is not None:
        changes["url"] = expand_value(entry.url)
    if entry.cwd is not None or entry.base:
        changes["cwd"] = absolute_path(expand_value(entry.cwd or "."))
    if entry.env_file is not None:
        file = absolute_path(expand_value(entry.env_file))
        changes["env"] = {**read_env_file(file), **changes["env"]}
        changes["env_file"] = None
    if entry.oauth is not None:
        texts = ("client_id", "client_secret", "redirect_uri")
        given = {name: expand_value(value) for name in texts if (value := getattr(entry.oauth, name)) is not None}
        changes["oauth"] = entry.oauth.model_copy(update=given)
    return entry.model_copy(update=changes)


def unset_variables(entry: ServerEntry, environment: Mapping[str, str]) -> tuple[str, ...]:
    """Returns the unset variables that the server needs to start, in the order of the entry, without duplicates."""
    found = (match for text in _entry_texts(entry) for match in _REFERENCE.finditer(text))
    wanted = (match["name"] for match in found if match["name"] and match["default"] is None)
    return tuple(dict.fromkeys(name for name in wanted if name not in environment))


def _entry_texts(entry: ServerEntry) -> Iterator[str]:
    """Yields every text of an entry that may contain a variable."""
    yield from entry.command_line
    yield from entry.env.values()
    yield from entry.headers.values()
    alone = [entry.url, entry.cwd, entry.env_file]
    if entry.oauth is not None:
        alone += [entry.oauth.client_id, entry.oauth.client_secret, entry.oauth.redirect_uri]
    yield from (text for text in alone if text is not None)


def read_env_file(path: str) -> dict[str, str]:
    """Returns the variables of a file of `NAME=value` lines. Quotes are removed; nothing is expanded."""
    text = read_text(path, max_bytes=MAX_FILE_BYTES, hint="It is the `env_file` of a server: check its path.")
    found: dict[str, str] = {}
    for number, line in enumerate(text.splitlines(), 1):
        if not line.strip() or line.lstrip().startswith("#"):
            continue
        match = _ENV_LINE.fullmatch(line)
        if match is None:
            raise ConfigError("is not NAME=value", where=f"{path}:{number}", hint="Write one variable per line.")
        found[match[1]] = _unquote(match[2])
    return found


def _unquote(value: str) -> str:
    for quote in ("'", '"'):
        end = value.find(quote, 1)
        if value.startswith(quote) and end > 0:
            inside = value[1:end]
            return inside.replace("\\n", "\n") if quote == '"' else inside
    return _COMMENT.sub("", value)

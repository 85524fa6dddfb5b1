"""Replaces values in a server entry that look like secrets with variables when the entry is copied.

A copy of a secret would be one more place to leak it from, often a file under version control. So the value stays in
its original file, `${VAR}` is written instead, and the user is asked to set the variable. In doubt a value counts as
a secret: a false positive costs a variable, a false negative a secret. No message contains a value.
"""

from __future__ import annotations

import itertools
import re
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import SplitResult, urlsplit

from toolyard.config.server_entry import ServerEntry

_SECRET_WORDS: Final = frozenset(
    {
        *("key", "apikey", "token", "secret", "password", "passwd", "pwd", "pass", "passphrase", "pat", "auth"),
        *("authorization", "credential", "credentials", "cookie", "session", "dsn", "private", "bearer", "webhook"),
    }
)
_ENDINGS: Final = ("key", "token", "secret", "password", "passwd", "pass")
_LOCATION_WORDS: Final = frozenset({"path", "file", "dir", "folder", "url", "uri", "id", "name"})
"""Last words of names that do not denote a secret themselves: `SSH_KEY_PATH` contains a path, not a key."""
_WORD: Final = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+")
_PREFIX: Final = re.compile(
    r"(?:sk|pk|rk|gh[pousr]|github_pat|glpat|xox[abeprs]|npm|hf|lin_api|ntn|secret|figd|shpat|tvly|fc|pplx|gsk|r8|pat)"
    r"[-_][A-Za-z0-9_-]{8,}|(?:AKIA|ASIA|AIza|ya29\.|SG\.)[A-Za-z0-9_.-]{10,}|eyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_.-]+"
)
_TOKEN: Final = re.compile(r"[A-Za-z0-9_+=.-]{20,}")
_HEX: Final = re.compile(r"[0-9a-fA-F-]{32,}")
_MIN_DIGITS: Final = 3
_PASSWORD_IN_ADDRESS: Final = re.compile(r"://[^/\s:@]*:(?!\$\{)[^/\s@]+@")
_INLINE_SECRET: Final = re.compile(
    r"(?:^|[;&?,\s])(?:[\w-]*(?:key|token|secret)|password|passwd|pwd)=(?!\$\{)[^;&,\s]{4,}"
    r"|(?:key|token|secret|password|passwd|pwd)[\"']\s*:\s*[\"'](?!\$\{)[^\"']{4,}"
    r"|-----BEGIN [A-Z ]*PRIVATE KEY-----",
    re.IGNORECASE,
)
"""`Server=x;Password=y`, `?api_key=z`, `{"apiKey": "x"}`, and PEM keys."""
_REFERENCE: Final = re.compile(r"(?<!\$)\$\{[^}]*\}")
_BESIDE_REFERENCE: Final = re.compile(r"[A-Za-z0-9_-]{8,}")
"""Text beside a variable that is long enough to be part of a secret: `Bearer ` is not."""
_BETWEEN_PARTS: Final = re.compile(r"[/?&=#:@;,\s]+")
_HARMLESS: Final = re.compile(r".{0,3}|\d{1,6}|true|false|none|null|yes|no|default|enabled|disabled", re.IGNORECASE)
_SCHEME: Final = re.compile(r"(?P<before>(?:Bearer|Basic|Token|ApiKey)\s+)(?P<value>\S.*)", re.IGNORECASE)
_SCHEME_WORD: Final = re.compile(r"\b(?:Bearer|Basic|Token|ApiKey)\s", re.IGNORECASE)
_ASSIGNED: Final = re.compile(r"(?P<before>(?P<name>-{0,2}[A-Za-z_][\w.-]*)=)(?P<value>.+)", re.DOTALL)
_HEADER: Final = re.compile(r"(?P<before>(?P<name>[A-Za-z][\w-]*):\s*)(?P<value>[^/\s].*)", re.DOTALL)
_PARAMETER: Final = re.compile(r"(?P<name>[^=&?#]+)=(?P<value>[^&#]+)")
_DEFAULT: Final = re.compile(r"\$\{(?:env:)?(?P<name>[A-Za-z_]\w*):-(?P<value>[^}]*)\}")
_INVALID_NAME_CHARS: Final = re.compile(r"[^A-Za-z0-9]+")
_VARIABLE: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


@dataclass(frozen=True, slots=True)
class ExtractedSecret:
    """A secret that was not copied and the variable that replaces it."""

    variable: str
    """The variable that the user must set to the secret."""
    server: str
    place: str
    """The key of the entry that contains it: `env.TOKEN`, `args` ..."""
    origin: str
    """The file that contains it."""


def looks_secret(name: str, value: str) -> bool:
    """Whether a value of that name looks like a secret."""
    if _HARMLESS.fullmatch(value):
        return False
    if _PASSWORD_IN_ADDRESS.search(value) or _INLINE_SECRET.search(value) or _is_token(value):
        return True
    if "://" in value and any(map(_is_token, _BETWEEN_PARTS.split(value))):
        return True
    words = [word.lower() for word in _WORD.findall(name)]
    if "webhook" in words and "://" in value:  # the address alone grants write access
        return True
    if not words or words[-1] in _LOCATION_WORDS:
        return False
    if _REFERENCE.search(value):
        beside = _SCHEME_WORD.sub("", _REFERENCE.sub(" ", value))
        if not _BESIDE_REFERENCE.search(beside):
            return False
    return bool(_SECRET_WORDS.intersection(words)) or words[-1].endswith(_ENDINGS)


def _is_token(text: str) -> bool:
    if _PREFIX.fullmatch(text) or _HEX.fullmatch(text):
        return True
    digits = sum(char.isdigit() for char in text)
    mixed = any(char.isupper() for char in text) and any(char.islower() for char in text)
    return bool(_TOKEN.fullmatch(text)) and mixed and digits >= _MIN_DIGITS


class SecretExtractor:
    """Removes the secrets from a series of entries. The same value with the same name gets the same variable."""

    def __init__(self) -> None:
        self.extracted: list[ExtractedSecret] = []
        self._values: dict[str, str] = {}

    def entry_without_secrets(self, entry: ServerEntry) -> ServerEntry:
        """Returns the entry with variables in place of values that look secret."""
        one = _EntrySanitizer(entry, self)
        changes: dict[str, Any] = {
            "args": tuple(one.sanitize_words(entry.args, "args")),
            "env": {name: one.sanitize_named(name, value, f"env.{name}") for name, value in entry.env.items()},
            "headers": {name: one.sanitize_header(name, value) for name, value in entry.headers.items()},
        }
        if isinstance(entry.command, tuple):
            changes["command"] = tuple(one.sanitize_words(entry.command, "command"))
        elif entry.command is not None and " " in entry.command:  # a whole line
            changes["command"] = " ".join(one.sanitize_words(tuple(entry.command.split(" ")), "command"))
        if entry.url is not None:
            changes["url"] = one.sanitize_address(entry.url, "url")
        if entry.oauth is not None and entry.oauth.client_secret:
            kept = one.replace_value("client_secret", entry.oauth.client_secret, "oauth.client_secret")
            changes["oauth"] = entry.oauth.model_copy(update={"client_secret": kept})
        return entry.model_copy(update=changes)

    def variable_for(self, wanted: str, value: str, server: str) -> str:
        """Returns a variable name that is used for this value only."""
        prefix = _variable_name(server)
        owned = wanted if wanted.startswith(f"{prefix}_") else f"{prefix}_{wanted}"
        names = itertools.chain((wanted, owned), (f"{owned}_{number}" for number in itertools.count(2)))
        return next(name for name in names if self._values.setdefault(name, value) == value)


class _EntrySanitizer:
    def __init__(self, entry: ServerEntry, extractor: SecretExtractor) -> None:
        self._entry, self._extractor = entry, extractor

    def replace_value(self, wanted: str, value: str, place: str, *, own: bool = False) -> str:
        """Returns the variable that replaces a value. With `own`, the name stays as it is: the server reads it."""
        if _REFERENCE.fullmatch(value):
            return value
        name = (
            wanted
            if own and _VARIABLE.fullmatch(wanted)
            else f"{_variable_name(self._entry.name)}_{_variable_name(wanted)}"
        )
        variable = self._extractor.variable_for(name, value, self._entry.name)
        secret_found = ExtractedSecret(variable, self._entry.name, place, self._entry.origin)
        if secret_found not in self._extractor.extracted:
            self._extractor.extracted.append(secret_found)
        return f"${{{variable}}}"

    def sanitize_named(self, name: str, value: str, place: str) -> str:
        value = self._drop_secret_defaults(value, place)
        return self.replace_value(name, value, place, own=True) if looks_secret(name, value) else value

    def sanitize_header(self, name: str, value: str) -> str:
        return self._sanitize_scheme(name, self._drop_secret_defaults(value, f"headers.{name}"), f"headers.{name}")

    def _sanitize_scheme(self, name: str, value: str, place: str) -> str:
        parts = _SCHEME.fullmatch(value)
        if parts is not None and looks_secret("token", parts["value"]):
            return parts["before"] + self.replace_value("token", parts["value"], place)
        return self.replace_value(name, value, place) if looks_secret(name, value) else value

    def sanitize_words(self, words: tuple[str, ...], place: str) -> list[str]:
        written: list[str] = []
        before = ""
        for original in words:
            word = self._drop_secret_defaults(original, place)
            flag, before = before, original
            written.append(self._sanitize_word(word, flag if flag.startswith("-") and "=" not in flag else "", place))
        return written

    def _sanitize_word(self, word: str, flag: str, place: str) -> str:
        if (assigned := _ASSIGNED.fullmatch(word)) and looks_secret(assigned["name"], assigned["value"]):
            is_variable = not assigned["name"].startswith("-")  # docker run -e NAME=value
            return assigned["before"] + self.replace_value(
                assigned["name"], assigned["value"], place, own=is_variable
            )
        if assigned and assigned["name"].startswith("-") and _HEADER.fullmatch(assigned["value"]):
            return assigned["before"] + self._sanitize_word(
                assigned["value"], "", place
            )  # --header=Authorization: Bearer x
        if "://" in word and not assigned:
            return self.sanitize_address(word, place)
        if header := _HEADER.fullmatch(word):
            return header["before"] + self._sanitize_scheme(header["name"], header["value"], place)
        if not word.startswith("-") and looks_secret(flag, word):
            return self.replace_value(flag or "secret", word, place)
        return word

    def sanitize_address(self, text: str, place: str) -> str:
        """Returns a URL with secrets in its credentials, path and parameters replaced."""
        text = self._drop_secret_defaults(text, place)
        try:
            parts = urlsplit(text)
        except ValueError:
            return text
        path = "/".join(
            self.replace_value("url_token", step, place) if _is_token(step) else step
            for step in parts.path.split("/")
        )
        query, fragment = (
            _PARAMETER.sub(lambda found: self._sanitize_parameter(found, place), each)
            for each in (parts.query, parts.fragment)
        )
        written = SplitResult(parts.scheme, self._sanitize_host(parts, place), path, query, fragment).geturl()
        # A nested URL (`jdbc:postgresql://...`) is replaced as a whole.
        return self.replace_value("url", text, place) if _PASSWORD_IN_ADDRESS.search(written) else written

    def _sanitize_host(self, parts: SplitResult, place: str) -> str:
        who, at, host = parts.netloc.rpartition("@")
        user, colon, password = who.partition(":")
        if not password:
            # The user part of a web URL is more often a token than a name.
            is_secret = _is_token(user) or (bool(user) and parts.scheme in {"http", "https"})
            return f"{self.replace_value('url_token', user, place)}{colon}{at}{host}" if is_secret else parts.netloc
        return f"{user}{colon}{self.replace_value('password', password, place)}{at}{host}"

    def _sanitize_parameter(self, found: re.Match[str], place: str) -> str:
        if not looks_secret(found["name"], found["value"]):
            return found[0]
        return f"{found['name']}={self.replace_value(found['name'], found['value'], place)}"

    def _drop_secret_defaults(self, text: str, place: str) -> str:
        """Removes secrets that are defaults of variables; the variable remains and must be set."""

        def replace_default(found: re.Match[str]) -> str:
            if not looks_secret(found["name"], found["value"]):
                return found[0]
            self._extractor.extracted.append(
                ExtractedSecret(found["name"], self._entry.name, place, self._entry.origin)
            )
            return f"${{{found['name']}}}"

        return _DEFAULT.sub(replace_default, text)


def _variable_name(text: str) -> str:
    folded = _INVALID_NAME_CHARS.sub("_", text).strip("_").upper() or "SERVER"
    return f"_{folded}" if folded[0].isdigit() else folded

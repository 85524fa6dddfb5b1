"""Finds secrets in a line with the plugins of detect-secrets and patterns for further kinds of keys.

Only the plugins' patterns are used: nothing is verified over the network, no file is read, and there are no settings
or baselines. A match is *definite* if only keys have its format; a string that is random, or follows a word like
`password`, is not. Results never contain the secret itself, only its position.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, Protocol

from toolyard.assistant.secrets.bounded_regex import assignment_text, bound_pattern, bound_patterns, is_looked_up

_WINDOW = 2_000
_OVERLAP = 300
_PIECE, _LONGEST_SECRET = 64_000, 18_000
_SHORTEST_LINE = 8
_LONGEST_SUSPECTED = 1_000
_LEAST_DIFFERENT = 6
"""Distinct characters of a real secret: `sk-xxxxxxxx` is a placeholder."""
_SHORTEST_ARTIFACTORY = 40
_SHORTEST_RANDOM = 20
MASK = "[secret]"
_PRAGMA, _PRAGMA_CHARS = "pragma:", 200
_BASIC_AUTH = "Basic Auth Credentials"
_GROUPED_KINDS = frozenset({_BASIC_AUTH, "AWS Access Key"})
"""Kinds whose patterns match more than the secret."""
PRIVATE_KEY = "Private Key"
_KEYWORD, _RANDOM = "Secret Keyword", "Random Secret"
_PLUGINS = (
    *("AWSKeyDetector", "ArtifactoryDetector", "AzureStorageKeyDetector", "BasicAuthDetector", "CloudantDetector"),
    *("DiscordBotTokenDetector", "GitHubTokenDetector", "IbmCloudIamDetector", "IbmCosHmacDetector"),
    *("JwtTokenDetector", "MailchimpDetector", "NpmDetector", "PrivateKeyDetector", "SendGridDetector"),
    *("SlackDetector", "SoftlayerDetector", "SquareOAuthDetector", "StripeDetector", "TwilioKeyDetector"),
)
_EXTRA_FORMATS = {
    "Anthropic API Key": r"sk-ant-[A-Za-z0-9_-]{20,}",
    "OpenAI API Key": r"sk-(?:proj-|svcacct-|admin-)[A-Za-z0-9_-]{20,}|sk-[A-Za-z0-9]{20,}(?![\w-])",
    "OpenRouter API Key": r"sk-or-(?:v\d-)?[A-Za-z0-9]{20,}",
    "Google API Key": r"AIza[A-Za-z0-9_-]{35}",
    "Google OAuth Secret": r"GOCSPX-[A-Za-z0-9_-]{28}",
    "GitHub Token": r"github_pat_[A-Za-z0-9]{22}_[A-Za-z0-9]{59}",
    "GitLab Token": r"gl(?:pat|dt|rt|cbt|ptt|soat)-[A-Za-z0-9_-]{20,}",
    "Slack Token": r"xapp-\d-[A-Z0-9]+-\d+-[a-z0-9]+|xoxe(?:\.xox[bp])?-\d-[A-Za-z0-9]{20,}",
    "Stripe Access Key": r"(?:sk|rk)_live_[A-Za-z0-9]{16,}|whsec_[A-Za-z0-9+/]{32,}",
    "PyPI Token": r"pypi-AgE[A-Za-z0-9_-]{50,}",
    "Hugging Face Token": r"hf_[A-Za-z]{30,}",
    "Groq API Key": r"gsk_[A-Za-z0-9]{40,}",
    "DigitalOcean Token": r"do[opr]_v1_[a-f0-9]{64}",
    "Shopify Token": r"shp(?:at|ca|pa|ss)_[a-fA-F0-9]{32}",
    "Telegram Bot Token": r"\d{8,10}:AA[A-Za-z0-9_-]{33}",
    "Age Secret Key": r"AGE-SECRET-KEY-1[A-Z0-9]{58}",
    "Private Key": r"BEGIN (?:[A-Z0-9]+ ){0,5}PRIVATE KEY(?: BLOCK)? ?-{4,5}(?:\\[nr]|[^A-Za-z0-9+/]){0,10}"
    r"[A-Za-z0-9+/=\\ ]{40,}",
}
_TOKEN = re.compile(
    r"(?<![A-Za-z0-9_-])(eyJ[A-Za-z0-9_=-]{8,400}+\.[A-Za-z0-9_=-]{8,8000}+)(?:\.[A-Za-z0-9_+/=-]{0,8000}+)?"
)
_PRIVATE_KEY = re.compile(
    r"BEGIN (?:[A-Z0-9]{1,20}+ ){0,5}PRIVATE KEY(?: BLOCK)? ?-{4,5}(?:\\[nr]|[^A-Za-z0-9+/]){0,10}"
    r"((?>(?:[A-Za-z0-9+/= ]|\\[nr]){40,16000}))"
)
# Almost no line contains a secret, so lines are ruled out quickly.
_LONG_WORD = re.compile(r"[\w+/=.:\\-]{16}|://")
_SECRET_WORD = re.compile(r"key|pass|pwd|token|secret|contrase", re.IGNORECASE)
_HEX = re.compile(r"[0-9a-fA-F]+")
_SETTINGS_FILE = re.compile(r"(?:^|/)\.env(?:\.[\w.-]+)?$|\.(?:env|cfg|conf)$")
_PLACEHOLDER = re.compile(
    r"(?:your|my|the|some|any|test|fake|dummy|sample|example|insert|change|replace)?[-_]*"
    r"(?:user(?:name)?|pass(?:word|wd)?|pwd|secret|token|key|me|here|example|changeme|redacted|hunter2|postgres|root|"
    r"admin|guest|x+|\*+|\.+|foo|bar|abc|123)+[-_]*\d*",
    re.IGNORECASE,
)
_LOCAL_HOST = re.compile(
    r"@(?:127\.|0\.0\.0\.0|\[|[\w-]+(?![\w.-]))|\bexample\.(?:com|org|net)|\.(?:test|invalid|example|local)(?:host)?\b"
)


@dataclass(frozen=True, slots=True)
class SecretHit:
    """The position of a secret in a line."""

    kind: str
    start: int
    end: int
    is_definite: bool = True


class _Plugin(Protocol):
    secret_type: str
    denylist: Sequence[re.Pattern[str]]


class SecretScanner:
    """The loaded plugins. Stateless, so threads may share one."""

    def __init__(self) -> None:
        from detect_secrets.core.plugins.util import get_mapping_from_secret_type_to_class
        from detect_secrets.filters import allowlist, heuristic
        from detect_secrets.plugins import keyword
        from detect_secrets.plugins.high_entropy_strings import Base64HighEntropyString, HexHighEntropyString
        from detect_secrets.plugins.jwt import JwtTokenDetector
        from detect_secrets.util.code_snippet import CodeSnippet
        from detect_secrets.util.filetype import FileType, determine_file_type

        classes: dict[str, Any] = {each.__name__: each for each in get_mapping_from_secret_type_to_class().values()}
        plugins: tuple[_Plugin, ...] = tuple(classes[name]() for name in _PLUGINS)
        self._plugins = tuple(
            (plugin.secret_type, bound_pattern(pattern)) for plugin in plugins for pattern in plugin.denylist
        )
        self._extra_formats = tuple(
            (kind, re.compile(rf"(?<![A-Za-z0-9])(?:{text})")) for kind, text in _EXTRA_FORMATS.items()
        )
        self._random = (Base64HighEntropyString(), HexHighEntropyString())
        self._heuristic = heuristic
        self._is_token: Callable[[str], bool] = JwtTokenDetector.is_formally_valid
        innocent = tuple(word.lower() for word in keyword.ALLOWLIST)
        usual = bound_patterns(keyword.QUOTES_REQUIRED_DENYLIST_REGEX_TO_GROUP)
        by_type = {kind: bound_patterns(groups) for kind, groups in keyword.REGEX_BY_FILETYPE.items()}

        def keyword_values(path: str, text: str) -> Iterable[str]:
            # In settings files values are not quoted, and the library recognises them by other suffixes.
            kind = FileType.PROPERTIES if _SETTINGS_FILE.search(path) else determine_file_type(path)
            for pattern, group in by_type.get(kind, usual).items():
                for match in pattern.finditer(text):  # the library's own search stops at the first match of a line
                    if not is_looked_up(match, group) and not any(
                        word in assignment_text(match) for word in innocent
                    ):
                        yield match[group]

        def is_allowed(path: str, line: str, before: str) -> bool:
            return allowlist.is_line_allowlisted(path, line, CodeSnippet([before, line], 0, 1))

        self._keyword_values, self._is_allowed = keyword_values, is_allowed

    def is_allowed(self, path: str, line: str, before: str) -> bool:
        """Whether a comment `pragma: allowlist secret` is on the line or the one before."""
        at = line.rfind(_PRAGMA)
        here = line[max(0, at - _PRAGMA_CHARS) : at + _PRAGMA_CHARS] if at >= 0 else ""
        above = before if _PRAGMA in before and len(before) <= _PRAGMA_CHARS else ""
        return bool(here or above) and self._is_allowed(path, here, above)

    def find_secrets(self, path: str, line: str, check_time: Callable[[], None] = lambda: None) -> list[SecretHit]:
        """Returns the secrets in a line. Long lines are searched in windows, for definite secrets only."""
        if len(line) < _SHORTEST_LINE:
            return []
        found = self.find_known_formats(line, check_time)
        return [*found, *self._find_suspected(path, line)] if len(line) <= _WINDOW else found

    def find_known_formats(self, line: str, check_time: Callable[[], None] = lambda: None) -> list[SecretHit]:
        """Returns what has the format of a secret, whatever surrounds it."""
        if len(line) <= _WINDOW:
            return list(self._find_definite(line, 0))
        found: dict[SecretHit, None] = {}
        for start in range(0, len(line), _WINDOW - _OVERLAP):
            check_time()
            found.update(dict.fromkeys(self._find_definite(line[start : start + _WINDOW], start)))
        for start in range(0, len(line), _PIECE - _LONGEST_SECRET):
            check_time()
            found.update(dict.fromkeys(self._find_long_secrets(line[start : start + _PIECE], start)))
        return list(found)

    def _find_long_secrets(self, text: str, offset: int) -> Iterator[SecretHit]:
        """Finds secrets that may be longer than a window, with patterns that do not backtrack."""
        for match in _TOKEN.finditer(text):
            if self._is_token(match[1]):
                yield SecretHit("JSON Web Token", offset + match.start(), offset + match.end())
        for match in _PRIVATE_KEY.finditer(text):
            if _has_variety(match[1]):
                yield SecretHit(PRIVATE_KEY, offset + match.start(), offset + match.end())

    def _find_definite(self, text: str, offset: int) -> Iterator[SecretHit]:
        if _LONG_WORD.search(text) is None:
            return
        for kind, pattern in self._extra_formats:
            for match in pattern.finditer(text):
                if _has_variety(match[0]):
                    yield SecretHit(kind, offset + match.start(), offset + match.end())
        for kind, pattern in self._plugins:
            for match in pattern.finditer(text):
                group = 1 if kind in _GROUPED_KINDS and match.re.groups and match[1] else 0
                start, end = match.span(group)
                is_definite = self._is_definite_match(kind, text, start, end)
                if is_definite is not None:
                    yield SecretHit(kind, offset + start, offset + end, is_definite)

    def _is_definite_match(self, kind: str, text: str, start: int, end: int) -> bool | None:
        """Returns whether a plugin's match is certainly a secret; None if it is not one."""
        secret = text[start:end]
        if not _has_variety(secret) and kind != _BASIC_AUTH:
            return None
        is_alone = not text[max(0, start - 1) : start].isalnum() and not text[end : end + 1].isalnum()
        match kind:
            case "Basic Auth Credentials":
                if not secret or self._heuristic.is_templated_secret(secret) or secret[0] in "$<{%*":
                    return None
                return None if _PLACEHOLDER.fullmatch(secret) else not _LOCAL_HOST.search(text)
            case "AWS Access Key":
                return not _HEX.fullmatch(secret)  # a hash has the same length as such a key
            case "Artifactory Credentials":
                return len(secret) >= _SHORTEST_ARTIFACTORY
            case "Azure Storage Account access key":  # some hashes have the same length
                return True if re.search(r"account_?key", text, re.IGNORECASE) else None
            case "JSON Web Token":
                return True if self._is_token(secret) else None
            case "Twilio API Key" | "Mailchimp Access Key" | "Discord Bot Token" | "NPM tokens":
                return True if is_alone else None
            case _:
                return True

    def _find_suspected(self, path: str, text: str) -> Iterator[SecretHit]:
        look = self._heuristic
        if len(text) > _LONGEST_SUSPECTED or look.is_lock_file(path) or look.is_non_text_file(path):
            return
        random: set[str] = set()
        for plugin in self._random if _LONG_WORD.search(text) else ():
            for secret in plugin.analyze_string(text):
                if (
                    len(secret) >= _SHORTEST_RANDOM
                    and plugin.calculate_shannon_entropy(secret) > plugin.entropy_limit
                ):
                    random.add(secret)
        candidates = self._keyword_values(path, text) if _SECRET_WORD.search(text) else ()
        worded = set(filter(self._is_value, candidates))
        for secret in sorted(random | worded):
            if look.is_potential_uuid(secret) or look.is_sequential_string(secret) or not _has_variety(secret):
                continue
            if secret not in worded and not _may_be_random(secret, text):
                continue
            # Each criterion alone may be harmless. Both together are typical of a key without a known format.
            is_definite = secret in worded and secret in random and _may_be_random(secret, text)
            kind, at = _KEYWORD if secret in worded else _RANDOM, text.find(secret)
            while at >= 0:
                yield SecretHit(kind, at, at + len(secret), is_definite)
                at = text.find(secret, at + len(secret))

    def _is_value(self, secret: str) -> bool:
        look = self._heuristic
        return not (
            look.is_templated_secret(secret)
            or look.is_prefixed_with_dollar_sign(secret)
            or look.is_not_alphanumeric_string(secret)
            or _PLACEHOLDER.fullmatch(secret)
            or " " in secret.strip()
        )


@cache
def shared_scanner() -> SecretScanner:
    """Returns the shared scanner, which is loaded on first use because that takes a moment."""
    return SecretScanner()


def mask_hits(text: str, hits: Iterable[SecretHit]) -> str:
    """Returns the text with every hit replaced by the mask."""
    parts: list[str] = []
    at = 0
    for hit in sorted(hits, key=lambda hit: (hit.start, hit.end)):
        if hit.start >= at:
            parts += [text[at : hit.start], MASK]
        at = max(at, hit.end)
    return "".join([*parts, text[at:]])


def _has_variety(secret: str) -> bool:
    return len(set(secret)) >= _LEAST_DIFFERENT


def _may_be_random(secret: str, text: str) -> bool:
    """Whether a random-looking string is neither a hash nor a name, which most of them are."""
    if _HEX.fullmatch(secret) or re.search(r"sha\d|integrity|hash|digest|checksum|commit|rev\b", text, re.IGNORECASE):
        return False
    has = [any(map(test, secret)) for test in (str.isupper, str.islower, str.isdigit)]
    return all(has) and "/" not in secret.strip("/")

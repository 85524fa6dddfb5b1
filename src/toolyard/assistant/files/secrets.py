"""Which files are not sent unless somebody names them: by their names, and by what they say.

Names are those of the preset `secrets` and a longer list. That list is not part of the preset: to leave a file out of
a question costs little, while a policy that forbids too much stops work. Here capitals make no difference, and a copy
is as secret as what it is a copy of.
"""

from __future__ import annotations

import fnmatch
import re
from collections.abc import Callable
from functools import cache
from typing import Final

from toolyard.core.limits import KIB
from toolyard.policy.presets import may_hold_secrets

_SETTINGS: Final = ("json", "yaml", "yml", "toml", "ini", "xml", "properties", "csv", "txt", "conf", "cfg", "db")
"""Endings of files that hold values. What is code, or a document, is there to be read."""
_NAMES: Final = (
    "credentials",
    *(f"{name}.{ending}" for name in ("credentials", "secrets") for ending in _SETTINGS),
    *("credentials.tfrc.json", "secret.txt", "secret.json", "secret.toml", "secret.ini", "secret.conf", "secret.cfg"),
    *("token", ".token", "token.txt", "tokens.txt", "api[-_]key.txt", "api[-_]keys.txt", "apikey.txt", "apikeys.txt"),
    *(".secrets", "*[-_]credentials.json", "client[-_]secret*.json"),
    *("service[-_]account*.json", "serviceaccount*.json", "*[-_]service[-_]account.json"),
    *("gcp[-_]*key.json", "google[-_]*key.json", "*[-_]private[-_]key.json", "local.settings.json"),
    *(".aws[-_]credentials", ".vault[-_]token", ".vault[-_]pass*", ".s3cfg", ".boto", ".dockercfg"),
    *(".dockerconfigjson", "kubeconfig", "kubeconfig.y*ml", "*.kubeconfig", "*.tfstate", "*.tfstate.*", "*.tfvars"),
    *(".terraformrc", ".my.cnf", ".mylogin.cnf", "pgpass.conf", ".authinfo", ".smbcredentials", "rclone.conf"),
    *("htpasswd", "*.htpasswd", ".htdigest", "password.txt", "passwords.txt", ".dev.vars", ".*_history"),
    *("*.p8", "*.ppk", "*.pkcs12", "*.jceks", "*.agekey", "*.keytab"),
)
"""Of files, in lower case. A folder of such a name makes nothing secret: `kubeconfig/load.go` is source."""
_PATHS: Final = ("*/.aws/*", "*/.azure/*", "*/.config/hub", "*/.config/rclone/*", "*/.terraform.d/*")
_NOT_TRANSLATED: Final = re.compile(
    r"(?!.*/(?:locales?|i18n|l10n|lang|languages?|translations?|messages)/).*/(?:auth|token)\.json", re.DOTALL
)
"""Where words of a page are kept by language, files are named after what they are about."""
_TO_FILL_IN: Final = re.compile(r"[.\-_](?:example|sample|template|dist)(?:\.|$)")
_COPY: Final = re.compile(r"(?<=.)(?:\.(?:bak|backup|old|orig|save|tmp|sw[op])\d*|(?:\.~\d+)?~)$")
_UNSAVED: Final = re.compile(r"^#(.+)#$")
_KEY_MARK: Final = "PRIVATE KEY"
_KEY: Final = re.compile(r"-----BEGIN [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----")
_LOOKED_AT: Final = 64 * KIB
_SHORT: Final = 4 * KIB
"""Longer texts are one long line to the scanner: it looks for forms of secrets alone, which takes no text long."""


def is_secret_by_name(path: str, workspace: str) -> bool:
    """Of a clean, absolute path."""
    path, workspace = path.casefold(), workspace.casefold()
    folder, _, name = path.rpartition("/")
    return any(
        may_hold_secrets(f"{folder}/{each}", workspace) or _is_listed(f"{folder}/{each}", workspace)
        for each in _originals(name)
    )


def is_secret_by_content(path: str, text: str, check_time: Callable[[], None]) -> bool:
    """Whether it holds a private key anywhere, or begins with lines that hold what is a secret for certain."""
    return _holds_key(text) or _holds_secret(path, text, check_time)


def _originals(name: str) -> tuple[str, ...]:
    """What a file may be a copy of, `.env` for `#.env#` and `.env.bak~`; itself if it is none."""
    original, last = name, ""
    while original != last:
        last = original
        original = _COPY.sub("", _UNSAVED.sub(r"\1", original))
    # Editors put a dot before the names of some copies, and nobody knows whether there was one already.
    return (original,) if original == name else (original, original.removeprefix("."))


def _is_listed(path: str, workspace: str) -> bool:
    names, paths = _patterns()
    name, inside = path.rpartition("/")[2], path.removeprefix(workspace)
    is_listed = names.match(name) or paths.match(path) or _NOT_TRANSLATED.fullmatch(inside)
    return bool(is_listed) and not _TO_FILL_IN.search(name)


@cache
def _patterns() -> tuple[re.Pattern[str], re.Pattern[str]]:
    names, paths = (re.compile("|".join(map(fnmatch.translate, each))) for each in (_NAMES, _PATHS))
    return names, paths


def _holds_key(text: str) -> bool:
    at = -1
    while (at := text.find(_KEY_MARK, at + 1)) >= 0:
        if _KEY.search(text, max(0, at - 60), at + 40):
            return True
    return False


def _holds_secret(path: str, text: str, check_time: Callable[[], None]) -> bool:
    from toolyard.assistant.precommit.scanner import scanner

    try:
        looking = scanner()
    except ImportError:  # without the extra `assistant`
        return False
    text = text[:_LOOKED_AT]
    is_short = len(text) <= _SHORT
    before = ""
    for part in text.split("\n") if is_short else (text,):
        check_time()
        for hit in looking.hits(path, part, check_time):
            line, above = (part, before) if is_short else _line_at(part, hit.start)
            if hit.is_definite and not looking.is_allowed(path, line, above):
                return True
        before = part
    return False


def _line_at(text: str, at: int) -> tuple[str, str]:
    """The line there, and the one before it."""
    above, _, begun = text[:at].rpartition("\n")
    return begun + text[at:].partition("\n")[0], above.rpartition("\n")[2]

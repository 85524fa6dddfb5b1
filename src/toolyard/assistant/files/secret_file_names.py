"""Recognises files for secrets by their names; they are not sent unless the caller names them.

The names are those of the preset `secrets` and a longer list. That list is not part of the preset: omitting a file
from a question costs little, while a policy that forbids too much stops work. Case is ignored, and a backup copy is
as secret as the original.
"""

from __future__ import annotations

import fnmatch
import re
from functools import cache
from typing import Final

from toolyard.policy.presets import may_hold_secrets

_DATA_SUFFIXES: Final = ("json", "yaml", "yml", "toml", "ini", "xml", "properties", "csv", "txt", "conf", "cfg", "db")
"""Suffixes of files that hold values; code and documents may be read."""
_NAMES: Final = (
    "credentials",
    *(f"{name}.{ending}" for name in ("credentials", "secrets") for ending in _DATA_SUFFIXES),
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
"""File names in lower case. A folder of such a name makes nothing secret: `kubeconfig/load.go` is source."""
_PATHS: Final = ("*/.aws/*", "*/.azure/*", "*/.config/hub", "*/.config/rclone/*", "*/.terraform.d/*")
_TOKEN_FILE: Final = re.compile(
    r"(?!.*/(?:locales?|i18n|l10n|lang|languages?|translations?|messages)/).*/(?:auth|token)\.json", re.DOTALL
)
"""Excludes translations: in folders by language, files are named after the page that they belong to."""
_TEMPLATE: Final = re.compile(r"[.\-_](?:example|sample|template|dist)(?:\.|$)")
_COPY_SUFFIX: Final = re.compile(r"(?<=.)(?:\.(?:bak|backup|old|orig|save|tmp|sw[op])\d*|(?:\.~\d+)?~)$")
_AUTOSAVE_NAME: Final = re.compile(r"^#(.+)#$")


def is_secret_by_name(path: str, workspace: str) -> bool:
    """Whether a clean, absolute path names a file for secrets."""
    path, workspace = path.casefold(), workspace.casefold()
    folder, _, name = path.rpartition("/")
    return any(
        may_hold_secrets(f"{folder}/{each}", workspace) or _is_listed(f"{folder}/{each}", workspace)
        for each in _original_names(name)
    )


def _original_names(name: str) -> tuple[str, ...]:
    """Returns what a file may be a copy of, `.env` for `#.env#` and `.env.bak~`; else the name itself."""
    original, last = name, ""
    while original != last:
        last = original
        original = _COPY_SUFFIX.sub("", _AUTOSAVE_NAME.sub(r"\1", original))
    # Editors put a dot before the names of some copies; the original may have had one already.
    return (original,) if original == name else (original, original.removeprefix("."))


def _is_listed(path: str, workspace: str) -> bool:
    names, paths = _patterns()
    name, inside = path.rpartition("/")[2], path.removeprefix(workspace)
    is_listed = names.match(name) or paths.match(path) or _TOKEN_FILE.fullmatch(inside)
    return bool(is_listed) and not _TEMPLATE.search(name)


@cache
def _patterns() -> tuple[re.Pattern[str], re.Pattern[str]]:
    names, paths = (re.compile("|".join(map(fnmatch.translate, each))) for each in (_NAMES, _PATHS))
    return names, paths

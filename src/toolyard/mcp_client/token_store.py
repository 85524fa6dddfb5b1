"""Stores sign-ins at remote servers: one file each, readable only by its owner.

A file also holds what is needed to refresh the tokens after a restart: their expiry and the authorization server. The
content is never logged or shown, not even if the server repeats it: the server's `SecretMask` knows it. An unreadable
file counts as missing: the user signs in again.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import secrets
from typing import TYPE_CHECKING, Any, cast

from toolyard.core.errors import SystemFault
from toolyard.mcp_client.results import SecretMask

if TYPE_CHECKING:
    from mcp.client.auth.oauth2 import OAuthContext
    from mcp.shared.auth import OAuthClientInformationFull, OAuthToken

_FILE_MODE = 0o600
_FOLDER_MODE = 0o700


class TokenFile:
    """The SDK's `TokenStorage` for one server URL. In memory only without a folder."""

    def __init__(self, folder: str | None, server: str, url: str, mask: SecretMask) -> None:
        # The URL is part of the file name: another server with the same name must not get these tokens.
        digest = hashlib.sha256(f"{server}\0{url}".encode()).hexdigest()[:32]
        self._path = os.path.join(folder, f"{digest}.json") if folder else None
        self._saved = self._read()
        self._mask = mask
        self.context: OAuthContext | None = None
        """The state of the SDK's provider, which is restored with the tokens."""

    @property
    def is_signed_in(self) -> bool:
        return "tokens" in self._saved

    async def get_tokens(self) -> OAuthToken | None:
        if not self.is_signed_in:
            return None
        try:
            return self._restore_sign_in()
        except ValueError:  # damaged: no part of it may be mixed with the next sign-in
            self._saved = {name: value for name, value in self._saved.items() if name == "client"}
            return None

    def _restore_sign_in(self) -> OAuthToken:
        """Returns the tokens, and restores the context once everything is valid. Raises ValueError."""
        from mcp.shared.auth import OAuthMetadata, OAuthToken, ProtectedResourceMetadata

        saved = self._saved
        tokens = OAuthToken.model_validate(saved["tokens"])
        ends, url = saved.get("ends"), saved.get("authorization_url")
        if not isinstance(ends, int | float | None) or not isinstance(url, str | None):
            raise ValueError("a sign-in with fields of other types")  # noqa: TRY004 - the caller catches ValueError
        authorization = OAuthMetadata.model_validate(saved["authorization"]) if "authorization" in saved else None
        resource = ProtectedResourceMetadata.model_validate(saved["resource"]) if "resource" in saved else None
        self._mask_tokens(tokens)
        if (context := self.context) is not None:
            context.token_expiry_time, context.auth_server_url = ends, url
            context.oauth_metadata = authorization or context.oauth_metadata
            context.protected_resource_metadata = resource or context.protected_resource_metadata
        return tokens

    async def set_tokens(self, tokens: OAuthToken) -> None:
        self._mask_tokens(tokens)
        self._saved["tokens"] = tokens.model_dump(mode="json", exclude_none=True)
        context = self.context
        if context is not None:
            context.update_token_expiry(tokens)
            parts: dict[str, Any] = {
                "ends": context.token_expiry_time,
                "authorization_url": context.auth_server_url,
                "authorization": context.oauth_metadata and context.oauth_metadata.model_dump(mode="json"),
                "resource": context.protected_resource_metadata
                and context.protected_resource_metadata.model_dump(mode="json"),
            }
            self._saved |= {name: value for name, value in parts.items() if value is not None}
        self._write()

    def _mask_tokens(self, tokens: OAuthToken | None) -> None:
        if tokens is not None:
            self._mask.learn_tokens(tokens.access_token, tokens.refresh_token or "")

    async def get_client_info(self) -> OAuthClientInformationFull | None:
        from mcp.shared.auth import OAuthClientInformationFull

        with contextlib.suppress(ValueError):
            if "client" in self._saved:
                return OAuthClientInformationFull.model_validate(self._saved["client"])
        return None

    async def set_client_info(self, client_info: OAuthClientInformationFull) -> None:
        self._saved["client"] = client_info.model_dump(mode="json", exclude_none=True)
        self._write()

    def _read(self) -> dict[str, Any]:
        if self._path is not None:
            with contextlib.suppress(OSError, ValueError, RecursionError), open(self._path, encoding="utf-8") as file:
                saved = json.load(file)
                if isinstance(saved, dict):
                    return cast("dict[str, Any]", saved)
        return {}

    def _write(self) -> None:
        """Writes atomically: a killed process leaves the old file or the new one. Raises SystemFault."""
        if self._path is None:
            return
        try:
            self._replace(self._path)
        except OSError as error:
            raise SystemFault(
                f"The sign-in cannot be saved in {self._path}: {error.strerror}.",
                hint="Check the path and its disk. Move the file away, then sign in again with `toolyard sync`.",
            ) from error

    def _replace(self, path: str) -> None:
        os.makedirs(os.path.dirname(path), mode=_FOLDER_MODE, exist_ok=True)
        fresh = f"{path}.{secrets.token_hex(4)}"
        descriptor = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL, _FILE_MODE)
        try:
            with open(descriptor, "w", encoding="utf-8") as file:
                json.dump(self._saved, file)
            os.replace(fresh, path)
        except BaseException:
            os.unlink(fresh)
            raise

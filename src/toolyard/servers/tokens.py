"""Where the sign-ins at remote servers are kept: one file for each, readable by its owner alone.

With the tokens goes what is needed to renew them after a restart: when they end, and where the authorization server
is. Nothing of it is ever logged or shown, nor when the server repeats it: the server's `Mask` knows it, too. A file
that cannot be read counts as none: the user signs in again.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import secrets
from typing import TYPE_CHECKING, Any, cast

from toolyard.servers.masking import Mask

if TYPE_CHECKING:
    from mcp.client.auth.oauth2 import OAuthContext
    from mcp.shared.auth import OAuthClientInformationFull, OAuthToken

_FILE_MODE = 0o600
_FOLDER_MODE = 0o700


class TokenFile:
    """The SDK's `TokenStorage` for one server at one address. Without a folder it lives as long as this process."""

    def __init__(self, folder: str | None, server: str, url: str, mask: Mask) -> None:
        # The address is part of the name: another server under the same name does not get these tokens.
        digest = hashlib.sha256(f"{server}\0{url}".encode()).hexdigest()[:32]
        self._path = os.path.join(folder, f"{digest}.json") if folder else None
        self._kept = self._read()
        self._mask = mask
        self.context: OAuthContext | None = None
        """The state of the SDK's provider, into which more than the tokens is put back."""

    @property
    def is_signed_in(self) -> bool:
        return "tokens" in self._kept

    async def get_tokens(self) -> OAuthToken | None:
        from mcp.shared.auth import OAuthMetadata, OAuthToken, ProtectedResourceMetadata

        with contextlib.suppress(ValueError):
            tokens = OAuthToken.model_validate(self._kept["tokens"]) if self.is_signed_in else None
            self._keep_secret(tokens)
            if self.context is not None and tokens is not None:
                self.context.token_expiry_time = self._kept.get("ends")
                if "authorization" in self._kept:
                    self.context.oauth_metadata = OAuthMetadata.model_validate(self._kept["authorization"])
                if "resource" in self._kept:
                    found = ProtectedResourceMetadata.model_validate(self._kept["resource"])
                    self.context.protected_resource_metadata = found
                self.context.auth_server_url = self._kept.get("authorization_url")
            return tokens
        return None

    async def set_tokens(self, tokens: OAuthToken) -> None:
        self._keep_secret(tokens)
        self._kept["tokens"] = tokens.model_dump(mode="json", exclude_none=True)
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
            self._kept |= {name: value for name, value in parts.items() if value is not None}
        self._write()

    def _keep_secret(self, tokens: OAuthToken | None) -> None:
        if tokens is not None:
            self._mask.learn_tokens(tokens.access_token, tokens.refresh_token or "")

    async def get_client_info(self) -> OAuthClientInformationFull | None:
        from mcp.shared.auth import OAuthClientInformationFull

        with contextlib.suppress(ValueError):
            if "client" in self._kept:
                return OAuthClientInformationFull.model_validate(self._kept["client"])
        return None

    async def set_client_info(self, client_info: OAuthClientInformationFull) -> None:
        self._kept["client"] = client_info.model_dump(mode="json", exclude_none=True)
        self._write()

    def _read(self) -> dict[str, Any]:
        if self._path is not None:
            with contextlib.suppress(OSError, ValueError), open(self._path, encoding="utf-8") as file:
                kept = json.load(file)
                if isinstance(kept, dict):
                    return cast("dict[str, Any]", kept)
        return {}

    def _write(self) -> None:
        """In one step: a process that is killed leaves the old file or the new one."""
        if self._path is None:
            return
        os.makedirs(os.path.dirname(self._path), mode=_FOLDER_MODE, exist_ok=True)
        fresh = f"{self._path}.{secrets.token_hex(4)}"
        descriptor = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL, _FILE_MODE)
        try:
            with open(descriptor, "w", encoding="utf-8") as file:
                json.dump(self._kept, file)
            os.replace(fresh, self._path)
        except BaseException:
            os.unlink(fresh)
            raise

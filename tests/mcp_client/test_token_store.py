"""The file with a sign-in: damaged, it counts as none; where it cannot be written, the error names the file."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest
from mcp.client.auth.oauth2 import OAuthContext
from mcp.shared.auth import OAuthClientMetadata, OAuthToken

from toolyard.core.errors import SystemFault
from toolyard.mcp_client.results import SecretMask
from toolyard.mcp_client.token_store import TokenFile

URL = "https://far.example/mcp"
TOKENS = OAuthToken(access_token="a" * 40, refresh_token="r" * 40, expires_in=3600)
SOUND = {"tokens": TOKENS.model_dump(mode="json"), "ends": 2e9}
DAMAGED = {
    "emptied": b"",
    "cut in half": json.dumps(SOUND).encode()[:40],
    "zeros": bytes(200),
    "garbage": b"\x9f\x00\xff" * 50,
    "a list": b"[]",
    "too deep": b"[" * 100_000,
    "tokens of another type": json.dumps({"tokens": 3}).encode(),
    "an end of another type": json.dumps({**SOUND, "ends": "soon"}).encode(),
    "an address of another type": json.dumps({**SOUND, "authorization_url": 3}).encode(),
    "metadata of another type": json.dumps({**SOUND, "authorization": [1]}).encode(),
}


def opened(folder: Path) -> TokenFile:
    kept = TokenFile(str(folder), "far", URL, SecretMask())
    metadata = OAuthClientMetadata.model_validate({"redirect_uris": ["http://127.0.0.1/"]})
    kept.context = OAuthContext(URL, metadata, kept, None, None)
    return kept


@pytest.fixture
def file(tmp_path: Path) -> Path:
    asyncio.run(opened(tmp_path).set_tokens(TOKENS))
    (file,) = tmp_path.iterdir()
    return file


def test_what_was_written_is_read_again(file: Path) -> None:
    assert asyncio.run(opened(file.parent).get_tokens()) == TOKENS


@pytest.mark.parametrize("kind", DAMAGED)
def test_a_damaged_sign_in_is_none_and_is_replaced_by_the_next(file: Path, kind: str) -> None:
    file.write_bytes(DAMAGED[kind])
    kept = opened(file.parent)
    assert kept.context is not None
    assert asyncio.run(kept.get_tokens()) is None
    assert kept.context.is_token_valid() is False

    asyncio.run(kept.set_tokens(TOKENS))
    assert asyncio.run(opened(file.parent).get_tokens()) == TOKENS


def test_a_folder_in_its_place_is_named_with_the_way_out(file: Path) -> None:
    file.unlink()
    file.mkdir()
    with pytest.raises(SystemFault, match=file.name) as raised:
        asyncio.run(opened(file.parent).set_tokens(TOKENS))
    assert "Move the file away" in raised.value.hint
    assert list(file.parent.iterdir()) == [file]

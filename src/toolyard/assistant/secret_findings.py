"""Reports secrets that were masked in files: as findings of a review, and as notes for the other tools."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, Protocol

from toolyard.assistant.files.sources import SourceFile
from toolyard.assistant.findings import Finding
from toolyard.assistant.secrets.redaction import Secret
from toolyard.assistant.secrets.scanner import MASK

_FIX: Final = "Revoke it, and read it from the environment or a secret store."
_MOST_PLACES = 20


def secret_findings(sources: Sequence[SourceFile]) -> tuple[Finding, ...]:
    """Returns a finding for each line with a secret of a known format; suspected secrets are only masked."""
    return tuple(
        Finding("critical", "security", source.path, secret.line, _title(secret), _FIX)
        for source in sources
        for secret in source.secrets
        if secret.is_definite
    )


def _title(secret: Secret) -> str:
    return f"hard-coded secret, line {secret.line} ({secret.kind})"


class MaskedText(Protocol):
    """A file or an excerpt in which secrets may have been masked."""

    @property
    def path(self) -> str: ...

    @property
    def secrets(self) -> tuple[Secret, ...]: ...


def masked_places(sources: Sequence[MaskedText]) -> str:
    """Lists where secrets were masked, as `app.py:2 (GitHub Token), …`; empty if none was."""
    places = list(
        dict.fromkeys(f"{source.path}:{_describe_secret(secret)}" for source in sources for secret in source.secrets)
    )
    more = f" and {len(places) - _MOST_PLACES:,} more" if len(places) > _MOST_PLACES else ""
    return f"{', '.join(places[:_MOST_PLACES])}{more}"


def masked_note(sources: Sequence[MaskedText]) -> tuple[str, ...]:
    """Returns a note for the caller, if anything was masked."""
    places = masked_places(sources)
    return (f"Masked as secrets: {places}.",) if places else ()


def masked_hint(sources: Sequence[MaskedText]) -> str:
    """Returns a hint for the model, which sees the mask instead of each secret."""
    places = masked_places(sources)
    return f"[{MASK} stands for a secret that was masked and is already reported: {places}.]" if places else ""


def _describe_secret(secret: Secret) -> str:
    return f"{secret.line} ({secret.kind})" if secret.is_definite else f"{secret.line} (perhaps: {secret.kind})"

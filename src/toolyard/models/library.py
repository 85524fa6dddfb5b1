"""pydantic-ai is an extra and takes a second to import: it is asked for here, when the first model is opened."""

from __future__ import annotations

from importlib.util import find_spec

from toolyard.core.errors import SystemFault


def require_library() -> None:
    """Raises where the extra is not installed."""
    if find_spec("pydantic_ai") is None:
        raise SystemFault(
            "Agents on model APIs need pydantic-ai, which is not installed.",
            hint="`pip install 'toolyard[agents]'` brings it.",
        )

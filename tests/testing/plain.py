"""Requests to a model as plain JSON, for what no SDK sends or shows."""

from __future__ import annotations

from typing import Any

PATHS = {
    "gemini": "/v1beta/models/scripted:generateContent",
    "chat": "/v1/chat/completions",
    "responses": "/v1/responses",
    "anthropic": "/v1/messages",
}
BODIES: dict[str, dict[str, Any]] = {
    "gemini": {"contents": [{"role": "user", "parts": [{"text": "go"}]}]},
    "chat": {"model": "scripted", "messages": [{"role": "user", "content": "go"}]},
    "responses": {"model": "scripted", "input": "go"},
    "anthropic": {"model": "scripted", "max_tokens": 9, "messages": [{"role": "user", "content": "go"}]},
}


def sent(url: str, api: str, *, stream: bool = False) -> dict[str, Any]:
    """What to give to `httpx2.request`."""
    path, body = PATHS[api], BODIES[api]
    if stream and api == "gemini":
        path = path.replace(":generateContent", ":streamGenerateContent?alt=sse")
    elif stream:
        body = {**body, "stream": True}
    return {"method": "POST", "url": url + path, "json": body}

"""Posts the events of a workspace to the URL in `toolyard.webhook`.

A Webhook owns one thread, from the first event until `close()`. `enqueue` never blocks: events go to a bounded queue,
and the next delivery reports how many were dropped or could not be delivered. The audit log records the first of
several failures in a row. Redirects are not followed, and a host name that resolves to a private network is refused.
"""

from __future__ import annotations

import contextlib
import json
import socket
import threading
import time
from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from toolyard.app.activity import ActivityEvent
from toolyard.core.closeable import Closeable
from toolyard.core.errors import ConfigError
from toolyard.mcp_client.public_addresses import has_private_address, is_loopback, is_public

if TYPE_CHECKING:
    import httpx2

    from toolyard.config.webhook import WebhookSection

_MAX_QUEUED = 1_000
_MAX_BATCH = 100
_POST_SECONDS = 5.0
_TRIES = 3
_PAUSE_SECONDS = 0.5
_CLOSE_SECONDS = 2.0
_SUCCESS = range(200, 300)
_KEY = "toolyard.webhook.url"


class _DeliveryFailed(Exception):  # noqa: N818 - named for what happened
    """A request that did not arrive, or that the server refused."""


class Webhook(Closeable):
    """Delivers events to one URL. Safe to use from any thread."""

    def __init__(self, section: WebhookSection, on_failure: Callable[[str], None]) -> None:
        """`on_failure` writes a sentence to the audit log. Raises ConfigError for an address that is not allowed."""
        self._url = section.url
        self._host = _checked_host(section.url)
        self._headers = {"Content-Type": "application/json"}
        if section.token is not None and (token := section.token.get_secret_value()):
            self._headers["Authorization"] = f"Bearer {token}"
        self._sends_reads = section.reads
        self._on_failure = on_failure
        self._condition = threading.Condition()
        self._queue: deque[ActivityEvent] = deque()
        self._dropped = 0
        self._closes_at = float("inf")
        self._has_failed = False
        self._thread: threading.Thread | None = None

    def enqueue(self, event: ActivityEvent) -> None:
        """Queues an event for delivery; counts it as dropped if the queue is full."""
        if not self._sends_reads and not event.data.get("changes_files", True):
            return
        with self._condition:
            if len(self._queue) >= _MAX_QUEUED or self._is_closing:
                self._dropped += 1
                return
            self._queue.append(event)
            if self._thread is None:
                self._thread = threading.Thread(target=self._deliver_all, name="toolyard-webhook", daemon=True)
                self._thread.start()
            self._condition.notify_all()

    def close(self) -> None:
        """Sends the queued events, within `_CLOSE_SECONDS`, and stops the thread."""
        with self._condition:
            self._closes_at = time.monotonic() + _CLOSE_SECONDS
            self._condition.notify_all()
        if self._thread is not None:
            self._thread.join(_CLOSE_SECONDS + _POST_SECONDS)

    @property
    def _is_closing(self) -> bool:
        return self._closes_at != float("inf")

    def _deliver_all(self) -> None:
        import httpx2

        try:
            opened = httpx2.Client(timeout=_POST_SECONDS, trust_env=not is_loopback(self._host))
        except (ImportError, ValueError, OSError, httpx2.InvalidURL) as error:
            # The error text may contain the password of the proxy.
            self._report_failure(f"the proxy that the environment names cannot be used ({type(error).__name__}).")
            return
        with opened as client:
            while batch := self._next_batch():
                with self._condition:
                    dropped, self._dropped = self._dropped, 0
                try:
                    self._deliver(client, batch, dropped)
                    self._has_failed = False
                except _DeliveryFailed as fault:
                    with self._condition:
                        self._dropped += dropped + len(batch)
                    self._report_failure(str(fault))

    def _report_failure(self, reason: str) -> None:
        if not self._has_failed:
            self._has_failed = True
            self._on_failure(f"The webhook at {self._host} does not get file operations: {reason}")

    def _next_batch(self) -> list[ActivityEvent]:
        """Waits for the next events to send; returns an empty list when the thread should stop."""
        with self._condition:
            self._condition.wait_for(lambda: self._queue or self._is_closing)
            if time.monotonic() >= self._closes_at:
                return []
            return [self._queue.popleft() for _ in range(min(len(self._queue), _MAX_BATCH))]

    def _deliver(self, client: httpx2.Client, batch: list[ActivityEvent], dropped: int) -> None:
        body = json.dumps({"events": [each.data for each in batch], "dropped": dropped}).encode()
        for number in range(_TRIES):
            try:
                self._post(client, body)
            except _DeliveryFailed:
                if number + 1 == _TRIES or self._is_closing:
                    raise
                with self._condition:
                    self._condition.wait_for(lambda: self._is_closing, _PAUSE_SECONDS * 2**number)
            else:
                return

    def _post(self, client: httpx2.Client, body: bytes) -> None:
        import httpx2

        if not is_loopback(self._host) and has_private_address(_resolve_addresses(self._host)):
            raise _DeliveryFailed("its name resolves to a private network.")
        try:
            # Only the status matters: the body is not read.
            with client.stream("POST", self._url, content=body, headers=self._headers) as response:
                status = response.status_code
        except (httpx2.HTTPError, httpx2.InvalidURL, OSError) as error:
            raise _DeliveryFailed(f"it cannot be reached ({type(error).__name__}).") from None
        if status not in _SUCCESS:
            raise _DeliveryFailed(f"it answered with status {status}.")


def _checked_host(url: str) -> str:
    """Returns the host of an allowed URL. The rest of the URL may contain secrets and is never shown."""
    try:
        parts = urlsplit(url)
        host, has_login = parts.hostname or "", parts.username is not None or parts.password is not None
        _ = parts.port
    except ValueError:
        raise ConfigError(f"`{_KEY}` is not a URL.", hint="Write it as https://host/path.") from None
    if has_login:
        raise ConfigError(f"`{_KEY}` holds a user name.", hint="Put the secret into `toolyard.webhook.token`.")
    if parts.scheme == "https" and is_public(host):
        return host
    if parts.scheme in {"http", "https"} and is_loopback(host):
        return host
    raise ConfigError(
        f"`{_KEY}` points to {host or 'no host'}, which is neither a public host over https nor this machine.",
        hint="Use https and a public host, or http://127.0.0.1:PORT with a program there that forwards the events.",
    )


def _resolve_addresses(host: str) -> list[str]:
    """Returns the current addresses of a host name; empty if it cannot be resolved here, as behind a proxy."""
    with contextlib.suppress(OSError, UnicodeError):
        return [str(found[4][0]) for found in socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)]
    return []

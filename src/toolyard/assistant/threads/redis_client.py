"""A Redis server, connected on first use. The password appears in no message.

A RedisClient is used by many threads at once and owns its connections until `close()`. Timeouts are short: a server
that is down or hangs results in a SystemFault within seconds.
"""

from __future__ import annotations

import contextlib
import importlib.util
import threading
import urllib.parse
from collections.abc import Generator, Sequence
from typing import TYPE_CHECKING, Any, cast

from toolyard.core.closeable import Closeable
from toolyard.core.errors import ConfigError, SystemFault

if TYPE_CHECKING:
    from redis import RedisError

_CONNECT_SECONDS = 2.0
_ANSWER_SECONDS = 2.0
_SETTING = "assistant.storage"


class RedisClient(Closeable):
    """Runs commands and scripts on one Redis server."""

    def __init__(self, url: str) -> None:
        """Raises SystemFault if the Redis package is missing, ConfigError for an invalid URL."""
        if importlib.util.find_spec("redis") is None:
            raise SystemFault(
                f"`{_SETTING}` names a Redis server, but the Python package for Redis is not installed.",
                hint="Install it with `pip install 'toolyard[redis]'`.",
            )
        self._url = url
        self.address = _public_address(url)
        """Host, port and database, without the password."""
        self._lock = threading.Lock()
        self._client: Any = None
        self._scripts: dict[str, Any] = {}

    def __repr__(self) -> str:
        return f"RedisClient({self.address})"

    def run_script(self, script: str, keys: Sequence[str], values: Sequence[str | bytes | int]) -> Any:
        """Runs a Lua script atomically and returns its result. Raises SystemFault."""
        client = self._get_client()
        if script not in self._scripts:
            self._scripts[script] = client.register_script(script)
        with self._translate_errors():
            return self._scripts[script](keys=keys, args=values)

    def run_commands(self, *commands: Sequence[str | bytes | int]) -> list[Any]:
        """Runs commands in one transaction and returns their results. Raises SystemFault."""
        client = self._get_client()
        with self._translate_errors(), client.pipeline(transaction=True) as pipeline:
            for command in commands:
                pipeline.execute_command(*command)
            answers: list[Any] = pipeline.execute(raise_on_error=False)  # its error would quote the commands
            for answer in answers:
                if isinstance(answer, Exception):
                    raise answer
            return answers

    def close(self) -> None:
        with self._lock:
            client, self._client = self._client, None
            self._scripts.clear()
        if client is not None:
            client.close()

    def _get_client(self) -> Any:
        with self._lock:
            if self._client is None:
                self._client = self._create_client()
            return self._client

    def _create_client(self) -> Any:
        # Slow to import, and most servers do not need it.
        from redis import ConnectionError as NotConnected
        from redis import Redis
        from redis.backoff import NoBackoff
        from redis.retry import Retry

        try:
            client = cast("Any", Redis).from_url(
                self._url,
                socket_connect_timeout=_CONNECT_SECONDS,
                socket_timeout=_ANSWER_SECONDS,
                # An idle connection may be closed: retry once. A timeout is not retried.
                retry=Retry(NoBackoff(), 1, supported_errors=(NotConnected,)),
                protocol=2,
            )
            client.connection_pool.make_connection()  # validates the options without connecting
        except (ValueError, TypeError):
            raise _invalid_url_error() from None  # the original error quotes the URL
        return client

    @contextlib.contextmanager
    def _translate_errors(self) -> Generator[None]:
        from redis import RedisError

        try:
            yield
        except RedisError as error:
            raise self._fault_from_error(error) from error

    def _fault_from_error(self, error: RedisError) -> SystemFault:
        from redis import AuthenticationError
        from redis import ConnectionError as NotConnected
        from redis import TimeoutError as NoAnswer
        from redis.exceptions import AuthorizationError

        why = str(error).rstrip(".")
        if isinstance(error, AuthenticationError | AuthorizationError):
            hint = f"Check the name and the password in `{_SETTING}`."
            return SystemFault(f"Redis at {self.address} refused the login: {why}.", hint=hint)
        if isinstance(error, NotConnected | NoAnswer):
            hint = f"Check that it runs and can be reached, or store threads in a file with `{_SETTING}: sqlite`."
            return SystemFault(f"Redis at {self.address} does not answer: {why}.", hint=hint, retryable=True)
        return SystemFault(f"Redis at {self.address} refused: {why}.", hint="See the log of the Redis server.")


def _public_address(url: str) -> str:
    try:
        parts = urllib.parse.urlsplit(url)
        if parts.scheme == "unix":
            return parts.path
        host, port = parts.hostname, parts.port
    except ValueError:
        raise _invalid_url_error() from None
    if not host:
        raise _invalid_url_error()
    return f"{host}:{port or 6379}{parts.path.rstrip('/')}"


def _invalid_url_error() -> ConfigError:
    hint = "Write it as redis://:password@host:6379/0, with %-escapes for special characters in the password."
    return ConfigError(f"`{_SETTING}` is not a valid Redis URL.", hint=hint)

"""The Desk: what the calls of one assistant share. Models, the loop that they are asked on, threads and rates.

Everything is made when it is first needed, from worker threads, and given back by `close()`. A model is asked on a
loop of its own, so that one which hangs holds up its own call and nobody else's: the worker thread that waits for it
looks again and again whether its caller still does, and takes the request back when not.
"""

from __future__ import annotations

import concurrent.futures
import contextlib
import math
import os
import socket
import threading
import time
from collections.abc import Coroutine
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

from toolyard.assistant.secrets.redaction import mask_known_secrets
from toolyard.assistant.threads.location import threads_of
from toolyard.config.assistant import Rate, ToolName
from toolyard.config.backends import KEY_VARIABLES
from toolyard.core.closeable import Closing
from toolyard.core.errors import ProviderError, ToolError, ToolyardError
from toolyard.core.loop_thread import LoopThread
from toolyard.core.redaction import masked, secrets_of
from toolyard.dispatch.call_context import Gate
from toolyard.models.error_wording import FOR_ASSISTANT
from toolyard.models.factory import open_model
from toolyard.models.lazy_import import without_collecting
from toolyard.models.model_names import Chosen, choose_model

if TYPE_CHECKING:
    from toolyard.assistant.threads.factory import Opened
    from toolyard.config.models import Config
    from toolyard.config.settings import Settings
    from toolyard.models.chat_model import ChatModel

T = TypeVar("T")

_MOST_TRIES = 3
_LOOK_SECONDS = 0.02
_END_SECONDS = 5.0


@dataclass(frozen=True, slots=True)
class Opinion:
    """A model that can be asked."""

    name: str
    """As the user would name it."""
    model: ChatModel


class Desk(Closing):
    def __init__(self, config: Config, settings: Settings) -> None:
        self.config = config.assistant
        self._whole = config
        self._settings = settings
        keys = [settings.model_access.get(name, "").strip() for name in KEY_VARIABLES]
        self._secrets = tuple(secret for key in (*keys, settings.token or "") for secret in secrets_of(key=key))
        self._lock = threading.Lock()
        self._opening = threading.Lock()  # of models: the first takes a second to load
        self._loop: LoopThread | None = None
        self._models: dict[str, Opinion] = {}
        self._threads: Opened | None = None

    def close(self) -> None:
        with self._lock:
            loop, self._loop = self._loop, None
            threads, self._threads = self._threads, None
        if loop is not None:
            for opinion in self._models.values():
                with contextlib.suppress(Exception):  # what is left of a connection ends with the process
                    loop.run(opinion.model.close(), _END_SECONDS)
            loop.close()
        if threads is not None:
            threads.close()

    def warm_up(self) -> None:
        """Load what the first question needs. What cannot be loaded is told with it."""
        with contextlib.suppress(ToolyardError):
            self.opinion("chat")

    def threads(self, gate: Gate) -> Opened:
        with self._lock:
            if self._threads is None:
                self._threads = threads_of(gate.home, self._whole)
            return self._threads

    def admit(self, tool: ToolName, gate: Gate) -> None:
        """Take one of the calls that this client has. Raises where there is none."""
        rate = self.config.rate_of(tool)
        if rate is None:
            return
        wait = self.threads(gate).rates.take(_client(gate), tool, rate)
        if wait > 0:
            raise _too_often(tool, rate, wait)

    def opinion(self, tool: ToolName) -> Opinion:
        """The model that answers for a tool. Raises ConfigError, also where there is no key."""
        chosen = choose_model(self.config, self._settings, tool)
        with self._opening:
            known = self._models.get(chosen.name)
            if known is None:
                known = self._models[chosen.name] = Opinion(chosen.name, self._open(chosen))
            return known

    def _open(self, chosen: Chosen) -> ChatModel:
        with without_collecting():
            return open_model(
                chosen.backend,
                self._settings.model_access,
                most_tries=_MOST_TRIES,
                patience=self.config.limits.seconds,
                audience=FOR_ASSISTANT,
            )

    def masked(self, text: str) -> str:
        """A text without the keys that this process holds: for whatever is sent, kept or said."""
        return masked(text, self._secrets)

    def without_secrets(self, text: str) -> str:
        """A text without those keys, nor other secrets of a known format: for whatever is kept or answered."""
        return mask_known_secrets(self.masked(text))

    def wait_for(self, work: Coroutine[Any, Any, T], gate: Gate, until: float) -> T:
        """Run `work` on the loop and wait, for as long as the caller does. Leaving takes it back."""
        future = self._on_loop(work)
        try:
            while not concurrent.futures.wait((future,), _LOOK_SECONDS).done:
                gate.check_time()
                if time.monotonic() > until:
                    raise _overdue(gate, self.config.limits.seconds)
            return future.result()
        finally:
            future.cancel()

    def _on_loop(self, work: Coroutine[Any, Any, T]) -> concurrent.futures.Future[T]:
        with self._lock:
            if self._loop is None:
                self._loop = LoopThread("toolyard-models")
            return self._loop.submit(work)


def _client(gate: Gate) -> str:
    """Whose calls are counted together: of whoever has the token of a server, or of who started one on stdio.

    Sessions over HTTP are no clients: whoever has the token opens as many as they like.
    """
    return "http" if gate.call.surface.endswith("http") else f"{os.getuid()}@{socket.gethostname()}"


def _too_often(tool: ToolName, rate: Rate, wait: float) -> ToolError:
    return ToolError(
        f"{tool} was called more than {rate} by this client.",
        hint=f"Call it again in {math.ceil(wait)} s. (The user can change `assistant.rate_limits`.)",
        retryable=True,
        facts={"retry_after": round(wait, 3)},
    )


def _overdue(gate: Gate, seconds: float) -> ProviderError:
    return ProviderError(
        f"The model did not answer {gate.call.tool} within {seconds:g} seconds.",
        hint="Ask for less, choose a lower thinking_mode, or raise `assistant.limits.seconds`.",
        retryable=True,
    )

"""State shared by the calls of one assistant: models, the event loop they run on, threads and rate limits.

Everything is created on first use, from worker threads, and released by `close()`. Models run on an event loop of
their own, so that a model that hangs delays only its own call: the worker thread that waits for it polls whether its
caller is still waiting, and cancels the request if not.
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
from toolyard.assistant.threads.location import open_workspace_threads
from toolyard.config.assistant import Rate, ToolName
from toolyard.config.backends import KEY_VARIABLES
from toolyard.core.closeable import Closeable
from toolyard.core.errors import ProviderError, ToolError, ToolyardError
from toolyard.core.loop_thread import LoopThread
from toolyard.core.redaction import collect_secrets, mask_secrets
from toolyard.dispatch.call_context import CallContext
from toolyard.models.error_wording import ASSISTANT_WORDING
from toolyard.models.factory import open_model
from toolyard.models.lazy_import import gc_paused
from toolyard.models.model_names import ModelChoice, choose_model

if TYPE_CHECKING:
    from toolyard.assistant.threads.factory import ThreadServices
    from toolyard.config.models import Config
    from toolyard.config.settings import Settings
    from toolyard.models.chat_model import ChatModel

T = TypeVar("T")

_MOST_TRIES = 3
_POLL_SECONDS = 0.02
_CLOSE_SECONDS = 5.0


@dataclass(frozen=True, slots=True)
class LoadedModel:
    """An open model and its name."""

    name: str
    """`provider:model`, as shown to users."""
    model: ChatModel


class AssistantRuntime(Closeable):
    """Opens and owns the models, the threads and the rate limiter of an assistant."""

    def __init__(self, config: Config, settings: Settings) -> None:
        self.config = config.assistant
        self._full_config = config
        self._settings = settings
        keys = [settings.model_access.get(name, "").strip() for name in KEY_VARIABLES]
        self._secrets = tuple(secret for key in (*keys, settings.token or "") for secret in collect_secrets(key=key))
        self._lock = threading.Lock()
        self._open_lock = threading.Lock()  # while a model is opened: the first takes a second to import
        self._loop: LoopThread | None = None
        self._models: dict[str, LoadedModel] = {}
        self._threads: ThreadServices | None = None

    def close(self) -> None:
        with self._lock:
            loop, self._loop = self._loop, None
            threads, self._threads = self._threads, None
        if loop is not None:
            for loaded in self._models.values():
                with contextlib.suppress(Exception):  # an open connection ends with the process
                    loop.run(loaded.model.close(), _CLOSE_SECONDS)
            loop.close()
        if threads is not None:
            threads.close()

    def warm_up(self) -> None:
        """Loads what the first question needs. Errors are reported with that question."""
        with contextlib.suppress(ToolyardError):
            self.model_for("chat")

    def thread_services(self, ctx: CallContext) -> ThreadServices:
        """Returns the thread store and the rate limiter, which are opened on first use."""
        with self._lock:
            if self._threads is None:
                self._threads = open_workspace_threads(ctx.agent_paths, self._full_config)
            return self._threads

    def check_rate(self, tool: ToolName, ctx: CallContext) -> None:
        """Counts a call of this client. Raises ToolError if its rate limit is exceeded."""
        rate = self.config.rate_for(tool)
        if rate is None:
            return
        wait = self.thread_services(ctx).rate_limiter.take_token(_client_id(ctx), tool, rate)
        if wait > 0:
            raise _rate_limit_error(tool, rate, wait)

    def model_for(self, tool: ToolName) -> LoadedModel:
        """Returns the model that answers for a tool. Raises ConfigError, also if there is no key."""
        chosen = choose_model(self.config, self._settings, tool)
        with self._open_lock:
            known = self._models.get(chosen.name)
            if known is None:
                known = self._models[chosen.name] = LoadedModel(chosen.name, self._open_model(chosen))
            return known

    def _open_model(self, chosen: ModelChoice) -> ChatModel:
        with gc_paused():
            return open_model(
                chosen.backend,
                self._settings.model_access,
                most_tries=_MOST_TRIES,
                patience=self.config.limits.seconds,
                wording=ASSISTANT_WORDING,
            )

    def mask_keys(self, text: str) -> str:
        """Masks the API keys of this process, in everything that is sent, stored or returned."""
        return mask_secrets(text, self._secrets)

    def mask_secrets(self, text: str) -> str:
        """Masks those keys and other secrets of a known format, in everything that is stored or returned."""
        return mask_known_secrets(self.mask_keys(text))

    def run_on_model_loop(self, work: Coroutine[Any, Any, T], ctx: CallContext, deadline: float) -> T:
        """Runs `work` on the models' loop and waits for it while the caller does; cancels it otherwise."""
        future = self._submit(work)
        try:
            while not concurrent.futures.wait((future,), _POLL_SECONDS).done:
                ctx.check_time()
                if time.monotonic() > deadline:
                    raise _timeout_error(ctx, self.config.limits.seconds)
            return future.result()
        finally:
            future.cancel()

    def _submit(self, work: Coroutine[Any, Any, T]) -> concurrent.futures.Future[T]:
        with self._lock:
            if self._loop is None:
                self._loop = LoopThread("toolyard-models")
            return self._loop.submit(work)


def _client_id(ctx: CallContext) -> str:
    """Returns the client whose calls are counted together: the HTTP server's, or the user's on this host for stdio.

    HTTP sessions do not count as clients: a client with the token can open any number of them.
    """
    return "http" if ctx.call.surface.endswith("http") else f"{os.getuid()}@{socket.gethostname()}"


def _rate_limit_error(tool: ToolName, rate: Rate, wait: float) -> ToolError:
    return ToolError(
        f"{tool} was called more than {rate} by this client.",
        hint=f"Call it again in {math.ceil(wait)} s. (The user can change `assistant.rate_limits`.)",
        retryable=True,
        facts={"retry_after": round(wait, 3)},
    )


def _timeout_error(ctx: CallContext, seconds: float) -> ProviderError:
    return ProviderError(
        f"The model did not answer {ctx.call.tool} within {seconds:g} seconds.",
        hint="Ask for less, choose a lower thinking_mode, or raise `assistant.limits.seconds`.",
        retryable=True,
    )

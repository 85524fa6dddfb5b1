"""Creates the SDK client of a model; only the SDK of the provider in use is imported.

Everything that an SDK would read from the environment is passed explicitly: keys, addresses, proxies and certificates
come from the configuration. The SDKs' own retries are disabled, because `retry` does all retries. They are disabled
in the client: the library would copy the client for a setting of a request, and the copy would read the environment.
"""

from __future__ import annotations

import logging
import warnings
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any

from toolyard.core.errors import ConfigError
from toolyard.models.endpoint import PLACEHOLDER_KEY, ModelEndpoint
from toolyard.models.schema_cache import rewrite_schemas_once

if TYPE_CHECKING:
    import ssl

    import httpx2
    from pydantic_ai.models import Model

CONNECT_SECONDS = 10.0
READ_SECONDS = 300.0
"""Longest wait between two pieces of an answer: a model may think for minutes before the first."""


@dataclass(frozen=True, slots=True)
class ProviderClient:
    """A model of the library, and the function that closes its HTTP client."""

    model: Model[Any]
    close: Callable[[], Awaitable[None]]


def create_provider_client(endpoint: ModelEndpoint, timeout: float | None) -> ProviderClient:
    """Creates the client for an endpoint; the caller closes it."""
    _silence_library_warnings()
    http = _http_client(endpoint, timeout or READ_SECONDS)
    model = {"gemini": _gemini_model, "openai": _openai_model, "claude": _claude_model}[endpoint.kind.api](
        endpoint, http
    )
    return ProviderClient(rewrite_schemas_once(model), http.aclose)


def _silence_library_warnings() -> None:
    """Silences warnings of the libraries, which would appear on the terminal in the middle of a run.

    Providers report outdated models and refused settings themselves where it matters.
    """
    warnings.filterwarnings("ignore", module=r"pydantic_ai\.")
    warnings.filterwarnings(
        "ignore", message="Pydantic serializer warnings"
    )  # for numbers that a server sent as text
    # Google's client logs environment variables that it would use, although explicit values override them.
    logging.getLogger("google_genai._api_client").setLevel(logging.ERROR)


def _http_client(endpoint: ModelEndpoint, read_seconds: float) -> httpx2.AsyncClient:
    """Creates the HTTP client. Raises ConfigError if the certificates cannot be read."""
    import httpx2
    from pydantic_ai.models import create_async_httpx2_client

    from toolyard.models.close_streams import StreamTrackingTransport
    from toolyard.models.response_limits import UNCOMPRESSED_HEADERS, BoundedTransport
    from toolyard.models.sse_line_fix import SseLineFixTransport

    # An explicit transport: otherwise proxies would be read from the environment.
    transport = httpx2.AsyncHTTPTransport(
        verify=_ssl_context(endpoint.certificates), trust_env=False, proxy=endpoint.proxy or None
    )
    client = create_async_httpx2_client(
        timeout=httpx2.Timeout(read_seconds, connect=CONNECT_SECONDS),
        transport=StreamTrackingTransport(SseLineFixTransport(BoundedTransport(transport))),
    )
    client.headers.update(UNCOMPRESSED_HEADERS)
    return client


@cache
def _ssl_context(extra_file: str) -> ssl.SSLContext:
    """Returns the shared TLS context. It is cached, because loading the certificates takes longer than a turn."""
    import httpx2

    trusted = httpx2.create_ssl_context(trust_env=False)
    if extra_file:
        try:
            trusted.load_verify_locations(extra_file)
        except OSError as error:  # includes ssl's error for a file without certificates
            why = error.strerror or "it holds no certificates"
            raise ConfigError(f"SSL_CERT_FILE names {extra_file}, which cannot be read: {why}.") from error
    return trusted


def _gemini_model(endpoint: ModelEndpoint, http: httpx2.AsyncClient) -> Model[Any]:
    from google.genai.client import Client
    from google.genai.types import HttpOptions, HttpRetryOptions
    from pydantic_ai.models.google import GoogleModel
    from pydantic_ai.providers.google import GoogleProvider

    trusted = _ssl_context(endpoint.certificates)
    client = Client(
        vertexai=False,
        api_key=endpoint.key or PLACEHOLDER_KEY,
        http_options=HttpOptions(
            base_url=endpoint.base_url,
            api_version="v1beta",
            httpx_async_client=http,
            # For its own clients, which are not used: otherwise it would load the system's certificates twice.
            client_args={"verify": trusted},
            async_client_args={"verify": trusted, "ssl": trusted},
            timeout=int((http.timeout.read or READ_SECONDS) * 1000),
            retry_options=HttpRetryOptions(attempts=1),
        ),
    )
    return GoogleModel(endpoint.model, provider=GoogleProvider(client=client))


def _claude_model(endpoint: ModelEndpoint, http: httpx2.AsyncClient) -> Model[Any]:
    from anthropic import AsyncAnthropic
    from pydantic_ai.models.anthropic import AnthropicModel
    from pydantic_ai.providers.anthropic import AnthropicProvider

    client = AsyncAnthropic(
        api_key=endpoint.key or PLACEHOLDER_KEY,
        base_url=endpoint.base_url,
        http_client=http,
        timeout=http.timeout,
        max_retries=0,
    )
    _drop_environment_headers(client)
    return AnthropicModel(endpoint.model, provider=AnthropicProvider(anthropic_client=client))


def _openai_model(endpoint: ModelEndpoint, http: httpx2.AsyncClient) -> Model[Any]:
    from openai import AsyncOpenAI
    from pydantic_ai.models.openai import OpenAIChatModel

    client = AsyncOpenAI(
        api_key=endpoint.key or PLACEHOLDER_KEY,
        base_url=endpoint.base_url,
        http_client=http,
        timeout=http.timeout,
        max_retries=0,
    )
    _drop_environment_headers(client)
    client.organization = client.project = None
    if endpoint.kind.name == "openrouter":  # it forwards the signed thinking of the models behind it
        from pydantic_ai.models.openrouter import OpenRouterModel
        from pydantic_ai.providers.openrouter import OpenRouterProvider

        return OpenRouterModel(endpoint.model, provider=OpenRouterProvider(openai_client=client))
    if endpoint.kind.name == "ollama":
        from pydantic_ai.models.ollama import OllamaModel
        from pydantic_ai.providers.ollama import OllamaProvider

        return OllamaModel(endpoint.model, provider=OllamaProvider(openai_client=client))
    if endpoint.is_official:
        from pydantic_ai.providers.openai import OpenAIProvider

        return OpenAIChatModel(endpoint.model, provider=OpenAIProvider(openai_client=client))
    from pydantic_ai.providers.openai_compatible import OpenAICompatibleProvider

    return OpenAIChatModel(
        endpoint.model, provider=OpenAICompatibleProvider(endpoint.kind.name, openai_client=client)
    )


def _drop_environment_headers(client: Any) -> None:
    """Removes headers that the SDK took from an environment variable: they would be sent to any configured host."""
    client._custom_headers = {}  # noqa: SLF001 - the SDKs always read the variable

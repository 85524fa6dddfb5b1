"""OpenTelemetry spans for runs, model calls and tool calls. Off unless an endpoint is configured.

Without an endpoint `open_tracing` returns a Tracing that does nothing and loads nothing. Otherwise it owns an
exporter with its own thread until `close()`; an unreachable collector does not slow the run. Spans carry names,
counts and times, but no prompts, answers, arguments or results.
"""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Generator
from typing import TYPE_CHECKING, Any, Protocol

from toolyard.core.closeable import Closeable
from toolyard.core.errors import ConfigError
from toolyard.models.messages import ModelUsage

if TYPE_CHECKING:
    from toolyard.config.models import Config
    from toolyard.config.settings import Settings

_PATH = "/v1/traces"
_SEND_SECONDS = 2.0
_CLOSE_MILLISECONDS = 3000


class Span(Protocol):
    """What code under a span can record."""

    def set_attributes(self, **facts: str | float | bool) -> None:
        """Sets attributes; `__` in a name becomes a dot."""
        ...

    def mark_failed(self, why: str) -> None: ...


class _NoSpan:
    def set_attributes(self, **facts: str | float | bool) -> None:
        del facts

    def mark_failed(self, why: str) -> None:
        del why


_NO_SPAN = _NoSpan()


class _RecordedSpan:
    def __init__(self, span: Any) -> None:
        self._span = span

    def set_attributes(self, **facts: str | float | bool) -> None:
        for name, value in facts.items():
            self._span.set_attribute(name.replace("__", "."), value)

    def mark_failed(self, why: str) -> None:
        from opentelemetry.trace import StatusCode

        self._span.set_status(StatusCode.ERROR, why)


class Tracing(Closeable):
    """Creates spans; does nothing without a provider."""

    def __init__(self, provider: Any = None) -> None:
        self._provider = provider
        self._tracer = provider.get_tracer("toolyard") if provider is not None else None

    @contextlib.contextmanager
    def _span(self, name: str, **facts: str | float | bool) -> Generator[Span]:
        if self._tracer is None:
            yield _NO_SPAN
            return
        # The text of an exception may quote a provider or a model: record only its type.
        quietly = {"record_exception": False, "set_status_on_exception": False}
        with self._tracer.start_as_current_span(name, **quietly) as span:
            recorded = _RecordedSpan(span)
            recorded.set_attributes(**facts)
            try:
                yield recorded
            except Exception as error:
                recorded.mark_failed(type(error).__name__)
                raise

    def run(self, run: str, agents: int) -> contextlib.AbstractContextManager[Span]:
        return self._span("run", toolyard__run=run, toolyard__agents=agents)

    def work(self, agent: str, number: int) -> contextlib.AbstractContextManager[Span]:
        return self._span(f"invoke_agent {agent}", gen_ai__agent__name=agent, toolyard__round=number)

    def model_call(self, backend: str, model: str) -> contextlib.AbstractContextManager[Span]:
        facts = {
            "gen_ai__operation__name": "chat",
            "gen_ai__provider__name": backend,
            "gen_ai__request__model": model,
        }
        return self._span(f"chat {model}", **facts)

    def tool_call(self, tool: str, call: str) -> contextlib.AbstractContextManager[Span]:
        return self._span(f"execute_tool {tool}", gen_ai__tool__name=tool, gen_ai__tool__call__id=call)

    def close(self) -> None:
        if self._provider is not None:
            self._provider.force_flush(_CLOSE_MILLISECONDS)
            self._provider.shutdown()


def record_usage(span: Span, spent: ModelUsage) -> None:
    """Records the tokens of a model call."""
    span.set_attributes(gen_ai__usage__input_tokens=spent.input, gen_ai__usage__output_tokens=spent.output)


def open_tracing(config: Config, settings: Settings) -> Tracing:
    """Opens tracing as the configuration or OTEL_EXPORTER_OTLP_ENDPOINT says. Raises ConfigError."""
    endpoint = config.tracing.endpoint or settings.trace_endpoint
    if not endpoint:
        return Tracing()
    try:
        from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
        from opentelemetry.sdk.resources import Resource
        from opentelemetry.sdk.trace import TracerProvider
        from opentelemetry.sdk.trace.export import BatchSpanProcessor
    except ImportError as error:
        raise ConfigError(
            f"sending traces to {endpoint} requires packages that are not installed.",
            where=config.source or "",
            hint="Install them with `pip install 'toolyard[tracing]'`.",
        ) from error
    for name in ("opentelemetry.exporter.otlp.proto.http", "opentelemetry.sdk._shared_internal"):
        logging.getLogger(name).addHandler(logging.NullHandler())  # an unreachable collector is not worth a log line
        logging.getLogger(name).propagate = False
    address = endpoint if endpoint.endswith(_PATH) else endpoint.rstrip("/") + _PATH
    provider = TracerProvider(resource=Resource.create({"service.name": config.tracing.service_name}))
    exporter = OTLPSpanExporter(endpoint=address, headers=dict(config.tracing.headers), timeout=_SEND_SECONDS)
    provider.add_span_processor(BatchSpanProcessor(exporter))
    return Tracing(provider)

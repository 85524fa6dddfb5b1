"""Spans reach a collector over the wire, and nothing is sent where none is configured."""

from __future__ import annotations

import http.server
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from toolyard.testing.mock_model import FOREVER, Call, Fail, Say

pytest.importorskip("opentelemetry.sdk")


class Collector:
    """Takes OTLP over HTTP and keeps the spans."""

    def __init__(self) -> None:
        self.spans: list[object] = []
        self.headers: list[dict[str, str]] = []

    @contextmanager
    def serving(self) -> Iterator[str]:
        from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

        collector = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def log_message(self, *arguments: object) -> None:
                """Says nothing."""

            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["content-length"]))
                if self.headers.get("content-encoding") == "gzip":
                    import gzip

                    body = gzip.decompress(body)
                request = ExportTraceServiceRequest.FromString(body)
                collector.headers.append({name.lower(): value for name, value in self.headers.items()})
                collector.spans += [
                    span for each in request.resource_spans for scope in each.scope_spans for span in scope.spans
                ]
                self.send_response(200)
                self.send_header("content-length", "0")
                self.end_headers()

        server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        thread = threading.Thread(target=server.serve_forever, args=(0.05,))
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()
            thread.join()
            server.server_close()

    def named(self, start: str) -> list[object]:
        return [span for span in self.spans if span.name.startswith(start)]


def attributes(span) -> dict[str, object]:
    return {each.key: each.value.string_value or each.value.int_value for each in span.attributes}


def test_runs_model_calls_and_tool_calls_are_spans_of_one_trace(team_of) -> None:
    collector = Collector()
    team = team_of(a=[Call("LS", {"path": "."}), Say("Done.")])
    with collector.serving() as address:
        team.more = {"tracing": {"endpoint": address, "headers": {"x-key": "secret"}}}
        finished = team.run(["a"])

    (run,) = collector.named("run")
    models, tools = collector.named("chat"), collector.named("execute_tool")
    assert attributes(run)["toolyard.run"] == finished.run
    assert [attributes(each)["gen_ai.request.model"] for each in models] == ["a", "a"]
    assert [attributes(each)["gen_ai.tool.name"] for each in tools] == ["LS"]
    assert {each.trace_id for each in collector.spans} == {run.trace_id}
    assert collector.headers[0]["x-key"] == "secret"
    assert all(attributes(each)["gen_ai.usage.input_tokens"] > 0 for each in models)


def test_spans_carry_no_words_of_prompts_and_answers(team_of) -> None:
    collector = Collector()
    team = team_of(a=[Call("Write", {"file_path": "x", "content": "QUIETWORD"}), Say("QUIETWORD")])
    with collector.serving() as address:
        team.more = {"tracing": {"endpoint": address}}
        team.run(["a"], "QUIETWORD")

    assert collector.spans
    assert "QUIETWORD" not in "".join(map(str, collector.spans))


def test_spans_of_what_failed_carry_no_words_either(team_of) -> None:
    collector = Collector()
    team = team_of(a=[Call("QUIETWORD", {}), Fail(400, message="You said QUIETWORD.", times=FOREVER)])
    with collector.serving() as address:
        team.more = {"tracing": {"endpoint": address}}
        team.run(["a"])

    assert "QUIETWORD" not in "".join(map(str, collector.spans))
    (chat,) = [each for each in collector.named("chat") if each.status.message]
    assert chat.status.message == "SystemFault"


def test_a_collector_that_is_away_costs_the_run_nothing(team_of) -> None:
    team = team_of(a=Say("Done."))
    team.more = {"tracing": {"endpoint": "http://127.0.0.1:9"}}

    assert team.run(["a"]).text == "Done."


def test_nothing_is_loaded_where_it_is_off() -> None:
    import subprocess

    program = (
        "import sys\n"
        "from toolyard.config.models import Config\n"
        "from toolyard.config.settings import Settings\n"
        "from toolyard.team.tracing import open_tracing\n"
        "tracing = open_tracing(Config(), Settings.from_environment({}))\n"
        "with tracing.run('x', 1) as span:\n"
        "    span.set_attributes(a=1)\n"
        "print('opentelemetry.sdk' in sys.modules)\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)

    assert done.stdout.strip() == "False"

"""Runs the scripted model as a program, for benchmarks and guides.

    python -m toolyard.testing.mock_model [--port 0] (--script FILE.json | --say TEXT | --zero)

Its first line on stdout is its address. Set `GOOGLE_GEMINI_BASE_URL` and `ANTHROPIC_BASE_URL` to that address and
`OPENAI_BASE_URL` to that address with `/v1`; any key is accepted. It ends on SIGTERM or SIGINT, and at the end of its
stdin if that is a pipe.

- `--script FILE.json` plays the script in the file; `script_files` documents the format.
- `--say TEXT` answers every request with that text, and `--zero` with `done`. The response bytes are prepared once
  and requests are not parsed, so that a benchmark measures the client and not the model.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import signal
import stat
import sys
from collections.abc import Awaitable, Callable

from toolyard.core.errors import ConfigError
from toolyard.testing.mock_model.http import HttpRequest, RequestHandler, ServerConnection, listen, response_bytes
from toolyard.testing.mock_model.replies import HttpReply, non_turn_reply, parse_request, reply_to, unpaired_reply
from toolyard.testing.mock_model.script_files import read_script
from toolyard.testing.mock_model.scripts import Script
from toolyard.testing.mock_model.steps import DONE, Hang, Say

_STREAM_MARKERS = (b'"stream":true', b'"stream": true')
_USAGE_MARKERS = (b'"include_usage":true', b'"include_usage": true')
_BAD_USAGE = 2


def script_handler(script: Script) -> RequestHandler:
    """Returns a handler that plays a script; answers without a delay are returned at once."""

    def answer(received: HttpRequest) -> bytes | Awaitable[HttpReply]:
        request = parse_request(received.method, received.path, received.headers, received.body)
        if not request.is_turn:
            return response_bytes(non_turn_reply(request))
        if (refused := unpaired_reply(request)) is not None:
            return response_bytes(refused)
        step = script(request)
        if isinstance(step, Hang):
            return _wait_forever()
        reply = reply_to(request, step)
        return _return_later(reply) if reply.is_cut or reply.delay else response_bytes(reply)

    return answer


def fixed_text_handler(text: str) -> RequestHandler:
    """Returns a handler that answers everything with one text, from bytes prepared once for each kind of request."""
    responses: dict[tuple[str, bool, bool], bytes] = {}

    def answer(received: HttpRequest) -> bytes:
        body = received.body
        is_streaming = any(mark in body for mark in _STREAM_MARKERS)
        kind = (received.path, is_streaming, is_streaming and any(mark in body for mark in _USAGE_MARKERS))
        if kind not in responses:
            request = parse_request(received.method, received.path, received.headers, body)
            responses[kind] = response_bytes(
                reply_to(request, Say(text)) if request.is_turn else non_turn_reply(request)
            )
        return responses[kind]

    return answer


async def serve(handler: RequestHandler, port: int, on_listening: Callable[[str], None]) -> None:
    """Serves until a signal arrives or stdin ends."""
    over = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, over.set)
    mode = os.fstat(sys.stdin.fileno()).st_mode
    if stat.S_ISFIFO(mode) or stat.S_ISSOCK(mode):
        loop.add_reader(sys.stdin.fileno(), lambda: os.read(sys.stdin.fileno(), 4096) or over.set())
    connections: set[ServerConnection] = set()
    server = await listen(handler, connections, port)
    on_listening(f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}")
    await over.wait()
    server.close()
    for connection in list(connections):
        connection.abort()


def main() -> int:
    """Parses the command line and serves; returns the exit code."""
    parser = argparse.ArgumentParser("python -m toolyard.testing.mock_model", description="A scripted model.")
    parser.add_argument("--port", type=int, default=0, help="0: any free port")
    what = parser.add_mutually_exclusive_group(required=True)
    what.add_argument("--script", metavar="FILE.json")
    what.add_argument("--say", metavar="TEXT")
    what.add_argument("--zero", action="store_true", help="answer `done` as fast as possible")
    chosen = parser.parse_args()
    try:
        answerer = (
            script_handler(read_script(chosen.script))
            if chosen.script
            else fixed_text_handler(chosen.say or DONE.text)
        )
        asyncio.run(serve(answerer, chosen.port, _print_address))
    except (ConfigError, OSError) as error:
        sys.stderr.write(f"{error}\n")
        return _BAD_USAGE
    return 0


def _print_address(address: str) -> None:
    sys.stdout.write(f"{address}\n")
    sys.stdout.flush()


async def _return_later(reply: HttpReply) -> HttpReply:
    return reply


async def _wait_forever() -> HttpReply:
    await asyncio.Event().wait()
    raise AssertionError


if __name__ == "__main__":
    sys.exit(main())

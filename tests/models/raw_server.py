"""A server of any provider's that sends raw bytes, and a model behind its real SDK."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Iterable
from contextlib import asynccontextmanager
from typing import cast

from tests.models.conftest import MODELS
from toolyard.config.models import Backend
from toolyard.models.conversation import Conversation
from toolyard.models.factory import open_model
from toolyard.models.messages import TurnResult

STREAM = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\n\r\n"


def refusal(status: int, body: bytes = b"{}", **headers: str) -> bytes:
    more = "".join(f"{name.replace('_', '-')}: {value}\r\n" for name, value in headers.items())
    head = f"HTTP/1.1 {status} No\r\ncontent-type: application/json\r\nconnection: close\r\n{more}\r\n"
    return head.encode() + body


@asynccontextmanager
async def sending(pieces: Iterable[bytes]) -> AsyncGenerator[tuple[str, list[int]]]:
    """Its address, and how many bytes each who asked has taken."""
    taken: list[int] = []
    answering: list[asyncio.Task[None]] = []

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        answering.append(cast("asyncio.Task[None]", asyncio.current_task()))
        head = await reader.readuntil(b"\r\n\r\n")
        length = next(line for line in head.lower().split(b"\r\n") if line.startswith(b"content-length:"))
        await reader.readexactly(int(length.partition(b":")[2]))
        taken.append(0)
        number = len(taken) - 1
        try:
            for piece in pieces:
                writer.write(piece)
                await writer.drain()
                taken[number] += len(piece)
        except (ConnectionError, asyncio.CancelledError):
            pass  # nobody wants the rest
        finally:
            writer.close()

    server = await asyncio.start_server(answer, "127.0.0.1")
    try:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}", taken
    finally:
        server.close()
        for task in answering:
            task.cancel()
        await asyncio.gather(*answering, return_exceptions=True)


async def turn_of(kind: str, address: str, *, most_tries: int = 1) -> TurnResult:
    """One turn with the model of that kind there."""
    url = f"{address}/v1" if kind == "openai" else address
    backend = Backend(type=kind, model=MODELS[kind], base_url=url)
    model = open_model(backend, {}, patience=0.1, first_pause=0.01, most_tries=most_tries)
    conversation = Conversation()
    conversation.add_question("hello")
    try:
        return await model.turn(conversation)
    finally:
        await model.close()

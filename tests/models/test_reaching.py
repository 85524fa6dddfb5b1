"""A provider that cannot be reached at all: soon given up where it never answered, and waited for where it did."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncGenerator, Callable
from contextlib import AsyncExitStack, suppress

import pytest
from pydantic_ai.exceptions import ModelTimeoutError

from tests.models.conftest import MODELS, address
from toolyard.config.models import Backend
from toolyard.core.errors import SystemFault
from toolyard.models.chat_model import ChatModel
from toolyard.models.conversation import Conversation
from toolyard.models.endpoint import resolve_endpoint
from toolyard.models.errors import classify_error
from toolyard.models.factory import open_model
from toolyard.models.messages import RetryWait
from toolyard.models.retry import FIRST_CONTACT
from toolyard.testing.mock_model import FOREVER, Fail, Say, serve_model

KEY = "sk-a-secret-of-some-length"
VARIABLES = dict.fromkeys(("GEMINI_API_KEY", "OPENAI_API_KEY", "ANTHROPIC_API_KEY"), KEY)


def _free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as holder:
        return holder.getsockname()[1]


async def _first_wait(model: ChatModel) -> RetryWait:
    """What is heard of a turn before its first wait, which is not waited for."""
    conversation, waits = Conversation(), asyncio.Queue[RetryWait]()
    conversation.add_question("hello")
    turn = asyncio.create_task(
        model.turn(
            conversation, on_event=lambda heard: waits.put_nowait(heard) if isinstance(heard, RetryWait) else None
        )
    )
    waiting = asyncio.create_task(waits.get())
    await asyncio.wait([turn, waiting], return_when=asyncio.FIRST_COMPLETED)
    waiting.cancel()
    if turn.done():
        await turn
    turn.cancel()
    with suppress(asyncio.CancelledError):
        await turn
    return await waiting


@pytest.fixture
async def opened() -> AsyncGenerator[Callable[[str, str], ChatModel]]:
    """Opens models at a base URL whose first pause is longer than one waits for somebody who was never there."""
    async with AsyncExitStack() as closing:

        def opened(kind: str, base_url: str) -> ChatModel:
            backend = Backend(type=kind, model=MODELS.get(kind, "m"), base_url=base_url)
            model = open_model(backend, VARIABLES, first_pause=2.5 * FIRST_CONTACT)
            closing.push_async_callback(model.close)
            return model

        yield opened


@pytest.mark.parametrize("host", ["127.0.0.1", "nobody.invalid"])
async def test_a_provider_that_was_never_there_is_given_up_soon(kind, host, opened):
    with pytest.raises(SystemFault, match=f"cannot be reached at http://{host}") as raised:
        await _first_wait(opened(kind, f"http://{host}:{_free_port()}"))
    assert "Check `backend.base_url`" in raised.value.hint


async def test_a_provider_that_answered_before_is_waited_for_as_long_as_ever(kind, opened):
    port = _free_port()
    with serve_model([Say("hello")], port=port):
        model = opened(kind, f"http://127.0.0.1:{port}{'/v1' if kind == 'openai' else ''}")
        conversation = Conversation()
        conversation.add_question("hello")
        await model.turn(conversation)
    assert (await _first_wait(model)).seconds > FIRST_CONTACT


async def test_a_provider_that_is_there_but_busy_is_waited_for_as_long_as_ever(kind, opened):
    with serve_model([Fail(503, times=FOREVER)]) as server:
        assert (await _first_wait(opened(kind, address(server, kind)))).seconds > FIRST_CONTACT


async def test_waits_for_who_was_never_there_end_in_time_all_together(kind, monkeypatch):
    monkeypatch.setattr("toolyard.models.retry.FIRST_CONTACT", 0.3)
    backend = Backend(type=kind, model=MODELS[kind], base_url=f"http://127.0.0.1:{_free_port()}")
    model, conversation, heard = open_model(backend, {}, first_pause=0.02), Conversation(), []
    conversation.add_question("hello")
    with pytest.raises(SystemFault, match="cannot be reached"):
        await model.turn(conversation, on_event=heard.append)
    await model.close()
    assert len(heard) >= 2
    assert sum(each.seconds for each in heard) <= 0.3


async def test_who_waits_for_a_server_that_is_not_there_is_told_what_to_look_at():
    base_url = f"http://localhost:{_free_port()}/v1"
    model = open_model(Backend(type="ollama", model="m", base_url=base_url), {})
    assert (await _first_wait(model)).reason == (
        f"Ollama cannot be reached at {base_url}: is it running? Check `backend.base_url`"
    )
    await model.close()


def test_a_connection_that_is_not_made_in_time_is_none_whatever_the_timeout_of_answers():
    place = resolve_endpoint(Backend(type="ollama", model="m"), {})
    assert classify_error(ModelTimeoutError("m", "slow", phase="connect"), place).is_unreachable
    assert not classify_error(ModelTimeoutError("m", "slow", phase="read"), place).is_unreachable

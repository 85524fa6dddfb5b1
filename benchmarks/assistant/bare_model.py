"""pydantic-ai and the provider's client, alone: what a chat call is compared with. A process of its own, run by path.

    python -P assistant_bare.py ADDRESS KEY MODEL INSTRUCTIONS PROMPT

Each line on stdin is a number of requests, which are made one after another; the answer to it is their median in
milliseconds. It imports nothing of Toolyard's, so that its start is that of the library.
"""

from __future__ import annotations

import asyncio
import statistics
import sys
import time

from pydantic_ai.messages import InstructionPart, ModelRequest, UserPromptPart
from pydantic_ai.models import ModelRequestParameters
from pydantic_ai.models.google import GoogleModel
from pydantic_ai.providers.google import GoogleProvider


async def answer(model: GoogleModel, instructions: str, prompt: str) -> float:
    """Seconds of one request, streamed to its end."""
    parameters = ModelRequestParameters(instruction_parts=[InstructionPart(content=instructions)])
    started = time.perf_counter()
    async with model.request_stream([ModelRequest(parts=[UserPromptPart(prompt)])], None, parameters) as stream:
        async for _ in stream:
            pass
        text = stream.get().text
    if not text:
        raise RuntimeError("the model said nothing")
    return time.perf_counter() - started


async def main(address: str, key: str, name: str, instructions: str, prompt: str) -> None:
    model = GoogleModel(name, provider=GoogleProvider(api_key=key, base_url=address))
    for line in sys.stdin:
        taken = [await answer(model, instructions, prompt) for _ in range(int(line))]
        print(statistics.median(taken) * 1e3, flush=True)


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))

"""The scripted model behind the measured assistant, as a process: `python -m benchmarks.assistant.model_process`.

    --say TEXT [--delay SECONDS] [--keep FOLDER]

It answers everything with that text, at once from bytes made before, or after so many seconds. With `--keep` it keeps
every request as a file of that folder, whose name says when it had come in whole, and says back the last canary that
it was shown, so that there are canaries in its answers too. Its first line on stdout is its address; it ends with its
stdin.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import re
import sys
import time
from collections.abc import Awaitable
from itertools import count

from toolyard.testing.mock_model.__main__ import fixed_text_handler, serve
from toolyard.testing.mock_model.http import HttpRequest, RequestHandler
from toolyard.testing.mock_model.replies import HttpReply, non_turn_reply, parse_request, reply_to
from toolyard.testing.mock_model.steps import Say

CANARY = re.compile(r"canary-(\d+)-\d+-[0-9a-f]+")
"""The number of its thread, that of its turn, and a random part."""
_IN_BYTES = re.compile(CANARY.pattern.encode())
_STARTS_TURN = b"enerateContent"
"""As Gemini's API names what asks for an answer, whole or streamed."""


def kept_name(number: int, at: float) -> str:
    """`at` is of `time.monotonic()`, which is the same in every process of the machine."""
    return f"{number:06}-{at:.6f}.json"


def arrived(name: str) -> float:
    """When a kept request had come in whole."""
    return float(name.removesuffix(".json").partition("-")[2])


def answering(text: str, delay: float, folder: str | None) -> RequestHandler:
    """Answers, and keeps what it is asked where there is a folder for it."""
    at_once = fixed_text_handler(text)
    numbers = count()

    def answer(received: HttpRequest) -> bytes | Awaitable[HttpReply]:
        at = time.monotonic()
        if folder is not None and _STARTS_TURN in received.path.encode():
            with open(os.path.join(folder, kept_name(next(numbers), at)), "wb") as file:
                file.write(received.body)
        elif not delay:
            return at_once(received)
        found = _IN_BYTES.finditer(received.body)
        canaries = [each[0].decode() for each in found]
        return _later(received, " ".join([text, *canaries[-1:]]), delay)

    return answer


async def _later(received: HttpRequest, text: str, delay: float) -> HttpReply:
    await asyncio.sleep(delay)
    request = parse_request(received.method, received.path, received.headers, received.body)
    return reply_to(request, Say(text)) if request.is_turn else non_turn_reply(request)


def main() -> None:
    parser = argparse.ArgumentParser(
        "python -m benchmarks.assistant.model_process", description="A model to measure with."
    )
    parser.add_argument("--say", metavar="TEXT", required=True)
    parser.add_argument("--delay", metavar="SECONDS", type=float, default=0.0)
    parser.add_argument("--keep", metavar="FOLDER")
    chosen = parser.parse_args()
    asyncio.run(serve(answering(chosen.say, chosen.delay, chosen.keep), 0, _tell))


def _tell(address: str) -> None:
    sys.stdout.write(f"{address}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main()

"""A model on the loopback that speaks the wire formats of Gemini, OpenAI (both APIs) and Anthropic, by a script.

    script = in_turns(Call("Read", {"file_path": "a.txt"}), Fail(429, retry_after=0.1), Say("It says one."))
    with serving(script) as server:
        ...  # a client at server.gemini, server.openai or server.anthropic
    assert server.requests[-1].results == ("one",)

All APIs are at one address and are told apart by the path. A script is a function from a `Request` to a `Step`; the
usual ones are in `scripts`, what a model can do in `steps`, and what it was sent is in `server.requests`, with a view
that is the same for every API. As a program of its own, for benchmarks and guides: `python -m
toolyard.testing.mock_model`, see `__main__`.
"""

from toolyard.testing.mock_model.requests import Conversation, DeclaredTool, Request
from toolyard.testing.mock_model.scripts import Script, ScriptLike, by_marker, by_model, in_turns, with_context_limit
from toolyard.testing.mock_model.server import ModelServer, serve_model
from toolyard.testing.mock_model.steps import (
    DONE,
    FOREVER,
    BrokenArguments,
    Call,
    Cut,
    Drop,
    Empty,
    Fail,
    Hang,
    Nonsense,
    Say,
    Step,
    Think,
    TooLong,
    Turn,
    Usage,
)

__all__ = [
    "DONE",
    "FOREVER",
    "BrokenArguments",
    "Call",
    "Conversation",
    "Cut",
    "DeclaredTool",
    "Drop",
    "Empty",
    "Fail",
    "Hang",
    "ModelServer",
    "Nonsense",
    "Request",
    "Say",
    "Script",
    "ScriptLike",
    "Step",
    "Think",
    "TooLong",
    "Turn",
    "Usage",
    "by_marker",
    "by_model",
    "in_turns",
    "serve_model",
    "with_context_limit",
]

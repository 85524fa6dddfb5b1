"""A scripted model server on the loopback with the wire formats of Gemini, OpenAI (both APIs) and Anthropic.

    script = in_turns(Call("Read", {"file_path": "a.txt"}), Fail(429, retry_after=0.1), Say("It says one."))
    with serving(script) as server:
        ...  # a client at server.gemini, server.openai or server.anthropic
    assert server.requests[-1].results == ("one",)

All APIs share one address; the path selects the API. A script is a function from a `Request` to a `Step`: common
scripts are in `scripts`, the steps in `steps`. `server.requests` holds the received requests in a form that is the
same for every API. `python -m toolyard.testing.mock_model` runs it as a program for benchmarks and guides; see
`__main__`.
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

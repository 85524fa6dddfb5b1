"""A real `toolyard assistant` process on a project, with a scripted model behind it, and a plain client in front.

    with assisted(folder, Say("Use a queue.")) as served:
        answer = served.ask("chat", prompt="How?")           # the structured half of the result
        fault = served.fault("chat", prompt="")              # the error of a call that has to fail

An `Assisted` owns the process; the model server is its maker's.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import sys
from collections.abc import Generator, Mapping, Sequence
from pathlib import Path
from typing import Any, cast

from toolyard.config.assistant import ASSISTANT_TOOLS
from toolyard.testing.mcp_client import StdioClient, error_in
from toolyard.testing.mock_model import ModelServer, ScriptLike, serve_model

MODELS: Mapping[str, str] = {
    "gemini": "google:gemini-2.5-pro",
    "openai": "openai-chat:gpt-4.1",
    "claude": "anthropic:claude-sonnet-4-5",
}
"""One of each wire format, as TOOLYARD_MODEL names it."""
UNLIMITED: Mapping[str, Any] = {"rate_limits": dict.fromkeys(ASSISTANT_TOOLS)}
"""The section of a configuration for who calls more often than a user."""


class Assisted(StdioClient):
    """The client's end of an assistant over stdio."""

    def __init__(
        self, folder: str, model: ModelServer, variables: Mapping[str, str], options: tuple[str, ...]
    ) -> None:
        self.model = model
        self.folder = folder
        self.variables = dict(variables)
        program = os.path.join(os.path.dirname(sys.executable), "toolyard")
        super().__init__([program, "assistant", "--workspace", folder, *options], env=self.variables)

    def ask(self, tool: str, /, **arguments: Any) -> dict[str, Any]:
        """Call a tool that answers; its structured result."""
        return fields_of(self.call(tool, **arguments))

    def fault(self, tool: str, /, **arguments: Any) -> dict[str, Any]:
        """Call a tool that fails; its error."""
        answered = self.call(tool, **arguments)
        error = error_in(answered)
        if error is None:
            raise AssertionError(f"{tool} did not fail: {answered}")
        return error

    def post_call(self, tool: str, /, **arguments: Any) -> int:
        """Begin a call, with a token for progress; its id."""
        params = {"name": tool, "arguments": arguments, "_meta": {"progressToken": f"p-{tool}"}}
        return self.send_request("tools/call", params)

    def answers(self, requests: Sequence[int]) -> list[dict[str, Any]]:
        """The responses to requests under way, in their order, whichever comes first."""
        found: dict[int, dict[str, Any]] = {}
        while not found.keys() >= set(requests):
            message = self.receive()
            if "method" in message:
                self.notifications.append(message)
            else:
                found[message["id"]] = message
        return [found[request] for request in requests]


def sent(served: Assisted) -> str:
    """All that its model was sent."""
    return json.dumps([request.body for request in served.model.all_requests])


def emptied(folder: Path) -> Path:
    """The folder, with nothing in it: projects outlast tests where a server does."""
    for entry in folder.iterdir():
        shutil.rmtree(entry) if entry.is_dir() and not entry.is_symlink() else entry.unlink()
    return folder


def fields_of(answered: Mapping[str, Any]) -> dict[str, Any]:
    if "result" not in answered:
        raise AssertionError(f"the call failed: {answered.get('error')}")
    return cast("dict[str, Any]", answered["result"]["structuredContent"])


def variables_for(model: ModelServer, home: str, api: str = "gemini", **more: str) -> dict[str, str]:
    """The environment of an assistant that asks this model, in a home of its own."""
    return {
        "PATH": os.environ.get("PATH", ""),
        "HOME": home,
        "XDG_STATE_HOME": os.path.join(home, "state"),
        "TOOLYARD_MODEL": MODELS[api],
        **model.environment,
        **more,
    }


@contextlib.contextmanager
def assisted(
    folder: str, script: ScriptLike, *options: str, home: str, api: str = "gemini", key: str = "", **variables: str
) -> Generator[Assisted]:
    """An assistant on `folder`, whose model follows the script, until the block is left."""
    with (
        serve_model(script, key=key) as model,
        Assisted(folder, model, variables_for(model, home, api, **variables), options) as served,
    ):
        yield served

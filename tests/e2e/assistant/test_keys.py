"""How a key reaches the assistant in each real client: by its name alone, and into no file.

The assistant's model answers to this one key. Claude Code is in tests/e2e/claude.
"""

from __future__ import annotations

import json
import tomllib

import pytest

from tests.e2e.assistant.clients import CLIENTS, SERVER
from tests.e2e.scripted import ScriptedModel
from toolyard.testing.mock_model import Call, Say, serve_model

KEY = "AIzaSyA-key-that-is-in-no-file-of-anybody"
"""It begins as Google's do, which Gemini CLI knows by sight."""
OPINION = "The second opinion."
NO_KEY = "There is no key for Gemini API. Set GEMINI_API_KEY"


class Asking:
    """A client in a home of its own, with the assistant installed before any key was set."""

    def __init__(self, name, npm, yard):
        self.client, self.name, self.npm, self.yard = CLIENTS[name], name, npm, yard
        self.model = ScriptedModel((Call("chat", {"prompt": "Is it right?"}),), self.client.prefix)

    def environment(self, **more):
        found = self.yard.environment(self.npm, TERM="dumb", **self.client.variables, **more)
        found["PATH"] = f"{self.npm.folder}/node_modules/.bin:{found['PATH']}"
        return found

    def install(self, url):
        for path, text in self.client.files(url).items():
            file = self.yard.home / path
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(text)
        words = (self.yard.command()[0], "install", self.name, "--assistant", "--json")
        done = self.yard.run([*words, "--workspace", str(self.yard.workspace)], self.environment())
        assert done.returncode == 0, done.stderr
        return self.yard.home / json.loads(done.stdout)["path"]

    def shown(self, change=None, **variables):
        """What the client's model is told when it asks. `change` may spoil the file that has our entry."""
        with self.model.serving() as url:
            path = self.install(url)
            if change is not None:
                change(path)
            if self.client.address:
                variables[self.client.address] = url
            ended = self.yard.run([self.name, *self.client.words], self.environment(**variables))
        assert ended.returncode == 0, ended.stdout + ended.stderr
        (said,) = self.model.words
        return said


@pytest.fixture
def asking(npm, yard):
    return lambda name: Asking(name, npm, yard)


def access(name, opinion):
    """The key and the address of the assistant's model, of a provider that the client itself does not ask."""
    if name == "gemini":
        return {"ANTHROPIC_API_KEY": KEY, "ANTHROPIC_BASE_URL": opinion.anthropic, "TOOLYARD_MODEL": "sonnet"}
    return {"GEMINI_API_KEY": KEY, "GOOGLE_GEMINI_BASE_URL": opinion.gemini}


@pytest.mark.parametrize("name", CLIENTS)
def test_a_key_that_is_set_after_the_install_reaches_the_server_and_is_in_no_file(asking, yard, name):
    with serve_model(Say(OPINION), key=KEY) as opinion:
        assert OPINION in asking(name).shown(**access(name, opinion))
        assert len(opinion.all_requests) == 1
    holding = [path for path in yard.base.rglob("*") if path.is_file() and KEY.encode() in path.read_bytes()]
    assert holding == []


@pytest.mark.parametrize("name", ["codex", "qwen"])
def test_of_a_key_that_is_not_set_the_server_gets_nothing_that_looks_like_one(asking, name):
    assert NO_KEY in asking(name).shown()


def unnamed(path):
    """Take out of our entry what hands variables on."""
    text = path.read_text()
    if path.suffix == ".toml":
        kept = [line for line in text.splitlines() if not line.startswith("env_vars = ")]
        assert tomllib.loads(text) != tomllib.loads("\n".join(kept))
        path.write_text("\n".join(kept))
        return
    document = json.loads(text)
    assert document["mcpServers"][SERVER].pop("env")
    path.write_text(json.dumps(document))


def test_codex_hands_on_no_key_that_is_not_named(asking):
    """Why `config.clients` names variables to this client. When this fails, it may stop."""
    with serve_model(Say(OPINION), key=KEY) as opinion:
        assert NO_KEY in asking("codex").shown(unnamed, **access("codex", opinion))


def test_gemini_cli_hands_on_no_key_that_is_not_named(asking):
    """The same for this one. It hands on the address, and so somebody is asked, without a key."""
    with serve_model(Say(OPINION), key=KEY) as opinion:
        said = asking("gemini").shown(unnamed, **access("gemini", opinion))
    assert "Set ANTHROPIC_API_KEY" in said

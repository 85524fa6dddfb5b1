"""From a backend of the configuration to a model: which key, address and model; and what is not looked at."""

from __future__ import annotations

import subprocess
import sys

import pytest

from tests.models.conftest import MODELS, address
from toolyard.config.models import Backend
from toolyard.core.errors import ConfigError, SystemFault
from toolyard.models import lazy_import
from toolyard.models.conversation import Conversation
from toolyard.models.factory import open_model
from toolyard.testing.mock_model import Say, serve_model

KEY = "sk-a-secret-of-some-length"
VARIABLES = {"gemini": "GEMINI_API_KEY", "openai": "OPENAI_API_KEY", "claude": "ANTHROPIC_API_KEY"}
BASE_URLS = {"gemini": "GOOGLE_GEMINI_BASE_URL", "openai": "OPENAI_BASE_URL", "claude": "ANTHROPIC_BASE_URL"}


async def _asked(backend: Backend, access: dict[str, str]) -> str:
    model = open_model(backend, access, patience=0)
    conversation = Conversation()
    conversation.add_question("hello")
    try:
        return (await model.turn(conversation)).text
    finally:
        await model.close()


def test_a_missing_key_is_named_by_the_variable_to_set(kind):
    with pytest.raises(ConfigError, match=VARIABLES[kind]):
        open_model(Backend(type=kind), {})


async def test_the_key_of_the_file_comes_before_that_of_a_variable(kind):
    with serve_model([Say("in")], key=KEY) as server:
        backend = Backend(type=kind, model=MODELS[kind], base_url=address(server, kind), api_key=KEY)
        assert await _asked(backend, {VARIABLES[kind]: "another-key-than-that"}) == "in"


async def test_key_and_address_may_come_from_variables(kind):
    with serve_model([Say("in")], key=KEY) as server:
        access = {VARIABLES[kind]: KEY, BASE_URLS[kind]: address(server, kind)}
        assert await _asked(Backend(type=kind, model=MODELS[kind]), access) == "in"


async def test_the_address_of_the_file_comes_before_that_of_a_variable(kind):
    with serve_model([Say("in")]) as server:
        backend = Backend(type=kind, model=MODELS[kind], base_url=address(server, kind))
        assert await _asked(backend, {BASE_URLS[kind]: "http://127.0.0.1:9"}) == "in"


async def test_a_server_on_this_machine_needs_no_key(kind):
    with serve_model([Say("in")]) as server:
        assert await _asked(Backend(type=kind, model=MODELS[kind], base_url=address(server, kind)), {}) == "in"


async def test_an_address_may_have_the_version_at_its_end_or_not(kind):
    with serve_model([Say("in")]) as server:
        ending = {"gemini": "/v1beta/", "openai": "/v1/", "claude": "/v1"}[kind]
        assert await _asked(Backend(type=kind, model=MODELS[kind], base_url=server.url + ending), {}) == "in"


@pytest.mark.parametrize("name", ["ollama", "llama.cpp", "vllm", "lmstudio", "openrouter", "openai-compatible"])
async def test_whatever_speaks_as_openai_does_is_asked_so(name):
    with serve_model([Say("in")]) as server:
        backend = Backend(type=name, model="some/model", base_url=server.openai)
        assert await _asked(backend, {}) == "in"
        assert server.requests[-1].api == "chat"
        assert server.requests[-1].model == "some/model"


async def test_ollama_is_found_where_its_own_variable_says():
    with serve_model([Say("in")]) as server:
        assert await _asked(Backend(type="ollama", model="qwen3"), {"OLLAMA_BASE_URL": server.url}) == "in"


@pytest.mark.parametrize(("name", "model"), [("gemini", "gemini"), ("openai", "gpt"), ("anthropic", "claude")])
def test_a_kind_has_a_model_of_its_own_choice(name, model):
    opened = open_model(Backend(type=name, api_key=KEY), {})
    assert opened.title.startswith(model)
    assert opened.window >= 100_000


def test_the_window_is_what_the_file_says_or_what_is_known():
    assert open_model(Backend(type="gemini", api_key=KEY, context_window=9000), {}).window == 9000
    assert open_model(Backend(type="gemini", model="gemini-2.5-flash", api_key=KEY), {}).window == 1_048_576
    assert open_model(Backend(type="gemini", model="unheard-of", api_key=KEY), {}).window == 128_000
    assert open_model(Backend(type="ollama", model="gpt-5"), {}).window == 128_000


@pytest.mark.parametrize(
    ("keys", "said"),
    [
        ({}, "backend.type"),
        ({"type": "codex"}, "CLI"),
        ({"type": "vllm"}, "backend.model"),
        ({"type": "openai-compatible", "model": "m"}, "OPENAI_BASE_URL"),
        ({"type": "openai", "base_url": "localhost:8080"}, "not a valid URL"),
        ({"type": "openai", "base_url": "http://[::1"}, "not a valid URL"),
    ],
)
def test_what_cannot_be_opened_says_why(keys, said):
    with pytest.raises(ConfigError, match=said):
        open_model(Backend(**keys), {})


def test_secrets_are_not_in_what_is_shown(kind):
    model = open_model(Backend(type=kind, base_url=f"https://me:{KEY}@example.org", api_key=KEY), {})
    assert KEY not in repr(model)
    assert model.title in repr(model)


async def test_variables_of_this_process_are_not_looked_at(kind, monkeypatch):
    """Only what is handed in counts: not keys, addresses, headers or proxies that lie about."""
    for variable in ("HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy", *BASE_URLS.values()):
        monkeypatch.setenv(variable, "http://127.0.0.1:9")
    for variable in (*VARIABLES.values(), "GOOGLE_API_KEY", "ANTHROPIC_AUTH_TOKEN", "OPENAI_ORG_ID"):
        monkeypatch.setenv(variable, "from-the-environment")
    for variable in ("OPENAI_CUSTOM_HEADERS", "ANTHROPIC_CUSTOM_HEADERS"):
        monkeypatch.setenv(variable, "x-found: from-the-environment")
    monkeypatch.setenv("GOOGLE_GENAI_USE_VERTEXAI", "true")
    with serve_model([Say("in")]) as server:
        assert await _asked(Backend(type=kind, model=MODELS[kind], base_url=address(server, kind)), {}) == "in"
        assert "from-the-environment" not in server.requests[-1].headers.values()
        assert server.requests[-1].key == "none"
    with pytest.raises(ConfigError, match="There is no key"):
        open_model(Backend(type=kind), {})


def test_a_missing_extra_is_named(monkeypatch):
    monkeypatch.setattr(lazy_import, "find_spec", lambda _: None)
    with pytest.raises(SystemFault, match=r"toolyard\[agents\]"):
        open_model(Backend(type="ollama", model="m"), {})


def _loaded_after(code: str) -> set[str]:
    names = "('pydantic_ai', 'openai', 'anthropic', 'google.genai', 'pydantic')"
    code += f"\nimport sys; print(*[name for name in {names} if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return set(done.stdout.split())


def test_nothing_heavy_is_loaded_before_a_model_is_opened():
    assert _loaded_after("import toolyard.models.chat_model, toolyard.models.conversation") == set()
    assert "pydantic_ai" not in _loaded_after("import toolyard.models.factory")


@pytest.mark.slow
def test_only_the_sdk_that_is_used_is_loaded(kind):
    loaded = _loaded_after(
        "from toolyard.config.models import Backend\nfrom toolyard.models.factory import open_model\n"
        f"open_model(Backend(type={kind!r}, api_key='k'), {{}})"
    )
    sdks = {"gemini": "google.genai", "openai": "openai", "claude": "anthropic"}
    assert loaded & set(sdks.values()) == {sdks[kind]}

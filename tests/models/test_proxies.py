"""A provider is reached through the proxy that the user's variables name, and what is on this machine directly."""

from __future__ import annotations

import pytest

from toolyard.config.models import Backend
from toolyard.core.errors import ConfigError
from toolyard.models.conversation import Conversation
from toolyard.models.endpoint import resolve_endpoint
from toolyard.models.factory import open_model
from toolyard.testing.mock_model import Say, serve_model

AWAY = Backend(type="openai", model="m", base_url="http://models.example.com/v1")


@pytest.mark.parametrize(
    ("variables", "expected"),
    [
        ({"http_proxy": "http://p:1"}, "http://p:1"),
        ({"HTTP_PROXY": "http://p:2"}, "http://p:2"),
        ({"ALL_PROXY": "http://p:3"}, "http://p:3"),
        ({"http_proxy": "http://p:1", "HTTP_PROXY": "http://p:2", "ALL_PROXY": "http://p:3"}, "http://p:1"),
        ({"HTTP_PROXY": "proxy.example:3128"}, "http://proxy.example:3128"),
        ({"HTTPS_PROXY": "http://p:4"}, ""),
        ({"HTTP_PROXY": "http://p:5", "NO_PROXY": "example.com"}, ""),
        ({"HTTP_PROXY": "http://p:6", "no_proxy": "*"}, ""),
        ({}, ""),
    ],
)
def test_the_usual_variables_say_which_proxy(variables: dict[str, str], expected: str) -> None:
    assert resolve_endpoint(AWAY, {"OPENAI_API_KEY": "key", **variables}).proxy == expected


@pytest.mark.parametrize("said", ["socks5://me:secret@p:1", "http://[me:secret", "ftp://p"])
def test_a_proxy_that_cannot_be_used_is_told_by_its_variable(said: str) -> None:
    with pytest.raises(ConfigError, match="HTTP_PROXY is not a valid proxy URL") as raised:
        open_model(AWAY, {"OPENAI_API_KEY": "key", "HTTP_PROXY": said})
    assert "secret" not in str(raised.value)


def test_this_machine_is_reached_directly() -> None:
    here = Backend(type="openai", model="m", base_url="http://127.0.0.1:8080/v1")

    assert resolve_endpoint(here, {"HTTP_PROXY": "http://p:1"}).proxy == ""


async def test_a_turn_goes_through_the_proxy() -> None:
    with serve_model(Say("through it")) as server:
        model = open_model(AWAY, {"OPENAI_API_KEY": "key", "HTTP_PROXY": server.url}, patience=0)
        conversation = Conversation()
        conversation.add_question("hello")
        turn = await model.turn(conversation)
        await model.close()

    assert turn.text == "through it"


def test_certificates_that_cannot_be_read_are_told() -> None:
    with pytest.raises(ConfigError, match=r"SSL_CERT_FILE names /nowhere\.pem"):
        open_model(AWAY, {"OPENAI_API_KEY": "key", "SSL_CERT_FILE": "/nowhere.pem"})

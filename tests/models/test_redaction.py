"""Keys and passwords are in no error, however a provider repeats them."""

from __future__ import annotations

import base64
import json
import re
import traceback
from itertools import zip_longest
from urllib.parse import quote, unquote

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.models.conftest import KINDS
from tests.models.test_second_opinions import raw_server
from toolyard.config.models import Backend
from toolyard.core.errors import ProviderError
from toolyard.core.redaction import MASK, collect_secrets, mask_secrets
from toolyard.models.conversation import Conversation
from toolyard.models.endpoint import resolve_endpoint
from toolyard.models.error_wording import ASSISTANT_WORDING
from toolyard.models.factory import open_model
from toolyard.models.messages import RetryWait
from toolyard.testing.mock_model import Fail, serve_model

KEY = "sk-proj/Zm9v+YmFy=QUJDREVGR0hJSktMTU5P"
OTHER_SPELLINGS = {
    "as it is": KEY,
    "with percent signs": quote(KEY, safe=""),
    "with small percent signs": quote(KEY, safe="").replace("%2F", "%2f"),
    "all in percent signs": "".join(f"%{ord(char):02X}" for char in KEY),
    "with the escapes of JSON": json.dumps(KEY).replace("/", "\\/")[1:-1],
    "all in escapes": "".join(f"\\u{ord(char):04x}" for char in KEY),
    "cut off": KEY[:-9],
    "without its beginning": KEY[9:],
}


def shown_by(error: BaseException) -> str:
    """All that anybody could print of it."""
    return "".join(traceback.format_exception(error)) + repr(error) + json.dumps(getattr(error, "data", dict)())


def readings(text: str) -> str:
    """A text, and what it says to who reads percent signs and escapes."""
    escapes = re.compile(r"\\u([0-9a-f]{4})")
    unescaped = escapes.sub(lambda found: chr(int(found[1], 16)), text).replace("\\/", "/")
    return "\n".join((text, unquote(text), unescaped))


def leaks(text: str, secret: str = KEY) -> list[str]:
    pieces = [secret[at : at + 12] for at in range(len(secret) - 11)]
    return [piece for piece in pieces if piece in readings(text)]


@pytest.mark.parametrize("spelled", OTHER_SPELLINGS.values(), ids=OTHER_SPELLINGS.keys())
async def test_a_key_that_is_repeated_in_an_error_is_masked(kind, talk, spelled):
    said = [Fail(401, message=f"Incorrect API key provided: {spelled}. See the docs.")]
    async with talk(said, api_key=KEY, patience=0, wording=ASSISTANT_WORDING) as t:
        with pytest.raises(ProviderError) as raised:
            await t.say("hello")
        assert MASK in str(raised.value)
        assert leaks(shown_by(raised.value)) == []


async def test_a_key_that_is_repeated_in_the_middle_of_an_answer_is_masked(kind, talk):
    script = [Fail(429, midway=True, message=f"{KEY} has no quota", times=2)]
    async with talk(script, api_key=KEY, most_tries=2, wording=ASSISTANT_WORDING) as t:
        with pytest.raises(ProviderError) as raised:
            await t.say("hello")
        assert MASK in str(raised.value)
        assert leaks(shown_by(raised.value)) == []
        assert leaks(t.all_heard(RetryWait)[0].reason) == []


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("place", ["header", "body that is no JSON", "detail of another shape"])
async def test_a_key_that_is_repeated_elsewhere_is_masked(kind, place):
    headers = {"www-authenticate": f'Bearer realm="{KEY}"', "x-request-id": KEY} if place == "header" else {}
    body = {"header": "{}", "body that is no JSON": f"<html>{KEY}</html>"}.get(
        place, json.dumps({"detail": [{"loc": ["header", "authorization"], "input": f"Bearer {KEY}"}]})
    )
    async with raw_server(kind, 400, headers, body=body, api_key=KEY) as (model, _):
        conversation = Conversation()
        conversation.add_question("hello")
        with pytest.raises(ProviderError) as raised:
            await model.turn(conversation)
        assert leaks(shown_by(raised.value) + repr(model)) == []


@pytest.mark.parametrize("before", range(250, 310, 7))
async def test_a_key_where_a_long_message_is_cut_is_masked_before(before):
    with serve_model(lambda _: Fail(400, message="x" * before + KEY + "y" * 5_000)) as server:
        backend = Backend(type="openai", model="gpt-4o", base_url=server.openai, api_key=KEY)
        model = open_model(backend, {}, wording=ASSISTANT_WORDING)
        conversation = Conversation()
        conversation.add_question("hello")
        with pytest.raises(ProviderError) as raised:
            await model.turn(conversation)
        await model.close()
    assert KEY[:6] not in str(raised.value)
    assert "…" in str(raised.value)


def test_passwords_of_addresses_and_proxies_are_masked_too():
    backend = Backend(
        type="openai", model="m", base_url="https://ada:own%40password@models.example/v1?key=hidden-in-url"
    )
    access = {"OPENAI_API_KEY": KEY, "HTTPS_PROXY": "http://corp:proxy-password@proxy.example:3128"}
    place = resolve_endpoint(backend, access)
    basic = base64.b64encode(b"corp:proxy-password").decode()
    for secret in ("own@password", "own%40password", "hidden-in-url", "proxy-password", basic):
        assert secret not in place.mask_secrets(f"it was {secret}, as they say")
    assert "proxy" not in repr(place)
    assert "password" not in place.address


async def test_a_proxy_that_cannot_be_reached_is_told_without_its_password():
    backend = Backend(type="openai", model="m", base_url="http://models.example/v1")
    access = {"OPENAI_API_KEY": KEY, "HTTP_PROXY": "http://corp:proxy-password@127.0.0.1:9"}
    model = open_model(backend, access, patience=0, wording=ASSISTANT_WORDING)
    conversation = Conversation()
    conversation.add_question("hello")
    with pytest.raises(ProviderError) as raised:
        await model.turn(conversation)
    await model.close()
    assert "proxy-password" not in shown_by(raised.value)


@pytest.mark.parametrize(
    "text",
    ["100% of it, and 50%25 more", "C:\\users\\new \\u0041", "nothing at all", "sk-proj is how keys begin", "…MNOP"],
)
def test_what_holds_no_secret_stays_as_it_was_written(text):
    assert mask_secrets(text, collect_secrets(key=KEY)) == text


def test_what_is_too_short_to_hide_anything_is_no_secret():
    assert collect_secrets("http://me:pw@host/v1?v=1", key="none") == ()


@given(
    around=st.lists(st.text(alphabet="ab-YmFy=QU \n%\\", max_size=30), min_size=1, max_size=5),
    cuts=st.lists(st.tuples(st.integers(0, len(KEY)), st.integers(0, len(KEY))), max_size=4),
)
def test_no_piece_of_a_key_is_left_wherever_it_is_cut(around, cuts):
    pieces = [KEY[min(cut) : max(cut)] for cut in cuts]
    text = "".join(part for pair in zip_longest(around, pieces, fillvalue="") for part in pair)

    shown = mask_secrets(text, collect_secrets(key=KEY))

    assert leaks(shown) == []
    if not leaks(text):
        assert shown == text


def test_only_the_line_that_holds_a_key_in_another_spelling_is_shown_as_it_reads():
    spelled = OTHER_SPELLINGS["all in percent signs"]

    shown = mask_secrets(f"100%25 sure\nkey={spelled}&more=%41\nand 50%25 more", collect_secrets(key=KEY))

    assert shown == f"100%25 sure\nkey={MASK}&more=A\nand 50%25 more"


@pytest.mark.timeout(20)
def test_a_long_text_with_a_piece_of_a_key_in_each_line_takes_no_longer_for_it():
    line = f"GET /v1/models?key={KEY[:20]}... 200 OK \\n and so on\n"

    shown = mask_secrets(line * 60_000, collect_secrets(key=KEY))

    assert shown.count(MASK) == 60_000
    assert KEY[:12] not in shown


def test_a_key_of_the_shortest_length_is_masked_whole():
    assert (
        mask_secrets("it is abcd1234, not abcd123", collect_secrets(key="abcd1234")) == f"it is {MASK}, not abcd123"
    )


def test_what_is_no_whole_character_does_not_stand_in_the_way():
    assert MASK in mask_secrets(f"\ud800 {KEY}", collect_secrets(key=KEY))
    assert MASK in mask_secrets("it is пароль-пароль, or роль-пароль", collect_secrets(key="пароль-пароль"))

"""Keys behind a mark that lies about the encoding, in lines without an end, and lines that are made to take time."""

import base64
import json
import time

import pytest

from toolyard.assistant.precommit.text_in_binary import extract_lines
from toolyard.assistant.secrets.private_keys import KeyPart, KeyTracker, is_base64_line
from toolyard.assistant.secrets.scanner import mask_hits, shared_scanner

TOKEN = "ghp_" + "aB3dE5fG7hI9jK1lM2nO4pQ6rS8tU0vW1xY2"
LINE = f"token={TOKEN}\n"
SOON = 0.5


def part(text):
    return base64.urlsafe_b64encode(text.encode()).decode().rstrip("=")


JWT = ".".join(
    (part('{"alg":"RS256","typ":"JWT"}'), part(json.dumps({"sub": "x", "data": "y" * 600})), "aB3dE5fG7h" * 34)
)
PEM = "-----BEGIN " + "PRIVATE KEY-----\\n" + "aB3dE5fG7hI9jK1l" * 150 + "\\n-----END " + "PRIVATE KEY-----"


def never_mind():
    pass


@pytest.mark.parametrize(
    "content",
    [
        b"\xff\xfe\n" + LINE.encode() + b"\0\n",
        b"\xfe\xff" + LINE.encode() * 3,
        b"\0\0\xfe\xff\n" + LINE.encode(),
        b"\xff\xfe\0\0" + LINE.encode(),
        b"\xff\xfex\n" + LINE.encode("utf-16-le"),
    ],
    ids=["utf-16-le", "utf-16-be", "utf-32-be", "utf-32-le", "at an odd place"],
)
def test_a_mark_that_lies_about_the_encoding_hides_nothing(repo, look, of, content):
    repo.write(".gitattributes", "*.cfg -diff\n")
    repo.write("a.cfg", content)
    found = look()
    assert found.verdict == "no-go"
    assert "GitHub Token" in {text for _, _, text in of(found, "secrets")[1]}


@pytest.mark.parametrize("encoding", ["utf-16", "utf-32"])
def test_an_honest_mark_gives_each_line_once(encoding):
    text = "first line of it\nzweite Zeile, größer\nlast line of it"
    assert extract_lines(text.encode(encoding), never_mind) == (
        (1, "first line of it"),
        (2, "zweite Zeile, größer"),
        (3, "last line of it"),
    )


@pytest.mark.parametrize("before", [0, 1_500, 1_990, 2_500])
@pytest.mark.parametrize("secret", [JWT, PEM], ids=["a token", "a private key"])
def test_a_long_secret_in_a_long_line_is_found_and_masked_whole(before, secret):
    line = f"{'x, ' * (before // 3)}'{secret}', {'y, ' * 1_500}"
    hits = [hit for hit in shared_scanner().find_secrets("a.txt", line) if hit.is_definite]
    assert hits
    left = mask_hits(line, hits)
    body = secret[40:-40]
    assert not any(body[at : at + 40] in left for at in range(0, len(body) - 40, 20))


@pytest.mark.parametrize(
    "line",
    [
        "=" * 1_985 + "!a",
        "+" * 1_985 + "!a",
        "/" * 1_985 + "!a",
        "=+" * 990 + "!a",
        "\\n" * 990 + "!a",
        "A" * 1_985 + "!a b",
    ],
    ids=["=", "+", "/", "=+", "breaks", "letters"],
)
def test_a_line_that_might_be_of_a_key_takes_no_time(line):
    keys = KeyTracker()
    assert keys.classify_line("-----BEGIN " + "PRIVATE KEY-----", follows=False) is KeyPart.BEGIN
    started = time.process_time()
    for _ in range(20):
        keys.classify_line(line, follows=True)
        KeyTracker(_is_inside=True).classify_line(line, follows=True)
        KeyTracker(_has_begun=True).classify_line(line, follows=True)
        is_base64_line(line)
    assert time.process_time() - started < SOON


@pytest.mark.parametrize("text", ["eyJ", "eyJ.", "BEGIN PRIVATE KEY-----", "sk-ant-", "a:b@", "AKIA"])
def test_a_line_of_beginnings_takes_little_time_a_window(text):
    line = text * (12_000 // len(text))
    started = time.process_time()
    shared_scanner().find_secrets("a.txt", line)
    assert time.process_time() - started < 6 * SOON

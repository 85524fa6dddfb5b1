"""Secrets are masked in place: no line is added or removed, and what is no secret stays readable."""

import itertools
import sys
import time

import pytest

from tests.assistant.files.made import never
from toolyard.assistant.secrets import scanner as scanner_module
from toolyard.assistant.secrets.redaction import RedactedText, Secret, line_slices, mask_known_secrets, redact

TOKEN = "ghp_" + "aB3dE5fG7hI9jK1lM2nO4pQ6rS8tU0vW1xY2"
AWS = "AKIA" + "Q3EGRLXK7Z2MNP4T"
BODY = "b3BlbnNzaC1rZXktdjEAAAAABG5vbmUAAAAEbm9uZQ\nAAAAMwAAAAtzc2gtZWQyNTUxOQAAACDqLmZ4YwX9kTn5\n"
KEY = f"-----BEGIN RSA PRIVATE KEY-----\n{BODY}-----END RSA PRIVATE KEY-----\n"
MASKED_KEY = "-----BEGIN RSA PRIVATE KEY-----\n[secret]\n[secret]\n-----END RSA PRIVATE KEY-----\n"
GITHUB = "GitHub Token"


@pytest.mark.parametrize(
    ("path", "text", "masked"),
    [
        (
            "a.json",
            '{"token": "aB3-dE5-x", "password": "Str0ng-77x"}',
            '{"token": "[secret]", "password": "[secret]"}',
        ),
        ("a.py", "f(password='Str0ng-77x', api_key='Other-99y')", "f(password='[secret]', api_key='[secret]')"),
        ("a.py", "db = connect(password='Str0ng-77x')", "db = connect(password='[secret]')"),
        (
            "a.json",
            '{"host": "db.example.com", "password": "Str0ng-77x"}',
            '{"host": "db.example.com", "password": "[secret]"}',
        ),
    ],
)
def test_every_password_of_a_line_is_masked(path, text, masked):
    assert redact(path, text, never).text == masked


@pytest.mark.parametrize(
    ("path", "text"),
    [
        ("a.yaml", "token: tokens[Name-77x]"),
        ("a.go", "token := lookUp(Name-77x)"),
        ("a.cpp", 'auto x = get_token("Name-77x");'),
        ("a.config", 'publicKeyToken="b03f5f7f11d50a3a"'),
        ("a.py", "password = 'example-77X'"),
    ],
)
def test_a_value_that_is_looked_up_or_an_example_stays(path, text):
    assert redact(path, text, never) == RedactedText(text)


@pytest.mark.parametrize(
    ("text", "masked", "secrets"),
    [
        (f"one\ntoken = '{TOKEN}'\n", "one\ntoken = '[secret]'\n", [Secret(2, GITHUB, is_definite=True)]),
        (f"a = '{TOKEN}', '{AWS}'", "a = '[secret]', '[secret]'", [Secret(1, "AWS Access Key", is_definite=True)]),
        (f"x\n{KEY}y\n", f"x\n{MASKED_KEY}y\n", [Secret(2, "Private Key", is_definite=True)]),
        ("p = 1\npassword = 'Tr0ub4dor&3'\n", "p = 1\npassword = '[secret]'\n", [Secret(2, "Secret Keyword", False)]),
        (
            "x = 1\n" * 60_000 + f"t = '{TOKEN}'\n",
            "x = 1\n" * 60_000 + "t = '[secret]'\n",
            [Secret(60_001, GITHUB, is_definite=True)],
        ),
        ("x" * 100_000 + f" '{TOKEN}'", "x" * 100_000 + " '[secret]'", [Secret(1, GITHUB, is_definite=True)]),
    ],
)
def test_a_secret_is_masked_and_its_line_is_known(text, masked, secrets):
    assert redact("a.py", text, never) == RedactedText(masked, tuple(secrets))


@pytest.mark.parametrize(
    "text",
    [
        "",
        "-----BEGIN PUBLIC KEY-----\n" + BODY,
        "the PRIVATE KEY is -----BEGIN CERTIFICATE-----\n" + BODY,
        "secret_method = 'client_secret_post'\ntoken = os.environ['TOKEN']\n",
        f"token = '{TOKEN}'  # pragma: allowlist secret\n",
        f"# pragma: allowlist nextline secret\ntoken = '{TOKEN}'\n",
    ],
)
def test_what_is_no_secret_stays(text):
    assert redact("a.py", text, never) == RedactedText(text)


def test_a_file_for_secrets_has_plain_words_masked_too():
    text = "PASSWORD=correct-horse\nCOLOUR=red\n"

    assert redact(".env", text, never, is_for_secrets=True).text == "PASSWORD=[secret]\nCOLOUR=red\n"


def test_in_an_answer_only_known_formats_are_masked():
    answer = f"Revoke {TOKEN} and {AWS}:\n{KEY}The password = 'Tr0ub4dor&3' is weak."

    assert mask_known_secrets(answer) == (
        f"Revoke [secret] and [secret]:\n{MASKED_KEY}The password = 'Tr0ub4dor&3' is weak."
    )


def test_no_text_takes_long():
    started = time.thread_time()
    for unit in ("api_key", "x://a:", "eyJ", "-----BEGIN "):
        redact("a.php", ((unit * 400)[:998] + "\n") * 64, never)

    assert time.thread_time() - started < 4


def test_without_the_scanner_private_keys_are_masked_all_the_same(monkeypatch):
    scanner_module.shared_scanner.cache_clear()
    for name in [name for name in sys.modules if name.startswith("detect_secrets")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "detect_secrets", None)

    assert redact("a.py", KEY, never).text == MASKED_KEY
    assert redact("a.py", TOKEN, never).text == TOKEN


SLICE_CHARS = 1 << 16


@pytest.mark.parametrize("line", ["", "x = 1", "é" * 500])
@pytest.mark.parametrize("ending", ["", "\n"])
def test_lines_are_split_in_bounded_slices_that_hold_no_other_thread_up(line, ending):
    text = "\n".join([line] * 200_000) + ending
    slices = list(line_slices(text))
    assert [line for _, lines in slices for line in lines] == text.split("\n")
    assert [first for first, _ in slices][1:] == list(itertools.accumulate(len(lines) for _, lines in slices))[:-1]
    assert max(sum(len(line) + 1 for line in lines) for _, lines in slices) <= SLICE_CHARS + len(line) + 1


@pytest.mark.parametrize("before", range(SLICE_CHARS - 3 * len(KEY), SLICE_CHARS + 3, 97))
def test_a_key_that_lies_over_the_end_of_a_slice_is_masked(before):
    text = "x" * before + f"\n{KEY}y = 1\n"
    assert redact("a.py", text, never).text == text.replace(KEY, MASKED_KEY)


@pytest.mark.parametrize("filler", ["x=1;", "PRIVATE KEY ", "-----BEGIN "])
def test_a_key_that_begins_in_a_long_line_is_masked(filler):
    long = filler * 20_000
    text = f"{long}{KEY}y = 1\n"
    assert redact("a.py", text, never).text == text.replace(KEY, MASKED_KEY)

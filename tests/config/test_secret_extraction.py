from __future__ import annotations

import pytest

from toolyard.config.expansion import expand_entry
from toolyard.config.secret_extraction import ExtractedSecret, SecretExtractor, looks_secret
from toolyard.config.server_entry import OAuth, ServerEntry

TOKEN = "ghp_abcdefghijkl1234567890"


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("GITHUB_TOKEN", "abcd1234"),
        ("apiKey", "abcd1234"),
        ("OPENAI_API_KEY", "whatever"),
        ("DB_PASSWORD", "hunter22"),
        ("PGPASS", "hunter22"),
        ("X-Api-Key", "abcd"),
        ("DATABASE_URL", "postgres://ada:pw@localhost/db"),
        ("CONNECTION", "Server=db;Uid=ada;Pwd=hunter22"),
        ("BASE_URL", "https://api.example.com/v2?x=1&api_key=hunter22"),
        ("BASE_URL", f"https://api.example.com/{TOKEN}/things"),
        ("SLACK_WEBHOOK_URL", "https://hooks.example/services/T0/B0"),
        ("ANYTHING", TOKEN),
        ("ANYTHING", "sk-proj-abcdefgh12345678"),
        ("ANYTHING", "0123456789abcdef0123456789abcdef"),
        ("ANYTHING", "Zx81Kq92Lm03Nb44Vc55Ty66"),
        ("", "eyJhbGciOiJIUzI1.eyJzdWIiOiIxMjM0.abc"),
        ("SETTINGS", '{"apiKey": "hunter22"}'),
        ("ANYTHING", "-----BEGIN OPENSSH PRIVATE KEY-----\nb3Bl\n-----END OPENSSH PRIVATE KEY-----"),
        ("API_TOKEN", "hunter22${SUFFIX}"),
        ("DATABASE", "postgres://ada:hunter22@${HOST}/db"),
        ("Authorization", "Bearer hunter22-${SUFFIX}"),
    ],
)
def test_secrets_are_seen_by_their_names_and_by_their_look(name, value):
    assert looks_secret(name, value)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("LOG_LEVEL", "debug"),
        ("PORT", "8080"),
        ("MAX_TOKENS", "100000"),
        ("KEYBOARD_LAYOUT", "us-intl"),
        ("SSH_KEY_PATH", "/home/ada/.ssh/id_ed25519"),
        ("AUTH", "true"),
        ("API_TOKEN", "${API_TOKEN}"),
        ("Authorization", "Bearer ${API_TOKEN}"),
        ("API_TOKEN", "${USER}:${PASSWORD}"),
        ("DATABASE", "postgres://ada:${PASSWORD}@${HOST}/db"),
        ("", "@modelcontextprotocol/server-github"),
        ("", "mcp-server-with-a-rather-long-name"),
        ("BASE_URL", "https://api.example.com/v2/things"),
    ],
)
def test_ordinary_values_are_left_alone(name, value):
    assert not looks_secret(name, value)


def test_a_variable_takes_the_place_of_every_secret_of_an_entry():
    entry = ServerEntry(
        name="my-server",
        command=("docker", "run", "-e", f"GITHUB_TOKEN={TOKEN}"),
        args=(
            "--api-key",
            "abcd1234",
            f"--token={TOKEN}x",
            "--header",
            "Authorization: Bearer abc123def",
            "--port",
            "80",
        ),
        env={"GITHUB_TOKEN": TOKEN, "LOG": "debug", "PGPASS": "${PGPASS:-hunter22}"},
    ).model_copy(update={"origin": "/home/ada/.mcp.json"})
    withholding = SecretExtractor()
    copied = withholding.entry_without_secrets(entry)
    assert copied.command == ("docker", "run", "-e", "GITHUB_TOKEN=${GITHUB_TOKEN}")
    assert copied.args == (
        *("--api-key", "${MY_SERVER_API_KEY}", "--token=${MY_SERVER_TOKEN}"),
        *("--header", "Authorization: Bearer ${MY_SERVER_TOKEN_2}", "--port", "80"),
    )
    assert copied.env == {"GITHUB_TOKEN": "${GITHUB_TOKEN}", "LOG": "debug", "PGPASS": "${PGPASS}"}
    values = {
        "GITHUB_TOKEN": TOKEN,
        "MY_SERVER_TOKEN": f"{TOKEN}x",
        "MY_SERVER_TOKEN_2": "abc123def",
        "MY_SERVER_API_KEY": "abcd1234",
        "PGPASS": "hunter22",
    }
    assert {each.variable for each in withholding.extracted} == set(values)
    assert expand_entry(copied, values) == expand_entry(entry, {})  # whoever sets them has the same server
    assert ExtractedSecret("PGPASS", "my-server", "env.PGPASS", "/home/ada/.mcp.json") in withholding.extracted
    assert TOKEN not in repr(withholding.extracted)


def test_addresses_and_headers_of_remote_servers_lose_their_secrets():
    entry = ServerEntry(
        name="tickets",
        url=f"https://ada:pw12@tickets.example/s/{TOKEN}/mcp?api_key=abcd&page=2#x",
        headers={"Authorization": "Bearer abcd1234", "Cookie": "a=b; c=d", "X-Team": "blue"},
        oauth=OAuth(client_id="me", client_secret="hush"),
    )
    copied = SecretExtractor().entry_without_secrets(entry)
    assert copied.url == (
        "https://ada:${TICKETS_PASSWORD}@tickets.example/s/${TICKETS_URL_TOKEN}/mcp"
        "?api_key=${TICKETS_API_KEY}&page=2#x"
    )
    assert copied.headers == {
        "Authorization": "Bearer ${TICKETS_TOKEN}",
        "Cookie": "${TICKETS_COOKIE}",
        "X-Team": "blue",
    }
    assert copied.oauth == OAuth(client_id="me", client_secret="${TICKETS_CLIENT_SECRET}")


@pytest.mark.parametrize(
    ("word", "written"),
    [
        ("postgres://ada:pw12@h/db", "postgres://ada:${DB_PASSWORD}@h/db"),
        ("jdbc:postgresql://ada:pw12@h/db", "${DB_URL}"),
        ("--db=postgres://ada:pw12@h/db", "--db=${DB_DB}"),
        ("Server=h;Pwd=pw12", "Server=${Server}"),
        ("--verbose=true", "--verbose=true"),
        ("https://h/mcp", "https://h/mcp"),
        (f"https://{TOKEN}@h/mcp", "https://${DB_URL_TOKEN}@h/mcp"),
        ("ssh://git@h/mcp", "ssh://git@h/mcp"),
        ("https://h/mcp#access_token=hunter22", "https://h/mcp#access_token=${DB_ACCESS_TOKEN}"),
        ("--header=Authorization: Bearer hunter22", "--header=Authorization: Bearer ${DB_TOKEN}"),
        ("C:\\tools", "C:\\tools"),
    ],
)
def test_words_of_a_command_line_lose_their_secrets(word, written):
    assert SecretExtractor().entry_without_secrets(ServerEntry(name="db", command="x", args=(word,))).args == (
        written,
    )


def test_one_variable_stands_for_one_value():
    withholding = SecretExtractor()
    values = ("first-one", "first-one", "other-one")
    entries = [ServerEntry(name=f"s{n}", command="x", env={"API_KEY": value}) for n, value in enumerate(values)]
    copied = [withholding.entry_without_secrets(entry).env["API_KEY"] for entry in entries]
    assert copied == ["${API_KEY}", "${API_KEY}", "${S2_API_KEY}"]


def test_an_entry_without_secrets_stays_as_it_is():
    entry = ServerEntry(name="a", url="https://a.example/mcp", headers={"Authorization": "Bearer ${TOKEN}"})
    withholding = SecretExtractor()
    assert withholding.entry_without_secrets(entry) == entry
    assert withholding.extracted == []


def test_a_command_that_is_a_whole_line_loses_its_secrets_too():
    entry = ServerEntry(name="db", command=f"docker run -e GITHUB_TOKEN={TOKEN} image")
    assert (
        SecretExtractor().entry_without_secrets(entry).command == "docker run -e GITHUB_TOKEN=${GITHUB_TOKEN} image"
    )

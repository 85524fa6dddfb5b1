"""Files that may hold secrets are known by their names, however these are spelled, and by what they say."""

import sys
import time

import pytest
from tests.assistant.files.made import never

from toolyard.assistant.files.secrets import is_secret_by_content, is_secret_by_name
from toolyard.assistant.precommit import scanner as scanner_module

TOKEN = "ghp_" + "aB3dE5fG7hI9jK1lM2nO4pQ6rS8tU0vW1xY2"

SECRET = [
    *(".env", ".ENV", "PROD.ENV", "ID_RSA", "server.PEM", "deploy.Key", "a/.SSH/config", ".Git-Credentials"),
    *(".env~", "#.env#", ".env.bak", ".env.bak~", "..env.swp", ".prod.env.swp", ".id_rsa.swo", "server.key.old"),
    *(".netrc.bak", ".pgpass.bak", "id_rsa.orig", "deploy.pem.save", "a.pem.bak2", "b.key.~3~", "secrets.yml~"),
    *("credentials.json", "Credentials.JSON", "a/credentials.yaml", "gcp_credentials.json", "client_secret_1.json"),
    *("service-account.json", "service_account-prod.json", "gcp-key.json", ".aws_credentials", ".aws/config"),
    *(".vault-token", "kubeconfig", "prod.kubeconfig", ".dockercfg", ".s3cfg", ".boto", ".my.cnf", "cred.p8"),
    *("secrets.yml", "secrets.yaml", "secrets.toml", "secrets.json", "htpasswd", ".cargo/credentials"),
    *("terraform.tfstate", "terraform.tfstate.backup", "prod.tfvars", ".bash_history", "putty.ppk"),
    *("credentials", "Credentials", "a/credentials", "credentials.txt", "credentials~", "secret.txt", "secret.json"),
    *("secrets.txt", "secrets.conf", "secrets.csv", "token", "token.txt", "TOKEN.TXT", "tokens.txt", "token.json"),
    *(".token", "auth.json", "a/auth.json", ".composer/auth.json", "api_key.txt", "api-keys.txt", "apikey.txt"),
    *(".netrc", ".npmrc", ".pypirc", "a.p12", "a.pfx", "a.kdbx", "id_ed25519", "id_ecdsa_sk", "a.keytab"),
]
ORDINARY = [
    *("src/credentials.py", "secrets.py", "Secrets.java", "docs/secrets.md", "src/secrets/__init__.py", "key.go"),
    *(".env.example", ".ENV.EXAMPLE", ".env.example~", ".env.sample.bak", "id_rsa.pub", "ID_RSA.PUB", "a.pub~"),
    *("credentials.example.json", "service-account.sample.json", "terraform.tfvars.example", "secrets.yml.dist"),
    *("credentials/login.ts", "kubeconfig/load.go", "locales/en/auth.json", "package.json", "primary-key.json"),
    *("templates/secret.yaml", ".secrets.baseline", "main.tf", "history.py", "environment.ts", "a.py.bak"),
    *("token.py", "tokens.ts", "auth.py", "auth.ts", "credentials.md", "Credentials.java", "secret.go"),
    *("secret.md", "secrets.ts", "token.go", "token.h", "tokens.json", "tokens.css", "token/parse.py"),
    *("i18n/de/auth.json", "src/Locales/auth.json", "lang/token.json", "tokenizer.json", "auth.json.example"),
    *("~", "#", "##", ".bak", ".swp", "..swp", "#.bak#", "passwords.py", ".gitignore"),
]  # fmt: skip


@pytest.mark.parametrize("path", SECRET)
def test_a_name_of_secrets_is_known(path):
    assert is_secret_by_name(f"/ws/{path}", "/ws")
    assert is_secret_by_name(f"/WS/a/{path}", "/WS")


def test_where_the_workspace_lies_makes_no_name_ordinary():
    assert is_secret_by_name("/home/me/messages/ws/auth.json", "/home/me/messages/ws")


@pytest.mark.parametrize("path", ORDINARY)
def test_an_ordinary_name_is_not_taken_for_one(path):
    assert not is_secret_by_name(f"/ws/{path}", "/ws")


def test_a_very_long_name_is_judged_at_once():
    started = time.monotonic()
    for name in (".env" + ".bak" * 60, "~" * 255, "." * 255, "#" * 255, "." * 120 + ".swp" * 30, "-_" * 120):
        is_secret_by_name(f"/ws/{name}", "/ws")

    assert time.monotonic() - started < 1


@pytest.mark.parametrize(
    ("text", "is_secret"),
    [
        ("-----BEGIN PRIVATE KEY-----", True),
        ("x" * 100_000 + "-----BEGIN RSA PRIVATE KEY-----\nMII", True),
        ("-----BEGIN PGP PRIVATE KEY BLOCK-----", True),
        ("-----BEGIN PUBLIC KEY-----", False),
        ("the PRIVATE KEY is -----BEGIN CERTIFICATE-----", False),
        (f"one\ntoken = '{TOKEN}'\n", True),
        (f"token = '{TOKEN}'  # pragma: allowlist secret\n", False),
        ("x = 1\n" * 2_000 + f"token = '{TOKEN}'\nx = 1\n", True),
        ("x = 1\n" * 2_000 + f"token = '{TOKEN}'  # pragma: allowlist secret\nx = 1\n", False),
        ("x = 1\n" * 2_000 + f"# pragma: allowlist nextline secret\ntoken = '{TOKEN}'\n", False),
        ("password = 'hunter2'\ntoken = os.environ['TOKEN']\n", False),
        ("", False),
    ],
)
def test_keys_and_tokens_are_known_by_their_form(text, is_secret):
    assert is_secret_by_content("a.py", text, never) is is_secret


def test_no_text_takes_long():
    started = time.thread_time()
    for unit in ("api_key", "x://a:", "eyJ", "-----BEGIN "):
        is_secret_by_content("a.php", ((unit * 400)[:998] + "\n") * 64, never)

    assert time.thread_time() - started < 2


def test_without_the_scanner_private_keys_are_known_all_the_same(monkeypatch):
    scanner_module.scanner.cache_clear()
    for name in [name for name in sys.modules if name.startswith("detect_secrets")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "detect_secrets", None)

    assert is_secret_by_content("a.py", "-----BEGIN PRIVATE KEY-----", never)
    assert not is_secret_by_content("a.py", TOKEN, never)

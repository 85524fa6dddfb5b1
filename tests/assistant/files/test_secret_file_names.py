"""Files for secrets are known by their names, however these are spelled."""

import time

import pytest

from toolyard.assistant.files.secret_file_names import is_secret_by_name

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

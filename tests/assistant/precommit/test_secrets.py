"""A key that would be committed is a no-go, and is shown to nobody. What merely looks random is not."""

import base64
import json
import subprocess
import time
from dataclasses import fields
from functools import partial

import pytest

from toolyard.assistant.precommit import ChangeStatus, FileChange, inspect_changes
from toolyard.assistant.precommit.secrets import SecretScan
from toolyard.assistant.secrets.scanner import SecretHit, mask_hits, shared_scanner

LONGEST_WAIT = 10.0
LONGEST_STEP = 0.2
TRIES = 5
"""Of one pattern on one line, however busy the machine is: an honest one takes a few milliseconds."""


def part(value):
    return base64.urlsafe_b64encode(json.dumps(value).encode()).decode().rstrip("=")


# In pieces, so that no scanner of this repository finds them whole.
KEYS = {
    "AWS Access Key": "AKIA" + "IOSFODNN7EXAMPLE",
    "GitHub Token": "ghp_" + "a1b2c3d4e5f6g7h8i9j0k1l2m3n4o5p6q7r8",
    "Google API Key": "AIza" + "SyA1234567890abcdefghijklmnopqrstuv",
    "OpenAI API Key": "sk-" + "proj-abcd1234efgh5678ijkl9012mnop",
    "Anthropic API Key": "sk-" + "ant-api03-abcd1234efgh5678ijkl9012mnop",
    "Slack Token": "xoxb-" + "123456789012-1234567890123-abcdefghijklmnopqrstuvwx",
    "Stripe Access Key": "sk_live_" + "4eC39HqLyjWDarjtT1zdp7dc",
    "SendGrid API Key": "SG." + "abcdefghij0123456789AB.abcdefghij0123456789abcdefghij0123456789ABC",
    "NPM tokens": "npm_" + "abcdefghijklmnopqrstuvwxyz0123456789",
    "GitLab Token": "glpat-" + "abcdefghij0123456789",
    "JSON Web Token": f"{part({'alg': 'HS256', 'typ': 'JWT'})}.{part({'sub': '1234'})}.SflKxwRJSMeKKF2QT4fwpMeJf36",
    "Basic Auth Credentials": "https://bob:" + "s3cr3tPa55" + "@git.company.dev/x.git",
}
PRIVATE = [
    "-----BEGIN RSA " + "PRIVATE KEY-----",
    *["MIIEpAIBAAKCAQEA" * 4] * 3,
    "-----END RSA " + "PRIVATE KEY-----",
]


def texts(value):
    """Every text in a result, however deep."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, (list, tuple)):
        for each in value:
            yield from texts(each)
    elif hasattr(value, "__dataclass_fields__"):
        for field in fields(value):
            yield from texts(getattr(value, field.name))


def secret_of(key):
    return key.split(":")[-1].partition("@")[0] if "://" in key else key


@pytest.mark.parametrize("where", ["staged", "unstaged", "untracked"])
def test_a_planted_key_is_a_no_go_that_says_where_and_never_what(repo, look, of, where):
    name = "b.py" if where == "untracked" else "a.txt"
    repo.write(name, "one\n" + "".join(f"value = '{key}'\n" for key in KEYS.values()))
    if where == "staged":
        repo.git("add", "-A")
    found = look()
    assert found.verdict == "no-go"
    told = of(found, "secrets")[1]
    assert [(name, line, kind) for line, kind in enumerate(KEYS, start=2) if (name, line, kind) not in told] == []
    assert found.reasons[0].startswith(f"secrets: {name}:2 AWS Access Key")
    everything = "\n".join([*texts(found), found.render_report(), found.render_diff(10_000).text, repr(found)])
    assert [kind for kind, key in KEYS.items() if secret_of(key) in everything] == []
    assert found.render_diff(10_000).text.count("[secret]") == len(KEYS)


@pytest.mark.parametrize("kind", KEYS)
def test_each_kind_of_key_is_found_alone(kind):
    hits = shared_scanner().find_secrets("a.py", f"value = '{KEYS[kind]}'")
    assert [hit.kind for hit in hits if hit.is_definite] in ([kind], [kind, kind])


def test_a_private_key_is_found_over_its_lines_and_told_of_once(repo, look, of):
    repo.write("key.txt", "\n".join(["text", *PRIVATE, "text"]))
    found = look()
    assert of(found, "secrets") == ("failed", [("key.txt", 3, "Private Key")])
    assert "MIIE" not in "\n".join([*texts(found), found.render_diff(10_000).text])


def test_code_that_only_speaks_of_private_keys_is_a_go_with_a_warning(repo, look, of):
    repo.write("b.py", f"BEGIN = '{PRIVATE[0]}'\nif input().startswith(BEGIN):\n    raise ValueError\n")
    found = look()
    assert (found.verdict, of(found, "secrets")) == (
        "go",
        ("warned", [("b.py", 1, "is the beginning of a private key")]),
    )
    assert PRIVATE[0] in found.render_diff(10_000).text


def test_a_secret_that_was_there_before_does_not_fail_but_is_masked(repo, look, of):
    key = KEYS["AWS Access Key"]
    repo.commit(**{"b.py": f"a = 1\nkey = '{key}'\nb = 2\nold = '{key}'\n"})
    repo.write("b.py", f"a = 1\nkey = '{key}'\nb = 3\n")
    found = look()
    assert (found.verdict, of(found, "secrets")) == ("go", ("passed", []))
    assert key not in "\n".join([*texts(found), found.render_diff(10_000).text])


def test_no_comment_allows_a_secret(repo, look, of):
    key = KEYS["AWS Access Key"]
    lines = [f"a = '{key}'  # pragma: allowlist secret", "# pragma: allowlist nextline secret", f"b = '{key}'"]
    repo.write("b.py", "\n".join(lines))
    found = look()
    assert found.verdict == "no-go"
    assert of(found, "secrets") == ("failed", [("b.py", 1, "AWS Access Key"), ("b.py", 3, "AWS Access Key")])


INNOCENT = {
    "b.py": "id = '550e8400-e29b-41d4-a716-446655440000'\nsha = 'da39a3ee5e6b4b0d3255bfef95601890afd80709'\n"
    "key = 'sk-xxxxxxxxxxxxxxxxxxxxxxxxxxxx'\nname = 'task-management-for-everybody-here'\n"
    "url = 'postgres://user:password@localhost/db'\npassword = os.environ['PASSWORD']\ntoken = get_token()\n",
    "package-lock.json": '"integrity": "sha512-oUwAAAaG8AbTzQ+ACzLQwGk+1hNQqYn1w5lQYFcC5QjJ9OeFzWcgXZ0mZ3kKgkq=="',
    "poetry.lock": 'hash = "sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"\n',
    ".env.example": "API_KEY=your-key-here\n",
    "data.py": "BLOB = 'iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU'\n",
}


def test_hashes_ids_placeholders_and_lookups_are_no_secrets(repo, look):
    for name, content in INNOCENT.items():
        repo.write(name, content)
    found = look()
    assert [reason for reason in found.reasons if not reason.startswith("lint")] == []


def test_a_password_behind_its_word_is_a_warning(repo, look, of):
    repo.write("b.py", "password = 'correcthorse9'\n")
    repo.write("settings.cfg", "db_password = correcthorse9\n")
    found = look()
    assert found.verdict == "go"
    outcome, details = of(found, "secrets")
    assert (outcome, {path for path, _, _ in details}) == ("warned", {"b.py", "settings.cfg"})
    assert "correcthorse9" not in "\n".join([*texts(found), found.render_diff(10_000).text])


def test_a_random_value_behind_such_a_word_is_a_no_go(repo, look):
    repo.write("b.py", "API_TOKEN = 'Zx8kQ2mV5nB7cR4tY9wE1uI3oP6aS0dF'\n")
    assert look().verdict == "no-go"


def test_a_file_for_secrets_is_a_no_go_and_its_content_not_shown(repo, look, of):
    names = [".env", ".netrc", ".ssh/id_ed25519", "deep/.env.production", "id_rsa"]
    for name in names:
        repo.write(name, "PLAIN=content\n")
    found = look()
    assert found.verdict == "no-go"
    assert [(path, line) for path, line, _ in of(found, "secrets")[1] if not line] == [(name, 0) for name in names]
    assert "content" not in found.render_diff(10_000).text
    assert found.render_diff(10_000).text.count("[not shown: it is a file for secrets]") == len(names)


def test_a_store_of_keys_and_a_public_key_are_less(repo, look, of):
    repo.write("store.jks", b"\0")
    repo.write("id_rsa.pub", "ssh-rsa AAAA ada@localhost\n")
    assert of(look(), "secrets") == ("warned", [("store.jks", 0, "is a key store")])


def test_a_secret_cannot_hide_behind_an_attribute_that_calls_its_file_binary(repo, look, of):
    repo.write(".gitattributes", "*.py binary\n")
    for name in ("staged.py", "untracked.py"):
        repo.write(name, f"a = 1\nkey = '{KEYS['AWS Access Key']}'\n")
    repo.git("add", "staged.py")
    found = look()
    assert of(found, "secrets")[1] == [("staged.py", 2, "AWS Access Key"), ("untracked.py", 2, "AWS Access Key")]


def test_a_secret_in_a_very_long_line_is_found_and_masked(repo, look, of):
    key = KEYS["GitHub Token"]
    repo.write("min.js", f"{'var a=1;' * 50_000}b='{key}';{'var c=1;' * 1_000}\n")
    found = look()
    assert of(found, "secrets")[1][0] == ("min.js", 1, "GitHub Token")
    assert key not in "\n".join([*texts(found), found.render_diff(10_000_000).text])


def test_no_half_of_a_secret_is_left_where_a_line_is_cut(repo, look):
    key = KEYS["GitHub Token"]
    for length in range(1_970, 2_010, 5):
        repo.write(f"{length}.txt", f"{'x ' * (length // 2)}{key}\n")
    found = look()
    assert "ghp_" not in "\n".join([*texts(found), found.render_diff(1_000_000).text])


def test_lines_from_the_middle_of_a_key_are_masked(repo, look, of):
    body = [base64.b64encode(bytes([number]) * 48).decode() for number in range(20)]
    repo.commit(**{"key.txt": "\n".join([PRIVATE[0], *body, PRIVATE[-1]])})
    repo.write("key.txt", "\n".join([PRIVATE[0], *body[:10], body[11], *body[11:], PRIVATE[-1]]))
    shown = look().render_diff(10_000).text
    assert "[secret]" in shown
    assert [line for line in body if line in shown] == []


def test_staged_content_that_a_rule_hides_is_checked_and_not_shown(repo, look, of):
    repo.write("hidden.txt", f"secret words\n{KEYS['AWS Access Key']}\n")
    repo.git("add", "-A")
    repo.write("hidden.txt", "other words\n")
    found = look(permissions={"deny": ["Read(hidden.txt)"]})
    assert of(found, "secrets") == ("failed", [("hidden.txt", 2, "AWS Access Key")])
    assert "words" not in "\n".join([*texts(found), found.render_diff(10_000).text])
    assert "[not shown: a rule hides it]" in found.render_diff(10_000).text
    assert of(found, "git")[1] == [("hidden.txt", 0, "is hidden by a rule: the file on disk was not inspected")]


def test_masks_cover_what_overlaps():
    hits = [SecretHit("a", 2, 6), SecretHit("b", 4, 8), SecretHit("c", 4, 5), SecretHit("d", 9, 10)]
    assert mask_hits("0123456789x", hits) == "01[secret]8[secret]x"
    assert mask_hits("", []) == ""


def fastest(work):
    """The CPU seconds of the fastest of a few tries: other work of the machine makes some of them slower."""
    took = []
    for _ in range(TRIES):
        begun = time.thread_time()
        work()
        took.append(time.thread_time() - begun)
        if took[-1] < LONGEST_STEP:
            break
    return min(took)


@pytest.mark.parametrize("character", ["a", "'", '"', "=", "/", "\\", " ", "-", "key=", "://", "eyJ", "@", "\ud800"])
def test_no_line_takes_long(character):
    begun = time.thread_time()
    shared_scanner().find_secrets("a.py", character * (200_000 // len(character)))
    shared_scanner().find_secrets("a.yaml", character * (1_000 // len(character)))
    assert time.thread_time() - begun < LONGEST_WAIT


REPEATED = ["api_key", "recaptcha_key", "recaptcha_", "token", "_pass", "key='", "data.put('key", "artif", "jfrog AP"]


@pytest.mark.parametrize("name", ["a.php", "a.go", "a.yaml", "a.py", "a.cpp", "a.cs", "a.tf", ".env"])
def test_a_line_of_secret_words_takes_little_time_too(name):
    lines = [(text * 1_000)[:length] for text in REPEATED for length in (990, 2_000)]
    lines += [f"password = 'x1y2z3{' ' * 900}", f"key{' ' * 900}= 'abcdefgh1'", "\t" * 900 + "key = 'abcdefgh1'"]
    assert max(fastest(partial(shared_scanner().find_secrets, name, line)) for line in lines) < LONGEST_STEP


def test_the_time_is_looked_at_before_each_line_that_may_take_long():
    looked = []
    scan = SecretScan(lambda: looked.append(None))
    scan.mask_change(
        FileChange("a.php", ChangeStatus.ADDED, True, added=tuple((at, "api_key" * 100) for at in range(100)))
    )
    assert len(looked) >= 100


def test_a_rule_that_hides_a_file_for_secrets_makes_no_go_of_a_no_go(open_gate, workspace):
    subprocess.run(["git", "init", "-q", str(workspace)], check=True)
    (workspace / ".env").write_text("PASSWORD=hunter2\n")
    gate = open_gate(permissions={"presets": ["secrets"]})

    found = inspect_changes(gate, ".", include_staged=True, include_unstaged=True)

    assert found.verdict == "no-go"
    assert any(".env" in reason for reason in found.reasons)

"""A key that was put where nobody looks is found, or it is told that nobody looked. No model sees it in any case."""

import base64

import pytest

from toolyard.assistant.precommit import binaries, inspect_changes
from toolyard.assistant.precommit.text_in_binary import decode_line, extract_lines
from toolyard.core.limits import MIB

pytestmark = pytest.mark.slow  # git in a sandbox, again and again

TOKEN = "ghp_" + "aB3dE5fG7hI9jK1lM2nO4pQ6rS8tU0vW1xY2"
BODY = [base64.b64encode(bytes(range(at, at + 48))).decode() for at in range(0, 96, 16)]
BEGIN, END = "-----BEGIN OPENSSH " + "PRIVATE KEY-----", "-----END OPENSSH " + "PRIVATE KEY-----"
LINE = f"token={TOKEN}\n"


def everything(found):
    return f"{found!r}{found.render_report()}{found.render_diff(1_000_000).text}"


@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-le", "utf-16-be", "utf-32", "utf-32-be"])
@pytest.mark.parametrize("where", ["staged", "untracked"])
def test_a_key_in_a_wide_encoding_is_found(repo, look, of, encoding, where):
    repo.write("c.txt", f"first\n{LINE}last\n".encode(encoding))
    if where == "staged":
        repo.git("add", "-A")
    found = look()
    assert found.verdict == "no-go"
    assert ("c.txt", 2, "GitHub Token") in of(found, "secrets")[1]
    assert TOKEN not in everything(found)


@pytest.mark.parametrize(
    "content",
    [
        f"{LINE}\0".encode(),
        b"\0\1\2" * 1_000 + LINE.encode() + b"\xff\0" * 1_000,
        b"\0" * 100 + b"name\0" + TOKEN.encode() + b"\0other\0",
        b"plain\n" * 2_000 + LINE.encode("utf-16-le") * 2,
    ],
    ids=["one nul", "among bytes", "a table of strings", "wide behind plain text"],
)
def test_a_key_among_bytes_that_are_no_text_is_found(repo, look, of, content):
    repo.write("c.bin", content)
    found = look()
    assert "GitHub Token" in {text for _, _, text in of(found, "secrets")[1]}
    assert TOKEN not in everything(found)


def test_a_private_key_in_utf_16_is_found(repo, look, of):
    repo.write("c.txt", "\n".join([BEGIN, *BODY, END]).encode("utf-16"))
    assert of(look(), "secrets") == ("failed", [("c.txt", 2, "Private Key")])


@pytest.mark.parametrize(
    "attributes", ["*.txt binary\n", "*.txt -diff\n", "*.txt diff=own\n"], ids=["binary", "no diff", "a driver"]
)
def test_a_key_in_a_long_file_that_is_called_binary_is_found(repo, look, attributes):
    repo.git("config", "diff.own.binary", "true")
    repo.write(".gitattributes", attributes)
    repo.write("c.txt", LINE + "x = 1\n" * 100_000)
    assert look().verdict == "no-go"


def test_a_repository_does_not_say_from_what_length_a_file_is_binary(repo, look, of):
    repo.git("config", "core.bigFileThreshold", "1k")
    repo.write("c.txt", LINE + "x = 1\n" * 1_000)
    found = look()
    assert ("c.txt", 1, "GitHub Token") in of(found, "secrets")[1]
    assert not next(change.is_binary for change in found.changes)


def test_files_that_nobody_got_to_are_a_no_go_and_large_ones_a_warning(repo, look, of, monkeypatch):
    monkeypatch.setattr(binaries, "_MOST_BYTES", MIB)
    for name in ("a.bin", "b.bin"):
        repo.write(name, b"\0" * (MIB // 2 + 1) + name.encode())
    repo.git("add", "b.bin")
    repo.write("c.bin", b"\0" * (6 * MIB))
    unseen = "is a binary file that was not inspected"
    large = "is a binary file of 6 MiB that was not inspected"
    found = look()
    assert of(found, "binaries") == ("failed", [("a.bin", 0, unseen), ("c.bin", 0, large)])
    assert found.verdict == "no-go"
    monkeypatch.undo()
    found = look()
    assert (of(found, "binaries"), found.verdict) == (("warned", [("c.bin", 0, large)]), "go")


@pytest.mark.parametrize(
    "before", ["# ", "// ", "> ", " * ", "-- ", "; ", "/// ", "> > ", "    #\t", "+", '"', "REM "]
)
def test_a_private_key_in_a_comment_or_a_quotation_is_found_and_masked(repo, look, of, before):
    repo.write("k.py", "".join(f"{before}{line}\n" for line in [BEGIN, *BODY, "aGVsbG8=", END]))
    found = look()
    assert of(found, "secrets") == ("failed", [("k.py", 2, "Private Key")])
    assert [line for line in [*BODY, "aGVsbG8="] if line in everything(found)] == []


def test_a_private_key_with_headers_or_on_one_line_is_found_and_masked(repo, look, of):
    repo.write("a.txt", "\n".join([BEGIN, "Proc-Type: 4,ENCRYPTED", "DEK-Info: AES-128-CBC,0A1B", "", *BODY, END]))
    repo.write("b.json", f'"{BEGIN}\\n{BODY[0]}\\n{BODY[1]}\\n{END}"')
    repo.write("c.txt", f"{BEGIN} {' '.join(BODY)} {END}")
    found = look()
    assert {path for path, _, text in of(found, "secrets")[1] if text == "Private Key"} == {
        "a.txt",
        "b.json",
        "c.txt",
    }
    assert [line for line in [*BODY, "0A1B"] if line in everything(found)] == []


def test_a_key_in_a_name_is_found_and_masked_wherever_the_name_is_told(repo, look, of):
    repo.commit(**{"docs.md": f"See {TOKEN}.py.\n", "old.py": "def one_function(): pass\n" * 5})
    repo.write(f"{TOKEN}.txt", "x\n")
    repo.write(f"src/{TOKEN}/module.py", "breakpoint()\n")
    repo.git("mv", "old.py", f"{TOKEN}.py")
    repo.git("checkout", "-q", "-b", TOKEN)
    found = look()
    assert [text for _, _, text in of(found, "secrets")[1]] == ["GitHub Token in its name"] * 3
    assert TOKEN not in everything(found)
    assert "[secret].txt" in found.lines_of


def test_an_old_name_with_a_key_in_it_is_masked_and_fails_nothing(repo, look):
    code = "def one_function(): pass\n" * 5
    repo.commit(**{f"{TOKEN}.py": code, f"{TOKEN}.txt": "words\n", "docs.md": f"See {TOKEN}.py.\n"})
    repo.git("mv", f"{TOKEN}.py", "new.py")
    repo.git("rm", "-q", f"{TOKEN}.txt")
    found = look()
    assert found.verdict == "go"
    assert ("new.py", "[secret].py") in [(change.path, change.old_path) for change in found.changes]
    assert TOKEN not in everything(found)


def test_a_comment_that_allows_a_secret_neither_makes_a_go_nor_shows_it(repo, look, of):
    allowed = "# pragma: allowlist secret"
    repo.write("b.py", f"a = '{TOKEN}'  {allowed}\n# {BEGIN}  {allowed}\n" + "".join(f"# {line}\n" for line in BODY))
    found = look()
    assert found.verdict == "no-go"
    assert of(found, "secrets")[1][:2] == [("b.py", 1, "GitHub Token"), ("b.py", 3, "Private Key")]
    assert [text for text in [TOKEN, *BODY] if text in everything(found)] == []


def test_words_of_a_change_that_a_rule_hides_are_in_no_warning(repo, look, of):
    repo.commit(**{"hidden.py": "def the_hidden_name(): pass\n", "docs.md": "Call `the_hidden_name`.\n"})
    repo.write("hidden.py", "\n")
    repo.git("add", "-A")
    found = look(unstaged=False, permissions={"deny": ["Read(hidden.py)"]})
    assert "the_hidden_name" not in everything(found)


def test_what_there_was_no_time_for_is_a_no_go_and_is_not_shown(repo, open_gate):
    repo.write("a.txt", "".join(f"a line of many words, and a number: {number}\n" for number in range(200_000)))
    found = inspect_changes(open_gate(), ".", seconds=2.0)
    assert found.verdict == "no-go"
    assert "the time was up" in found.reasons[0] or "too large" in found.reasons[0]
    assert "many words" not in found.render_diff(10_000).text


@pytest.mark.parametrize("length", [65_530, 65_535, 65_536, 65_537, 131_071, 131_072])
def test_nothing_is_lost_where_long_lines_are_cut_for_reading(length):
    wide = f"{'x' * 8_001}{'y ' * (length // 2)}{TOKEN} z".encode("utf-16-le")
    assert TOKEN in decode_line(wide)
    assert any(TOKEN in text for _, text in extract_lines(wide, lambda: None))
    assert TOKEN in decode_line(b"x" * length + b" " + TOKEN.encode())
    assert extract_lines("é\r\nü\n".encode() * 60_000, lambda: None)[119_999] == (120_000, "ü")

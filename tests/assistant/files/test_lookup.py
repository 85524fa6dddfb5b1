"""Names in a request become files that may be sent, or errors that say everything that is wrong."""

import os
import socket

import pytest

from tests.assistant.files.made import made
from tests.support.descriptors import count_open
from toolyard.assistant.files.folder_scan import scan_folder
from toolyard.assistant.files.lookup import find_files, reread_file
from toolyard.assistant.files.sources import SkippedFile
from toolyard.assistant.secrets.redaction import Secret
from toolyard.config.assistant import AssistantLimits
from toolyard.core.actions import Kind
from toolyard.core.errors import FieldError, SecurityError, ToolError, ValidationError

LIMITS = AssistantLimits()
KEY = "-----BEGIN OPENSSH PRIVATE KEY-----\nb3BlbnNzaC1rZXktdjEA\n-----END OPENSSH PRIVATE KEY-----\n"
FOR_SECRETS = (
    "has the name of a file for secrets. Naming it explicitly sends it with known secrets masked: ask the user first"
)
TOKEN = "ghp_" + "aB3dE5fG7hI9jK1lM2nO4pQ6rS8tU0vW1xY2"


@pytest.fixture
def tree(workspace):
    def write(files):
        for name, content in files.items():
            path = workspace / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content.encode() if isinstance(content, str) else content)

    return write


def paths(found):
    return [source.path for source in found.sources]


def reasons(found):
    return {skipped.path: skipped.reason for skipped in found.skipped}


def test_named_files_come_as_named_and_only_once(gate, tree, workspace):
    tree({"src/b.py": "b = 1\r\n", "a.md": "# A\n"})

    found = find_files(gate, ["src/b.py", "a.md", "./src/b.py", f"{workspace}/a.md"], LIMITS)

    assert paths(found) == ["src/b.py", "a.md"]
    first = found.sources[0]
    assert (first.text, first.lines, first.language, first.is_named) == ("b = 1\n", 1, "python", True)
    assert not found.skipped


def test_another_version_of_a_file_has_another_digest(gate, tree):
    tree({"a.py": "one"})
    before = find_files(gate, ["a.py"], LIMITS).sources[0].digest
    again = find_files(gate, ["a.py"], LIMITS).sources[0].digest
    tree({"a.py": "two"})

    assert again == before
    assert find_files(gate, ["a.py"], LIMITS).sources[0].digest != before


def test_folders_give_source_before_documents_before_logs_after_what_was_named(gate, tree):
    tree({
        "p/a.log": "l", "p/README.md": "r", "p/z.py": "z", "p/tests/test_z.py": "t", "p/pyproject.toml": "[x]",
        "p/b/c.ts": "c", "notes.txt": "n", "p/data.csv": "1,2",
    })  # fmt: skip

    assert paths(find_files(gate, ["p", "notes.txt"], LIMITS)) == [
        "notes.txt", "p/b/c.ts", "p/z.py", "p/tests/test_z.py", "p/pyproject.toml", "p/README.md", "p/a.log",
        "p/data.csv",
    ]  # fmt: skip


def test_what_gitignore_names_and_git_itself_are_not_scanned(gate, tree):
    tree({".gitignore": "out/\n*.tmp\n", "out/a.py": "", "b.tmp": "", ".git/config": "x", "c.py": "", "d/.x.py": ""})

    assert paths(find_files(gate, ["."], LIMITS)) == ["c.py", "d/.x.py", ".gitignore"]
    found = find_files(gate, [".git"], LIMITS)
    assert not found.sources
    assert "no file that may be sent" in reasons(found)[".git"]


def test_all_that_is_wrong_is_told_at_once(gate, tree):
    tree({"main.py": "x", "big.py": "y" * 101})

    with pytest.raises(ValidationError) as caught:
        find_files(gate, ["mian.py", "big.py", "", "a\0b", "main.py/x"], AssistantLimits(file_bytes=100))

    assert caught.value.code == -32602
    assert caught.value.data()["validation_errors"] == [
        {"field": "files", "error": "mian.py does not exist; did you mean main.py?"},
        {"field": "files", "error": "big.py has 101 bytes; the limit is 100"},
        {"field": "files", "error": "is empty"},
        {"field": "files", "error": "contains a NUL byte"},
        {"field": "files", "error": f"A part of {gate.mounts.workspace.path}/main.py/x is a file, not a folder."},
    ]


def test_a_file_that_lies_elsewhere_is_suggested(gate, tree):
    tree({"src/app/[id].py": "x"})

    with pytest.raises(ValidationError, match=r"did you mean src/app/\[id\]\.py\?"):
        find_files(gate, ["[id].py"], LIMITS)
    with pytest.raises(ValidationError, match="patterns are not expanded"):
        find_files(gate, ["src/*.py"], LIMITS)


def test_more_names_than_allowed_are_refused_for_the_field_they_came_in(gate):
    with pytest.raises(ValidationError) as caught:
        find_files(gate, [f"{n}.py" for n in range(51)], LIMITS, field="paths")

    assert caught.value.fields == (FieldError("paths", "names 51 files; the limit is 50"),)


@pytest.mark.parametrize(
    "name", ["/etc/passwd", "/proc/self/environ", "../outside.txt", "a/../../outside.txt", "out", "out/x", "environ"]
)
def test_a_name_that_leads_out_is_refused(gate, workspace, tmp_path, name):
    (tmp_path / "outside.txt").write_text("secret")
    (workspace / "out").symlink_to(tmp_path)
    (workspace / "environ").symlink_to("/proc/self/environ")

    with pytest.raises(SecurityError) as caught:
        find_files(gate, [name, "missing.py"], LIMITS)

    assert caught.value.code == -32001


def test_all_that_is_wrong_is_told_with_a_name_that_leads_out(gate, tree, workspace, tmp_path):
    tree({"a.py": "x", "private/b.py": "y"})
    (workspace / "out").symlink_to(tmp_path)

    with pytest.raises(SecurityError) as caught:
        find_files(gate, ["a.py", "/etc/passwd", "nope.py", "out"], LIMITS)

    assert caught.value.data()["validation_errors"] == [
        {"field": "files", "error": f"/etc/passwd lies outside the project {workspace}"},
        {"field": "files", "error": "nope.py does not exist"},
        {"field": "files", "error": f"{workspace}/out leads out of its allowed folder through a link"},
    ]
    assert "inside the project" in caught.value.data()["hint"]
    assert "mode" not in str(caught.value)


def test_a_rule_that_hides_a_file_is_named(open_gate, tree):
    tree({"p/private/a.py": "x"})
    gate = open_gate(permissions={"deny": ["Read(**/private/**)"]})

    with pytest.raises(SecurityError) as caught:
        find_files(gate, ["p/private/a.py"], LIMITS)

    (told,) = caught.value.data()["validation_errors"]
    assert "refused by the rule" in told["error"]


@pytest.mark.timeout(10)
def test_what_is_no_file_is_neither_opened_nor_waited_for(gate, workspace, tree):
    tree({"a.py": "x"})
    os.mkfifo(workspace / "pipe.py")
    listening = socket.socket(socket.AF_UNIX)
    listening.bind(str(workspace / "sock.py"))
    names = ["pipe.py", "sock.py"]
    try:
        os.mknod(workspace / "null.py", 0o666 | 0o020000, os.makedev(1, 3))
        names.append("null.py")
    except PermissionError:
        pass
    with listening:
        for name in names:
            with pytest.raises(SecurityError, match="only regular files"):
                find_files(gate, [name], LIMITS)

        assert paths(find_files(gate, ["."], LIMITS)) == ["a.py"]


def test_files_for_secrets_are_sent_when_they_are_named_and_not_when_a_folder_holds_them(gate, tree):
    tree(
        {"c/.env": "A=1", "c/id_rsa": "k", "c/.env.example": "A=", "c/fixture.py": f"KEY = '''{KEY}'''", "c/a.py": ""}
    )

    found = find_files(gate, ["c"], LIMITS)
    assert paths(found) == ["c/a.py", "c/fixture.py", "c/.env.example"]
    assert reasons(found) == dict.fromkeys(["c/.env", "c/id_rsa"], FOR_SECRETS)
    assert paths(find_files(gate, ["c/.env", "c/id_rsa"], LIMITS)) == ["c/.env", "c/id_rsa"]


def test_a_link_does_not_name_the_secret_behind_it(gate, tree, workspace):
    tree({".env": "A=1", "b.py": "b"})
    (workspace / "readme.md").symlink_to(".env")
    (workspace / "link.py").symlink_to("b.py")

    found = find_files(gate, ["readme.md", "link.py"], LIMITS)

    assert paths(found) == ["link.py"]
    assert reasons(found) == {"readme.md": FOR_SECRETS}


@pytest.mark.parametrize("names", [["c"], ["c/b.py", "c/key.py", "c/notes.txt"]])
def test_a_secret_in_a_file_is_masked_whether_the_file_is_named_or_in_a_folder(gate, tree, workspace, names):
    tree(
        {
            "c/PROD.ENV": f"TOKEN={TOKEN}\n",
            "c/b.py": f"x = 1\ntoken = '{TOKEN}'\ny = 2\n",
            "c/key.py": f"k = '''{KEY}'''",
        }
    )
    os.link(workspace / "c/PROD.ENV", workspace / "c/notes.txt")

    found = {source.path: source for source in find_files(gate, names, LIMITS).sources}

    assert found["c/b.py"].text == "x = 1\ntoken = '[secret]'\ny = 2\n"
    assert found["c/b.py"].secrets == (Secret(2, "GitHub Token", is_definite=True),)
    assert found["c/key.py"].text.split("\n")[1] == "[secret]"
    assert found["c/key.py"].secrets == (Secret(1, "Private Key", is_definite=True),)
    assert found["c/notes.txt"].text == "TOKEN=[secret]\n"


def test_a_named_file_for_secrets_has_them_masked_even_if_they_are_plain_words(gate, tree):
    tree({".env": "DEBUG=1\nDB_PASSWORD=correct-horse\n"})

    (source,) = find_files(gate, [".env"], LIMITS).sources

    assert source.text == "DEBUG=1\nDB_PASSWORD=[secret]\n"


def test_a_link_to_a_file_for_secrets_is_neither_sent_nor_read_again(gate, tree, workspace):
    tree({"c/PROD.ENV": "A=1\n", "a.py": "a"})
    (workspace / "link.md").symlink_to("c/PROD.ENV")

    assert reasons(find_files(gate, ["a.py", "link.md"], LIMITS)) == {"link.md": FOR_SECRETS}
    assert "the name of a file for secrets" in reread_file(gate, "link.md", "0" * 32, LIMITS).reason


def test_links_that_lead_out_of_a_folder_are_skipped_with_the_reason(gate, tree, workspace, tmp_path):
    (tmp_path / "other").mkdir()
    tree({"p/a.py": "a", "p/deep/er/b.py": "b", ".gitignore": "ignored/\n", "ignored/c.py": "c"})
    (workspace / "p/deep/out").symlink_to(tmp_path / "other")
    (workspace / "p/relative.py").symlink_to("../../other/x.py")
    (workspace / "p/inside.py").symlink_to("a.py")
    (workspace / "p/dangling.py").symlink_to("nothing.py")
    (workspace / "ignored/out.py").symlink_to("/etc/passwd")

    found = find_files(gate, ["."], LIMITS)

    reason = "is a link that leads out of the workspace; links are not followed"
    assert reasons(found) == {"p/relative.py": reason, "p/deep/out": reason}
    assert reasons(find_files(gate, ["p/deep"], LIMITS)) == {"p/deep/out": reason}


def test_what_becomes_a_link_between_the_listing_and_the_reading_is_not_followed(gate, tree, workspace):
    tree({"p/a.py": "a", ".env": "A=1"})
    with gate.open("p", Kind.READ) as folder:
        (met,) = scan_folder(gate, folder).files
    (workspace / "p/a.py").unlink()
    (workspace / "p/a.py").symlink_to("../.env")

    assert met.open() is None


def test_what_is_no_text_is_left_out_named_or_not(gate, tree):
    tree({"a.png": b"\x89PNG\r\n\x1a\n" + bytes(50), "b.bin": bytes(100), "c.pdf": b"%PDF-1.4\n", "d.py": "d"})
    wanted = {"a.png": "is an image, not text", "b.bin": "is binary, not text", "c.pdf": "is a PDF, not text"}

    for names in (["a.png", "b.bin", "c.pdf", "d.py"], ["."]):
        found = find_files(gate, names, LIMITS)
        assert paths(found) == ["d.py"]
        assert reasons(found) == wanted


def test_a_file_of_a_folder_that_is_too_large_is_left_out(gate, tree):
    tree({"p/a.py": "x" * 101, "p/b.py": "x"})

    found = find_files(gate, ["p"], AssistantLimits(file_bytes=100))

    assert paths(found) == ["p/b.py"]
    assert reasons(found) == {"p/a.py": "p/a.py has 101 bytes; the limit is 100"}


def test_files_beyond_the_limit_are_for_outlines(gate, tree):
    tree({f"p/{n:02}.py": "x = 1" for n in range(5)} | {"named.py": "y"})

    found = find_files(gate, ["named.py", "p"], AssistantLimits(files=3))

    assert [source.outline_only for source in found.sources] == [False, False, False, True, True, True]
    assert paths(found)[0] == "named.py"


def test_a_huge_folder_is_bounded_and_what_is_left_out_is_told_briefly(gate, tree):
    tree({f"p/{n:04}.py": "" for n in range(450)} | {f"p/{n:04}.bin": bytes(9) for n in range(150)})

    found = find_files(gate, ["p"], LIMITS)

    assert len(found.sources) == 400
    assert found.skipped == (
        SkippedFile("p/0400.py", "not read, nor 199 more files: a request reads 400 files of folders"),
    )


def test_many_that_are_left_out_are_told_in_one(gate, tree):
    tree({f"p/{n:04}.bin": bytes(9) for n in range(150)})

    found = find_files(gate, ["p"], LIMITS)

    assert len(found.skipped) == 100
    assert found.skipped[-1] == SkippedFile("p/0099.bin", "is binary, not text; 50 more files are left out, too")


def test_the_policy_decides_what_may_be_seen(open_gate, tree):
    tree({"p/private/a.py": "x", "p/b.py": "y"})
    gate = open_gate(permissions={"deny": ["Read(**/private/**)"]})

    assert paths(find_files(gate, ["p"], LIMITS)) == ["p/b.py"]
    with pytest.raises(SecurityError):
        find_files(gate, ["p/private/a.py"], LIMITS)


def test_names_that_would_break_a_line_are_shown_escaped(gate, tree):
    tree({"p/a\n[end].py": "x"})

    assert paths(find_files(gate, ["p"], LIMITS)) == ["p/a\\n[end].py"]


def test_a_file_of_an_earlier_turn_is_read_as_it_is_now(gate, tree, workspace):
    tree({"a.py": "new\n"})
    (workspace / "out.py").symlink_to("/etc/passwd")
    (workspace / "folder.py").mkdir()

    again = reread_file(gate, "a.py", "another digest", LIMITS)
    assert again == made("a.py", "new\n", is_named=False)
    assert reread_file(gate, "gone.py", "", LIMITS) == SkippedFile("gone.py", "no longer exists")
    assert reread_file(gate, "folder.py", "", LIMITS) == SkippedFile("folder.py", "is no longer a file")
    for name in ("out.py", "/proc/self/environ", "../x"):
        assert "cannot be shown again" in reread_file(gate, name, "", LIMITS).reason


@pytest.mark.parametrize(("name", "text"), [(".env", "A=1"), ("id_rsa", "k")])
def test_a_secret_of_an_earlier_turn_is_read_again_only_as_it_was_shown(gate, tree, name, text):
    tree({name: text})
    (shown,) = find_files(gate, [name], LIMITS).sources

    assert reread_file(gate, name, shown.digest, LIMITS).text == text

    tree({name: f"{text}\nB=2"})
    again = reread_file(gate, name, shown.digest, LIMITS)
    assert again.path == name
    assert "name it again" in again.reason


def test_a_link_to_a_secret_is_not_read_again_whatever_was_shown(gate, tree, workspace):
    tree({".env": "A=1"})
    (shown,) = find_files(gate, [".env"], LIMITS).sources
    (workspace / "notes.md").symlink_to(".env")

    assert "the name of a file for secrets" in reread_file(gate, "notes.md", shown.digest, LIMITS).reason


def test_nothing_is_left_open(gate, tree, workspace):
    tree({"p/a.py": "x", "p/b.bin": bytes(9), "p/.env": "A"})
    find_files(gate, ["p"], LIMITS)
    before = count_open()

    find_files(gate, ["p", "p/a.py", "p/b.bin", "p/.env"], LIMITS)
    with pytest.raises(ValidationError):
        find_files(gate, ["p/c.py"], LIMITS)

    assert count_open() == before


def test_a_call_that_was_stopped_reads_no_further(gate, tree):
    tree({"p/a.py": "x"})
    gate.budget.cancelled.set()

    with pytest.raises(ToolError, match="stopped"):
        find_files(gate, ["p"], LIMITS)

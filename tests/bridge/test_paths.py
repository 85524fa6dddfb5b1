"""Which paths of a client are taken, and in which way others are refused."""

import pytest

from toolyard.bridge.errors import PathRefusedError, Violation
from toolyard.bridge.path_syntax import MAX_NAME_BYTES, MAX_PATH_BYTES
from toolyard.bridge.path_validator import PathValidator
from toolyard.bridge.policy import SecurityPolicy
from toolyard.core.errors import SecurityError, ValidationError

OUTSIDE, TRAVERSAL, FORM, UNICODE = Violation.OUTSIDE, Violation.TRAVERSAL, Violation.FORM, Violation.UNICODE

POSIX = PathValidator(SecurityPolicy("/home/me/project"))
WINDOWS = PathValidator(SecurityPolicy("C:\\Users\\me\\project"))
SHARE = PathValidator(SecurityPolicy("\\\\server\\share\\project"))
UNKNOWN = PathValidator(SecurityPolicy())
WHOLE = PathValidator(SecurityPolicy(allowed_paths=["."]))


def violation(validator, path):
    with pytest.raises(PathRefusedError) as raised:
        validator.validate(path)
    assert isinstance(raised.value, SecurityError)
    assert raised.value.facts["violation"] == raised.value.violation
    assert raised.value.hint
    return raised.value.violation


@pytest.mark.parametrize(
    ("path", "normal"),
    [
        ("src/main.py", "/home/me/project/src/main.py"),
        ("src", "/home/me/project/src"),
        ("src/", "/home/me/project/src"),
        ("./src//a/./b.py", "/home/me/project/src/a/b.py"),
        ("src/a/../b.py", "/home/me/project/src/b.py"),
        ("lib/../src/b.py", "/home/me/project/src/b.py"),
        ("/home/me/project/src/main.py", "/home/me/project/src/main.py"),
        ("//home/me/project//src", "/home/me/project/src"),
        ("/tmp/../home/me/project/src", "/home/me/project/src"),
        ("../project/src/x", "/home/me/project/src/x"),
        (".guide/start.md", "/home/me/project/.guide/start.md"),
        ("src/12:30 notes.txt", "/home/me/project/src/12:30 notes.txt"),
        ("src/aux.c", "/home/me/project/src/aux.c"),
        ("src/...", "/home/me/project/src/..."),
        ("src/übung.md", "/home/me/project/src/übung.md"),
        ("docs/ノート.md", "/home/me/project/docs/ノート.md"),
        ("docs/½.md", "/home/me/project/docs/½.md"),
        ("src/%2e%2e/x", "/home/me/project/src/%2e%2e/x"),  # a name like any other: nothing decodes it
    ],
)
def test_what_lies_in_an_allowed_folder_is_spelled_in_one_way(path, normal):
    assert POSIX.validate(path) == normal
    assert POSIX.validate(normal) == normal
    assert POSIX.is_allowed(path)


@pytest.mark.parametrize(
    ("path", "normal"),
    [
        ("src/main.py", "C:\\Users\\me\\project\\src\\main.py"),
        ("SRC\\Main.py", "C:\\Users\\me\\project\\src\\Main.py"),
        ("c:/users/ME/Project/src/a/../b.py", "C:\\Users\\me\\project\\src\\b.py"),
        ("src\\.gitignore", "C:\\Users\\me\\project\\src\\.gitignore"),
        ("src\\auxiliary.c", "C:\\Users\\me\\project\\src\\auxiliary.c"),
        ("src\\com10", "C:\\Users\\me\\project\\src\\com10"),
        ("..\\project\\src", "C:\\Users\\me\\project\\src"),
    ],
)
def test_windows_takes_both_slashes_and_does_not_tell_case(path, normal):
    assert WINDOWS.validate(path) == normal
    assert WINDOWS.validate(normal) == normal


def test_a_share_is_where_a_windows_path_may_start():
    assert SHARE.validate("//SERVER/Share/project/src/a") == "\\\\server\\share\\project\\src\\a"
    assert violation(SHARE, "\\\\server\\other\\project\\src\\a") is OUTSIDE
    assert violation(SHARE, "src\\..\\..\\..\\..\\other") is TRAVERSAL


@pytest.mark.parametrize(
    ("path", "normal"),
    [("src/main.py", "src/main.py"), ("./src/./a/../b/", "src/b"), ("docs", "docs"), (".todo/x", ".todo/x")],
)
def test_without_a_root_paths_are_relative_to_the_project(path, normal):
    assert UNKNOWN.validate(path) == normal
    assert UNKNOWN.validate(normal) == normal


def test_the_whole_project_is_its_own_folder():
    assert WHOLE.validate(".") == WHOLE.validate("src/..") == "."
    assert PathValidator(SecurityPolicy("/p", ["."])).validate("./") == "/p"


@pytest.mark.parametrize(("path", "hint"), [("../secret", "Give a path inside"), ("other/x", "allowed_paths")])
def test_the_hint_fits_the_refusal(path, hint):
    with pytest.raises(PathRefusedError, match=hint):
        UNKNOWN.validate(path)


ANYWHERE = [
    ("climbs out and elsewhere", "src/../../etc", TRAVERSAL),
    ("climbs out at once", "../secret", TRAVERSAL),
    ("climbs above everything", "src/" + "../" * 40 + "etc/passwd", TRAVERSAL),
    ("climbs out, hidden by dots", "src/./.././../etc", TRAVERSAL),
    ("from an allowed folder to its neighbour", "src/../.env", OUTSIDE),
    ("not an allowed folder", ".env", OUTSIDE),
    ("the project's root", ".", OUTSIDE),
    ("an allowed name as a beginning", "src-evil/x", OUTSIDE),
    ("an allowed name further down", "lib/src/x", OUTSIDE),
    ("a home folder", "~/.ssh/id_rsa", OUTSIDE),
    ("NUL cuts the name off", "src/a.py\0.png", UNICODE),
    ("a line break forges a log entry", "src/a\nallowed", UNICODE),
    ("an escape paints the terminal", "src/\x1b[2J", UNICODE),
    ("DEL", "src/\x7f", UNICODE),
    ("a C1 control", "src/\x9b2J", UNICODE),
    ("reversed by an override", "src/\u202egnp.exe", UNICODE),
    ("an isolate", "src/\u2066x", UNICODE),
    ("a zero-width space", "src/.\u200b./x", UNICODE),
    ("a joiner that HFS+ leaves out", "src/.\u200d./.env", UNICODE),
    ("a byte order mark", "\ufeffsrc/x", UNICODE),
    ("a soft hyphen", "src/a\u00adb", UNICODE),
    ("a line separator", "src/\u2028x", UNICODE),
    ("a paragraph separator", "src/\u2029x", UNICODE),
    ("half a surrogate pair", "src/\ud800", UNICODE),
    ("a byte that is no text", "src/\udcff", UNICODE),
    ("a noncharacter", "src/\uffff", UNICODE),
    ("a noncharacter of the middle", "src/\ufdd0", UNICODE),
    ("a noncharacter of a far plane", "src/\U0010fffe", UNICODE),
    ("a tag that nobody sees", "src/\U000e0041", UNICODE),
    ("a variation selector", "src/a\ufe0f", UNICODE),
    ("a letter that is blank", "src/\u3164", UNICODE),
    ("a private character that stands for a colon on NTFS", "src/a\uf03ab", UNICODE),
    ("a one-dot leader", "src/\u2024\u2024/x", UNICODE),
    ("a two-dot leader", "src/\u2025/x", UNICODE),
    ("an ellipsis", "src/\u2026", UNICODE),
    ("full-width dots", "src/\uff0e\uff0e/x", UNICODE),
    ("small full stops", "src/\ufe52\ufe52/x", UNICODE),
    ("a full-width slash", "src\uff0fx", UNICODE),
    ("a full-width backslash", "src\uff3cx", UNICODE),
    ("a small backslash", "src\ufe68x", UNICODE),
    ("a full-width colon", "src/x\uff1ay", UNICODE),
    ("a ratio for a colon", "src/x\u2236y", UNICODE),
    ("care of, which has a slash in it", "src/\u2105", UNICODE),
    ("a digit with a full stop", "src/\u2488", UNICODE),
    ("a fraction slash", "src\u2044..\u2044x", UNICODE),
    ("a division slash", "src\u2215x", UNICODE),
    ("a set minus", "src\u2216x", UNICODE),
    ("a reverse solidus operator", "src\u29f5x", UNICODE),
    ("a big solidus", "src\u29f8x", UNICODE),
    ("a big reverse solidus", "src\u29f9x", UNICODE),
    ("a box's diagonal", "src\u2571x", UNICODE),
    ("a box's other diagonal", "src\u2572x", UNICODE),
    ("a mathematical diagonal", "src\u27cbx", UNICODE),
    ("a slash laid over a blank", "src \u0338x", UNICODE),
]
ON_POSIX = [
    ("absolute, elsewhere", "/etc/passwd", OUTSIDE),
    ("another project whose name begins alike", "/home/me/project2/src/x", OUTSIDE),
    ("from a temporary folder", "/tmp/../etc/passwd", TRAVERSAL),
    ("out of the project, absolute", "/home/me/project/../other/src", TRAVERSAL),
    ("above the root of the disk", "/../../etc/passwd", TRAVERSAL),
    ("the case of names counts", "SRC/x", OUTSIDE),
    ("a backslash", "src\\..\\..\\etc", FORM),
    ("one backslash among slashes", "src/..\\x", FORM),
    ("a Windows path", "C:\\Windows\\win.ini", FORM),
    ("a URL", "file:///etc/passwd", OUTSIDE),
]
ON_WINDOWS = [
    ("another folder", "C:\\Windows\\win.ini", OUTSIDE),
    ("another drive", "D:\\Users\\me\\project\\src\\x", OUTSIDE),
    ("above the drive", "C:\\..\\..\\x", TRAVERSAL),
    ("both slashes", "src/..\\../..\\x", TRAVERSAL),
    ("the drive's own folder", "C:src\\x", FORM),
    ("only a drive", "C:", FORM),
    ("no drive", "\\Windows\\win.ini", FORM),
    ("a POSIX path", "/etc/passwd", FORM),
    ("past the rules", "\\\\?\\C:\\Users\\me\\project\\src\\x", FORM),
    ("past the rules, with slashes", "//?/C:/Users/me/project/src/x", FORM),
    ("past the rules, to a share", "\\\\?\\UNC\\server\\share\\x", FORM),
    ("a device's path", "\\\\.\\PhysicalDrive0", FORM),
    ("a pipe", "//./pipe/x", FORM),
    ("an object of the kernel", "\\??\\C:\\Users\\me\\project\\src\\x", FORM),
    ("a share", "\\\\server\\share\\x", OUTSIDE),
    ("the drive as a share", "\\\\localhost\\C$\\Users\\me\\project\\src\\x", OUTSIDE),
    ("no share", "\\\\server", FORM),
    ("no server", "\\\\\\share\\x", FORM),
    ("a share above shares", "\\\\server\\..\\x", FORM),
    ("a stream of a file", "src\\a.txt:hidden", FORM),
    ("a stream of a folder", "src::$INDEX_ALLOCATION\\x", FORM),
    ("a wildcard", "src\\*.py", FORM),
    ("a wildcard for one", "src\\a?.py", FORM),
    ("a redirection", "src\\a>b", FORM),
    ("a pipe sign", "src\\a|b", FORM),
    ("a quote", 'src\\"a"', FORM),
    ("a dot at the end", "src\\a.py.", FORM),
    ("a blank at the end", "src\\a.py ", FORM),
    ("an allowed name with a dot", "src.\\x", FORM),
    ("dots and a blank", "src\\.. \\..\\x", FORM),
    ("three dots", "src\\...\\x", FORM),
    ("a blank between dots", "src\\. .\\x", FORM),
    ("the console", "src\\CON", FORM),
    ("nothing, with an extension", "src\\nul.txt", FORM),
    ("a printer in lower case", "src\\prn", FORM),
    ("a folder that is a device", "src\\aux\\x", FORM),
    ("a port", "src\\COM1.log", FORM),
    ("a port with a raised digit", "src\\com\u00b9", FORM),
    ("a parallel port with a raised digit", "src\\LPT\u00b3.tar.gz", FORM),
    ("a blank before the extension", "src\\NUL .txt", FORM),
    ("the console's input", "src\\CONIN$", FORM),
    ("the console's output", "src\\conout$.x", FORM),
    ("a dotless i is no I", "C:\\Users\\me\\project\\.gu\u0131de\\x", OUTSIDE),
    ("a long s is no s", "\u017frc\\x", OUTSIDE),
    ("a yen sign, a backslash in Japan", "src\\a\u00a5b", UNICODE),
]
WITHOUT_A_ROOT = [
    ("absolute", "/home/me/project/src/x", OUTSIDE),
    ("absolute on Windows", "C:\\Users\\me\\project\\src\\x", OUTSIDE),
    ("absolute on Windows, with slashes", "C:/Users/me/project/src/x", OUTSIDE),
    ("back into a project that might have that name", "src/../../project/src/x", TRAVERSAL),
    ("what Windows takes for a separator", "src\\x", FORM),
    ("what Windows takes for a stream", "src/a:b", FORM),
    ("what Windows takes for a device", "src/aux.c", FORM),
    ("what Windows cuts off", "src/.. ./x", FORM),
    ("a drive's own folder", "C:src", FORM),
]
IN_ALL_OF_A_PROJECT = [
    ("a home folder", "~/.ssh/id_rsa", FORM),
    ("somebody's home folder", "~root/.ssh/id_rsa", FORM),
    ("a home folder on a detour", "src/../~/.ssh", FORM),
    ("a URL", "file:///etc/passwd", FORM),
    ("up", "..", TRAVERSAL),
]


def attacks(table):
    return [pytest.param(path, expected, id=title) for title, path, expected in table]


@pytest.mark.parametrize("validator", [POSIX, WINDOWS, SHARE, UNKNOWN], ids=["posix", "windows", "share", "unknown"])
@pytest.mark.parametrize(("path", "expected"), attacks(ANYWHERE))
def test_attacks_on_every_client_are_refused(validator, path, expected):
    assert violation(validator, path) is expected
    assert not validator.is_allowed(path)


@pytest.mark.parametrize(("path", "expected"), attacks(ON_POSIX))
def test_attacks_on_a_posix_client_are_refused(path, expected):
    assert violation(POSIX, path) is expected


@pytest.mark.parametrize(("path", "expected"), attacks(ON_WINDOWS))
def test_attacks_on_a_windows_client_are_refused(path, expected):
    assert violation(WINDOWS, path) is expected


@pytest.mark.parametrize(("path", "expected"), attacks(WITHOUT_A_ROOT))
def test_attacks_where_the_client_is_not_known_are_refused(path, expected):
    assert violation(UNKNOWN, path) is expected


@pytest.mark.parametrize(("path", "expected"), attacks(IN_ALL_OF_A_PROJECT))
def test_attacks_are_refused_where_the_whole_project_is_allowed(path, expected):
    assert violation(WHOLE, path) is expected


def test_windows_joins_only_letters_that_lead_back():
    validator = PathValidator(SecurityPolicy("C:\\p", ["straße", "ärger", "istanbul"]))
    assert validator.validate("ÄRGER\\x") == "C:\\p\\ärger\\x"
    assert validator.validate("STRAßE\\x") == "C:\\p\\straße\\x"
    assert violation(validator, "STRASSE\\x") is OUTSIDE
    assert violation(validator, "\u0130stanbul\\x") is OUTSIDE


@pytest.mark.parametrize("path", [None, 3, b"src/x", ["src"], "", " ", "\t\n", "\u3000"])
def test_what_is_no_text_is_no_path(path):
    for validator in (POSIX, WINDOWS, UNKNOWN):
        with pytest.raises(ValidationError) as raised:
            validator.validate(path)
        assert [field.field for field in raised.value.fields] == ["path"]
        assert not validator.is_allowed(path)


@pytest.mark.parametrize(
    "path",
    [
        "src/" + "a" * (MAX_NAME_BYTES + 1),
        "src/" + "ü" * (MAX_NAME_BYTES // 2 + 1),
        "src/" + "a/" * (MAX_PATH_BYTES // 2),
        "src/" + "ü/" * (MAX_PATH_BYTES // 3),
        "src/" + "a/" * (MAX_PATH_BYTES // 2 - 6),  # short enough, but not with the root before it
        "\ud800" * MAX_PATH_BYTES,
    ],
)
def test_what_is_too_long_for_any_system_is_no_path(path):
    with pytest.raises(ValidationError) as raised:
        POSIX.validate(path)
    assert [field.field for field in raised.value.fields] == ["path"]


def test_a_name_may_be_as_long_as_systems_take():
    name = "ü" * (MAX_NAME_BYTES // 2)
    assert POSIX.validate(f"src/{name}") == f"/home/me/project/src/{name}"


def test_a_refusal_names_what_is_allowed():
    with pytest.raises(PathRefusedError) as raised:
        WINDOWS.validate("secret\\x")
    assert raised.value.message == r"secret\x is not allowed. Allowed: docs, src, tests, .guide, .todo."
    assert "filesystem.allowed_paths" in raised.value.hint


def test_a_refusal_names_some_of_many_and_tells_of_none():
    many = PathValidator(SecurityPolicy("/p", [f"d{n}" for n in range(12)]))
    with pytest.raises(PathRefusedError, match=r"Allowed: d0, d1, .*, d9 and 2 more\."):
        many.validate("x")
    with pytest.raises(PathRefusedError, match=r"is not allowed\. No paths are allowed\."):
        PathValidator(SecurityPolicy("/p", [])).validate("x")


def test_a_refusal_for_want_of_a_root_says_what_to_do():
    with pytest.raises(PathRefusedError, match="give the path relative to it"):
        UNKNOWN.validate("/home/me/project/src/x")
    with pytest.raises(PathRefusedError, match="Use / between names"):
        UNKNOWN.validate("src\\main.py")


@pytest.mark.parametrize(
    ("validator", "folder", "path"),
    [
        (POSIX, "src", "/home/me/project/src/a.py"),
        (POSIX, "/home/me/project/src/", "/home/me/project/src/a.py"),
        (WINDOWS, "C:\\Users\\me\\project\\src", "C:\\Users\\me\\project\\src\\a.py"),
        (UNKNOWN, "src/b", "src/b/a.py"),
        (WHOLE, ".", "a.py"),
    ],
)
def test_an_entry_is_a_path_in_its_folder(validator, folder, path):
    assert validator.validate_child(folder, "a.py") == path


@pytest.mark.parametrize(
    ("validator", "name", "expected"),
    [
        (POSIX, ".", FORM),
        (POSIX, "..", FORM),
        (POSIX, "a/b", FORM),
        (POSIX, "a/", FORM),
        (POSIX, "/", FORM),
        (POSIX, "/etc/passwd", FORM),
        (POSIX, "../.env", FORM),
        (POSIX, "./a", FORM),
        (POSIX, "a\\b", FORM),
        (POSIX, "a\u2215b", UNICODE),
        (POSIX, "a\nb", UNICODE),
        (WINDOWS, "a/b", FORM),
        (WINDOWS, "a\\b", FORM),
        (WINDOWS, "C:\\x", FORM),
        (WINDOWS, "NUL", FORM),
        (UNKNOWN, "a:b", FORM),
    ],
)
def test_an_entry_that_is_no_single_name_is_refused(validator, name, expected):
    with pytest.raises(PathRefusedError) as raised:
        validator.validate_child("src", name)
    assert raised.value.violation is expected


def test_an_entry_of_a_folder_that_is_denied_is_denied():
    with pytest.raises(PathRefusedError) as raised:
        POSIX.validate_child("lib", "a.py")
    assert raised.value.violation is OUTSIDE
    with pytest.raises(ValidationError):
        POSIX.validate_child("src", "")


def test_the_allowed_folders_of_a_project_are_entries_of_its_root():
    assert POSIX.validate_child("/home/me/project", "src") == "/home/me/project/src"


def test_a_path_lies_in_its_folders_alone():
    assert POSIX.lies_in("/home/me/project/src/a", "/home/me/project/src")
    assert POSIX.lies_in("/home/me/project/src", "/home/me/project/src")
    assert not POSIX.lies_in("/home/me/project/src2/a", "/home/me/project/src")
    assert WINDOWS.lies_in("C:\\Users\\me\\project\\src\\A", "C:\\Users\\me\\project\\src\\a")
    assert WHOLE.lies_in("src/a", ".")

"""The rules for paths against whatever can be written, checked by other means than their own."""

import ntpath
import os
import posixpath
import re
import tempfile
import unicodedata
from contextlib import suppress
from pathlib import Path, PurePath, PurePosixPath, PureWindowsPath

import pytest
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st

from toolyard.bridge.errors import PathRefusedError, Violation
from toolyard.bridge.path_validator import PathValidator
from toolyard.bridge.policy import SecurityPolicy
from toolyard.core.errors import ValidationError

pytestmark = pytest.mark.slow  # hundreds of examples each

POSIX_ROOT, WINDOWS_ROOT = "/home/me/project", "C:\\Users\\Me\\project"
FOLDERS = ("docs", "src", ".guide", "é")
POSIX = PathValidator(SecurityPolicy(POSIX_ROOT, FOLDERS))
WINDOWS = PathValidator(SecurityPolicy(WINDOWS_ROOT, FOLDERS))
UNKNOWN = PathValidator(SecurityPolicy(None, FOLDERS))
WHOLE = PathValidator(SecurityPolicy(None, ["."]))

PIECES = st.sampled_from(
    [
        *("..", "..", "..", ".", "/", "/", "/", "/", "\\", "\\", "//", "", " ", "...", ":", "~", "%2e", "$HOME"),
        *("src", "src/", "src\\", "SRC", "docs/", ".guide/", "é/", "É/", "e\u0301/", "a", "b.py", "nul", "COM1.x"),
        *("/home/me/project/", "C:\\Users\\Me\\project\\", "c:/users/me/PROJECT/", "C:", "\\\\?\\", "\\\\h\\s\\"),
        *("\u2025", "\u2215", "\uff0e", "\uff0f", "\u202e", "\u200b", "\0", "\x1b", "\u0131", "\u017f", "\ud800"),
    ]
)
STARTS = st.sampled_from(
    [
        "src/",
        "docs/x/",
        "É\\",
        "SRC/",
        "./",
        "",
        f"{POSIX_ROOT}/",
        f"{WINDOWS_ROOT}\\",
        "c:/users/me/PROJECT/",
        "lib/../",
    ]
)
STEPS = st.sampled_from(
    ["..", "..", ".", "", "a", "b.py", "x y", "é", "src", "SRC", "docs", "project", "me", "%2e", "nul"]
)
WALKS = st.tuples(STARTS, st.lists(STEPS, max_size=6), st.sampled_from(["/", "/", "\\", "//"])).map(
    lambda parts: parts[0] + parts[2].join(parts[1])
)
PATHS = st.one_of(
    WALKS,
    WALKS,
    st.tuples(WALKS, PIECES).map("/".join),
    st.lists(PIECES, max_size=12).map("".join),
    st.lists(st.one_of(PIECES, st.text(st.characters(), max_size=3)), max_size=8).map("".join),
)


def answer(validator: PathValidator, path: str) -> str | None:
    """What a path is taken for; None where it is refused."""
    try:
        return validator.validate(path)
    except (PathRefusedError, ValidationError):
        assert not validator.is_allowed(path)
        return None


def assert_plain(path: str) -> None:
    for character in path:
        assert unicodedata.category(character) not in {"Cc", "Cf", "Cs", "Zl", "Zp"}
        plain = unicodedata.normalize("NFKC", character)
        assert plain == character or not set(plain) & set("./\\:")
    assert not set(path) & set("\u2044\u2215\u2216\u29f5\u29f8\u2571\u2572")


def assert_beneath(path: PurePath, root: PurePath, folders: tuple[str, ...] = FOLDERS) -> None:
    assert path.is_absolute()
    assert ".." not in path.parts
    assert any(path.is_relative_to(root / folder) for folder in folders)


@given(PATHS)
@settings(max_examples=500)
@example("src/../../project/src/./x//")
def test_on_posix_what_is_taken_lies_beneath_an_allowed_folder(path):
    taken = answer(POSIX, path)
    if taken is None:
        return
    assert taken == posixpath.normpath(posixpath.join(POSIX_ROOT, path)).replace("//", "/")
    assert_beneath(PurePosixPath(taken), PurePosixPath(POSIX_ROOT))
    assert_plain(taken)
    assert "\\" not in taken
    assert POSIX.validate(taken) == taken
    assert POSIX.validate(POSIX.policy.relative(taken)) == taken


@given(PATHS)
@settings(max_examples=500)
@example("c:/users/ME/project/SRC/./x\\..\\y")
def test_on_windows_what_is_taken_lies_beneath_an_allowed_folder(path):
    taken = answer(WINDOWS, path)
    if taken is None:
        return
    assert taken.upper() == ntpath.normpath(ntpath.join(WINDOWS_ROOT, path)).upper()
    assert taken == ntpath.normpath(taken)
    assert_beneath(PureWindowsPath(taken), PureWindowsPath(WINDOWS_ROOT))
    assert_plain(taken)
    assert not set(taken[2:]) & set('/:*?"<>|')
    assert not any(PureWindowsPath(name).is_reserved() for name in PureWindowsPath(taken).parts[1:])
    assert all(name == name.rstrip(". ") for name in PureWindowsPath(taken).parts)
    assert WINDOWS.validate(taken) == taken
    assert WINDOWS.validate(WINDOWS.policy.relative(taken)) == taken


@given(PATHS, st.sampled_from([UNKNOWN, WHOLE]))
@settings(max_examples=500)
def test_without_a_root_what_is_taken_lies_in_the_project_wherever_that_is(path, validator):
    taken = answer(validator, path)
    if taken is None:
        return
    folders = FOLDERS if validator is UNKNOWN else (".",)
    assert taken == posixpath.normpath(path)
    assert_beneath(PurePosixPath(posixpath.normpath(f"{POSIX_ROOT}/{taken}")), PurePosixPath(POSIX_ROOT), folders)
    there = ntpath.normpath(ntpath.join(WINDOWS_ROOT, taken))
    assert_beneath(PureWindowsPath(there), PureWindowsPath(WINDOWS_ROOT), folders)
    assert_plain(taken)
    assert not taken.startswith(("/", "~"))
    assert not set(taken) & set("\\:")
    assert validator.validate(taken) == taken


ORDINARY = st.tuples(st.text("abyz089_-", min_size=4, max_size=12), st.sampled_from(["", ".py", ".test.js"])).map(
    "".join
)


@given(st.lists(ORDINARY, min_size=1, max_size=8))
@settings(max_examples=100)
def test_ordinary_files_are_always_taken(names):
    path = "/".join(["src", *names])
    assert POSIX.validate(path) == f"{POSIX_ROOT}/{path}"
    assert UNKNOWN.validate(path) == path
    assert WINDOWS.validate(path) == ntpath.join(WINDOWS_ROOT, path.replace("/", "\\"))


@given(st.sampled_from(["src", "src/a", "."]), st.lists(PIECES, max_size=4).map("".join))
@settings(max_examples=150)
def test_an_entry_is_always_right_in_its_folder(folder, name):
    for validator in (POSIX, WINDOWS, WHOLE):
        with suppress(PathRefusedError, ValidationError):
            child = validator.validate_child(folder, name)
            assert child == validator.validate(f"{folder}/{name}")
            pure = PureWindowsPath(child) if validator is WINDOWS else PurePosixPath(child)
            assert pure.name.upper() == name.upper()
            if validator is WHOLE:
                assert str(pure.parent) == folder
            else:
                assert str(pure.parent).replace("\\", "/").endswith("project" if folder == "." else folder)


NAMES = st.sampled_from(["a", "b", "c", "d"])
PLACES = st.tuples(st.sampled_from(["src", "docs"]), st.lists(NAMES, min_size=1, max_size=3)).map(
    lambda parts: "/".join([parts[0], *parts[1]])
)
TARGETS = st.one_of(
    st.lists(NAMES, min_size=1, max_size=3).map("/".join),
    st.lists(st.sampled_from(["a", "b", "c", "d", "..", "..", "."]), min_size=1, max_size=5).map("/".join),
    PLACES.map(lambda place: f"{{root}}/{place}"),
    st.sampled_from(["{root}/.env", "{root}/src", "/etc", "../../../x"]),
)


def leads_in_a_circle(folder: Path, root: Path, above: tuple[str, ...] = ()) -> bool:
    """Whether somebody who follows every link of a real folder comes back to where they were."""
    try:
        real = os.path.realpath(folder, strict=True)
    except FileNotFoundError:
        return False
    except OSError:  # too many levels of links
        return True
    if real in above or not Path(real).is_relative_to(root):
        return real in above
    return any(leads_in_a_circle(entry, root, (*above, real)) for entry in folder.iterdir())


def is_in(path: str, *folders: Path) -> bool:
    return any(Path(path).is_relative_to(folder) for folder in folders)


@given(st.dictionaries(PLACES, TARGETS, max_size=6))
@settings(max_examples=150)
def test_links_end_where_they_do_on_a_disk(links):
    assume(not any(f"{link}/".startswith(f"{other}/") for link in links for other in links if link != other))
    with tempfile.TemporaryDirectory() as made:
        root = Path(made).resolve()
        links = {link: target.replace("{root}", str(root)) for link, target in links.items()}
        for link, target in links.items():
            (root / link).parent.mkdir(parents=True, exist_ok=True)
            (root / link).symlink_to(target)
        real = {link: os.path.realpath(root / link) for link in links}
        allowed = root / "src", root / "docs"
        try:
            ends = PathValidator(SecurityPolicy(str(root), ["src", "docs"])).validate_links(links)
        except PathRefusedError as error:
            if error.violation is Violation.LINK:
                assert not all(is_in(end, *allowed) for end in real.values())
            elif not any(
                re.search(r"\w/(\./)*\.\.", target) for target in links.values()
            ):  # up from what is not there
                assert leads_in_a_circle(root, root)
            return
        assert ends == real
        assert all(is_in(end, *allowed) for end in ends.values())
        assert not leads_in_a_circle(root, root)

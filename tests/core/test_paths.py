"""Paths as text: whatever a caller sends becomes an absolute, normal path or a ValidationError."""

import posixpath

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolyard.core.errors import FieldError, ValidationError
from toolyard.core.limits import Limits
from toolyard.core.paths import is_beneath, normalize_path, relative_to

NAMES = st.text(st.characters(exclude_characters="/\0", exclude_categories=["Cs"]), min_size=1, max_size=12)
PARTS = st.one_of(NAMES, st.sampled_from(["..", ".", "", "ws", "ws-evil"]))
PATHS = st.lists(PARTS, min_size=1, max_size=8).map("/".join)
CLEAN = st.lists(NAMES.filter(lambda name: name not in {".", ".."}), max_size=5).map(
    lambda names: "/" + "/".join(names)
)


@pytest.mark.parametrize(
    ("sent", "cleaned"),
    [
        ("a.txt", "/ws/a.txt"),
        ("./a/../b", "/ws/b"),
        ("a//b/", "/ws/a/b"),
        (".", "/ws"),
        ("..", "/"),
        ("../../..", "/"),
        ("/etc/passwd", "/etc/passwd"),
        ("//etc/passwd", "/etc/passwd"),
        ("///etc", "/etc"),
        ("/", "/"),
        ("/ws/../ws-evil/x", "/ws-evil/x"),
        (" a ", "/ws/ a "),
        ("~/x", "/ws/~/x"),
        ("a\\..\\b", "/ws/a\\..\\b"),
        ("%2e%2e/x", "/ws/%2e%2e/x"),
        ("caf\u00e9", "/ws/caf\u00e9"),
    ],
)
def test_a_path_becomes_absolute_and_normal(sent, cleaned):
    assert normalize_path(sent, "/ws") == cleaned


@pytest.mark.parametrize(
    ("sent", "error"),
    [
        (None, "must be a string"),
        (3, "must be a string"),
        (b"a", "must be a string"),
        (["a"], "must be a string"),
        ("", "is empty"),
        (" \t\n", "is empty"),
        ("a\0b", "contains a NUL byte"),
        ("a\ud800", "is not valid Unicode"),
        ("a/" * 2048, "is longer than 4095 bytes"),
        ("\u00e9" * 128, "has a name longer than 255 bytes"),
        ("x" * 256, "has a name longer than 255 bytes"),
    ],
)
def test_what_cannot_name_a_file_is_refused_under_its_field(sent, error):
    with pytest.raises(ValidationError) as caught:
        normalize_path(sent, "/ws", field="file_path")

    assert caught.value.fields == (FieldError("file_path", error),)
    assert caught.value.hint


def test_the_longest_name_and_path_that_fit_are_taken():
    limits = Limits(path_bytes=20, name_bytes=5)

    assert (
        normalize_path("/abcde/abcde/abcde/ab", "/", limits=Limits(path_bytes=21, name_bytes=5))
        == "/abcde/abcde/abcde/ab"
    )
    with pytest.raises(ValidationError):
        normalize_path("/abcde/abcde/abcde/ab", "/", limits=limits)


@pytest.mark.parametrize(
    ("path", "root", "relative"),
    [
        ("/ws", "/ws", "."),
        ("/ws/a", "/ws", "a"),
        ("/ws/a/b", "/ws", "a/b"),
        ("/ws-evil", "/ws", None),
        ("/ws-evil/a", "/ws", None),
        ("/WS/a", "/ws", None),
        ("/w", "/ws", None),
        ("/", "/ws", None),
        ("/", "/", "."),
        ("/ws/a", "/", "ws/a"),
    ],
)
def test_a_path_belongs_to_a_root_by_whole_components(path, root, relative):
    assert (relative_to(path, root), is_beneath(path, root)) == (relative, relative is not None)


@given(path=PATHS, base=CLEAN)
def test_a_clean_path_is_absolute_and_normal_and_stays_as_it_is(path, base):
    try:
        cleaned = normalize_path(path, base)
    except ValidationError:
        return

    assert cleaned.startswith("/")
    assert not cleaned.startswith("//")
    assert not {"..", ".", ""} & set(cleaned.split("/")[1:]) or cleaned == "/"
    assert normalize_path(cleaned, "/elsewhere") == cleaned


@given(path=PATHS, base=CLEAN)
def test_cleaning_is_what_posix_says_of_the_joined_path(path, base):
    try:
        cleaned = normalize_path(path, base)
    except ValidationError:
        return

    assert posixpath.relpath(cleaned, posixpath.join(base, path)) == "."


@given(path=CLEAN, root=CLEAN)
def test_beneath_agrees_with_the_common_prefix_of_the_names(path, root):
    names, of_root = path.strip("/").split("/"), root.strip("/").split("/")
    inside = root == "/" or names[: len(of_root)] == of_root

    found = relative_to(path, root)

    assert (found is not None) == inside
    if found is not None:
        assert posixpath.normpath(posixpath.join(root, found)) == path
        assert not found.startswith("/")


@given(root=CLEAN.filter(lambda root: root != "/"), tail=NAMES)
def test_a_sibling_that_begins_like_the_root_is_outside(root, tail):
    sibling = root + tail.replace("/", "")

    assert relative_to(sibling, root) is None
    assert relative_to(f"{sibling}/x", root) is None

from __future__ import annotations

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolyard.core.errors import ConfigError
from toolyard.core.permission_modes import Access
from toolyard.policy.patterns import parse_pattern
from toolyard.policy.policy import ContextPath, Roots

ROOTS = Roots("/ws", [ContextPath("/data", Access.WRITE), ContextPath("/ws/vendor")], [])


def widely(pattern: str, path: str) -> bool:
    return parse_pattern(pattern, home="/home/ada").matches_in_any_root(ROOTS.path_view(path))


def narrowly(pattern: str, path: str) -> bool:
    return parse_pattern(pattern, home="/home/ada").matches_in_workspace(ROOTS.path_view(path))


@pytest.mark.parametrize(
    ("pattern", "path", "expected"),
    [
        ("*.md", "/ws/a.md", True),
        ("*.md", "/ws/deep/er/a.md", True),
        ("*.md", "/ws/a.mdx", False),
        ("*.md", "/ws/A.MD", False),
        ("src", "/ws/src", True),
        ("src", "/ws/src/a/b", True),
        ("src", "/ws/x/src/a", True),
        ("src", "/ws/src2", False),
        ("src/", "/ws/x/src/a", True),
        ("src/*.py", "/ws/src/a.py", True),
        ("src/*.py", "/ws/src/x/a.py", False),
        ("src/*.py", "/ws/x/src/a.py", False),
        ("./src", "/ws/src/a", True),
        ("./src", "/ws/x/src", False),
        ("src/**", "/ws/src/a/b", True),
        ("src/**", "/ws/src", True),
        ("src/**/t.py", "/ws/src/t.py", True),
        ("src/**/t.py", "/ws/src/a/b/t.py", True),
        ("src/**/t.py", "/ws/src/a/b/x.py", False),
        ("**/t/**", "/ws/a/t/b", True),
        ("**", "/ws", True),
        ("**", "/ws/a", True),
        ("*", "/ws/a/b", True),
        ("a?c", "/ws/abc", True),
        ("a?c", "/ws/ac", False),
        ("[ab].txt", "/ws/a.txt", True),
        ("[!ab].txt", "/ws/a.txt", False),
        ("[^ab].txt", "/ws/a.txt", False),
        ("[^ab].txt", "/ws/c.txt", True),
        ("/build", "/ws/build/x", True),
        ("/build", "/ws/x/build", False),
        ("//etc/**", "/etc/passwd", True),
        ("//etc/**", "/etcetera", False),
        ("//etc/**", "/ws/etc/x", False),
        ("~/.ssh", "/home/ada/.ssh/id", True),
        ("~/.ssh", "/home/bob/.ssh/id", False),
        ("//", "/anything", True),
    ],
)
def test_a_pattern_matches_as_gitignore_would(pattern, path, expected):
    assert widely(pattern, path) is expected


@pytest.mark.parametrize(
    ("pattern", "path"),
    [
        (".env", "/data/x/.env"),
        (".env", "/elsewhere/.env"),
        ("**/.aws/credentials", "/home/ada/.aws/credentials"),
        ("conf/a", "/data/conf/a"),
        ("vendor/a", "/ws/vendor/a"),
        ("a", "/ws/vendor/a"),
        ("/etc/passwd", "/etc/passwd"),
    ],
)
def test_a_refusing_pattern_holds_in_every_root_where_an_allowing_one_holds_in_the_workspace_alone(pattern, path):
    assert widely(pattern, path)
    assert narrowly(pattern, path) is path.startswith("/ws/")


def test_the_folders_above_a_root_do_not_count_as_names():
    assert not parse_pattern("ws").matches_in_any_root(ROOTS.path_view("/ws/a"))


def test_folders_on_the_way_are_the_named_ones_and_match_only_themselves():
    first, second = parse_pattern("**/.git/hooks/**").parent_folder_patterns()
    names = [["x", ".git"], ["x", ".git", "hooks"], ["x", ".git", "hooks", "y"], ["x"], ["x", ".git", "HEAD"]]
    assert [first.matches_exactly(n) for n in names] == [True, False, False, False, False]
    assert [second.matches_exactly(n) for n in names] == [False, True, False, False, False]


@pytest.mark.parametrize(
    "text", ["", " ", " a", "a/../b", "..", "!a", "{a,b}", "a\\*", "a\0", "x" * 1001, "a/" * 65 + "a"]
)
def test_what_would_not_mean_what_it_seems_is_refused(text):
    with pytest.raises(ConfigError):
        parse_pattern(text)


def test_a_home_pattern_without_a_home_is_refused():
    with pytest.raises(ConfigError, match="needs a home folder"):
        parse_pattern("~/x")


@pytest.mark.parametrize("pattern", ["*a" * 100 + "b", "**/a/" * 31 + "b", "?*" * 100 + "b", "[a-z]*" * 100 + "9"])
def test_no_pattern_is_catastrophic(pattern):
    compiled = parse_pattern(pattern)
    started = time.process_time()
    for names in (["a" * 255] * 16, ["a"] * 2000):
        compiled.matches(names)
    assert time.process_time() - started < 5


NAME = st.text(st.sampled_from("ab.*?[!]-"), min_size=1, max_size=6)


@given(st.lists(NAME, min_size=1, max_size=4), st.lists(st.sampled_from(["a", "b", ".", "ab"]), max_size=5))
def test_any_accepted_pattern_can_be_matched(pattern, names):
    try:
        compiled = parse_pattern("/".join(pattern))
    except ConfigError:
        return
    assert isinstance(compiled.matches(names), bool)


@given(
    st.lists(st.sampled_from(["a", "b", "**", "*"]), min_size=1, max_size=5),
    st.lists(st.sampled_from("ab"), max_size=6),
)
def test_matching_agrees_with_a_plain_recursive_reading(pattern, names):
    def holds(parts: list[str], rest: list[str]) -> bool:
        if not parts:
            return True
        if parts[0] == "**":
            return holds(parts[1:], rest) or (bool(rest) and holds(parts, rest[1:]))
        return bool(rest) and parts[0] in {"*", rest[0]} and holds(parts[1:], rest[1:])

    assert parse_pattern("./" + "/".join(pattern)).matches(names) is holds(pattern, names)

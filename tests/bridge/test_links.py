"""Links that a client reports: where they lead by their spelling, and which are refused."""

import time

import pytest

from toolyard.bridge.errors import PathRefusedError, Violation
from toolyard.bridge.path_validator import MAX_LINKS, PathValidator
from toolyard.bridge.policy import SecurityPolicy
from toolyard.core.errors import ValidationError

LINK, CIRCULAR, OUTSIDE, FORM, UNICODE = (
    *(Violation.LINK, Violation.CIRCULAR, Violation.OUTSIDE),
    *(Violation.FORM, Violation.UNICODE),
)
POSIX = PathValidator(SecurityPolicy("/p"))
WINDOWS = PathValidator(SecurityPolicy("C:\\p"))
UNKNOWN = PathValidator(SecurityPolicy())
WHOLE = PathValidator(SecurityPolicy("/p", ["."]))
UNKNOWN_WHOLE = PathValidator(SecurityPolicy(None, ["."]))


@pytest.mark.parametrize(
    ("validator", "link", "target", "end"),
    [
        (POSIX, "src/a", "b", "/p/src/b"),
        (POSIX, "src/a", "./b/", "/p/src/b"),
        (POSIX, "/p/src/a/l", "../b", "/p/src/b"),
        (POSIX, "src/a", "../docs/x", "/p/docs/x"),
        (POSIX, "src/a", "/p/docs", "/p/docs"),
        (POSIX, "src/a", "../../p/src/b", "/p/src/b"),
        (WINDOWS, "src/a", "..\\docs\\x", "C:\\p\\docs\\x"),
        (WINDOWS, "src\\a", "c:/P/Docs", "C:\\p\\docs"),
        (UNKNOWN, "src/a", "../docs/x", "docs/x"),
        (WHOLE, "l", "x", "/p/x"),
    ],
)
def test_symbolic_link_validation(validator, link, target, end):
    assert validator.validate_link(link, target) == end


@pytest.mark.parametrize(
    ("validator", "link", "target", "expected"),
    [
        pytest.param(POSIX, "src/a", "/etc/passwd", LINK, id="absolute, elsewhere"),
        pytest.param(POSIX, "src/a", "../.env", LINK, id="beside the allowed folders"),
        pytest.param(POSIX, "src/a", "../../etc", LINK, id="out of the project"),
        pytest.param(POSIX, "src/a", "../" * 40 + "etc/passwd", LINK, id="above the root of the disk"),
        pytest.param(POSIX, "src/a", "..", LINK, id="to the project, which is not allowed"),
        pytest.param(POSIX, "src/a", "/p/src2/x", LINK, id="an allowed name as a beginning"),
        pytest.param(UNKNOWN, "src/a", "/p/src/x", LINK, id="absolute, and the root is not known"),
        pytest.param(UNKNOWN, "src/a", "../../p/src/x", LINK, id="out and perhaps back"),
        pytest.param(UNKNOWN_WHOLE, ".", "x", LINK, id="the project is a link, and lies nobody knows where"),
        pytest.param(WINDOWS, "src/a", "D:\\p\\src", LINK, id="another drive"),
        pytest.param(POSIX, "src/a", "a", CIRCULAR, id="itself"),
        pytest.param(POSIX, "src/a", "../src/./a", CIRCULAR, id="itself, on a detour"),
        pytest.param(POSIX, "src/a", "a/b", CIRCULAR, id="through itself"),
        pytest.param(POSIX, "src/a", ".", CIRCULAR, id="its folder"),
        pytest.param(POSIX, "src/a/b/c", "../..", CIRCULAR, id="a folder further up"),
        pytest.param(WHOLE, "src/a", "..", CIRCULAR, id="the project"),
        pytest.param(WINDOWS, "src/a", "A", CIRCULAR, id="itself in capitals"),
        pytest.param(WINDOWS, "src/a/l", "C:\\P\\SRC", CIRCULAR, id="its folder in capitals"),
        pytest.param(POSIX, "lib/a", "../src/x", OUTSIDE, id="a link that may not be touched"),
        pytest.param(POSIX, "src/a", "..\\..\\etc", FORM, id="a backslash"),
        pytest.param(WINDOWS, "src/a", "\\\\?\\C:\\p\\src", FORM, id="past the rules of Windows"),
        pytest.param(WINDOWS, "src/a", "b:stream", FORM, id="a stream"),
        pytest.param(UNKNOWN_WHOLE, "src/a", "../~/.ssh", FORM, id="a home folder"),
        pytest.param(POSIX, "src/a", "b\u202e", UNICODE, id="cannot be seen"),
        pytest.param(POSIX, "src/a", "..\u2215x", UNICODE, id="a lookalike of a slash"),
    ],
)
def test_links_that_lead_astray_are_refused(validator, link, target, expected):
    with pytest.raises(PathRefusedError) as raised:
        validator.validate_link(link, target)
    assert raised.value.violation is expected


@pytest.mark.parametrize(
    ("links", "ends"),
    [
        pytest.param({}, {}, id="none"),
        pytest.param(
            {"src/a": "b", "src/b": "c", "src/c": "../docs/x"},
            {"src/a": "/p/docs/x", "src/b": "/p/docs/x", "src/c": "/p/docs/x"},
            id="a chain",
        ),
        pytest.param(
            {"src/a": "b/x", "src/b": "c"}, {"src/a": "/p/src/c/x", "src/b": "/p/src/c"}, id="through a folder"
        ),
        pytest.param(
            {"src/a": "b/../s", "src/b": "../docs/deep"},
            {"src/a": "/p/docs/s", "src/b": "/p/docs/deep"},
            id="up from where a folder really is",
        ),
        pytest.param(
            {"src/a": "b/../../x", "src/b": "d/e/f"},
            {"src/a": "/p/src/d/x", "src/b": "/p/src/d/e/f"},
            id="outside by name, inside in truth",
        ),
        pytest.param(
            {"src/b": "../docs/deep/er", "src/b/l": "../x"},
            {"src/b": "/p/docs/deep/er", "src/b/l": "/p/docs/deep/x"},
            id="a link that was listed through a link",
        ),
        pytest.param({"src/a": "t", "src/b": "t"}, {"src/a": "/p/src/t", "src/b": "/p/src/t"}, id="two to the same"),
        pytest.param(
            {"src/now": "v2", "src/v1/lib": "../v2/lib", "src/v2/old": "../v1/x"},
            {"src/now": "/p/src/v2", "src/v1/lib": "/p/src/v2/lib", "src/v2/old": "/p/src/v1/x"},
            id="neighbours that lead to parts of each other",
        ),
        pytest.param({"src/a": "b", "./src/a": "b"}, {"src/a": "/p/src/b", "./src/a": "/p/src/b"}, id="named twice"),
    ],
)
def test_links_are_followed_to_their_ends(links, ends):
    assert POSIX.validate_links(links) == ends
    assert POSIX.validate_links(dict(reversed(links.items()))) == ends


@pytest.mark.parametrize(
    ("links", "expected"),
    [
        pytest.param({"src/a": "b", "src/b": "a"}, CIRCULAR, id="to each other"),
        pytest.param({"src/a": "b", "src/b": "c", "src/c": "a"}, CIRCULAR, id="three in a circle"),
        pytest.param({"src/a": "b/x", "src/b": "a/y"}, CIRCULAR, id="through each other"),
        pytest.param({"src/a/l": "../b/m", "src/b/m": "../a"}, CIRCULAR, id="a chain to its own folder"),
        pytest.param({"src/a/l": "../b", "src/b/m": "../a"}, CIRCULAR, id="folders that lead into each other"),
        pytest.param({"src/a/l": "../b/x", "src/b/x/m": "../.."}, CIRCULAR, id="found from the side"),
        pytest.param({"src/a": "b", "src/b": "/etc/passwd"}, LINK, id="a chain that ends outside"),
        pytest.param({"src/a": "b/passwd", "src/b": "/etc"}, LINK, id="through a folder that is outside"),
        pytest.param({"src/a": "b/../.env", "src/b": "../docs"}, LINK, id="inside by name, outside in truth"),
    ],
)
def test_links_that_lead_astray_together_are_refused(links, expected):
    for order in (links, dict(reversed(links.items()))):
        with pytest.raises(PathRefusedError) as raised:
            POSIX.validate_links(order)
        assert raised.value.violation is expected


def test_a_circle_is_told_from_a_long_way():
    with pytest.raises(PathRefusedError, match="src/a is a link that leads to itself"):
        POSIX.validate_links({"src/a": "b", "src/b": "a"})


def test_windows_follows_links_whatever_their_case():
    assert WINDOWS.validate_links({"src\\A": "B\\x", "src\\b": "..\\DOCS"}) == {
        "src\\A": "C:\\p\\docs\\x",
        "src\\b": "C:\\p\\docs",
    }


def test_one_link_has_one_target():
    with pytest.raises(ValidationError, match="two targets"):
        POSIX.validate_links({"src/a": "b", "src/./a": "c"})


def test_as_many_links_may_lie_on_a_way_as_linux_follows():
    chain = {f"src/l{n}": f"l{n + 1}" for n in range(MAX_LINKS)}
    assert POSIX.validate_links(chain)["src/l0"] == f"/p/src/l{MAX_LINKS}"
    chain[f"src/l{MAX_LINKS}"] = "end"
    for order in (chain, dict(reversed(chain.items()))):
        with pytest.raises(PathRefusedError) as raised:
            POSIX.validate_links(order)
        assert raised.value.violation is CIRCULAR


@pytest.mark.parametrize("turn", [1, -1])
def test_links_upon_links_take_no_time(turn):
    """Each doubles the way of the one before: followed one by one, that would take years."""
    bomb = {"src/l0/x": "y", **{f"src/l{n + 1}": f"l{n}/../l{n}" for n in range(60)}}
    started = time.process_time()
    with pytest.raises(PathRefusedError):
        POSIX.validate_links(dict(list(bomb.items())[::turn]))
    assert time.process_time() - started < 1


def test_a_listing_with_very_many_links_takes_little_time():
    links = {f"src/{'d/' * 50}f{n}/l": "../" * 50 + f"t{n}" for n in range(2_000)}
    started = time.process_time()
    assert len(POSIX.validate_links(links)) == 2_000
    assert time.process_time() - started < 5

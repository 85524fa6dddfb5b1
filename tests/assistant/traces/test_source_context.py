"""Frames are shown with the lines around them, from files of the workspace that may be seen and from no others."""

import time

import pytest

from tests.assistant.traces.samples import sample
from toolyard.assistant.traces import Frame, LocatedFrame, Trace, locate_frames, parse_traces
from toolyard.assistant.traces.source_context import MOST_FOLLOWED, MOST_LOCATED
from toolyard.core.errors import ToolError

PRICES = "".join(f"price {number}\n" for number in range(1, 31))


@pytest.fixture
def write(workspace):
    def writer(name, text=PRICES):
        path = workspace / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)

    return writer


def frames(*places):
    return (Trace("python", "E", tuple(Frame(file, line) for file, line in places)),)


def paths(found):
    return [one.path for one in found]


def test_frames_of_a_container_are_shown_in_the_workspace_the_deepest_first(gate, write):
    write("shop/prices.py")
    write("shop/orders.py")
    found = locate_frames(parse_traces(sample("python-chained")), gate, context_lines=1)
    assert [(one.path, one.frame.line) for one in found] == [
        ("shop/prices.py", 7),
        ("shop/prices.py", 11),
        ("shop/orders.py", 10),
        ("shop/orders.py", 12),
        ("shop/orders.py", 17),
        ("shop/orders.py", 19),
        ("", 1),
    ]
    assert found[0].excerpt == "     6\tprice 6\n     7\tprice 7\n     8\tprice 8"


def test_frames_of_libraries_come_last_and_without_a_path(gate, write):
    write("prices/prices.go")
    write("main.go")
    found = locate_frames(parse_traces(sample("go-wrapped")), gate)
    assert paths(found) == ["main.go", "prices/prices.go", "main.go", "main.go", ""]
    assert found[-1] == LocatedFrame(Frame("/usr/lib/go-1.19/src/runtime/panic.go", 884, 0, "panic"))
    # The others lie past the end of this version of the file.
    assert [bool(one.excerpt) for one in found] == [False, True, True, False, False]


@pytest.mark.parametrize(
    ("name", "file", "line"),
    [
        ("java-caused", "app/src/main/java/com/acme/shop/Prices.java", 9),
        ("node-esm", "web/cart.js", 4),
        ("firefox", "src/cart.ts", 4),
        ("rust-backtrace", "src/prices.rs", 5),
        ("c-asan", "src/prices.c", 8),
        ("c-valgrind", "src/prices.c", 8),
        ("python-windows", "shop/orders.py", 10),
        ("pytest-long", "shop/prices.py", 7),
    ],
)
def test_every_language_leads_to_the_line(gate, write, name, file, line):
    write(file)
    first = locate_frames(parse_traces(sample(name)), gate)[0]
    assert (first.path, first.frame.line) == (file, line)
    assert f"{line:6d}\tprice {line}" in first.excerpt


def test_ignored_files_and_those_the_policy_hides_are_not_there(open_gate, workspace, write):
    write(".gitignore", "out/\n")
    write("out/a.py")
    write("keys/b.py", "SECRET\n")
    write("src/c.py")
    gate = open_gate(permissions={"deny": ["Read(keys/**)"]})
    found = locate_frames(
        frames(("/app/out/a.py", 1), ("/app/keys/b.py", 1), ("keys/b.py", 1), ("/app/src/c.py", 1)), gate
    )
    assert paths(found) == ["src/c.py", "", "", ""]
    assert "SECRET" not in str(found)


def test_nothing_outside_is_opened(gate, tmp_path, workspace, write):
    (tmp_path / "outside.py").write_text("SECRET\n")
    (workspace / "link.py").symlink_to(tmp_path / "outside.py")
    (workspace / "folder").symlink_to(tmp_path)
    tried = [
        str(tmp_path / "outside.py"),
        "../outside.py",
        "outside.py",
        "link.py",
        "folder/outside.py",
        "/etc/passwd",
    ]
    found = locate_frames(frames(*((file, 1) for file in tried)), gate)
    assert paths(found) == [""] * len(tried)
    assert gate.permissions.decisions
    assert all(action.real_path == str(workspace) for action, _ in gate.permissions.decisions)


@pytest.mark.parametrize(
    "name", ["[id].tsx", "a{b,c}.ts", "!x.js", "#x.js", "a b.py", "ä.py", "x*.c", "-x.c", "\\x.c"]
)
def test_names_are_looked_for_as_they_are(gate, write, name):
    write(f"pages/{name}")
    file = f"webpack:///pages/{name}" if "\\" not in name else f"pages/{name}"
    expected = f"pages/{name}" if "\\" not in name else ""  # on Windows that would be a folder
    assert paths(locate_frames(frames((file, 1)), gate)) == [expected]


def test_names_that_no_file_has_are_not_looked_for(gate):
    odd = ["/app/\x00.py", "/app/\ud800.py", "/app/" + "x" * 300 + ".py", "/app/a\nb.py", "/", "/app/.."]
    assert paths(locate_frames(frames(*((file, 1) for file in odd)), gate)) == [""] * len(odd)


def test_many_names_are_found_though_a_pattern_has_its_length(gate, write):
    names = [f"{'long' * 20}{number}.py" for number in range(60)]
    for name in names:
        write(f"src/{name}")
    found = locate_frames(frames(*((f"/app/src/{name}", 1) for name in names)), gate, most_excerpts=2)
    assert paths(found) == [f"src/{name}" for name in names]
    assert [bool(one.excerpt) for one in found] == [True, True] + [False] * 58


def test_what_is_no_text_or_too_long_is_named_without_an_excerpt(gate, workspace, write):
    (workspace / "a.py").write_bytes(b"\x00\x01\x02" * 100)
    write("b.py", "x" * 3_000_000)
    write("c.py", "y" * 100_000)
    found = locate_frames(frames(("a.py", 1), ("b.py", 1), ("c.py", 1), ("c.py", 2), ("c.py", 0)), gate)
    assert paths(found) == ["a.py", "b.py", "c.py", "c.py", "c.py"]
    assert [len(one.excerpt) > 0 for one in found] == [False, False, True, False, False]
    assert len(found[2].excerpt) < 400


def test_no_more_frames_are_told_than_can_be_read(gate):
    assert len(locate_frames(frames(*((f"/x/{number}.py", 1) for number in range(500))), gate)) == MOST_LOCATED
    assert locate_frames((), gate) == ()


def test_it_ends_with_its_call(gate, write):
    write("a.py")
    gate.budget.deadline = time.monotonic() - 1
    with pytest.raises(ToolError):
        locate_frames(frames(("a.py", 1)), gate)


@pytest.mark.parametrize("name", ["id_rsa", "server.key", "PROD.ENV", "deploy.pem~", "secrets.yml"])
def test_a_trace_shows_no_line_of_a_file_for_secrets_unless_that_was_named(gate, write, name):
    write(name)
    write("a/b.py")
    traces = frames((f"/app/{name}", 1), ("/app/a/b.py", 1))

    excerpts = {one.path: bool(one.excerpt) for one in locate_frames(traces, gate)}
    named = {one.path: bool(one.excerpt) for one in locate_frames(traces, gate, named={name})}

    assert excerpts == {name: False, "a/b.py": True}
    assert named == {name: True, "a/b.py": True}


@pytest.mark.parametrize("newline", ["\n", "\r\n", "\r"])
def test_secrets_in_an_excerpt_are_masked(gate, write, newline):
    token = "ghp_" + "aB3dE5fG7hI9jK1lM2nO4pQ6rS8tU0vW1xY2"
    body = "b3BlbnNzaC1rZXktdjEAAAAABG5vbmUAAAAEbm9uZQ"
    key = f"-----BEGIN RSA PRIVATE KEY-----\n{body}\n-----END RSA PRIVATE KEY-----\n"
    write("key.py", ("x = 1\n" * 100 + key).replace("\n", newline))
    write("late.py", ("x = 1\n" * 20_000 + f"token = '{token}'\n" + "x = 1\n" * 100).replace("\n", newline))

    found = locate_frames(frames(("key.py", 101), ("late.py", 20_003)), gate)

    assert "102\t[secret]\n" in found[0].excerpt
    assert "20001\ttoken = '[secret]'\n" in found[1].excerpt
    assert not any(secret in str(found) for secret in (token, body))


def test_of_thousands_of_frames_the_first_are_followed(gate, write):
    write("src/a.py")
    many = [(f"/s/{number}/b.py", 1) for number in range(MOST_FOLLOWED)]
    assert paths(locate_frames(frames(("/app/src/a.py", 1), *many), gate))[0] == "src/a.py"
    assert "src/a.py" not in paths(locate_frames(frames(*many, ("/app/src/a.py", 1)), gate))


def test_a_call_that_was_cancelled_follows_no_frame(gate, write):
    write("src/a.py")
    gate.budget.cancelled.set()
    with pytest.raises(ToolError, match="stopped"):
        locate_frames(frames(*((f"/home/nobody/{number}.py", 1) for number in range(10))), gate)

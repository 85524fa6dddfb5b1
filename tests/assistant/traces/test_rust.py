"""Rust's panics and the errors of its compiler."""

import pytest

from tests.assistant.traces.samples import languages, told
from toolyard.assistant.traces import Frame, Trace, parse_traces

MAIN = "src/main.rs"
NONE = "called `Option::unwrap()` on a `None` value"


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        (
            "rust-backtrace",
            [
                (
                    NONE,
                    [
                        "./src/prices.rs:5 shop::prices::of",
                        "./src/main.rs:4 shop::checkout::{{closure}}",
                        "./src/main.rs:4 shop::checkout",
                        "./src/main.rs:21 shop::main",
                    ],
                )
            ],
        ),
        (
            "rust-old",
            [
                (
                    NONE,
                    [
                        "./src/prices.rs:5 shop::prices::of",
                        "./src/main.rs:4 shop::checkout::{{closure}}",
                        "./src/main.rs:21 shop::main",
                    ],
                )
            ],
        ),
        (
            "rust-full",
            [("index out of bounds: the len is 3 but the index is 5", ["/app/rs/src/main.rs:19 shop::main"])],
        ),
        (
            "rust-thread",
            [
                (
                    NONE,
                    [
                        "./src/prices.rs:5 shop::prices::of",
                        "./src/main.rs:4 shop::checkout::{{closure}}",
                        "./src/main.rs:4 shop::checkout",
                        "./src/main.rs:12 shop::main::{{closure}}",
                    ],
                ),
                ("the till is open: Any { .. }", ["./src/main.rs:15 shop::main"]),
            ],
        ),
        ("rustc", [("error[E0308]: mismatched types", ["src/bad.rs:4"])]),
    ],
)
def test_rust_is_read_as_it_panics_and_as_it_does_not_compile(name, expected):
    assert told(name) == expected
    assert languages(name) == {"rust"}


def test_a_panic_without_a_backtrace_is_where_it_says():
    text = "thread 'main' panicked at src/lib.rs:9:5:\nassertion `left == right` failed\n  left: 1\n right: 2\n"
    assert parse_traces(text) == (
        Trace("rust", "assertion `left == right` failed; left: 1; right: 2", (Frame("src/lib.rs", 9, 5),)),
    )


def test_the_quoted_message_of_an_old_panic_may_have_several_lines():
    text = (
        "thread 'main' panicked at 'assertion failed: `(left == right)`\n  left: `1`,\n right: `2`', src/lib.rs:9:5\n"
    )
    assert parse_traces(text) == (
        Trace("rust", "assertion failed: `(left == right)`; left: `1`,; right: `2`", (Frame("src/lib.rs", 9, 5),)),
    )

"""Panics and failed tests of Go."""

import pytest

from tests.assistant.traces.samples import languages, told

NIL = "panic: runtime error: invalid memory address or nil pointer dereference"


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        (
            "go-nil",
            [
                (
                    NIL,
                    [
                        "/app/go/prices/prices.go:6 acme.test/shop/prices.Of",
                        "/app/go/main.go:12 main.checkout",
                        "/app/go/main.go:20 main.main",
                    ],
                )
            ],
        ),
        (
            "go-goroutine",
            [
                (
                    NIL,
                    [
                        "/app/go/prices/prices.go:6 acme.test/shop/prices.Of",
                        "/app/go/main.go:12 main.checkout",
                        "/app/go/main.go:29 main.main.func1",
                        "/app/go/main.go:29 main.main",
                    ],
                )
            ],
        ),
        ("go-lock", [("fatal error: all goroutines are asleep - deadlock!", ["/app/go/main.go:26 main.main"])]),
        (
            "go-wrapped",
            [
                (
                    f"{NIL} [recovered]; panic: again",
                    [
                        "/app/go/main.go:34 main.main.func2",
                        "/app/go/prices/prices.go:6 acme.test/shop/prices.Of",
                        "/app/go/main.go:12 main.checkout",
                        "/app/go/main.go:36 main.main",
                    ],
                )
            ],
        ),
        (
            "go-test",
            [
                ("TestPear: got 0 names", ["prices_test.go:7 TestPear"]),
                (
                    f"{NIL} [recovered]; {NIL}",
                    [
                        "/app/go/prices/prices.go:6 acme.test/shop/prices.Of",
                        "/app/go/prices/prices_test.go:10 acme.test/shop/prices.TestNil",
                    ],
                ),
            ],
        ),
        (
            "go-build",
            [
                (
                    'cannot use "x" (untyped string constant) as int value in return statement',
                    ["prices/bad.go:3"],
                )
            ],
        ),
    ],
)
def test_goroutines_and_tests_of_go_are_read(name, expected):
    assert told(name) == expected
    assert languages(name) == {"go"}

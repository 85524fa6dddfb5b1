"""C and C++: debuggers, sanitizers, compilers, and the library's last words."""

import pytest

from tests.assistant.traces.samples import languages, told

OVERFLOW = (
    "AddressSanitizer: heap-buffer-overflow on address 0x602000000014 at pc 0x7fe0f82602ca bp 0x7ffd9f6a0f90 "
    "sp 0x7ffd9f6a0740"
)
SEGV = (
    "LeakSanitizer: SEGV on unknown address 0x000000000000 (pc 0x556dda41f542 bp 0x7ffee9bf89b0 sp 0x7ffee9bf89a0 T0)"
)
STACK = ["src/prices.c:16 null_price", "src/main.c:9 checkout", "src/main.c:24 main"]


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("c-gdb", [("Program received signal SIGSEGV, Segmentation fault.", STACK)]),
        (
            "c-asan",
            [
                (
                    OVERFLOW,
                    ["src/prices.c:8 price_of", "src/main.c:19 checkout", "src/main.c:24 main"],
                ),
                (
                    "allocated by thread T0 here:",
                    ["src/prices.c:7 price_of", "src/main.c:19 checkout", "src/main.c:24 main"],
                ),
            ],
        ),
        ("c-assert", [('Assertion `price_of("a") == 1000\' failed.', ["src/main.c:11 checkout"])]),
        ("c-glibc", [("free(): double free detected in tcache 2", [])]),
        (
            "c-ubsan-plain",
            [("runtime error: shift exponent 47 is too large for 32-bit type 'int'", ["src/main.c:18"])],
        ),
        (
            "c-ubsan",
            [
                ("runtime error: load of null pointer of type 'int'", STACK),
                (
                    SEGV,
                    STACK,
                ),
            ],
        ),
        (
            "gcc",
            [
                ("error: 'missing' undeclared (first use in this function)", ["src/bad.c:4"]),
                ("error: invalid operands to binary + (have 'char *' and 'char *')", ["src/bad.c:5"]),
                ("error: expected ';' before '}' token", ["src/bad.c:6"]),
            ],
        ),
        ("gpp", [("error: 'const class std::vector<int>' has no member named 'length'", ["src/bad.cpp:2"])]),
        ("clang", [("fatal error: 'prices.h' file not found", ["src/prices.c:6"])]),
        (
            "ld",
            [
                ("undefined reference to `null_price'", ["/app/c/src/main.c:9"]),
                ("undefined reference to `price_of'", ["/app/c/src/main.c:11"]),
                ("undefined reference to `price_of'", ["/app/c/src/main.c:19"]),
            ],
        ),
    ],
)
def test_c_is_read_from_debuggers_sanitizers_and_compilers(name, expected):
    assert told(name) == expected
    assert languages(name) == {"c"}


def test_valgrind_tells_of_each_access_and_of_the_block():
    found = told("c-valgrind")
    assert [error for error, _ in found][:2] == [
        "Invalid write of size 1",
        "Address 0x4a40044 is 0 bytes after a block of size 4 alloc'd",
    ]
    assert found[0][1] == ["prices.c:8 price_of", "main.c:19 checkout", "main.c:24 main"]

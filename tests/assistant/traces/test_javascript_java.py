"""Traces of JavaScript and Java, whose lines say `at`."""

import pytest

from tests.assistant.traces.samples import languages, sample, told
from toolyard.assistant.traces import Frame, parse_traces

CART = [
    "/app/web/cart.js:4 cents",
    "/app/web/cart.js:13",
    "/app/web/cart.js:13 get total",
]
UNDEFINED = "TypeError: Cannot read properties of undefined (reading 'cents')"


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("node-sync", [(UNDEFINED, [*CART, "/app/web/main.js:19 Object.<anonymous>"])]),
        (
            "node-cause",
            [
                (UNDEFINED, [*CART, "/app/web/cart.js:18 Cart.pay", "/app/web/main.js:7 main"]),
                ("Error: payment failed", ["/app/web/main.js:9 main"]),
            ],
        ),
        ("node-aggregate", [(UNDEFINED, [*CART, "/app/web/cart.js:18 Cart.pay", "/app/web/main.js:13 main"])]),
        (
            "node-esm",
            [(UNDEFINED, ["/app/web/cart.js:4 cents", "file:///app/web/esm.mjs:3 run", "file:///app/web/esm.mjs:4"])],
        ),
        ("node-json", [("SyntaxError: Unexpected end of JSON input", ["/app/web/main.js:21 Object.<anonymous>"])]),
        ("node-syntax", [("SyntaxError: Unexpected token ';'", ["/app/web/bad.js:1"])]),
        ("node-missing", [("Error: Cannot find module './nowhere'", ["/app/web/main.js:23 Object.<anonymous>"])]),
        (
            "firefox",
            [
                (
                    'TypeError: can\'t access property "cents", item.price is undefined',
                    [
                        "webpack://shop/./src/cart.ts?7c1f:4 cents",
                        "webpack://shop/./src/cart.ts?7c1f:11 get total",
                        "http://localhost:3000/static/js/main.js:118 pay",
                        "http://localhost:3000/@vite/client:1",
                        "https://cdn.test/react.js:9",
                    ],
                )
            ],
        ),
        (
            "safari",
            [
                (
                    "TypeError: undefined is not an object (evaluating 'item.price.cents')",
                    [
                        "http://localhost:3000/src/cart.ts?t=1712000000000:4 cents",
                        "http://localhost:3000/src/main.ts:3 module code",
                    ],
                )
            ],
        ),
        (
            "chrome",
            [
                (
                    "Error: Cannot pay",
                    [
                        "webpack-internal:///(app-pages-browser)/./src/cart.ts:7 new Cart",
                        "webpack-internal:///./src/main.ts:12 eval",
                        "https://shop.test/static/loader.js:3 eval",
                        "https://shop.test/static/main.js?v=3:1 HTMLButtonElement.onclick",
                    ],
                )
            ],
        ),
    ],
)
def test_javascript_is_read_as_every_engine_prints_it(name, expected):
    assert told(name) == expected
    assert languages(name) == {"javascript"}


def test_columns_are_kept_where_they_are_told():
    assert parse_traces(sample("node-sync"))[0].frames[0] == Frame("/app/web/cart.js", 4, 21, "cents")


def test_java_names_files_by_their_package_and_its_root_cause_comes_first():
    cause, caught = told("java-caused")
    assert cause[0].startswith("java.lang.NullPointerException: Cannot invoke")
    assert cause[1] == [
        "com/acme/shop/Prices.java:9 com.acme.shop.Prices.of",
        "com/acme/shop/Prices.java:14 com.acme.shop.Prices$Cached.of",
        "com/acme/shop/Orders.java:8 com.acme.shop.Orders.lambda$total$0",
        "com/acme/shop/Orders.java:8 com.acme.shop.Orders.total",
        "com/acme/shop/Orders.java:13 com.acme.shop.Orders.checkout",
    ]
    assert caught == (
        "java.lang.IllegalStateException: no such thing",
        [
            "com/acme/shop/Orders.java:15 com.acme.shop.Orders.checkout",
            "com/acme/shop/Orders.java:33 com.acme.shop.Orders.main",
        ],
    )


def test_what_was_suppressed_comes_after_what_was_thrown():
    errors = [error.partition(":")[0] for error, _ in told("java-suppressed")]
    assert errors == ["java.lang.NullPointerException", "java.lang.IllegalStateException", "java.io.IOException"]


def test_kotlin_in_a_log_is_read_like_java():
    assert told("kotlin") == [
        ("com.acme.shop.NoPrice: pear", ["com/acme/shop/Prices.kt:7 com.acme.shop.PricesKt.priceOf"]),
        (
            "java.lang.IllegalStateException: no such thing",
            [
                "com/acme/shop/Till.kt:14 com.acme.shop.TillKt.checkout",
                "com/acme/shop/Till.kt:22 com.acme.shop.TillKt$main$1.invokeSuspend",
                "com/acme/shop/Till.kt:3 com.acme.shop.Till$Companion.<init>",
            ],
        ),
    ]
    assert languages("kotlin") == {"java"}

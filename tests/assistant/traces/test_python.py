"""Python's tracebacks, and those of pytest."""

import pytest

from tests.assistant.traces.samples import sample, told
from toolyard.assistant.traces import Frame, Trace, parse_traces


def test_a_chain_of_python_errors_is_one_trace_each_the_cause_first():
    assert told("python-chained") == [
        (
            "KeyError: 'pear'",
            [
                "/app/shop/prices.py:7 price_of",
                "/app/shop/prices.py:11 <genexpr>",
                "/app/shop/prices.py:11 total",
                "/app/shop/orders.py:10 checkout",
            ],
        ),
        (
            "shop.orders.OrderError: no such thing",
            ["/app/shop/orders.py:12 checkout", "/app/shop/orders.py:17 retry"],
        ),
        ("ValueError: invalid literal for int() with base 10: 'not a number'", ["/app/shop/orders.py:19 retry"]),
    ]


def test_every_error_of_an_exception_group_is_told_once():
    errors = [error for error, _ in told("python-group")]
    assert errors == [
        "ExceptionGroup: orders (2 sub-exceptions)",
        "KeyError: 'pear'",
        "shop.orders.OrderError: no such thing",
        "KeyError: 'fig'",
    ]


def test_a_syntax_error_is_where_python_says_it_is():
    assert told("python-syntax") == [("SyntaxError: invalid syntax", ["/app/shop/broken.py:1"])]
    without_header = sample("python-syntax").partition("in <module>\n")[2]
    assert parse_traces(without_header) == (
        Trace("python", "SyntaxError: invalid syntax", (Frame("/app/shop/broken.py", 1),)),
    )


def test_a_recursion_is_as_short_as_python_tells_it():
    assert told("python-recursion") == [
        ("RecursionError: maximum recursion depth exceeded", ["/app/shop/orders.py:33 deep"] * 3)
    ]


def test_what_the_fault_handler_prints_begins_with_the_deepest_already():
    assert told("python-fatal") == [("Fatal Python error: Segmentation fault", ["/app/shop/orders.py:10 checkout"])]


def test_lines_may_begin_with_the_name_of_a_container():
    assert told("python-compose") == [("shop.orders.OrderError: no such thing", ["/app/shop/orders.py:12 checkout"])]


def test_paths_of_windows_are_kept_as_they_are():
    error, frames = told("python-windows")[0]
    assert error.startswith("json.decoder.JSONDecodeError")
    assert frames == [r"C:\Users\ann\proj\shop\orders.py:10 checkout"]


MODULE = """\
__________________________________ test_import _________________________________

    def test_import():
>       import broken

test_app.py:22:
_ _ _ _ _ _ _ _ _ _ _ _ _ _ _ _ _ _ _ _ _ _ _ _ _ _ _ _ _ _ _ _ _ _ _ _ _ _ _ _

    def price(name):
        return PRICES[name]
>   X = price("pear")
        ^^^^^^^

app/broken.py:3:
_ _ _ _ _ _ _ _ _ _ _ _ _ _ _ _ _ _ _ _ _ _ _ _ _ _ _ _ _ _ _ _ _ _ _ _ _ _ _ _

>   PRICES = Lazy(lambda: {}["pear"])
                          ^^^^^^^^^^
E   KeyError: 'pear'

app/broken.py:1: KeyError
"""
SHORTENED = """\
    def test_total():
>       run()
test_app.py:7:
app/util.py:22: in run
    return PRICES["pear"]
E   KeyError: 'pear'
app/util.py:22: KeyError
"""


def functions(text):
    """The name of each frame, by its place, as the deepest of those there has it."""
    (trace,) = parse_traces(text)
    return {f"{frame.file}:{frame.line}": frame.function for frame in reversed(trace.frames)}


def test_a_place_outside_of_functions_has_not_the_name_of_the_test():
    assert functions(MODULE) == {"test_app.py:22": "test_import", "app/broken.py:3": "", "app/broken.py:1": ""}


def test_a_place_that_has_a_name_keeps_it_where_the_error_is_told():
    assert functions(SHORTENED) == {"test_app.py:7": "test_total", "app/util.py:22": "run"}


@pytest.mark.parametrize("style", ["long", "short"])
def test_both_styles_of_pytest_tell_the_same(style):
    assert told(f"pytest-{style}") == [
        (
            "KeyError: 'pear'",
            [
                "shop/prices.py:7 price_of",
                "shop/prices.py:11 <genexpr>",
                "shop/prices.py:11 total",
                "shop/orders.py:10 checkout",
            ],
        ),
        (
            "shop.orders.OrderError: no such thing",
            ["shop/orders.py:12 checkout", "test_orders.py:6 test_a_pear_has_a_price"],
        ),
        ("AssertionError: assert 1.2 == 1.5", ["test_orders.py:10 test_prices_are_exact"]),
    ]

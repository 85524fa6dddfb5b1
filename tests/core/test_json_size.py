"""What is told of a JSON text without reading it."""

import json
import string

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolyard.core import json_size
from toolyard.core.json_size import count_json_parts, peek_message_id

TEXTS = st.text(alphabet=string.ascii_letters + '{[,]}"\\\n:é')
VALUES = st.recursive(
    st.none() | st.integers() | TEXTS, lambda inner: st.lists(inner) | st.dictionaries(TEXTS, inner), max_leaves=30
)


def counted(value) -> int:
    if isinstance(value, dict):
        return 1 + max(len(value) - 1, 0) + sum(map(counted, value.values()))
    if isinstance(value, list):
        return 1 + max(len(value) - 1, 0) + sum(map(counted, value))
    return 0


@pytest.mark.parametrize("step", [1, 2, 7, 1 << 20])
@given(value=VALUES)
def test_only_what_stands_outside_of_strings_is_a_part(step, value):
    before, json_size._CHUNK_BYTES = json_size._CHUNK_BYTES, step
    try:
        assert count_json_parts(json.dumps(value).encode()) == counted(value)
    finally:
        json_size._CHUNK_BYTES = before


def test_counting_stops_where_there_are_too_many():
    assert 10 < count_json_parts(b"[" + b"[]," * 5_000_000, limit=10) < 2_000_000


def test_nothing_but_quotes_is_too_much_too():
    assert count_json_parts(b'"' * 1_000, limit=10) > 10
    assert count_json_parts(b'["' + b"x" * 1_000 + b'"]', limit=10) == 1


@pytest.mark.parametrize(
    ("body", "number"),
    [
        (b'{"id": 7, "do": "mcp"}', 7),
        (b'{"jsonrpc":"2.0","id":8,"result":{}}', 8),
        (b'{"do":"mcp","arguments":{"a":1},"id":9}', 9),
        (b'{"result":{},"id":10,"jsonrpc":"2.0"}\n', 10),
        (b'{"result":{"id":11},"more":1}', None),
        (b'{"result":"\\"id\\": 12}', None),
        (b'{"id":"13","result":1}', None),
        (b"", None),
    ],
)
def test_the_number_is_found_where_it_stands_first_or_last(body, number):
    assert peek_message_id(body) == number

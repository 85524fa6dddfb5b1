"""Whatever a JSON text looks like, setting and removing a member leaves the rest of it alone."""

from __future__ import annotations

import json
import random
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolyard.config.clients.json_text import LayoutError, with_member, without_member
from toolyard.config.jsonc import parse_jsonc

ENTRY = {"type": "stdio", "command": "/bin/toolyard", "args": ["mcp", "--workspace", '/é "q"']}
PATH = ("mcpServers", "toolyard")
KEYS = st.sampled_from(["a", "b", "", "é", "//", "/*", '"', "}", "{", ",", "\\", "toolyard2", "mcp"])
SCALARS = st.sampled_from([0, -1.5, True, None, "", "x", "http://x", "/* no */", '"', "\\", "},", "é\n\t"])
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=3),
    max_leaves=6,
)
SERVERS = st.dictionaries(KEYS, VALUES, max_size=3)
GAPS = ["", "", " ", "\n", "\n  ", "\t", " /* c */ ", " // c }\n", "\n// ,{\n    ", "/**/"]


class Writer:
    """Writes a value as somebody might: with comments, trailing commas and any layout."""

    def __init__(self, seed):
        self.random = random.Random(seed)  # one draw for the whole layout: thousands of small ones take minutes

    def gap(self):
        return self.random.choice(GAPS)

    def text(self, value):
        if isinstance(value, dict):
            pairs = [f"{json.dumps(key)}{self.gap()}:{self.gap()}{self.text(item)}" for key, item in value.items()]
            return self.block("{", pairs, "}")
        if isinstance(value, list):
            return self.block("[", [self.text(item) for item in value], "]")
        return json.dumps(value, ensure_ascii=self.random.random() < 0.5)

    def block(self, opening, parts, closing):
        if not parts:
            return opening + closing
        body = f"{self.gap()},".join(f"{self.gap()}{part}" for part in parts)
        return f"{opening}{body}{self.gap()}{self.random.choice(['', ','])}{self.gap()}{closing}"


@st.composite
def documents(draw, *, with_section=None):
    value = draw(st.dictionaries(KEYS, VALUES, max_size=4))
    if draw(st.booleans()) if with_section is None else with_section:
        items = [*value.items()]
        items.insert(draw(st.integers(0, len(items))), ("mcpServers", draw(SERVERS)))
        value = dict(items)
    writer = Writer(draw(st.integers(0, 2**32)))
    text = writer.gap() + writer.text(value) + writer.gap()
    if draw(st.booleans()):
        text = text.replace("\n", "\r\n")
    return value, text


def outside_strings(text):
    return re.sub(r"\s", "", text)


def is_within(old, new):
    """Whether every character of `old` is in `new`, in order."""
    rest = iter(new)
    return all(character in rest for character in old)


@given(documents())
def test_a_member_is_set_and_everything_else_stays(document):
    value, text = document
    new = with_member(text, PATH, ENTRY)
    expected = {**value, "mcpServers": {**value.get("mcpServers", {}), "toolyard": ENTRY}}
    assert parse_jsonc(new, name="new") == expected
    assert [*parse_jsonc(new, name="new")] == [*expected]
    assert is_within(text, new)
    assert ("\r\n" in new) >= ("\r\n" in text)
    assert not ("\r\n" in text and re.search(r"(?<!\r)\n", new))


@given(documents())
def test_what_was_set_is_removed_to_the_byte(document):
    value, text = document
    new = with_member(text, PATH, ENTRY)
    assert without_member(new, PATH if "mcpServers" in value else PATH[:1]) == text


@given(documents(with_section=True), st.data())
def test_any_member_can_be_removed_and_its_neighbours_stay(document, data):
    value, text = document
    keys = [*value["mcpServers"]]
    if not keys:
        return
    key = data.draw(st.sampled_from(keys))
    new = without_member(text, ("mcpServers", key))
    kept = {name: entry for name, entry in value["mcpServers"].items() if name != key}
    assert parse_jsonc(new, name="new") == {**value, "mcpServers": kept}
    assert is_within(outside_strings(new), outside_strings(text))


@given(documents(with_section=True), st.data())
def test_a_value_is_replaced_where_it_stands(document, data):
    value, text = document
    keys = [*value["mcpServers"]]
    if not keys:
        return
    key = data.draw(st.sampled_from(keys))
    new = with_member(text, ("mcpServers", key), ["new"])
    assert parse_jsonc(new, name="new") == {**value, "mcpServers": {**value["mcpServers"], key: ["new"]}}
    assert [*parse_jsonc(new, name="new")["mcpServers"]] == keys


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("", '{\n  "s": {\n    "n": 1\n  }\n}\n'),
        ("{}", '{\n  "s": {\n    "n": 1\n  }\n}'),
        ('{"a":1}', '{"a":1,"s":{"n":1}}'),
        ('{"a": 1}\n', '{"a": 1, "s": {"n": 1}}\n'),
        ('{"s": {}, "b": 2}', '{"s": {"n": 1}, "b": 2}'),
        ('{\n\t"a": 1 // why\n}\n', '{\n\t"a": 1, // why\n\t"s": {\n\t\t"n": 1\n\t}\n}\n'),
        ('{\n    "s": {\n        "b": 2,\n    },\n}', '{\n    "s": {\n        "b": 2,\n        "n": 1,\n    },\n}'),
        ('{\n  "s": {"b": 2}\n}', '{\n  "s": {"b": 2, "n": 1}\n}'),
        ('{\n  "s": {\n    // none yet\n  }\n}', '{\n  "s": {\n    // none yet\n    "n": 1\n  }\n}'),
    ],
)
def test_a_new_member_is_laid_out_like_its_neighbours(before, after):
    assert with_member(before, ("s", "n"), 1) == after


def test_a_comment_does_not_swallow_what_follows_a_member_that_went():
    assert without_member('{ "a": 1, // why\n "b": 2 }', ("b",)) == '{ "a": 1 // why\n }'


def test_of_two_members_of_one_name_the_last_one_counts():
    assert with_member('{"s": {"n": 1}, "s": {"n": 2}}', ("s", "n"), 3) == '{"s": {"n": 1}, "s": {"n": 3}}'


@pytest.mark.parametrize("text", ["[]", "{,}", '{"s": [}', '{"s": 1', "1", '{"s": []}'])
def test_what_is_no_object_is_refused(text):
    with pytest.raises(LayoutError):
        with_member(text, ("s", "n"), 1)


@pytest.mark.parametrize(
    ("text", "unit"),
    [
        ('{\n    // first\n    "a": 1\n}\n', "    "),
        ('{\n  /* odd */\n    "a": 1\n}\n', "    "),
        ('{\n    /* beside */ "a": {}\n}\n', "    "),
        ('{\n\n\t"a": 1\n}\n', "\t"),
        ('{\r\n   "a": [\r\n      1\r\n   ]\r\n}\r\n', "   "),
        ('{"a": {\n        "b": 1\n    }\n}\n', "    "),
        ('{\n    "a": "{\\n  \\"",\n    "b": 2\n}\n', "    "),
        ('{"a": 1\n}\n', "  "),
    ],
)
def test_what_is_put_in_is_indented_as_the_rest(text, unit):
    made = with_member(text, ("mcpServers", "toolyard"), {"command": "c"})
    indents = [line[: len(line) - len(line.lstrip())] for line in made.splitlines() if '"command"' in line]
    lines = [line for line in made.splitlines() if '"mcpServers"' in line]
    (outer,) = [line[: len(line) - len(line.lstrip())] for line in lines]
    assert indents == [outer + 2 * unit]

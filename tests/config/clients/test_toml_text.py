"""Whatever a TOML text looks like, setting and removing a table leaves the rest of it alone."""

from __future__ import annotations

import tomllib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolyard.config.clients.json_text import LayoutError
from toolyard.config.clients.toml_text import with_table, without_table

PATH = ("mcp_servers", "toolyard")
VALUES = {"command": "/bin/toolyard", "args": ["mcp", "--workspace", '/é "q" \\ \x7f']}
LITERALS = [
    *("1", "true", '"a"', "'b'", '"]"', "'['", '"# no"', "1979-05-27", "nan", '""', "''"),
    *('"""\n[mcp_servers.toolyard]\n"""', "'''\nargs = 1\n'''", '"""a""""', "'''b'''''", '"""\\""""'),
    *("[1,\n  2, # two ]\n]", "[\n]", "{ x = 1, y = [2] }", '[{ x = "}" }]', '"\\"" # why'),
]
LINES = st.lists(st.sampled_from([f"v = {literal}" for literal in LITERALS]), max_size=1).flatmap(
    lambda first: st.lists(st.sampled_from(LITERALS), max_size=3).map(
        lambda rest: [*first, *(f'"k {number}".z = {literal}' for number, literal in enumerate(rest))]
    )
)
HEADERS = ["[a]", "[ b . c ]", "[[d]]", "[[d]]", '["e]"."f"]', "[mcp_servers.toolyard2]", "['mcp_servers'.x] # c"]
BETWEEN = st.sampled_from(["", "\n", "# c\n", "\n\n  # [x]\n", "  \n"])


@st.composite
def documents(draw, *, headers=HEADERS):
    chosen = draw(st.permutations(headers).map(lambda all_: all_[: draw(st.integers(0, 3))]))
    text = draw(BETWEEN)
    for header in chosen:
        text += "".join(f"{line}\n" for line in (header, *draw(LINES))) + draw(BETWEEN)
    return text.replace("\n", draw(st.sampled_from(["\n", "\r\n"])))


def parsed(text):
    return repr(tomllib.loads(text))  # a number that is none equals itself there


def servers(text):
    return tomllib.loads(text)["mcp_servers"]


@given(documents())
def test_a_table_is_added_at_the_end_and_nothing_else_changes(text):
    new = with_table(text, PATH, VALUES)
    assert new.startswith(text)
    assert servers(new)["toolyard"] == VALUES
    assert without_table(new, PATH) == text


@given(documents(headers=HEADERS[:3]), documents(headers=HEADERS[4:]))
def test_a_table_in_the_middle_is_changed_and_removed_alone(before, after):
    line = "\r\n" if "\r\n" in before + after else "\n"
    ours = line.join(("[ mcp_servers . 'toolyard' ]", "x = 1 # mine", 'args = [ "old", # c', "]", ""))
    text = before + ours + after
    new = with_table(text, PATH, VALUES)
    assert new.startswith(before)
    assert new.endswith(after)
    assert servers(new)["toolyard"] == {**VALUES, "x": 1}
    assert "# mine" in new
    gone = without_table(text, PATH)
    assert parsed(gone) == parsed(before + after)
    assert gone.endswith(after)
    assert before.startswith(gone[: len(gone) - len(after)])


def test_the_tables_below_go_with_it_wherever_they_stand():
    text = "[mcp_servers.toolyard.env]\nA = 1\n\n# kept\n[x]\ny = 1\n\n[mcp_servers.toolyard]\ncommand = 'c'\n"
    assert without_table(text, PATH) == "\n# kept\n[x]\ny = 1\n"


def test_an_entry_on_a_line_of_its_own_is_removed_with_its_line():
    text = "[mcp_servers]\na = {command = 'x'}\ntoolyard = {command = 'y'} # c\nb = {command = 'z'}\n"
    assert without_table(text, PATH) == "[mcp_servers]\na = {command = 'x'}\nb = {command = 'z'}\n"


def test_an_entry_that_is_no_table_of_its_own_is_not_changed():
    with pytest.raises(LayoutError):
        with_table("[mcp_servers]\ntoolyard = {command = 'y'}\n", PATH, VALUES)


def test_a_file_without_a_last_line_end_gets_one():
    assert with_table("a = 1", ("s", "n"), {"b": True}) == "a = 1\n\n[s.n]\nb = true\n"


def test_tables_of_an_array_stay_where_they_are_though_another_table_is_between_them():
    text = "[[d]]\nx = 1\n\n[mcp_servers.toolyard]\ncommand = 'c'\n\n# second\n[[d]]\nx = 2\n"
    changed = with_table(text, PATH, {"command": "n", "timeout": 1})
    assert changed == text.replace("command = 'c'\n", 'command = "n"\ntimeout = 1\n')
    assert without_table(text, PATH) == "[[d]]\nx = 1\n\n# second\n[[d]]\nx = 2\n"

"""Two parsers behind one reading: the quick one in C for plain documents, the pure one for the rest."""

import pytest
import yaml

from toolyard.config.yaml_tree import MAX_DEPTH, parse_yaml
from toolyard.core.errors import ConfigError

DOCUMENT = """\
# a comment
toolyard: &shared
  workspace: "a b"   # quoted
  numbers: [1, 0x10, 1.5, .inf, yes, no, null, ~, 2026-11-16]
  text: |
    two
    lines
agents:
  - {id: a, backend: {cwd: ./work, <<: *shared}}
  - id: 'b: c'
"""


@pytest.fixture
def composed(monkeypatch):
    """What the parser in C was given to compose."""
    seen: list[str] = []

    class Seen(yaml.CSafeLoader):
        def get_single_node(self):
            seen.append("composed")
            return super().get_single_node()

    monkeypatch.setattr(yaml, "CSafeLoader", Seen)
    return seen


def test_both_parsers_read_the_same_values_on_the_same_lines(monkeypatch, composed):
    quick = parse_yaml(DOCUMENT, name="x")
    assert composed == ["composed"]
    monkeypatch.delattr(yaml, "CSafeLoader")
    assert parse_yaml(DOCUMENT, name="x") == quick
    assert composed == ["composed"]


@pytest.mark.parametrize("depth", [MAX_DEPTH + 1, 100_000])
def test_what_is_nested_deeply_is_not_composed_in_c(composed, depth):
    with pytest.raises(ConfigError, match="nested too deeply"):
        parse_yaml("[" * depth + "]" * depth, name="x")
    assert composed == []


def test_what_is_wrong_is_told_by_the_pure_parser(composed):
    with pytest.raises(ConfigError, match=r"x:2: is not valid YAML") as raised:
        parse_yaml("a: 1\n@b: 2", name="x")
    assert "found character '@' that cannot start any token" in str(raised.value)
    assert composed == []


@pytest.mark.parametrize("line", ["\tb: 2", "  \tb: 2", "\t- b"])
def test_a_tab_in_the_indentation_is_told_as_such(line):
    with pytest.raises(ConfigError, match=r"x:2: .*YAML allows no tabs for indentation. Indent with spaces."):
        parse_yaml(f"a:\n{line}\n", name="x")


def test_a_tab_elsewhere_is_not_blamed():
    with pytest.raises(ConfigError) as raised:
        parse_yaml("a: 1\n@\tb: 2", name="x")
    assert "tab" not in str(raised.value)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("[" * 20_000, "nested too deeply"),
        ("[" + "x," * 500_000, "too many values"),
        ("a: 1\n" * 60_000 + "\t:", "not valid"),
    ],
    ids=["too deep", "too much", "wrong and long"],
)
def test_what_the_pure_parser_would_take_long_for_is_not_given_to_it(monkeypatch, text, why):
    def slow(_):
        pytest.fail("the pure parser was asked")

    monkeypatch.setattr(yaml, "SafeLoader", slow)
    with pytest.raises(ConfigError, match=why):
        parse_yaml(text, name="x")


@pytest.mark.parametrize("number", ["1" + ":1" * 20_000, "0x" + "f" * 5_000, "0b" + "1" * 5_000, "-0x" + "f" * 5_000])
def test_a_number_that_nothing_could_write_out_again_is_refused(number):
    with pytest.raises(ConfigError, match=r"x:2: is not a number that can be read"):
        parse_yaml(f"a: 1\nb: {number}", name="x")

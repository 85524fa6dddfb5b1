"""A wrong word is answered with what was probably meant, or with what there is."""

from toolyard.config.suggestions import did_you_mean


def test_the_nearest_word_is_named_whatever_its_case():
    assert did_you_mean("gitHb", ["GitHub", "time"]) == 'Did you mean "GitHub"?'


def test_where_nothing_is_near_some_of_what_there_is_are_listed():
    assert did_you_mean("zzz", ["b", "a", "a"]) == "Known here: a, b."
    assert did_you_mean("zzz", []) == "None are defined here."
    many = [f"server_{number:03}" for number in range(500)]
    said = did_you_mean("zzz", many)
    assert said.startswith("Known here: server_000, server_001,")
    assert said.endswith(", server_019 and 480 more.")


def test_a_word_without_end_is_compared_by_its_beginning():
    assert did_you_mean("x" * 1_000_000, ["x" * 100]) == f'Did you mean "{"x" * 100}"?'

"""How names are spelled: stable, different, and names that Python and every file system take."""

import keyword
import random
import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolyard.codemode.files.names import FOLDERS, LONGEST_NAME, PARAMETERS, TOOLS, class_name, spell_names


@pytest.mark.parametrize(
    ("name", "spelled"),
    [
        ("read_file", "read_file"),
        ("getDocument", "getDocument"),
        ("get-document", "get_document"),
        ("TwilioApiV2010--ListCall", "TwilioApiV2010_ListCall"),
        ("files.list", "files_list"),
        ("a b/c", "a_b_c"),
        ("list", "list_"),
        ("import", "import_"),
        ("2captcha", "_2captcha"),
        ("__init__", "init"),
        ("_private_", "private"),
        ("index", "index_"),
        ("tool", "tool_"),
        ("TYPE_CHECKING", "TYPE_CHECKING_"),
        ("ﬁle", "file"),
        ("поиск", "поиск"),
        ("检索-文档", "检索_文档"),
    ],
)
def test_a_tool_is_spelled(name, spelled):
    assert spell_names([name], TOOLS) == [spelled]


@pytest.mark.parametrize(
    ("name", "spelled"),
    [
        ("from", "from_"),
        ("self", "self_"),
        ("$filter", "filter"),
        ("StartTime<", "StartTime_lt"),
        ("StartTime>", "StartTime_gt"),
        ("If-Match", "If_Match"),
        ("_meta", "_meta"),
        ("list", "list"),
        ("__debug__", "__debug___"),
        ("ünï cödé", "ünï_cödé"),
    ],
)
def test_a_parameter_is_spelled(name, spelled):
    assert spell_names([name], PARAMETERS) == [spelled]


def test_a_server_gets_a_folder_that_can_be_imported():
    assert spell_names(["google-drive", "time", "map", "class"], FOLDERS) == ["google_drive", "time", "map", "class_"]


def test_names_of_which_nothing_is_left_get_a_hash():
    first, second = spell_names(["!!!", "???"], TOOLS)
    assert first.startswith("tool_") and second.startswith("tool_") and first != second


def test_long_names_are_cut_and_stay_apart():
    first, second = spell_names(["x" * 200 + "a", "x" * 200 + "b"], TOOLS)
    assert len(first) == len(second) == LONGEST_NAME
    assert first != second


def test_of_two_that_clash_the_one_that_is_a_name_already_keeps_it():
    plain, hashed = spell_names(["get_item", "get-item"], TOOLS)
    assert plain == "get_item"
    assert hashed.startswith("get_item_") and hashed != "get_item"
    assert spell_names(["get-item", "get_item"], TOOLS) == [hashed, plain]


def test_names_that_differ_by_case_alone_do_not_share_a_file():
    first, second = spell_names(["getItem", "getitem"], TOOLS)
    assert first.casefold() != second.casefold()


def test_parameters_that_differ_by_case_alone_keep_their_names():
    assert spell_names(["From", "from", "FROM"], PARAMETERS) == ["From", "from_", "FROM"]


def test_the_second_of_two_equal_names_gets_a_hash():
    first, second = spell_names(["run", "run"], TOOLS)
    assert first == "run"
    assert second.startswith("run_")


names = st.one_of(st.text(max_size=80), st.text(alphabet="aAbB_-. <>1é", max_size=6))


@given(st.lists(names, unique=True, max_size=12), st.randoms(use_true_random=False))
def test_any_names_get_different_spellings_that_do_not_depend_on_their_order(listed, dice: random.Random):
    for rules in (TOOLS, FOLDERS, PARAMETERS):
        spelled = spell_names(listed, rules)
        seen = [one.casefold() for one in spelled] if rules.folds_case else spelled
        assert len(set(seen)) == len(listed)
        for one in spelled:
            assert one.isidentifier() and not keyword.iskeyword(one)
            assert unicodedata.normalize("NFKC", one) == one
            assert len(one) <= LONGEST_NAME + 1 and len(one.encode()) <= 200
        shuffled = list(listed)
        dice.shuffle(shuffled)
        again = dict(zip(shuffled, spell_names(shuffled, rules), strict=True))
        assert [again[name] for name in listed] == spelled


@given(st.text(max_size=100))
def test_any_hint_makes_a_class_name(hint):
    name = class_name(hint)
    assert name.isidentifier() and not keyword.iskeyword(name) and len(name) <= LONGEST_NAME

"""Text to the words it is found by."""

import pytest

from toolyard.codemode.search.tokenizer import (
    split_sentences,
    stemmed_words,
    stopwords,
    synonym_groups,
    synonyms_by_stem,
)


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("createPullRequest", ["creat", "pull", "request"]),
        ("create_pull_request", ["creat", "pull", "request"]),
        ("HTTPServerError404", ["http", "error", "404"]),
        ("list-issues v2.json", ["list", "issu", "v", "2", "json"]),
        ("Please, could you show me the weather?", ["show", "weather"]),
        ("café naïve", ["cafe", "naiv"]),
        ("搜索文件", ["搜索", "索文", "文件"]),
        ("图", ["图"]),
        ("поиск файлов", ["поиск", "фаилов"]),
        ("검색", ["검색"]),
        ("!!! ... ???", []),
        ("", []),
    ],
)
def test_identifiers_come_apart_and_words_lose_their_endings(text, found):
    assert stemmed_words(text) == found


def test_forms_of_a_word_are_one():
    assert len({*stemmed_words("deploy deploys deployed deploying")}) == 1


def test_a_word_of_any_length_is_bounded():
    assert all(len(word) <= 40 for word in stemmed_words("x" * 100_000 + " " + "я" * 100_000))


def test_half_a_surrogate_pair_is_no_trouble():
    assert stemmed_words("read \ud800 file") == ["read", "file"]


def test_sentences_end_where_a_reader_would_end_them():
    assert split_sentences("Find it. Then send it!\nDone 再见。好") == [
        "Find it.",
        "Then send it!",
        "Done 再见",
        "好",
    ]


def test_synonyms_stand_for_each_other():
    assert "remov" in synonyms_by_stem()["delet"]
    assert "delet" in synonyms_by_stem()["remov"]
    assert "搜索" in synonyms_by_stem()["search"]


def test_no_group_of_synonyms_is_made_of_words_that_say_nothing():
    for group in synonym_groups():
        assert len(set(stemmed_words(group))) > 1, group
        assert not set(group.split()) & stopwords(), group

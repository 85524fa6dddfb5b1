"""Words lose the endings that Snowball's own stemmer takes off."""

import itertools
import re

import pytest
import Stemmer
from hypothesis import example, given
from hypothesis import strategies as st

from benchmarks.codemode.search import SETS
from tests.support.toolsearch import documents, questions, tools
from toolyard.codemode.search.documents import SearchFields
from toolyard.codemode.search.stemmer import stem
from toolyard.codemode.search.tokenizer import stopwords, synonym_groups

QUESTIONS = (
    "livemcpbench",
    "livemcpbench_agentq",
    "livemcpbench_steps",
    "mcp_pool_agentq",
    "mcp_pool_steps",
    "mcpbench",
    "own",
)
ENDINGS = (
    "' 's 's' s es ies ied sses us ss eed eedly ed edly ing ingly ying y e l ll tional enci anci abli entli izer "
    "ization ational ation ator alism aliti alli fulness ousli ousness iveness iviti biliti bli ogi logi ogist fulli "
    "lessli li tli alize icate iciti ical ful ness ative al ance ence er ic able ible ant ement ment ent ism ate iti "
    "ous ive ize ion sion tion"
)
BEGINNINGS = (
    "arsen commun emerg gener inter later organ past univers exc proc succ cann earr even herr inn out d fl y by hop "
    "hopp egg add fizz lev at past bak box play boy"
)
WHOLE = "andes atlas bias cosmos howe news sky early gently idly only singly skies skis ugly ' '' ''' 'y y yy yyy s's"


@pytest.fixture(scope="module")
def snowball():
    return Stemmer.Stemmer("english", 0).stemWord


def differing(words, snowball):
    return {word: (stem(word), snowball(word)) for word in words if stem(word) != snowball(word)}


def test_every_word_of_the_captured_servers_and_of_the_questions(snowball):
    texts = [question.text for name in QUESTIONS for question in questions(name)]
    for name in SETS:
        for server, schemas in tools(name).items():
            texts.extend(text for doc in documents(server, schemas) for text in SearchFields.from_doc(doc).texts())
    found = {word for text in [*texts, *synonym_groups()] for word in re.findall("[a-z']+", text.lower())}
    assert len(found) > 10_000
    assert differing(found | stopwords(), snowball) == {}


def test_every_ending_and_pair_of_endings(snowball):
    beginnings, endings = BEGINNINGS.split(), ENDINGS.split()
    pairs = map("".join, itertools.product(beginnings, endings, ["", *endings]))
    assert differing({*pairs, *beginnings, *endings, *WHOLE.split()}, snowball) == {}


@given(st.text("aeiouybcdlnpstwx'", max_size=9), st.sampled_from(["", *ENDINGS.split()]))
@example("", "")
def test_any_letters(snowball, letters, ending):
    assert differing([letters + ending], snowball) == {}


def test_what_is_remembered_is_bounded():
    for number in range(stem.cache_info().maxsize + 10):
        stem(f"word{number}")
    assert stem.cache_info().currsize == stem.cache_info().maxsize

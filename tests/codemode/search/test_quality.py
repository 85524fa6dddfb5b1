"""The ranking keeps what it promises on questions with known answers. Everything is deterministic."""

import pytest

from benchmarks.codemode.search import MEASURES, SETS
from tests.support.toolsearch import fill, searching
from toolyard.codemode.search import ToolIndex


@pytest.fixture(scope="module")
def found(tmp_path_factory):
    folder = tmp_path_factory.mktemp("indexes")
    indexes = {}
    for name in SETS:
        with ToolIndex.open_writable(str(folder / name), semantic=False) as index:
            fill(index, name)
        indexes[name] = ToolIndex.open(str(folder / name), semantic=False)
    yield {name: searching(index) for name, index in indexes.items()}
    for index in indexes.values():
        index.close()


@pytest.mark.timeout(180)
@pytest.mark.parametrize("measure", MEASURES, ids=lambda measure: measure.name)
def test_keywords_alone_find_what_they_have_to(found, measure):
    assert round(measure.of(found)) >= measure.keywords

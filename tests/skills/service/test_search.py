"""A search for tools tells of skills that do what is asked for."""

from __future__ import annotations

import pytest

from toolyard.app.toolsets import Toolset
from toolyard.core.calls import Call
from toolyard.files.roots import Root
from toolyard.skills import Skill, promote, save

from .conftest import Place


@pytest.fixture
def kept(place: Place) -> Place:
    root = Root(str(place.workspace))
    save(root, "b", Skill("count_words", "x = 1", "Count how often each word of a text occurs"))
    promote(root, "b", "count_words")
    save(root, "b", Skill("make_chart", "x = 1", "Draw a chart of numbers"))
    root.close()
    return place


async def found(place: Place, query: str, **config: object) -> dict[str, object]:
    yard = place.open(toolset=Toolset.MINIMAL, **config)
    return dict((await yard.dispatch(Call("search_tools", {"query": query}, "test", agent="a"))).structured)


async def test_the_nearest_of_its_name_is_told(kept: Place) -> None:
    assert await found(kept, "counting the words of a text") == {
        "tools": [],
        "skills": [
            {
                "path": "skills/community/count_words",
                "module": "skills.community.count_words",
                "summary": "Count how often each word of a text occurs",
            }
        ],
    }


async def test_one_word_in_common_is_not_enough(kept: Place) -> None:
    assert await found(kept, "send the text of a message to everybody") == {"tools": []}


async def test_what_the_policy_hides_is_not_told(kept: Place) -> None:
    hidden = {"deny": ["Read(skills/**)"]}
    assert await found(kept, "count words", permissions=hidden) == {"tools": []}

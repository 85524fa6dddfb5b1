"""Whatever is asked or indexed, the search answers, within its bounds."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from toolyard.codemode.search import ToolDoc, ToolIndex, render_hits
from toolyard.core.upstream import ToolSchema

SERVERS = ["files", "github", "weather", "bing-cn", "unknown"]
TEXT = st.text(max_size=200) | st.lists(
    st.sampled_from(["read", "file", "list", "搜索", "weather", "issue", "'x'", '"', "*", "%s", ";", "~"])
).map(" ".join)


@pytest.fixture(scope="module")
def index(tmp_path_factory, small):
    with ToolIndex.open_writable(str(tmp_path_factory.mktemp("index") / "tools.index"), semantic=False) as index:
        for server, docs in small.items():
            index.replace_server(server, docs)
        yield index


@settings(max_examples=150, deadline=None)
@given(query=TEXT, top=st.integers(-1, 12), servers=st.none() | st.sets(st.sampled_from(SERVERS)))
def test_any_query_is_answered_in_order_and_within_the_allowed(index, query, top, servers):
    found = index.search(query, top, servers)
    assert len(found) <= max(0, top)
    assert [hit.score for hit in found] == sorted((hit.score for hit in found), reverse=True)
    assert all(0 < hit.score <= 1.01 for hit in found)
    assert servers is None or {hit.server for hit in found} <= servers
    assert found == index.search(query, top, servers)


@settings(max_examples=60, deadline=None)
@given(name=st.text(max_size=60), description=st.text(max_size=300), summary=st.text(max_size=80))
def test_any_tool_can_be_indexed_and_shown(index, name, description, summary):
    doc = ToolDoc("any", name, "servers/any/tool.py", "tool()", summary, ToolSchema(name, description))
    index.replace_server("any", [doc])
    for hit in index.search(f"{name} {description}", servers={"any"}):
        assert hit.tool == name
        assert render_hits([hit], 200)
    index.remove_server("any")

"""What a search finds, and in what order."""

import pytest

from toolyard.codemode.search import Hit, ToolIndex
from toolyard.core.errors import SystemFault


def names(hits):
    return [hit.tool for hit in hits]


@pytest.mark.parametrize(
    ("query", "first"),
    [
        ("read file", "read_file"),
        ("pull request", "createPullRequest"),
        ("report a bug on the tracker", "create_issue"),  # by synonyms alone
        ("show me the folder", "list_directory"),
        ("town", "get_forecast"),  # written in a parameter's description alone
        ("github commits", "list_commits"),
        ("搜索", "bing_search"),
        ("关键词搜索", "bing_search"),
        ("forecst", "get_forecast"),  # a slip
        ("forcast", "get_forecast"),
        ("foreacst", "get_forecast"),
        ("weath", "get_forecast"),  # not finished
    ],
)
def test_the_tool_that_is_meant_comes_first(index, query, first):
    assert names(index.search(query))[:1] == [first]


def test_a_hit_says_what_calling_the_tool_takes(index):
    found = index.search("weather forecast", top=1)
    score = found[0].score
    assert 0 < score <= 1
    assert found == [
        Hit(
            server="weather",
            tool="get_forecast",
            path="servers/weather/get_forecast.py",
            score=score,
            summary="Weather for the coming days",
            signature="get_forecast(city)",
        )
    ]


def test_scores_never_rise_down_the_list(index):
    scores = [hit.score for hit in index.search("list the commits of a repository", top=10)]
    assert scores == sorted(scores, reverse=True)
    assert len(scores) > 1


def test_a_word_in_the_name_counts_more_than_in_a_description(path, doc):
    with ToolIndex.open_writable(path, semantic=False) as index:
        index.replace_server("a", [doc("a", "unrelated", "Handles an invoice among other things.")])
        index.replace_server("b", [doc("b", "invoice", "Handles other things.")])
        assert names(index.search("invoice")) == ["invoice", "unrelated"]


def test_of_equal_tools_the_one_of_the_server_that_covers_more_comes_first(path, doc):
    with ToolIndex.open_writable(path, semantic=False) as index:
        index.replace_server(
            "two", [doc("two", "search", "Search alpha beta gamma."), doc("two", "paint", "Paint walls.")]
        )
        index.replace_server(
            "one", [doc("one", "search", "Search delta epsilon zeta."), doc("one", "merge", "Merge branches.")]
        )
        found = [(hit.server, hit.tool) for hit in index.search("search branches", top=3)]
        assert found.index(("one", "search")) < found.index(("two", "search"))


def test_the_best_sentence_of_a_long_request_is_enough(index):
    talk = "I had a long day and would like to relax with my family tonight. " * 10
    assert names(index.search(talk + "What will the weather be?" + talk, top=1)) == ["get_forecast"]


def test_only_allowed_servers_are_found(index):
    assert {hit.server for hit in index.search("list read create", top=20)} >= {"files", "github"}
    assert {hit.server for hit in index.search("list read create", top=20, servers={"github"})} == {"github"}
    assert index.search("list read create", top=20, servers=[]) == []
    assert index.search("list", servers=["unknown"]) == []


def test_tools_that_do_the_same_share_one_hit(path, doc):
    with ToolIndex.open_writable(path, semantic=False) as index:
        for server in ("github", "github-fork", "github-copy"):
            index.replace_server(server, [doc(server, "create_issue", "Create a new issue in a GitHub repository.")])
        index.replace_server(
            "jira", [doc("jira", "create_issue", "Add a ticket to a board, with priority and epic.")]
        )
        found = index.search("create issue", top=5)
    assert len(found) == 2
    assert found[0].server.startswith("github")
    assert len(found[0].also) == 2
    assert all("github" in path for path in found[0].also)


def test_equivalents_outside_the_allowed_servers_are_not_told(path, doc):
    with ToolIndex.open_writable(path, semantic=False) as index:
        for server in ("one", "two"):
            index.replace_server(server, [doc(server, "create_issue", "Create a new issue.")])
        assert index.search("create issue", servers={"one"})[0].also == ()


@pytest.mark.parametrize("query", ["", "   ", "?!…", "\x00\x01", "🦀🦀", "qqqqzzzz", "_", "'; DROP TABLE tool;--"])
def test_a_query_without_words_finds_nothing(index, query):
    assert index.search(query) == []


@pytest.mark.parametrize(
    ("query", "first"), [("say it again", "echo"), ("Who am I?", "whoAmI"), ("over, please", "echo")]
)
def test_a_query_of_words_that_say_nothing_is_looked_for_all_the_same(path, small, doc, query, first):
    with ToolIndex.open_writable(path, semantic=False) as index:
        for server, docs in small.items():
            index.replace_server(server, docs)
        tools = [
            doc("voice", "echo", "Say it again, over and over."),
            doc("voice", "whoAmI", "The account."),
            doc("voice", "essay", "Sayings, written, moreover."),
        ]
        index.replace_server("voice", [*tools, doc("voice", "other", "It does it.")])
        found = names(index.search(query))
        assert found[0] == first
        assert "essay" not in found
        assert index.search(query, servers={"weather"}) == []


def test_small_words_count_for_nothing_beside_others(index):
    assert names(index.search("say it again in a forecast")) == ["get_forecast"]


def test_a_huge_query_is_answered(index):
    assert names(index.search("weather forecast " + "lorem ipsum dolor " * 50_000, top=1)) == ["get_forecast"]


@pytest.mark.parametrize("top", [0, -1])
def test_no_hits_are_found_where_none_are_wanted(index, top):
    assert index.search("file", top=top) == []


def test_a_budget_bounds_the_hits_and_leaves_the_first(index):
    every = index.search("list read create", top=20)
    some = index.search("list read create", top=20, budget_tokens=80)
    assert every[: len(some)] == some
    assert 1 <= len(some) < len(every)
    assert index.search("list read create", top=20, budget_tokens=0) == every[:1]


def test_an_index_that_was_updated_answers_like_one_built_at_once(tmp_path, small, doc):
    queries = ["read a file", "open pull request", "list", "weather in a town", "搜索", "forecst", "paint"]
    changed = [doc("github", "paint", "Paint a wall."), doc("github", "list_commits", "List commits.")]
    final = {**small, "github": changed}
    del final["weather"]
    with (
        ToolIndex.open_writable(str(tmp_path / "one"), semantic=False) as updated,
        ToolIndex.open_writable(str(tmp_path / "two"), semantic=False) as fresh,
    ):
        for server in ("weather", *small):
            updated.replace_server(server, small[server])
        updated.replace_server("github", changed)
        assert updated.remove_server("weather")
        for server in sorted(final):
            fresh.replace_server(server, final[server])
        for query in queries:
            assert updated.search(query, top=20) == fresh.search(query, top=20), query


def test_removing_an_unknown_server_changes_nothing(index):
    assert not index.remove_server("unknown")
    assert index.search("weather")


def test_a_fingerprint_spares_the_work(path, small):
    with ToolIndex.open_writable(path, semantic=False) as index:
        assert index.replace_server("files", small["files"], "v1")
        assert not index.replace_server("files", [], "v1")
        assert names(index.search("read file", top=1)) == ["read_file"]
        assert index.replace_server("files", [], "v2")
        assert index.search("read file") == []
        assert index.fingerprints() == {"files": "v2"}


def test_a_reader_follows_what_a_writer_commits(path, small, doc):
    with ToolIndex.open_writable(path, semantic=False) as writer, ToolIndex.open(path, semantic=False) as reader:
        assert reader.search("weather") == []
        writer.replace_server("weather", small["weather"])
        assert names(reader.search("weather")) == ["get_forecast"]
        writer.replace_server("weather", [doc("weather", "radar", "Weather radar.")])
        assert names(reader.search("weather")) == ["radar"]


def test_a_reader_cannot_write(index, path, small):
    with ToolIndex.open(path, semantic=False) as reader, pytest.raises(SystemFault, match="searching only"):
        reader.replace_server("files", small["files"])


def test_a_change_that_fails_leaves_the_index_as_it_was(index, small, doc, monkeypatch):
    before = index.search("file", top=20)
    monkeypatch.setattr("toolyard.codemode.search.store._build_postings", lambda weights: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        index.replace_server("files", [doc("files", "other")])
    monkeypatch.undo()
    assert index.search("file", top=20) == before


def test_schemas_of_any_shape_are_indexed(path, doc):
    from toolyard.codemode.search import ToolDoc
    from toolyard.core.upstream import ToolSchema

    loop = {"properties": {}}
    loop["properties"]["deep"] = loop
    schemas = [
        {"properties": None},
        {"properties": {"a": True, "b": {"enum": "x", "description": 3}, "c": {"enum": [1, None, {"x": 1}]}}},
        {"properties": [1]},
        loop,
        {"items": {"properties": {"inner": {"description": "harbour"}}}},
        {"properties": {f"p{n}": {"description": "word " * 500} for n in range(1_000)}},
    ]
    docs = [ToolDoc("s", f"t{n}", f"p{n}", "", "", ToolSchema(f"t{n}", "", each)) for n, each in enumerate(schemas)]
    docs.append(ToolDoc("s", "long", "long", "", "", ToolSchema("long", "lighthouse " + "x " * 500_000 + "lantern")))
    with ToolIndex.open_writable(path, semantic=False) as index:
        index.replace_server("s", docs)
        assert [hit.path for hit in index.search("harbour")] == ["p4"]
        assert [hit.path for hit in index.search("lighthouse")] == ["long"]
        assert index.search("lantern") == []

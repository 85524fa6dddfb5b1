"""Searching by meaning: vectors beside keywords, where the extra is installed."""

import os
import subprocess
import sys

import pytest

from toolyard.codemode.search import ToolIndex, embedding, vectors

installed = pytest.mark.skipif(not embedding.is_installed(), reason="the extra `semantic` is not installed")


@pytest.fixture
def corpus(doc):
    return [
        doc("s", "transcribe", "Turn spoken recordings into written text."),
        doc("s", "flight_offers", "Compare airfares between two airports."),
        doc("s", "rotate_keys", "Replace the credentials of a service account."),
    ]


@installed
def test_a_tool_that_shares_no_word_with_the_query_is_found(path, corpus):
    with ToolIndex.open_writable(path, semantic=True) as index:
        index.replace_server("s", corpus)
        assert index.note == ""
        found = index.search("cheap trip to Lisbon by air", top=1)
        assert [hit.tool for hit in found] == ["flight_offers"]
        assert 0 < found[0].score <= 1
        assert index.search("?!") == []


@installed
def test_the_library_that_runs_the_model_tells_nobody_of_it(tmp_path):
    """Its makers would be told of every use, and a number for this machine be kept in the user's home."""
    home = tmp_path / "home"
    home.mkdir()
    code = (
        "import os\nfrom toolyard.codemode.search import embedding\nprint(len(embedding.embed_texts(['a text'])))\n"
        "print([link for link in (os.readlink(f'/proc/self/fd/{fd}') for fd in os.listdir('/proc/self/fd')"
        " if os.path.exists(f'/proc/self/fd/{fd}')) if 'onnx' in link or 'socket' in link])"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, "HOME": str(home), "XDG_CACHE_HOME": str(home / "cache")},
        capture_output=True,
        text=True,
        timeout=50,
        check=True,
    )
    assert done.stdout == "1\n[]\n"
    assert os.listdir(home) == []


@installed
def test_only_allowed_servers_are_found_by_meaning(path, corpus, doc):
    with ToolIndex.open_writable(path, semantic=True) as index:
        index.replace_server("s", corpus)
        index.replace_server("t", [doc("t", "paint", "Paint a wall.")])
        assert {hit.server for hit in index.search("cheap trip by air", servers={"t"})} == {"t"}


@installed
def test_only_changed_tools_cost_a_vector(path, corpus, doc, monkeypatch):
    texts = []
    embed = embedding.embed_texts
    monkeypatch.setattr(embedding, "embed_texts", lambda some: texts.extend(some) or embed(some))
    with ToolIndex.open_writable(path, semantic=True) as index:
        index.replace_server("s", corpus)
        assert len(texts) == 1 + 3  # the server's own comes first
        index.replace_server("s", corpus)
        assert len(texts) == 4
        index.replace_server("s", [*corpus, doc("s", "paint", "Paint a wall.")])
        assert [text.partition(".")[0] for text in texts[4:]] == [
            "s:  Tools: transcribe, flight offers, rotate keys, paint",
            "s: paint",
        ]


@installed
def test_what_a_server_says_of_itself_decides_between_tools_that_are_alike(path, doc):
    said = {"a": "Shares, dividends and bonds.", "b": "Rain, wind and temperatures.", "c": "Recipes and menus."}
    with ToolIndex.open_writable(path, semantic=True) as index:
        for server, instructions in said.items():
            index.replace_server(server, [doc(server, "report", "Today's overview.")], instructions=instructions)
        first = {query: index.search(query, top=1)[0].server for query in ("will it be stormy", "invest my savings")}
    assert first == {"will it be stormy": "b", "invest my savings": "a"}


@installed
def test_instructions_of_any_kind_are_taken(path, doc):
    with ToolIndex.open_writable(path, semantic=True) as index:
        for number, said in enumerate(["", " \n", "\ud800", "word " * 100_000, "\x00", "漢字" * 500]):
            index.replace_server(f"s{number}", [doc(f"s{number}", "paint", "Paint a wall.")], instructions=said)
        assert index.search("colour the house")[0].tool == "paint"


@installed
def test_a_server_without_tools_does_no_harm(path, corpus):
    with ToolIndex.open_writable(path, semantic=True) as index:
        index.replace_server("empty", [])
        assert index.search("airfares") == []
        index.replace_server("s", corpus)
        assert index.search("airfares", top=1)[0].tool == "flight_offers"


@installed
def test_tools_without_vectors_are_found_beside_those_with(path, corpus, doc):
    with ToolIndex.open_writable(path) as index:
        index.replace_server("old", [doc("old", "airfares", "Airfares of last year.")])
    with ToolIndex.open_writable(path, semantic=True) as index:
        index.replace_server("s", corpus)
        assert {hit.tool for hit in index.search("airfares", top=2)} == {"airfares", "flight_offers"}


@installed
def test_no_score_exceeds_one(path, doc):
    with ToolIndex.open_writable(path, semantic=True) as index:
        index.replace_server("paint", [doc("paint", "paint", "Paint paint paint.", ["paint"])])
        index.replace_server("cook", [doc("cook", "boil", "Boil an egg.")])
        scores = [hit.score for hit in index.search("paint")]
    assert scores == sorted(scores, reverse=True)
    assert 0.5 < scores[0] <= 1


@installed
def test_small_differences_are_not_made_large():
    import numpy as np

    query = np.array([[1.0, 0.0]])
    cosines = np.array([0.2] * 99 + [0.21])
    near = vectors._relative_nearness(np.stack([cosines, np.sqrt(1 - cosines**2)], 1), query)
    assert near.max() < 0.5
    cosines[-1] = 0.9
    near = vectors._relative_nearness(np.stack([cosines, np.sqrt(1 - cosines**2)], 1), query)
    assert near[-1] == 1
    assert near[:-1].max() < 0.05


@installed
def test_a_long_request_is_read_in_few_sentences(path, corpus, monkeypatch):
    texts = []
    embed = embedding.embed_texts
    with ToolIndex.open_writable(path, semantic=True) as index:
        index.replace_server("s", corpus)
        monkeypatch.setattr(embedding, "embed_texts", lambda some: texts.extend(some) or embed(some))
        talk = " ".join(f"This is sentence number {number}." for number in range(30))
        found = index.search(f"I need a cheap trip by air to Lisbon. {talk}", top=1)
    assert [hit.tool for hit in found] == ["flight_offers"]
    assert len(texts) == 1 + vectors._MAX_SENTENCES


@installed
def test_texts_of_unlike_length_are_not_padded_to_each_other(monkeypatch):
    widths = []
    run = embedding._embed_batch
    monkeypatch.setattr(
        embedding, "_embed_batch", lambda some: widths.append([len(each) for each in some]) or run(some)
    )
    texts = ["word " * 100, "read a file", "open a note", "word " * 99]
    rows = embedding.embed_texts(texts)
    assert [len(each) for each in widths] == [2, 2]
    monkeypatch.undo()
    alone = [embedding.embed_texts([text])[0] for text in texts]
    assert all(abs(row - one).max() < 1e-4 for row, one in zip(rows, alone, strict=True))


@installed
def test_servers_without_vectors_are_due_once_the_extra_is_used(path, corpus):
    with ToolIndex.open_writable(path) as index:
        index.replace_server("s", corpus, "v1")
        assert index.fingerprints() == {"s": "v1"}
    with ToolIndex.open_writable(path, semantic=True) as index:
        assert index.fingerprints() == {}
        assert index.replace_server("s", corpus, "v1")
        assert index.fingerprints() == {"s": "v1"}
    with ToolIndex.open(path) as index:  # and keywords alone still serve
        assert [hit.tool for hit in index.search("airfares")] == ["flight_offers"]


@installed
def test_a_reader_with_the_extra_uses_keywords_where_there_are_no_vectors(path, corpus):
    with ToolIndex.open_writable(path) as index:
        index.replace_server("s", corpus)
    with ToolIndex.open(path, semantic=True) as index:
        assert [hit.tool for hit in index.search("airfares")] == ["flight_offers"]


@installed
def test_packed_vectors_keep_their_directions():
    rows = embedding.embed_texts(["read a file", "open a document", "weather tomorrow"])
    kept = embedding.unpack_vectors(embedding.pack_vectors(rows))
    assert float(abs(rows @ rows.T - kept @ kept.T).max()) < 0.02
    assert rows[0] @ rows[1] > rows[0] @ rows[2]


@installed
@pytest.mark.parametrize("text", ["", "   ", "漢字", "\ud800", "x" * 10_000, "\x00", "🦀", "é" * 300])
def test_any_text_has_a_vector(text):
    assert embedding.embed_texts([text]).shape == (1, 384)


@installed
def test_equal_texts_are_made_once():
    first, second = vectors.build_vectors(["read a file", "read a file"], [])
    assert first == second


def test_without_the_extra_keywords_serve_and_a_note_says_so(path, corpus, monkeypatch):
    monkeypatch.setattr(embedding, "find_spec", lambda name: None)
    with ToolIndex.open_writable(path, semantic=True) as index:
        index.replace_server("s", corpus)
        assert "toolyard[semantic]" in index.note
        assert [hit.tool for hit in index.search("airfares")] == ["flight_offers"]


def test_the_note_outlives_a_file_that_appears_later(path, corpus, monkeypatch):
    monkeypatch.setattr(embedding, "find_spec", lambda name: None)
    with ToolIndex.open(path, semantic=True) as reader, ToolIndex.open_writable(path, semantic=True) as writer:
        writer.replace_server("s", corpus)
        assert reader.search("airfares")
        assert reader.note == embedding.MISSING


def test_the_search_imports_nothing_heavy_before_it_is_asked_for_meaning():
    import subprocess
    import sys

    heavy = "{'numpy', 'onnxruntime', 'rs_bpe', 'Stemmer'}"
    code = f"import sys, toolyard.codemode.search; print({heavy} & set(sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=30)
    assert done.stdout.strip() == "set()"

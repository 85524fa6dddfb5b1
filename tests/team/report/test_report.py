"""The reports of a run, from a log on disk."""

from __future__ import annotations

import base64
import hashlib
import os
import re
import time
from html.parser import HTMLParser

import pytest
from markdown_it import MarkdownIt

from tests.team import scripted_events as scripted
from toolyard.team.events import (
    AgentStarted,
    EndReason,
    Notice,
    RoundStarted,
    TextDelta,
    ToolCalled,
    ToolReturned,
)
from toolyard.team.log import RunLog
from toolyard.team.report import write_report
from toolyard.team.report.markdown import plain_text

VOID = {"meta", "br", "hr", "rect", "circle", "line", "path"}
DIFF = """--- a/shop.py
+++ b/shop.py
@@ -1,3 +1,3 @@
 import sys
-x = 0.1
+x = 10
 y = 2
--- /dev/null
+++ b/test_shop.py
@@ -0,0 +1,2 @@
+def test_total():
+--- a/looks like a head
"""


class Page(HTMLParser):
    """A page as a browser takes it apart. Fails where elements are not closed as they were opened."""

    def __init__(self, text):
        super().__init__(convert_charrefs=True)
        self.open, self.tags, self.texts, self.by_class = [], [], [], {}
        self.feed(text)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append((tag, dict(attrs).get("class", "")))

    def handle_startendtag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))

    def handle_endtag(self, tag):
        assert self.open.pop()[0] == tag

    def handle_data(self, data):
        self.texts.append(data)
        for _, name in self.open:
            for each in (name or "").split():
                self.by_class.setdefault(each, []).append(data)

    @property
    def text(self):
        return "".join(self.texts)

    def named(self, tag):
        return [attributes for name, attributes in self.tags if name == tag]


def reported(folder, events, diff=""):
    with RunLog(str(folder), lambda notice: None) as log:
        for event in events:
            log.record(event)
    written = write_report(str(folder), lambda agent: diff if agent == "ada" else "")
    with open(written.html, encoding="utf-8") as html, open(written.markdown, encoding="utf-8") as markdown:
        return Page(html.read()), markdown.read()


def test_a_report_says_who_did_what_and_what_it_came_to(tmp_path):
    page, markdown = reported(tmp_path, scripted.whole_run(), DIFF)
    for text in (page.text, re.sub(r"\\(.)", r"\1", markdown)):
        for told in (
            "Make the shop's prices add up, and show that they do.",
            "Every agent voted for ada's answer.",
            "1 min 36 s",
            "Prices of gpt-5-mini are not known.",
            "won with 2 votes",
            "gemini · gemini-2.5-flash",
            "Mine changed nothing.",
            "Where are prices added up?",
            "Then I mend it.",
            '"old_string": "x = 0.1"',
            "It is outside the workspace.",
            "Waited 12 s: The model is busy (429).",
            "shortened from 90,000 to 30,000 tokens",
            "$0.0050",
            "+x = 10",
            "0d3c457c96a4",
        ):
            assert told in text, told
        assert "Never mind" not in text  # it was taken back
    assert os.listdir(tmp_path) and {*os.listdir(tmp_path)} == {"events.jsonl", "report.html", "report.md"}


def test_an_answer_is_formatted_and_a_diff_is_coloured_by_file(tmp_path):
    page, markdown = reported(tmp_path, scripted.whole_run(), DIFF)
    assert "strong" in [name for name, _ in page.tags]
    assert page.by_class["add"] == ["+x = 10", "+def test_total():", "+--- a/looks like a head"]
    assert page.by_class["del"] == ["-x = 0.1"]
    assert "".join(page.by_class["file"]).count("test_shop.py") == 2  # its title and its heading
    assert "```diff\n--- a/shop.py\n" in markdown


def test_a_hunk_that_was_cut_does_not_swallow_the_next_file(tmp_path):
    cut = "--- a/one\n+++ b/one\n@@ -1,90 +1,90 @@\n-a\n… cut\n--- a/two\n+++ b/two\n@@ -1 +1 @@\n-b\n+c\n"
    page, _ = reported(tmp_path, scripted.whole_run(), cut)
    assert len([each for each in page.named("details") if each.get("class") == "file"]) == 2
    assert page.by_class["del"] == ["-a", "-b"]


def test_the_page_needs_nothing_and_may_do_nothing(tmp_path):
    page, _ = reported(tmp_path, scripted.whole_run(), DIFF)
    [policy] = [each["content"] for each in page.named("meta") if each.get("http-equiv")]
    [style] = [text for text in page.texts if "color-scheme:light dark" in text]
    digest = base64.b64encode(hashlib.sha256(style.encode()).digest()).decode()
    assert policy == f"default-src 'none'; style-src 'sha256-{digest}'; base-uri 'none'; form-action 'none'"
    assert "prefers-color-scheme:dark" in style
    assert "@media print" in style
    assert "url(" not in style
    assert {name for name, _ in page.tags}.isdisjoint({"script", "link", "img", "iframe", "object", "form", "base"})
    assert all(each["href"].startswith("#") for each in page.named("a"))


def test_nothing_that_a_model_or_a_tool_wrote_becomes_markup(tmp_path):
    page, markdown = reported(tmp_path, scripted.hostile_run(), scripted.HOSTILE)
    names = {name for name, _ in page.tags}
    assert "script" not in names
    assert not [key for _, attributes in page.tags for key in attributes if key.startswith("on") or key == "style"]
    assert "</script><script>alert(1)</script>" in page.text
    for text in (page.text, markdown):
        assert [c for c in text if not c.isprintable() and c not in "\n\t"] == []
    rendered = Page(MarkdownIt("commonmark", {"html": True}).enable("table").render(markdown))
    assert "script" not in {name for name, _ in rendered.tags}
    heads = [line for line in markdown.split("\n") if line.startswith("## ")]
    assert len(heads) == len(rendered.named("h2")) == 6


ADDRESSES = re.compile(r"://|www\.|@")


@pytest.mark.parametrize(
    "text",
    [
        "see https://evil.example/x?y for more",
        "www.evil.example",
        "[x](http://evil.example) ![i](http://evil.example/x.png)",
        "mail a@evil.example or xmpp:a@b.c/d, cc @user",
        "`https://evil.example` ``http://a``b`` |https://a|b|",
        *("1. one", "2) two", "- a", "+ a", "* a", "=", "# h", "> q", "a | b", "\\https://a.example \\"),
    ],
)
@pytest.mark.parametrize("around", ["{}", "- {}", "It failed: {}", "| a | b |\n| --- | --- |\n| {} | end |"])
def test_a_line_of_an_agent_is_text_and_no_renderer_finds_an_address_in_it(around, text):
    document = around.format(plain_text(text))
    tokens = MarkdownIt("commonmark", {"html": True}).enable("table").parse(document)
    parts = [part for token in tokens for part in token.children or ()]
    assert {part.type for part in parts} <= {"text", "code_inline", "text_special"}
    assert not [part for part in parts if part.type != "code_inline" and ADDRESSES.search(part.content)]
    kinds = [token.type for token in tokens if token.type.endswith("_open")]
    expected = [token.type for token in MarkdownIt().enable("table").parse(around.format("x"))]
    assert kinds == [kind for kind in expected if kind.endswith("_open")]


@pytest.mark.parametrize(
    "answer",
    [
        "![](https://example.com/x.png)",
        "<img src=x onerror=alert(1)>",
        "[a](javascript:alert(1))",
        "[a](data:text/html,x)",
        "<https://example.com/\x1b>",
        '[a](https://example.com/ "onclick=\\"x")',
        "&#60;script&#62;",
        "> " * 300 + "deep",
        "`" * 500,
        "| a |\n| --- |\n| <b onclick=x> |",
    ],
)
def test_an_answer_in_markdown_loads_and_runs_nothing(tmp_path, answer):
    page, markdown = reported(tmp_path, [scripted.started("ada"), scripted.finished(text=answer)])
    assert {name for name, _ in page.tags}.isdisjoint({"script", "img", "b onclick"})
    assert not [key for _, attributes in page.tags for key in attributes if key.startswith("on")]
    assert [a for a in page.named("a") if not a["href"].startswith(("#", "https://"))] == []
    inside = MarkdownIt().parse(markdown)
    assert next(token.content for token in inside if token.info == "markdown").strip() != ""


@pytest.mark.parametrize("text", ["```\n# out", "````\nx\n````", "~~~\nx", "`" * 40 + "\nx", "\n\n```"])
def test_no_text_closes_its_fence(tmp_path, text):
    ada = {"agent": "ada", "round": 1}
    made = ToolCalled(call="1", tool="Bash", arguments={"command": text}, **ada)
    came = ToolReturned(call="1", tool="Bash", ok=True, text=text, **ada)
    events = [scripted.started("ada"), TextDelta(text=text, **ada), made, came, scripted.finished(text=text)]
    _, markdown = reported(tmp_path, events, text)
    tokens = MarkdownIt().parse(markdown)
    whole = f"{text.strip(chr(10))}\n"
    assert [token.content for token in tokens if token.type == "fence"].count(whole) == 4
    assert len([token for token in tokens if token.type == "heading_open" and token.tag == "h1"]) == 1


def test_a_run_that_was_cut_off_is_told_as_that(tmp_path):
    events = [scripted.started(), *scripted.first_round()]
    page, markdown = reported(tmp_path, events)
    assert "Not finished" in page.text
    assert "**Not finished.** The log ends before the run does" in markdown


def test_a_run_that_was_resumed_is_one_story_and_ends_as_it_ended_last(tmp_path):
    events = [
        scripted.started(),
        *scripted.first_round(),
        scripted.finished(ended=EndReason.INTERRUPTED, why="You stopped it.", winner="", text="", votes={}),
        scripted.started(resumed=True, at=scripted.START + 31),
        *scripted.second_round(),
        scripted.finished(),
    ]
    page, _ = reported(tmp_path, events)
    assert "Then I mend it." in page.text
    assert "resumed 1 time" in page.text
    assert "You stopped it." not in page.text
    assert "Every agent voted for ada's answer." in page.text


def test_an_empty_log_is_a_report_of_nothing(tmp_path):
    page, markdown = reported(tmp_path, [])
    assert "Not finished" in page.text
    assert markdown.startswith("# Run")


def test_a_report_is_replaced_as_a_whole_or_not_at_all(tmp_path):
    reported(tmp_path, scripted.whole_run())
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir()}

    def fail(agent):
        raise OSError("no")

    with pytest.raises(OSError, match="no"):
        write_report(str(tmp_path), fail)
    os.mkfifo(tmp_path / "elsewhere")
    (tmp_path / "report.html").unlink()
    (tmp_path / "report.html").mkdir()  # cannot be replaced
    with pytest.raises(OSError):
        write_report(str(tmp_path))
    assert {path.name for path in tmp_path.iterdir()} == {*before, "elsewhere"}


def test_a_very_long_run_is_reported_in_a_bounded_time_and_size(tmp_path):
    events = [scripted.started("ada"), RoundStarted(round=1, agents=("ada",)), AgentStarted(agent="ada", round=1)]
    ada = {"agent": "ada", "round": 1}
    for number in range(1_100):
        events.append(TextDelta(text=f"step {number} ", at=scripted.START + number, **ada))
        events.append(ToolCalled(call=str(number), tool="LS", arguments={}, at=scripted.START + number, **ada))
        result = ToolReturned(call=str(number), tool="LS", ok=True, text="x" * 500, at=scripted.START + number, **ada)
        events.append(result)
    events.append(TextDelta(text="y" * 3_000_000, at=scripted.START + 1_100, **ada))
    events.append(Notice(text="z" * 100_000))
    began = time.monotonic()
    page, markdown = reported(tmp_path, [*events, scripted.finished()], DIFF * 500)
    assert time.monotonic() - began < 20
    assert "more steps" in page.text
    assert "more files" in page.text
    assert "more steps" in markdown
    assert os.path.getsize(tmp_path / "report.html") < 3_000_000
    assert len(markdown) < 3_000_000

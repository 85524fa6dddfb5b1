"""What others wrote is never Markdown of ours in an export: not in a title, not in the name of a file."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st
from markdown_it import MarkdownIt
from markdown_it.token import Token

from toolyard.assistant.threads.thread import FileSeen, Message, Thread, Turn
from toolyard.cli.threads.export import thread_markdown
from toolyard.core.text import printable

LIVE = (
    "<img src=x onerror=alert(1)>",
    "![x](http://127.0.0.1/beacon)",
    "[click](javascript:alert(1))",
    "<https://127.0.0.1/>",
    "*bold* _slanted_ ~~gone~~ `code` &lt;b&gt; \\* #",
    "``` a ` b `` c",
    "a\\",
    "`",
    "<!-- never seen",
    "trailing #####",
)


def page(title: str, *files: str, tool: str = "chat", model: str = "m") -> list[Token]:
    """The export of a thread that begins so, as it is rendered."""
    asked = Message("user", title, tool, files=tuple(FileSeen(file, "d") for file in files))
    thread = Thread("0" * 32, 1.0, 2.0, (Turn(asked, Message("assistant", "yes", tool, model)),))
    return MarkdownIt("commonmark", {"html": True}).enable("strikethrough").parse(thread_markdown(thread))


def inline(tokens: list[Token], begin: str) -> list[list[Token]]:
    """The content of the blocks that begin with such a token."""
    return [after.children or [] for before, after in pairwise(tokens) if before.type == begin]


@pytest.mark.parametrize("title", LIVE)
def test_a_title_is_text(title):
    heading = inline(page(title), "heading_open")[0]
    assert {each.type for each in heading} <= {"text", "text_special"}
    assert "".join(each.content for each in heading) == title


@pytest.mark.parametrize("name", ["a`b.py", "a`<img src=x onerror=alert(1)>.py", "``", "`", "a``b`c", " a ", *LIVE])
def test_the_name_of_a_file_stays_in_its_code(name):
    files = inline(page("t", name, "plain.py"), "paragraph_open")[1]
    assert [each.content for each in files if each.type != "text"] == [name, "plain.py"]
    assert {each.type for each in files} == {"text", "code_inline"}


@given(st.text(st.sampled_from("a `*_[](){}<>!#~&;\\-.:/"), min_size=1, max_size=30))
def test_whatever_it_is_made_of(text):
    tokens = page(text, text, tool=text, model=text)
    for heading in inline(tokens, "heading_open"):
        assert {each.type for each in heading} <= {"text", "text_special"}
    files = inline(tokens, "paragraph_open")[1]
    assert [each.content for each in files if each.type == "code_inline"] == [printable(text)]

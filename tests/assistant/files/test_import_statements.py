"""No file, whatever is in it, makes who looks for imports go over the same text again and again."""

import re
import time
from dataclasses import replace

import pytest

from tests.assistant.files.made import made
from toolyard.assistant.files import import_statements as module
from toolyard.assistant.files.import_graph import import_graph
from toolyard.assistant.files.import_statements import expand_use_tree, find_references
from toolyard.core.errors import ToolError
from toolyard.core.limits import MIB

SECONDS = 3.0
"""Of the processor, for a megabyte: in proportion to the text it is hundredths, otherwise hours."""
PATTERNS = {name: value for name, value in vars(module).items() if isinstance(value, re.Pattern)}
PATTERNS |= {f"_DECLARING[{language}]": pattern for language, pattern in module._NAMESPACES.items()}
BEGINNINGS = (
    *("", "from", "from ", "from a ", "import", "import ", "import a", "import a as ", "import {", "import static "),
    *("export ", "} ", "require", "require(", "require ", "require_relative ", "load ", "include", "include_once "),
    *(
        "include __DIR__ ",
        "use ",
        "use a::{",
        "use function ",
        "use A{",
        "pub(",
        "pub ",
        "pub mod a",
        "extern crate ",
    ),
    *("using ", "using A", "using static ", "global ", "package ", "package a", "namespace ", "<?php ", "module "),
    *('import "', "import a ", "#", "# include ", "#include <"),
)
REPEATED = (
    " ",
    "\t",
    ".",
    "a",
    "a.",
    "a::",
    ", ",
    "a, ",
    "a as a, ",
    " as ",
    "(",
    "{",
    "}",
    "\\",
    "=",
    "'",
    "_once ",
)
LANGUAGES = tuple({finder: language for language, finder in module._FINDERS.items()}.values())
"""One for each way to look."""


def text_of(beginning, repeated, size=MIB):
    return f"{beginning}{repeated * (size // len(repeated))}!"


@pytest.mark.parametrize("beginning", BEGINNINGS)
def test_every_pattern_takes_time_in_proportion_to_the_text(beginning):
    for repeated in REPEATED:
        text = text_of(beginning, repeated)
        for name, pattern in PATTERNS.items():
            began = time.thread_time()
            pattern.match(text)
            assert time.thread_time() - began < SECONDS, (name, repeated)


@pytest.mark.slow
@pytest.mark.parametrize(
    "beginning", ["", "import {", "import from", "export ", "require(", "require ", "include_once "]
)
def test_those_that_are_looked_for_anywhere_do_so_too(beginning):
    for repeated in (*REPEATED, beginning or "from "):
        text = text_of(beginning, repeated)
        for name in ("_JAVASCRIPT", "_PHP_FILE", "_NAME"):
            began = time.thread_time()
            next(PATTERNS[name].finditer(text), None)
            assert time.thread_time() - began < SECONDS, (name, repeated)


@pytest.mark.parametrize("repeated", [*REPEATED, "a{", "a{b},", "a,", "{", " " * 999 + "\n", "as\n", "a::{a,"])
def test_a_tree_of_rust_takes_time_in_proportion_to_it(repeated):
    began = time.thread_time()
    found = expand_use_tree(text_of("a::{", repeated))
    assert time.thread_time() - began < SECONDS
    assert sum(map(len, found)) < 100_000


@pytest.mark.slow
@pytest.mark.parametrize("language", LANGUAGES)
def test_the_lines_of_a_file_do(language):
    for beginning in BEGINNINGS:
        for repeated in (" ", ".", "a, ", "a."):
            line = text_of(beginning, repeated, 999)
            joined = f"{beginning}\n" + f"{repeated * (998 // len(repeated))}\n" * 60
            for text in (f"{line}\n" * 1_000, joined * 20):
                source = replace(made("a.txt", text), language=language)
                began = time.thread_time()
                find_references(source)
                assert time.thread_time() - began < SECONDS, (beginning, repeated)


def test_trees_of_rust_are_taken_apart_as_before():
    tree = "a :: b as c, d::{self, e::{f as\tg, h},\n i as _ }, "
    assert expand_use_tree(tree) == ("a::b", "d::self", "d::e::f", "d::e::h", "d::i")


def test_the_time_is_looked_at_between_files():
    looks = []

    def check_time():
        looks.append(1)
        if len(looks) == 3:
            raise ToolError("The call was stopped.")

    with pytest.raises(ToolError):
        import_graph([made(f"{number}.py", "import a\n") for number in range(100)], check_time)
    assert len(looks) == 3

"""An outline has what a file imports and defines, with line numbers, by its grammar or by the look of its lines."""

import inspect
import json
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.assistant.files.made import made
from toolyard.assistant.files import regex_outline as plain_module
from toolyard.assistant.files.languages import language_of
from toolyard.assistant.files.outlines import outline, outlines
from toolyard.assistant.files.regex_outline import numbered_lines
from toolyard.assistant.files.syntax import outliner as outliner_module
from toolyard.assistant.files.syntax.grammars import GRAMMARS
from toolyard.assistant.files.syntax.outliner import Outliner
from toolyard.assistant.files.syntax.parser_process import MOST_ENTRIES
from toolyard.core.errors import ToolError

EXAMPLES = {
    "a.py": (
        """
        import os, sys
        from .x import (y,
            z)
        @decorated(1)
        class A(B):
            def f(self, x: int = 1) -> str:
                def inner(): ...
        if X:
            async def g(): ...
        """,
        """
        1| import os, sys
        2| from .x import (y, z)
        4| @decorated(1)
        5| class A(B):
        6|   def f(self, x: int = 1) -> str:
        9| async def g():
        """,
    ),
    "a.ts": (
        """
        import { a } from "./a";
        export interface I<T> { f(): void }
        export default class Foo extends Bar {
          async f(y: string): Promise<void> {}
        }
        export const g = async (a: number) => { return 1 };
        const h = 5;
        const k = require("k");
        """,
        """
        1| import { a } from "./a";
        2| export interface I<T>
        2|   f(): void
        3| export default class Foo extends Bar
        4|   async f(y: string): Promise<void>
        6| export const g = async (a: number) =>
        8| const k = require("k");
        """,
    ),
    "a.jsx": ("export function App() { return <p>hi</p>; }\n", "1| export function App()"),
    "a.tsx": ("export function App(): X { return <p>hi</p>; }\n", "1| export function App(): X"),
    "A.java": (
        """
        package a.b;
        import java.util.List;
        public class A<T> extends B {
          private int x;
          public int f(int y) throws E { return 1; }
        }
        """,
        """
        1| package a.b;
        2| import java.util.List;
        3| public class A<T> extends B
        5|   public int f(int y) throws E
        """,
    ),
    "a.go": (
        """
        package main
        import "fmt"
        type Foo struct { A int }
        func (f *Foo) Do(x int) error { return nil }
        """,
        """
        1| package main
        2| import "fmt"
        3| type Foo struct
        4| func (f *Foo) Do(x int) error
        """,
    ),
    "a.rs": (
        """
        use crate::a::{b, c};
        pub struct S<T> { a: T }
        impl<T> S<T> {
            pub fn new(a: T) -> Self { S { a } }
        }
        """,
        """
        1| use crate::a::{b, c};
        2| pub struct S<T>
        3| impl<T> S<T>
        4|   pub fn new(a: T) -> Self
        """,
    ),
    "a.c": (
        """
        #include <stdio.h>
        struct s { int a; };
        int declared(int);
        #ifdef X
        static int f(int x) { return 1; }
        #endif
        """,
        """
        1| #include <stdio.h>
        2| struct s
        3| int declared(int);
        5| static int f(int x)
        """,
    ),
    "a.cpp": (
        """
        namespace a {
        template <typename T> class Foo : Bar {
         public:
          int f(int x) const { return 1; }
        };
        }
        """,
        """
        1| namespace a
        2|   template <typename T> class Foo : Bar
        4|     int f(int x) const
        """,
    ),
    "a.cs": (
        """
        using System;
        namespace A.B {
          public class Foo : Bar {
            public int F(int y) => 1;
          }
        }
        """,
        """
        1| using System;
        2| namespace A.B
        3|   public class Foo : Bar
        4|     public int F(int y)
        """,
    ),
    "a.rb": (
        """
        require "set"
        class B < C
          def f(a, b = 1)
            puts a
          end
        end
        """,
        """
        1| require "set"
        2| class B < C
        3|   def f(a, b = 1)
        """,
    ),
    "a.php": (
        """
        <?php
        use C\\D;
        class Foo extends Bar {
          public function f(int $x): int { return 1; }
        }
        """,
        """
        2| use C\\D;
        3| class Foo extends Bar
        4|   public function f(int $x): int
        """,
    ),
    "a.sh": ("source b.sh\nmain() {\n  echo\n}\n", "1| source b.sh\n2| main()"),
    "a.md": ("# One\ntext\n```\n# no\n```\n## Two\n", "1| # One\n6| ## Two"),
    "a.rst": ("Title\n=====\ntext\n\nPart\n----\n", "1| Title\n5| Part"),
    "a.toml": ("[tool]\nname = 1\n\n[tool.x]\n", "1| [tool]\n2| name = 1\n4| [tool.x]"),
    "a.swift": ("import UIKit\n\nlet x = 1\npublic class A {\n    func f() {}\n}\n", None),
}


@pytest.mark.parametrize("name", EXAMPLES)
def test_what_a_file_imports_and_defines_is_listed(name):
    text, wanted = EXAMPLES[name]
    text = inspect.cleandoc(text) + "\n"
    wanted = wanted or "1| import UIKit\n4| public class A {\n5|     func f() {}"

    assert outline(made(name, text)) == inspect.cleandoc(wanted)


def test_every_language_with_a_grammar_is_tried_here():
    assert {language_of(name) for name in EXAMPLES} >= set(GRAMMARS)


def test_a_file_that_says_nothing_of_itself_is_shown_by_its_beginning_and_its_end():
    shown = outline(made("a.log", "".join(f"line {n}\n" for n in range(1, 101)))).split("\n")

    assert shown[:2] == ["1| line 1", "2| line 2"]
    assert shown[19:22] == ["20| line 20", "...", "96| line 96"]
    assert shown[-1] == "100| line 100"
    assert outline(made("a.log", "")) == ""


def test_a_file_with_very_many_parts_is_cut():
    lines = outline(made("a.py", "def f(): ...\n" * (MOST_ENTRIES + 5))).split("\n")

    assert len(lines) == MOST_ENTRIES + 1
    assert lines[-1] == "[... 5 more entries left out]"


@pytest.mark.parametrize(
    ("name", "part"), [("a.md", "# Part {}\ntext\n"), ("a.rst", "Part {}\n=======\n"), ("a.toml", "key{} = 1\n")]
)
def test_an_outline_without_a_grammar_says_how_much_is_left_out_of_it(name, part):
    shown = outline(made(name, "".join(part.format(number) for number in range(1_234)))).split("\n")

    assert len(shown) == 401
    assert shown[-1] == "[... 834 more entries left out]"
    fits = outline(made(name, "".join(part.format(number) for number in range(400)))).split("\n")
    assert len(fits) == 400
    assert fits[-1].startswith(("799| ", "400| "))


def test_an_outline_says_where_nobody_looked(monkeypatch):
    monkeypatch.setattr(plain_module, "LOOKED_AT_LINES", 2_000)
    monkeypatch.setattr(plain_module, "_COUNTED_LINES", 900)

    dense = outline(made("a.md", "# Part\n" * 3_000)).split("\n")
    sparse = outline(made("a.md", "# Part\n\n\n" * 900)).split("\n")
    short = outline(made("a.md", "# One\n" + "text\n" * 2_000)).split("\n")

    assert dense[-1] == "[... 500 more entries and everything after line 900 left out]"
    assert sparse[-2:] == ["1198| # Part", "[... everything after line 1,198 left out]"]
    assert short == ["1| # One", "[... everything after line 2,000 left out]"]


def test_without_grammars_the_look_of_the_lines_tells(monkeypatch):
    monkeypatch.setattr(sys, "path", [path for path in sys.path if "site-packages" not in path])

    shown = outline(made("a.py", "import os\nx = 1\nclass A:\n    def f(self): ...\n"))

    assert shown == "1| import os\n3| class A:\n4|     def f(self): ..."


def test_a_file_that_is_too_large_to_parse_has_an_outline_all_the_same(monkeypatch):
    monkeypatch.setattr(outliner_module, "PARSED_BYTES", 20)

    assert outline(made("a.py", "class A:\n    x = '''def no(): ...'''\n")) == "1| class A:"


def test_a_file_that_the_parser_cannot_take_costs_seconds_and_no_more(monkeypatch):
    """Without a process of its own this text would hold up everybody for minutes."""
    started = time.monotonic()
    hostile, fine = made("a.ts", "'" * 200_000), made("b.ts", "class A {}\n")

    shown = list(outlines([hostile, fine]))

    assert shown[0].startswith("1| '''")
    assert shown[1] == "1| class A"
    assert time.monotonic() - started < 15


def test_the_parser_ends_by_itself_though_nobody_is_left_to_end_it():
    request = json.dumps(["typescript", 200_000]).encode() + b"\n" + b"'" * 200_000
    command = [sys.executable, "-c", "from toolyard.assistant.files.syntax.parser_process import main; main()"]

    ended = subprocess.run(command, input=request, capture_output=True, timeout=40, check=False)

    assert ended.returncode == -signal.SIGALRM


def test_whoever_is_stopped_while_a_file_is_parsed_leaves_no_process_behind():
    parsers = []

    def overdue():
        parsers.append(outliner._process.pid)
        if len(parsers) > 3:
            raise ToolError("Enough.")

    outliner = Outliner(overdue)
    with pytest.raises(ToolError), outliner:
        outliner.parse_outline("typescript", "'" * 200_000)

    assert not Path(f"/proc/{parsers[0]}").exists()


def test_a_parser_that_keeps_dying_is_not_started_for_ever(monkeypatch):
    monkeypatch.setattr(outliner_module, "_START_CODE", "import os; os.abort()")
    started = []
    real = outliner_module._start_process
    monkeypatch.setattr(outliner_module, "_start_process", lambda: started.append(1) or real())

    shown = list(outlines([made("a.py", "def f(): ...\n")] * 6))

    assert shown == ["1| def f(): ..."] * 6
    assert len(started) == 3


def test_the_parser_is_told_nothing_of_the_environment(monkeypatch):
    monkeypatch.setenv("A_SECRET", "s3cret")

    with Outliner() as outliner:
        outliner.parse_outline("python", "x = 1\n")
        environment = Path(f"/proc/{outliner._process.pid}/environ").read_bytes()

    assert b"s3cret" not in environment


HOSTILE = {
    "deep": "(" * 100_000,
    "deep blocks": "\n".join(" " * n + "if x:" for n in range(1_500)),
    "deep classes": "\n".join(" " * n + "class A:" for n in range(1_500)),
    "braces": "{" * 100_000,
    "one line": "x = 1; " * 150_000,
    "nul": "def f():\0\n" * 100,
    "angles": "a<" * 20_000,
}


@pytest.mark.parametrize("name", HOSTILE)
def test_nothing_that_a_file_says_brings_the_outline_down(name):
    for path in ("a.py", "a.cpp", "a.rs"):
        text = outline(made(path, HOSTILE[name]))
        assert len(text) < 400_000
        text.encode()


@pytest.mark.parametrize("beginning", ["echo {", "x={", "echo ${", "echo {1.."])
def test_a_file_that_ends_the_parser_costs_nobody_else_anything(beginning):
    """The grammar of bash reads past the end of a table there, and the kernel ends whoever does so."""
    hostile, fine = made("a.sh", f"{beginning}\U000cdc46"), made("b.sh", "main() {\n  echo\n}\n")

    shown = list(outlines([hostile, fine]))

    assert shown == [f"1| {beginning}\U000cdc46", "1| main()"]


def test_no_grammar_is_loaded_where_an_outline_is_asked_for():
    code = (
        "import sys; from tests.assistant.files.made import made\n"
        "from toolyard.assistant.files.outlines import outline\n"
        "print(outline(made('a.py', 'def f(): ...')), [name for name in sys.modules if 'tree_sitter' in name])"
    )
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)

    assert (ran.stdout, ran.stderr) == ("1| def f(): []\n", "")


@pytest.fixture(scope="module")
def parser():
    with Outliner() as outliner:
        yield outliner


@settings(max_examples=150)
@given(
    st.sampled_from([*GRAMMARS, "markdown", "rst", "yaml", "text", ""]),
    st.one_of(st.text(max_size=200), st.text(alphabet="def cls({[<>]})='\"\\\n\t;:#*/$@`|&!漢\r\x0c", max_size=400)),
)
def test_any_text_has_an_outline_in_any_language(parser, language, text):
    parsed = parser.parse_outline(language, text)
    parser._crashes = 0  # some texts do end it, and the next ones are to be tried as well

    lines = text.count("\n") + 1
    assert parsed is None or all(1 <= line <= lines and "\n" not in shown for line, _, shown in parsed.entries)


@given(st.text(alphabet="ab\n\r\u2028", max_size=300))
def test_lines_are_what_lies_between_line_feeds(text):
    wanted = text.split("\n")

    assert [line for _, line in numbered_lines(text)] == (wanted if wanted[-1] else wanted[:-1])


def test_outlines_of_many_files_are_made_by_one_process():
    checked = []

    shown = list(outlines([made(f"{n}.py", f"def f{n}(): ...\n") for n in range(3)], lambda: checked.append(1)))

    assert shown == ["1| def f0():", "1| def f1():", "1| def f2():"]
    assert checked

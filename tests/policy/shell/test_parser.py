from __future__ import annotations

import contextlib
import time

import pytest

from toolyard.policy.shell import MAX_COMMAND_CHARS, ParseFailure, parse_script
from toolyard.policy.shell.ast import Assignment, CommandPosition, Redirection, Script, SimpleCommand, Word
from toolyard.policy.shell.grammar_guards import refuse_ambiguous_text


def words(text: str) -> list[list[str]]:
    return [[word.text for word in simple.words] for simple in parse_script(text).commands]


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("ls -la 'my folder'", [["ls", "-la", "my folder"]]),
        ("r''m -rf x", [["rm", "-rf", "x"]]),
        ("\\rm x", [["rm", "x"]]),
        ("$'r\\x6d' x", [["rm", "x"]]),
        ('$"rm" x', [["rm", "x"]]),
        ('"r"m "a\\"b" \'c"d\'', [["rm", 'a"b', 'c"d']]),
        ("echo a\\ b", [["echo", "a b"]]),
        ("echo = == a=b -eq 3", [["echo", "=", "==", "a=b", "-eq", "3"]]),
        ("a && b || c; d | e\nf", [["a"], ["b"], ["c"], ["d"], ["e"], ["f"]]),
        ("echo $(a $(b)) `c`", [["echo", "$(a $(b))", "`c`"], ["a", "$(b)"], ["b"], ["c"]]),
        ("if a; then b; elif c; then d; else e; fi", [["a"], ["b"], ["c"], ["d"], ["e"]]),
        ("while a; do b; done", [["a"], ["b"]]),
        ("case $x in a) b;; *) c;; esac", [["b"], ["c"]]),
        ("(a; { b; })", [["a"], ["b"]]),
        ("echo \\\n  a", [["echo", "a"]]),
        ("# note\nls # more", [["ls"]]),
        ("! ls", [["ls"]]),
        ("export A=1", [["export", "A=1"]]),
        ("cat <<E | b && c\n$(d)\nE", [["cat"], ["b"], ["c"], ["d"]]),
        ("cat <<'E'\n$(d)\nE", [["cat"]]),
        ('echo "${x:-$(a)}"', [["echo", '"${x:-$(a)}"'], ["a"]]),
        ("", []),
    ],
)
def test_the_words_of_every_simple_command_are_found(text, found):
    assert words(text) == found


def test_what_a_command_is_and_where_it_stands():
    script = parse_script("A=1 cat $x *.py <a 2>&1 >'b c' | (head \"$y\" &)")
    assert script == Script(
        (
            SimpleCommand(
                Word("cat"),
                (Word("$x", literal=False, splits=True), Word("*.py", literal=False, globs=True)),
                (Assignment("A", Word("1")),),
                (Redirection("<", Word("a")), Redirection(">&", Word("1")), Redirection(">", Word("b c"))),
                CommandPosition(fed=True),
            ),
            SimpleCommand(
                Word("head"),
                (Word('"$y"', literal=False),),
                position=CommandPosition(subshell=True, background=True, fed=True),
            ),
        )
    )


@pytest.mark.parametrize(
    ("text", "writes"),
    [
        *(("a > x", True), ("a >> x", True), ("a >| x", True), ("a &> x", True), ("a >& x", True), ("a &>> x", True)),
        *(("a < x", False), ("a 2>&1", False), ("a >&-", False), ("a <<< x", False), ("a 2>&1-", False)),
    ],
)
def test_a_redirection_says_whether_it_writes(text, writes):
    assert [one.writes for one in parse_script(text).commands[0].redirections] == [writes]


@pytest.mark.parametrize(
    ("text", "marks"),
    [
        ("a & b", {"a": "background"}),
        ("f() { a; }", {"a": "function"}),
        ("if a; then b; fi", {"a": "conditional", "b": "conditional"}),
        ("echo $(a)", {"a": "substitution"}),
        ("(a)", {"a": "subshell"}),
        ("b | a", {"a": "fed"}),
        ("{ a; } < x", {"a": "fed"}),
    ],
)
def test_each_command_knows_the_group_it_stands_in(text, marks):
    found = {simple.name: simple.position for simple in parse_script(text).commands}
    assert {name: getattr(found[name], mark) for name, mark in marks.items()} == dict.fromkeys(marks, True)


@pytest.mark.parametrize("text", ["echo $((x))", "echo ${!x}", "echo ${x@P}", "((x))", "[[ a -eq b ]]", "[ -v x ]"])
def test_what_may_evaluate_text_is_marked(text):
    assert parse_script(text).obscure


@pytest.mark.parametrize(
    "text",
    [
        *(
            "ls '",
            'ls "',
            "ls $(",
            "(ls",
            "if ls",
            "ls )",
            "{rm,-rf,x}",
            "ls\rrm",
            "ls\u00a0x",
            "l\\\ns",
            "ls \n\\\n rm",
        ),
        # What the grammar reads in another way than bash does.
        *(
            "ls;\\ cat",
            "[x = y ]",
            "[ x\n= y ]",
            "{ls; }",
            "if ![ -f x ]; then ls; fi",
            "cat a # b \\\n\\; rm",
            "echo a ==|& rm b",
            "x=\\\n rm b",
            "ls\n\\rm b",
            "ls \n\\rm b",
            "echo a\n\\; b",
        ),
        *("\ud800", "x" * (MAX_COMMAND_CHARS + 1)),
    ],
)
def test_what_is_not_surely_understood_fails(text):
    with pytest.raises(ParseFailure):
        parse_script(text)


HOSTILE = (
    *(")", ");", ")~[", "?x", "then?", ";/", "\\/a/$", "a;", "&"),
    *(
        "(",
        "((",
        "$(",
        "$((",
        '"$(',
        "${a:-",
        "<<a ",
        "`",
        "if ",
        "a[",
        "case x in ",
        "[[ (",
        "! ",
        "a&&",
        "{ ",
        "<(",
        "'",
    ),
    *(
        "[ ",
        "$'",
        "a=(",
        "a|",
        "\\",
        "<<<",
        "x=${a/",
        "for x in ",
        "function f {",
        "[[ a && ",
        "$[",
        "@(",
        "{a,",
        "time ",
    ),
)


@pytest.mark.parametrize("piece", HOSTILE)
@pytest.mark.parametrize("end", ["", "ls", "\n"])
def test_hostile_text_is_answered_in_time(piece, end):
    text = (piece * MAX_COMMAND_CHARS)[: MAX_COMMAND_CHARS - len(end)] + end
    started = time.process_time()
    with contextlib.suppress(ParseFailure):
        parse_script(text)
    assert time.process_time() - started < 1


def test_ten_thousand_brackets_are_refused_before_the_parser_sees_them():
    with pytest.raises(ParseFailure, match="too deep"):
        parse_script("( " * 500 + "ls" + ")" * 500)
    with pytest.raises(ParseFailure):
        parse_script("(" * 9_999 + "ls" + ")" * 9_999)


@pytest.mark.parametrize("beginning", ["echo {", "x={1..", "x={..", "echo ${", "[[ -f", "cat <<E\na $", "${x?"])
@pytest.mark.parametrize("letter", ["\U000cdc46", "\u6f22"])
def test_what_the_grammar_would_look_up_past_its_table_never_gets_there(beginning, letter):
    """Parsing some of these would be the end of this process, so the parser is not asked."""
    with pytest.raises(ParseFailure, match="does not know"):
        refuse_ambiguous_text(f"{beginning}{letter}")


def test_other_scripts_and_signs_are_understood_elsewhere():
    assert words("git commit -m '\U0001f389 \u6f22 {x} -y' \u6f22") == [
        ["git", "commit", "-m", "\U0001f389 \u6f22 {x} -y", "\u6f22"]
    ]


def test_long_but_plain_text_is_understood():
    assert len(parse_script(" && ".join(["ls a"] * 500)).commands) == 500


@pytest.mark.parametrize("text", ["ls ==\n payload", "ls =~\n payload", "ls a \\\n ==\n rm -rf x"])
def test_a_line_that_ends_among_the_words_of_a_command_is_not_understood(text):
    """The grammar reads on past the end of a line after these."""
    with pytest.raises(ParseFailure, match="a line ends"):
        parse_script(text)


def test_an_escaped_end_of_line_and_one_in_quotes_are_parts_of_a_command():
    assert words("ls a \\\n 'b\nc'") == [["ls", "a", "b\nc"]]

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolyard.core.actions import Action, Effect, Kind
from toolyard.core.errors import ConfigError
from toolyard.policy.command_rules import is_read_only
from toolyard.policy.policy import Roots
from toolyard.policy.rules import Rule, parse_rule

ROOTS = Roots("/ws", [], [])
READ_A = Action(Kind.READ, "Grep", "/ws/src/a.py")
WRITE_A = Action(Kind.WRITE, "write_file", "/ws/src/a.py")


def applies(text: str, action: Action, effect: Effect = Effect.DENY) -> bool:
    place = ROOTS.path_view(action.path) if action.path else None
    return parse_rule(text, effect, home="/home/ada").applies(action, place)


def run(command: str | None, tool: str = "Bash") -> Action:
    return Action(Kind.EXECUTE, tool, command=command)


@pytest.mark.parametrize(
    ("text", "action", "expected"),
    [
        ("Read", READ_A, True),
        ("Read", WRITE_A, False),
        ("Read(src/**)", READ_A, True),
        ("Read(src/**)", WRITE_A, False),
        ("Read(docs/**)", READ_A, False),
        ("Write(src/**)", WRITE_A, True),
        ("Edit(*.py)", WRITE_A, True),
        ("Edit(*.py)", READ_A, False),
        ("Grep", READ_A, True),
        ("Grep(src/**)", READ_A, True),
        ("Grep(docs/**)", READ_A, False),
        ("Glob", READ_A, False),
        ("write_*", WRITE_A, True),
        ("*", WRITE_A, True),
        ("*", run("ls"), True),
        ("*(src/**)", WRITE_A, True),
        ("Bash", run("ls"), True),
        ("Bash", run(None, "execute_python"), True),
        ("Bash", READ_A, False),
        ("Bash(ls:*)", run(None, "execute_python"), False),
        ("mcp__github", Action(Kind.EXECUTE, "mcp__github__push"), True),
        ("mcp__github__*", Action(Kind.EXECUTE, "mcp__github__push"), True),
        ("mcp__github__push", Action(Kind.EXECUTE, "mcp__github__push"), True),
        ("mcp__github__push", Action(Kind.EXECUTE, "mcp__github__push2"), False),
        ("mcp__git", Action(Kind.EXECUTE, "mcp__github__push"), False),
    ],
)
def test_a_rule_governs_kinds_by_the_three_names_and_tools_by_any_other(text, action, expected):
    assert applies(text, action) is expected


@pytest.mark.parametrize(
    ("text", "command", "allowed", "caught"),
    [
        ("git status:*", "git status", True, True),
        ("git status:*", "git  status -s", True, True),
        ("git status:*", "git statusx", False, False),
        ("git status:*", "git status; rm -rf /", False, True),
        ("git status:*", "git status $(rm x)", False, True),
        ("git status:*", "git status\nrm x", False, True),
        ("npm run test", "npm run test", True, True),
        ("npm run test", "npm run test:all", False, False),
        ("npm run *", "npm run build", True, True),
        ("npm run *", "npm run build && rm x", False, True),
        ("*", "anything | at all", True, True),
        ("a | b", "a | b", True, True),
        ("rm:*", "cd /tmp && rm x", False, True),
        ("rm:*", "FOO=1 /bin/rm x", False, True),
        ("rm:*", "echo $(rm x)", False, True),
        ("rm:*", 'r"m" x', False, True),
        ("rm:*", "rmdir x", False, False),
        ("rm:*", "env A=1 timeout 5 rm x", False, True),
        ("rm:*", "bash -c 'cd y && rm x'", False, True),
        ("rm:*", "find . -exec rm {} +", False, True),
        ("rm:*", "sh <<E\nrm x\nE", False, True),
        ("rm:*", "sh <<< 'rm x'", False, True),
        ("rm:*", "ls (; rm x", False, True),
        ("rm:*", "{rm,-rf,x}", False, True),
        ("rm:*", "r\\\nm x", False, True),
        ("rm:*", "! { rm x; }", False, True),
        ("rm:*", "( " * 500 + "rm x" + ")" * 500, False, True),
        ("rm:*", "f() { rm x; }", False, True),
        ("rm:*", "echo 'a; rm x'", False, False),
        ("rm:*", 'git commit -m "no; rm x"', False, False),
        ("git push:*", "git -C sub --no-pager push origin", False, True),
        ("git push:*", "git log push", False, False),
        ("git commit:*", 'git commit -m "fix; then (x)"', True, True),
        ("git commit:*", 'git commit -m "$(rm x)"', False, True),
        ("git commit:*", "git commit -m x > y", False, True),
        ("git commit:*", "git commit -m x &", False, True),
        ("npm run test", "npm run 'test'", True, True),
        ("npm run test:*", "npm run 'test all'", False, True),
        ("make:*", "A=1 make", False, True),
        ("make:*", "make *.o", True, True),
        ("make:*", "make $x", False, True),
        ("make:*", "make # x", False, True),
        ("@read-only", "cat a", True, True),
        ("@read-only", "cat a | head && ls", True, True),
        ("@read-only", "cat a > b", False, False),
    ],
)
def test_a_command_rule_allows_narrowly_and_catches_widely(text, command, allowed, caught):
    assert applies(f"Bash({text})", run(command), Effect.ALLOW) is allowed
    assert applies(f"Bash({text})", run(command), Effect.DENY) is caught


@pytest.mark.parametrize(
    "text",
    ["", "Read(", "Read)", "Read()", "Read(a", "Re ad", "Bash()", "Bash(:*)", "Bash(@x)", "x" * 1001, "Read({a})"],
)
def test_what_is_no_rule_is_refused_with_an_example(text):
    with pytest.raises(ConfigError) as caught:
        parse_rule(text, Effect.DENY)
    assert caught.value.hint


NAMES = st.from_regex(r"[A-Za-z_][A-Za-z0-9_]{0,12}", fullmatch=True)
ARGUMENTS = st.text(st.sampled_from("abc/*.-_ ()[]"), min_size=1, max_size=20)


@given(NAMES, st.none() | ARGUMENTS, st.sampled_from(Effect))
def test_a_rule_written_out_reads_back_as_itself(name, argument, effect):
    text = name if argument is None else f"{name}({argument})"
    try:
        rule = parse_rule(text, effect)
    except ConfigError:
        return
    assert rule == Rule(effect, name, argument)
    assert str(rule) == text
    assert parse_rule(str(rule), effect) == rule


@pytest.mark.parametrize(
    "command",
    [
        *("ls", "ls -la 'my folder'", "cat a.txt b.txt", "head -n 5 a", "wc -l a", "rg -n foo src", "pwd"),
        *("git status", "git log --oneline -5", "git diff HEAD~1 -- src", "git show HEAD:a.py", "grep -r x ."),
        *("cat < x", "cat $HOME", "(ls)", "ls \\; rm", "ls #x", "cat a | grep b | head", "ls && git status"),
        *("rg x 2>/dev/null", "cd src && ls", 'for f in *.py; do wc -l "$f"; done', "find . -name '*.py' | sort"),
        *("[ -f x ] && cat x", "sed -n '10,20p' a", "timeout 5 rg x", "ls | xargs wc -l", "LC_ALL=C sort x"),
        *("git --no-pager log | head", "git branch -a", "# why\nls -la", "set -e; ls 2>&1 | tail -n 3", "wc -l < x"),
        *("n=$(ls | wc -l); echo $n", 'while read -r f; do cat "$f"; done < x', "diff <(ls a) <(ls b)"),
        *(
            "if [[ -d a && $x == y ]]; then ls a; else pwd; fi",
            "printf '%s\\n' \"$x\"",
            "echo 'a; rm b'",
            "rg 'a|b' .",
        ),
    ],
)
def test_commands_that_only_read_are_known(command):
    assert is_read_only(command)


@pytest.mark.parametrize(
    "command",
    [
        *(None, "", "   ", "rm x", "python x.py", "./ls", "/tmp/ls", "ls; rm x", "ls | tee x", "ls & rm x", "ls > x"),
        *("cat `rm x`", "cat $(rm x)", "ls\nrm x", "ls\rrm x", "{ ls }", "ls &", "ls >> x", "ls &> x", "ls >&x"),
        *("cat 'unclosed", "git", "git push", "git -c core.pager=sh status", "git -C x status", "git branch x"),
        *("git diff --output=x", "git diff --outp=x", "git diff --ext-diff", "git log --textconv", "rg --pre sh x"),
        *("rg --pre=sh x", "rg --hostname-bin=x y", "find . -delete", "sort -o x y", "env ls", "sudo ls", "A=1 ls"),
        *("ls" + " a" * 20_000, "!ls", "cd x && git status", "ls(){ rm x; }; ls", "alias ls='rm x'\nls", "uniq a b"),
        *("PATH=.; ls", "PATH=. ls", "for PATH in .; do ls; done", "read PATH; ls", "printf -v PATH .; ls"),
        *("export x=1", "declare -i x=y", "LD_PRELOAD=x ls", "GIT_DIR=x git status", "IFS=x; ls", "exec ls", ". x"),
        *(
            "rg x *",
            "rg $x",
            'rg x "$f"',
            "ls | xargs rg x",
            "ls | xargs -I cat cat",
            "find . -exec cat {} +",
            "sort -ro x y",
        ),
        *(
            "awk 1 x",
            "sed s/a/b/ x",
            "sed -n 'w x' y",
            "sed -n 1p -i x",
            "sed -n '1,$w x' y",
            "$x",
            "`ls`",
            "l*",
            "l{s,x}",
        ),
        # Each of these runs what a variable or a name holds.
        *(
            "echo $((x))",
            "echo ${x@P}",
            "echo ${!x}",
            "echo ${a[x]}",
            "[[ x -eq 1 ]]",
            "((x))",
            "[ -v x ]",
            "test -v x",
        ),
        *("echo ${x:y}", "unset x", "read 'a[0]'", "[ $x ]", "for ((i=0;i<x;i++)); do ls; done", "command [ -v x ]"),
        *(
            "cat <<E\nx\nE",
            "cat < /dev/tcp/h/1",
            "cat < $x",
            "ls > /dev/sda",
            "l\\\ns",
            "ls\u00a0x",
            "ls\u2028rm x",
            "date -s x",
        ),
        *(
            "exec 3>x; ls",
            "ls >&3 3>x",
            "cat <> x",
            "{ ls; } > x",
            "(ls) > x",
            "ls | cat > x",
            "coproc ls",
            "fd -x rm",
        ),
        *(
            "git diff; f() { ls; }",
            "trap 'rm x' EXIT; ls",
            "bash -c 'rm x'",
            "eval ls",
            "hash -p /x ls; ls",
            "tree -o x",
        ),
    ],
)
def test_what_is_not_surely_reading_is_not_read_only(command):
    assert not is_read_only(command)


@pytest.mark.parametrize(("text", "guess"), [("Reed(*.txt)", "Read"), ("bash(ls)", "Bash"), ("Wirte", "Write")])
def test_a_rule_that_names_no_tool_is_an_error_with_a_guess(text, guess):
    with pytest.raises(ConfigError) as caught:
        parse_rule(text, Effect.DENY)
    assert caught.value.hint == f'Did you mean "{guess}"?'

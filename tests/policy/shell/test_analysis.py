from __future__ import annotations

import dataclasses

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from toolyard.core.errors import SystemFault
from toolyard.policy.shell import CommandEffect, analyse
from toolyard.policy.shell.rules import EffectRules
from toolyard.policy.shell.rules_all import ALL_RULES

E = CommandEffect


def effects(command: str) -> set[CommandEffect]:
    return {seen.effect for seen in analyse(command).effects}


@pytest.mark.parametrize(
    ("command", "found"),
    [
        ("cat a | grep b", {E.READS}),
        ("echo hi", set()),
        ("echo hi > x", {E.WRITES}),
        ("ls 2>/dev/null >&2", {E.READS}),
        ("rm -rf build && curl example.org", {E.DELETES, E.NETWORK}),
        ("find . -name x -delete", {E.DELETES}),
        ("find . -exec rm {} +", {E.DELETES, E.RUNS_CODE}),
        ("ls | xargs -n 1 rm", {E.READS, E.DELETES}),
        ("ls | xargs -I{} {}", {E.READS, E.RUNS_CODE}),
        ("nohup python x.py &", {E.RUNS_CODE, E.BACKGROUND}),
        ("env A=1 timeout -k 5 10 nice -n 3 rm x", {E.DELETES}),
        ("git -C x push --force", {E.GIT, E.NETWORK}),
        ("git switch -c x", {E.WRITES}),
        ("pip3 install x", {E.INSTALLS, E.NETWORK}),
        ("chmod +x a; kill 1", {E.PERMISSIONS, E.ENDS_PROCESSES}),
        ("sudo -u root rm x", {E.PRIVILEGES, E.DELETES}),
        ("./build.sh", {E.RUNS_PROGRAM}),
        ("cat < /dev/tcp/example.org/80", {E.READS, E.NETWORK}),
        ("f() { rm x; }; f", {E.DELETES}),
        ("bash -c 'cd x && rm y'", {E.RUNS_CODE, E.DELETES}),
        ("trap 'rm x' EXIT", {E.RUNS_CODE, E.DELETES}),
        ("sed -i s/a/b/ x", {E.WRITES}),
        ("sed s/a/b/ x", {E.READS}),
        ("command -v rm", {E.READS}),
    ],
)
def test_a_command_is_told_by_what_it_does(command, found):
    assert effects(command) == found


@pytest.mark.parametrize(
    "command",
    [
        *("r''m -rf x", "\\rm x", "$'rm' x", '"rm" x', "command rm x", "/bin/rm x", "busybox rm x", 'eval "rm x"'),
        *("$(rm x)", "echo `rm x`", "bash -c 'rm x'", 'sh -ec "rm x"', "exec rm x", "env -i rm x", "ls; (rm x)"),
        *(
            "if true; then rm x; fi",
            "cat <(rm x)",
            "A=$(rm x) ls",
            "cat <<E\n$(rm x)\nE",
            "ls > $(rm x)",
            "[ $(rm x) ]",
        ),
        *(
            "case a in a) rm x;; esac",
            "ls || rm x",
            "! rm x",
            "echo ${y:-$(rm x)}",
            "time rm x",
            "for i in $(rm x); do ls; done",
        ),
        *("builtin eval 'rm x'", "a=(1 $(rm x))", "coproc rm x", '$"rm" x', "cat <<< $(rm x)", "ls | xargs rm"),
    ],
)
def test_no_quoting_or_wrapping_hides_a_deletion_the_text_shows(command):
    assert E.DELETES in effects(command)
    assert not analyse(command).read_only


@pytest.mark.parametrize(
    "command",
    [
        *(
            "x=rm; $x -rf",
            "echo cm0K | base64 -d | sh",
            "{rm,-rf,x}",
            "r{m,x} y",
            "r? x",
            'eval "$x"',
            'bash -c "$x"',
        ),
        *(". ./x", "bash x.sh", "${x} y", "`cat x`", "sh < x", "env -S 'rm x'", "python -c 'x'", "bash <<< 'rm x'"),
        *("! { rm x; }", "time { rm x; }", "coproc { rm x; }", "time if ls; then rm x; fi"),
    ],
)
def test_what_the_text_does_not_show_is_not_understood_or_runs_other_code(command):
    found = analyse(command)
    assert not found.understood or found.has_effect(E.RUNS_CODE)
    assert not found.read_only
    assert not found.shows_all


@pytest.mark.parametrize(
    ("command", "summary"),
    [
        ("rm -rf build; curl -s example.org", "deletes files (rm -rf build), uses the network (curl -s example.org)"),
        ("cat a; cat b", "reads files (cat a)"),
        ("cat a > b", "writes files (cat a > b)"),
        ("true", "changes nothing outside the shell"),
        ("rm " + "a" * 100, "deletes files (rm " + "a" * 54 + "...)"),
        ("ls (", "may do anything (its text cannot be parsed: it is not complete shell syntax)"),
        ("echo $((x))", "may run more than it shows ($((x)))"),
    ],
)
def test_the_summary_is_one_short_phrase(command, summary):
    assert analyse(command).summary == summary


@pytest.mark.parametrize(
    "command",
    [
        *(
            "sudo ls",
            "su",
            "doas ls",
            "cd x && sudo make install",
            "mount /dev/sda1 x",
            "reboot",
            "vim a.py",
            "nano a",
        ),
        *("top", "htop", "python", "python3", "node", "bash", "crontab -e", "env A=1 vim x", "bash -c 'sudo ls'"),
    ],
)
def test_what_is_sure_to_fail_is_refused_with_a_hint(command):
    found = analyse(command)
    assert found.refusal is not None
    assert "cannot work here" in found.refusal
    assert found.hint


@pytest.mark.parametrize(
    "command",
    [
        *('echo "sudo rm"', "grep sudo file", 'git commit -m "use vim"', "sudo --version", "which sudo", "man sudo"),
        *("command -v sudo && sudo ls", "sudo ls || ls", "if x; then sudo ls; fi", "vim --version", "vim -es -c q x"),
        *(
            "python x.py",
            "echo 1 | python",
            "python <<E\n1\nE",
            "python -c 1",
            "top -bn1",
            "less a",
            "cat sudo vim",
            "mount",
        ),
        *("curl example.org", "ssh host", "git rebase -i x", "# sudo ls\nls", "echo 'a\nsudo ls'", "bash -c ls"),
    ],
)
def test_what_may_work_is_not_refused(command):
    assert analyse(command).refusal is None


@pytest.mark.parametrize("rule", ALL_RULES, ids=lambda rule: f"{rule.effect}: {rule.programs[0]}")
@pytest.mark.parametrize("swap", ["matches", "misses"])
def test_a_rule_that_fails_its_examples_is_not_loaded(rule, swap):
    other = {"matches": rule.misses, "misses": rule.matches}[swap]
    with pytest.raises(SystemFault, match="fails its own example"):
        EffectRules([dataclasses.replace(rule, **{swap: other})])
    with pytest.raises(SystemFault, match="has no examples"):
        EffectRules([dataclasses.replace(rule, **{swap: ()})])


@given(st.text(max_size=60) | st.text(st.sampled_from("ls rm x$(){}[]<>|&;'\"`\\\n#!=*~-"), max_size=60))
@settings(max_examples=500)
def test_any_text_is_answered(text):
    found = analyse(text)
    assert found.summary
    assert not (found.read_only and not found.understood)


READING = st.sampled_from(
    ["ls", "cat a", "git status", "rg x src", "echo 'rm x'", "head -n 3 a", "cd src", "find . -name x", "wc -l < a"]
)
WRITING = st.sampled_from(
    [
        "rm x",
        "touch x",
        "cat a > b",
        "sort -o x y",
        "git push",
        "python x",
        "PATH=. ls",
        "./ls",
        "tee x",
        "find . -delete",
    ]
)
JOINS = st.sampled_from([" && ", " || ", "; ", " | ", "\n", " |& "])
FRAMES = st.sampled_from(
    [
        "{}",
        "( {} )",
        "{{ {}; }}",
        "if true; then {}; fi",
        "for f in a b; do {}; done",
        "echo $( {} )",
        'echo "$( {} )"',
        "! ls && {}",
    ]
)


@st.composite
def compounds(draw, parts):
    text = draw(FRAMES).format(draw(parts))
    for _ in range(draw(st.integers(0, 3))):
        text = draw(FRAMES).format(text + draw(JOINS) + draw(FRAMES).format(draw(parts)))
    return text


@given(compounds(READING), compounds(WRITING), JOINS, FRAMES, st.booleans())
@settings(max_examples=150)
def test_a_compound_only_reads_when_no_part_of_it_does_more(reading, writing, join, frame, first):
    if "cd src" not in reading or "git" not in reading:
        assert analyse(reading).read_only
    both = writing + join + reading if first else reading + join + writing
    assert not analyse(frame.format(both)).read_only
    assert not analyse(both).read_only

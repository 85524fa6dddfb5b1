"""What counts as read-only is run in bash, with nothing to find on its path, and bash tells what it tried to start.

Every program reported must be one of the readers, and no file may appear. `payload` is no program at all: were it
reported, a text would have been understood in another way than bash does.
"""

from __future__ import annotations

import os
import shutil
import subprocess

import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from toolyard.policy.shell import analyse
from toolyard.policy.shell.read_only_commands import READ_ONLY_PROGRAMS, TRANSPARENT_WRAPPERS

BASH = shutil.which("bash")
pytestmark = pytest.mark.skipif(BASH is None, reason="there is no bash")
RUN_SECONDS = 5
REPORT = 'command_not_found_handle() { builtin printf "%s\\n" "$1" >&9; return 127; }\n'

BASES = (
    *(
        'ls "payload" a',
        "echo 'payload' \"$x\"",
        "cat a # payload b",
        "# payload\nls",
        "cat < payload",
        "! ls payload",
    ),
    *(
        'for f in payload b; do cat "$f"; done',
        "if [ -f payload ]; then ls payload; else cat a; fi",
        "echo $(ls payload)",
    ),
    *(
        "[[ payload == a ]] && ls",
        "x=payload; echo $x",
        "case payload in a) ls;; *) cat;; esac",
        "ls payload | cat payload",
    ),
    *('echo "\\"; payload"', "echo $'a payload' b", "while read -r y; do echo payload; done", "(cd a; ls payload)"),
    *("{ ls; cat payload; }", "echo \\; payload", "echo a\\ payload", 'echo "`ls payload`"', "ls \\\n payload"),
    *(
        "cat <<< payload",
        "echo ${x%payload} ${x:-payload}",
        "timeout 1 cat payload",
        "y=$(ls) z=payload",
        "echo a#payload",
    ),
    *(
        "ls payload 2>&1 >/dev/null",
        'echo "a\npayload b"',
        '[ "$x" = payload ] || echo payload',
        "echo {a,payload} *",
    ),
)
PIECES = (
    *(
        "ls",
        "cat",
        "payload",
        "a",
        " ",
        ";",
        "&&",
        "||",
        "|",
        "\n",
        "$(",
        ")",
        "`",
        "'",
        '"',
        "\\",
        "#",
        " #",
        "{",
        "}",
    ),
    *(
        "(",
        "<",
        " < a",
        " 2>/dev/null",
        ">",
        "<<E\n",
        "\nE\n",
        "$x",
        "${x%",
        "[ ",
        " ]",
        "[[ ",
        " ]]",
        "if ",
        "; then ",
    ),
    *(
        "; fi",
        "for f in ",
        "; do ",
        "; done",
        "case x in ",
        ";; ",
        "x=",
        "! ",
        "~",
        "*",
        "\\\n",
        "\t",
        "<(",
        "<<<",
        "=",
    ),
    *("-", "$'", '$"', "time ", "$((", "((", "==", "=~", "|&", "function ", "@(", ",", "then", "command ", "xargs "),
)


@st.composite
def twisted(draw):
    text = draw(st.sampled_from(BASES))
    if draw(st.booleans()):
        text += draw(st.sampled_from([";", "\n", " | ", " && ", " "])) + draw(st.sampled_from(BASES))
    for _ in range(draw(st.integers(0, 3))):
        at = draw(st.integers(0, len(text)))
        cut = draw(st.integers(0, 1))
        text = text[:at] + draw(st.sampled_from(("", *PIECES))) + text[at + cut :]
    return text


def started(text: str, folder: str) -> set[str]:
    read, write = os.pipe()
    with os.fdopen(read, "rb") as report:
        try:
            subprocess.run(
                [BASH, "--norc", "--noprofile", "-c", f"exec 9>&{write}\n{REPORT}{text}"],
                cwd=folder,
                env={"PATH": "/nonexistent"},
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                pass_fds=(write,),
                timeout=RUN_SECONDS,
                check=False,
            )
        finally:
            os.close(write)
        return set(report.read().decode(errors="replace").split("\n")) - {""}


def test_bash_tells_what_it_tried_to_start(tmp_path):
    assert started("ls a; payload | cat $(other)", str(tmp_path)) == {"ls", "payload", "cat", "other"}


@given(twisted())
@settings(max_examples=150, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.filter_too_much])
def test_bash_starts_nothing_but_readers_for_what_counts_as_read_only(tmp_path, text):
    assume(analyse(text).read_only)
    assert started(text, str(tmp_path)) <= READ_ONLY_PROGRAMS.keys() | TRANSPARENT_WRAPPERS.keys()
    assert os.listdir(tmp_path) == []

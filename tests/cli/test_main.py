"""`toolyard` without and around its commands."""

import os
import signal
import subprocess
import sys

import pytest
from click.testing import CliRunner

from toolyard import __version__
from toolyard.cli import main as module
from toolyard.cli.main import main, toolyard
from toolyard.core.errors import ConfigError, SystemFault, ValidationError


@pytest.fixture(autouse=True)
def interrupts():
    """As they were: the entry point expects that nothing follows it."""
    before = signal.getsignal(signal.SIGINT)
    yield
    signal.signal(signal.SIGINT, before)


def test_help_lists_every_command_with_an_example():
    result = CliRunner().invoke(toolyard, ["--help"])

    assert result.exit_code == 0
    assert "toolyard mcp --workspace ." in result.output
    for name in ("mcp", "audit", "doctor", "demo", "bench"):
        assert f"\n  {name} " in result.output


def test_the_version_is_the_packages():
    assert CliRunner().invoke(toolyard, ["--version"]).output == f"toolyard, version {__version__}\n"


@pytest.mark.parametrize("name", ["mcp", "audit", "doctor", "demo", "bench"])
def test_every_command_has_help_with_an_example(name):
    result = CliRunner().invoke(toolyard, [name, "--help"])

    assert result.exit_code == 0
    assert "Example" in result.output
    assert f"toolyard {name}" in result.output


@pytest.mark.parametrize("wish", ["", "1"])
def test_whoever_wants_no_colour_gets_none_from_any_command(tmp_path, monkeypatch, wish):
    monkeypatch.setenv("NO_COLOR", wish)
    page = tmp_path / "ws/skills/ada/pdf/SKILL.md"
    page.parent.mkdir(parents=True)
    page.write_text("---\nname: pdf\ndescription: Fills forms.\n---\n")
    where = ["--workspace", str(tmp_path / "ws"), "--state", str(tmp_path / "state")]

    said = CliRunner().invoke(toolyard, ["skill", "list", *where], color=True).output

    assert ("ada/pdf" in said, "\x1b" in said) == (True, not wish)


def test_an_unknown_command_is_wrong_use():
    result = CliRunner().invoke(toolyard, ["nonsense"])

    assert (result.exit_code, "No such command" in result.output) == (2, True)


@pytest.mark.parametrize(
    ("error", "code"),
    [(ConfigError("broken", where="f:3"), 2), (ValidationError("odd"), 2), (SystemFault("down", hint="Wait."), 1)],
)
def test_our_errors_end_the_program_with_a_sentence_and_a_code(monkeypatch, capsys, error, code):
    def fail(**options):
        raise error

    monkeypatch.setattr(module, "toolyard", fail)

    with pytest.raises(SystemExit) as caught:
        main()

    assert caught.value.code == code
    assert capsys.readouterr() == ("", f"toolyard: {error}\n")


def test_help_loads_neither_the_protocol_nor_the_printing_libraries():
    script = (
        "import sys\n"
        "from toolyard.cli.main import toolyard\n"
        "toolyard(['--help'], standalone_mode=False)\n"
        "heavy = {'mcp', 'mcp_types', 'rich', 'pydantic', 'yaml', 'anyio', 'asyncio'} & set(sys.modules)\n"
        "print(sorted(heavy), file=sys.stderr)\n"
    )

    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=30, check=True)

    assert done.stderr == "[]\n"


def test_the_package_runs_as_a_module():
    done = subprocess.run(
        [sys.executable, "-m", "toolyard", "--version"], capture_output=True, text=True, timeout=30, check=True
    )

    assert done.stdout == f"toolyard, version {__version__}\n"


def test_an_error_that_quotes_a_server_cannot_steer_the_terminal(monkeypatch, capsys):
    def fails(**_: object) -> None:
        raise SystemFault("it said \x1b[2J\x9b2J", hint="Look.")

    monkeypatch.setattr(module, "toolyard", fails)
    with pytest.raises(SystemExit):
        main()
    assert capsys.readouterr().err == "toolyard: it said \\x1b[2J\\x9b2J. Look.\n"


def test_output_that_nobody_reads_any_more_ends_a_command_quietly(tmp_path):
    (tmp_path / "ws").mkdir()
    (tmp_path / "ws/a.txt").write_text("a")
    where = ["--workspace", str(tmp_path / "ws"), "--state", str(tmp_path / "state")]
    read, write = os.pipe()
    os.close(read)
    try:
        for words in (["create"], ["show", "latest", "a.txt"]):
            command = [sys.executable, "-m", "toolyard", "snapshot", *words, *where]
            done = subprocess.run(command, stdout=write, stderr=subprocess.PIPE, timeout=50, check=False)
            assert (done.returncode, done.stderr) == (0, b""), words
    finally:
        os.close(write)


def test_an_interrupt_while_the_interpreter_ends_is_quiet():
    program = """
import atexit, os, signal, sys
from toolyard.cli.main import main
atexit.register(lambda: os.kill(os.getpid(), signal.SIGINT))
sys.argv = ["toolyard", "--version"]
main()
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, timeout=50, check=False)
    assert (done.returncode, done.stderr) == (-signal.SIGINT, b"")

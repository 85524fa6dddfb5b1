"""Linters run behind walls on the files that are asked for; without them a review goes on, and says so."""

import shutil
import stat
import time
from dataclasses import replace

import pytest

from toolyard.assistant.findings import Finding
from toolyard.assistant.linting import LintEvidence, LintFinding, lint, runner
from toolyard.assistant.linting.model import RENDERED_CHARS
from toolyard.assistant.linting.runner import MOST_FILES, MOST_FINDINGS
from toolyard.core.errors import ToolError

BROKEN = "import os\n\nprint(undefined_name)\n"
UNDEFINED = LintFinding("ruff", "a.py", 3, "F821", "Undefined name `undefined_name`", "error")


def needs(program):
    return pytest.mark.skipif(shutil.which(program) is None, reason=f"{program} is not installed")


@pytest.fixture
def write(workspace):
    def writer(name, text):
        path = workspace / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)

    return writer


def codes(evidence):
    return [each.code for each in evidence.findings]


def test_ruff_tells_what_is_wrong_with_python(gate, write):
    write("a.py", BROKEN)
    write("sub/b.py", "def f(:\n")
    evidence = lint(gate, ["a.py", "sub/b.py"])
    assert UNDEFINED in evidence.findings
    assert {(each.path, each.line, each.level) for each in evidence.findings} >= {("sub/b.py", 1, "error")}
    assert (evidence.ran, evidence.notes) == (("ruff",), ())


def test_only_the_files_that_were_asked_for_are_looked_at(gate, write, workspace):
    write("a.py", "x = 1\n")
    write("other.py", BROKEN)
    assert lint(gate, ["a.py", str(workspace / "a.py"), "./a.py"]) == LintEvidence((), ("ruff",))


def test_the_projects_own_configuration_counts(gate, write):
    write("a.py", BROKEN)
    write("pyproject.toml", '[tool.ruff.lint]\nselect = ["F401"]\n')
    write("gen/ruff.toml", 'exclude = ["*.py"]\n')
    write("gen/b.py", BROKEN)
    assert codes(lint(gate, ["a.py", "gen/b.py"])) == ["F401"]


def test_a_configuration_that_is_broken_is_left_aside_and_that_is_told(gate, write):
    write("a.py", BROKEN)
    write("ruff.toml", 'extend = "/etc/ruff.toml"\n')
    evidence = lint(gate, ["a.py"])
    assert UNDEFINED in evidence.findings
    assert [note.partition(":")[0] for note in evidence.notes] == ["ruff ran without the project's configuration"]


def test_nothing_is_written_and_nothing_fixed(gate, write, workspace):
    write("a.py", BROKEN)
    write("ruff.toml", "fix = true\nunsafe-fixes = true\n")
    lint(gate, ["a.py"])
    assert (workspace / "a.py").read_text() == BROKEN
    assert sorted(path.name for path in workspace.iterdir()) == ["a.py", "ruff.toml"]


def test_files_outside_or_hidden_are_not_looked_at(open_gate, tmp_path, write):
    (tmp_path / "out.py").write_text(BROKEN)
    write("keys/a.py", BROKEN)
    gate = open_gate(permissions={"deny": ["Read(keys/**)"]})
    assert lint(gate, ["../out.py", str(tmp_path / "out.py"), "keys/a.py", ".", "notes.md"]) == LintEvidence()


def test_odd_names_are_names_and_no_options(gate, write):
    for name in ("--fix.py", "a b.py", "ä'\".py", "$(touch x).py"):
        write(name, BROKEN)
    evidence = lint(gate, ["--fix.py", "a b.py", "ä'\".py", "$(touch x).py"])
    assert {each.path for each in evidence.findings} == {"--fix.py", "a b.py", "ä'\".py", "$(touch x).py"}


def test_without_a_sandbox_there_is_no_evidence_and_the_reason_is_told(open_gate, write):
    write("a.py", BROKEN)
    gate = open_gate(toolyard={"code_execution": {"mode": "none"}})
    evidence = lint(gate, ["a.py"])
    assert (evidence.findings, evidence.ran, evidence.render()) == ((), (), "")
    assert len(evidence.notes) == 1
    assert evidence.notes[0].startswith("Linters did not run: ")


def test_many_files_and_findings_are_bounded_and_that_is_told(gate, write):
    names = [f"f{number:03}.py" for number in range(MOST_FILES + 1)]
    for name in names:
        write(name, "print(a, b, c, d, e, f)\n")
    evidence = lint(gate, names)
    assert len(evidence.findings) == MOST_FINDINGS
    assert evidence.notes == (
        f"ruff checked {MOST_FILES} of {MOST_FILES + 1} files.",
        f"100 more findings of linters after the first {MOST_FINDINGS}.",
    )


def test_when_the_time_is_up_the_others_do_not_run(gate, write):
    write("a.py", BROKEN)
    assert lint(gate, ["a.py"], seconds=0) == LintEvidence(
        notes=("ruff did not run: the linters before it used up the time.",)
    )


def test_it_ends_with_its_call(gate, write):
    write("a.py", BROKEN)
    gate.budget.deadline = time.monotonic() - 1
    with pytest.raises(ToolError):
        lint(gate, ["a.py"])


@needs("shellcheck")
def test_shellcheck_tells_what_is_wrong_with_scripts(gate, write):
    write("bin/a.sh", "#!/bin/sh\necho $1\n")
    evidence = lint(gate, ["bin/a.sh"])
    assert [(each.path, each.line, each.code, each.level) for each in evidence.findings] == [
        ("bin/a.sh", 2, "SC2086", "note")
    ]
    assert evidence.ran == ("shellcheck",)


@needs("cppcheck")
def test_cppcheck_tells_what_is_wrong_with_c(gate, write):
    write("src/a.c", "int main(void)\n{\n    int a[2];\n    a[3] = 1;\n    return a[0];\n}\n")
    assert ("src/a.c", 4, "arrayIndexOutOfBounds") in [
        (each.path, each.line, each.code) for each in lint(gate, ["src/a.c"]).findings
    ]


@needs("go")
@pytest.mark.slow
def test_vet_tells_what_is_wrong_with_go_from_the_folder_of_its_module(gate, write):
    write("tool/go.mod", "module x\n\ngo 1.19\n")
    write("tool/cmd/m.go", 'package main\n\nimport "fmt"\n\nfunc main() { fmt.Printf("%d", "x") }\n')
    write("tool/cmd/n.go", 'package main\n\nimport "fmt"\n\nfunc n() { fmt.Printf("%d", "x") }\n')
    write("loose.go", "package loose\n")
    evidence = lint(gate, ["tool/cmd/m.go", "loose.go"])
    assert [(each.path, each.line) for each in evidence.findings] == [("tool/cmd/m.go", 5)]
    assert (evidence.ran, evidence.notes) == (("go vet",), ())


def instead_of_ruff(monkeypatch, script):
    """Another program in its place, which answers as `script` says."""
    monkeypatch.setattr(runner, "LINTERS", (replace(runner.LINTERS[0], command=("sh", "-c", script), otherwise=()),))


def test_a_linter_that_fails_is_a_note_with_its_own_words(gate, write, monkeypatch):
    write("a.py", "x\n")
    instead_of_ruff(monkeypatch, "echo 'Oops! No configuration.' >&2; exit 2")
    assert lint(gate, ["a.py"]) == LintEvidence(notes=("ruff failed: Oops! No configuration.",))


def test_a_linter_that_says_too_much_is_stopped(gate, write, monkeypatch):
    write("a.py", "x\n")
    instead_of_ruff(monkeypatch, "head -c 3000000 /dev/zero")
    assert lint(gate, ["a.py"]).notes == ("ruff was stopped: it took too long, or printed too much.",)


def test_a_program_that_is_not_there_is_a_note(gate, write, monkeypatch):
    ruff = replace(runner.LINTERS[0], command=("no-such-linter",))
    monkeypatch.setattr(runner, "LINTERS", (ruff,))
    write("a.py", BROKEN)
    assert lint(gate, ["a.py"]) == LintEvidence(notes=("ruff is not installed.",))


def test_a_program_of_the_workspace_is_not_taken_for_the_linter(gate, write, workspace):
    write("a.py", BROKEN)
    for name in ("ruff", ".venv/bin/ruff"):
        write(name, "#!/bin/sh\necho '{}'\n")
        (workspace / name).chmod((workspace / name).stat().st_mode | stat.S_IXUSR)
    assert UNDEFINED in lint(gate, ["a.py"]).findings


def test_evidence_is_told_to_a_model_line_by_line():
    evidence = LintEvidence((UNDEFINED, LintFinding("go vet", "b.go", 2, "", "wrong type")), ("ruff", "go vet"))
    assert evidence.render() == (
        "ruff, go vet: 2 findings\n"
        "a.py:3: error: Undefined name `undefined_name` [ruff F821]\n"
        "b.go:2: warning: wrong type [go vet]"
    )
    many = LintEvidence((UNDEFINED,) * 1_000, ("ruff",)).render()
    assert len(many) <= RENDERED_CHARS + 20
    assert many.endswith(" more)")


def test_evidence_makes_findings_of_its_own_category():
    found = LintEvidence((LintFinding("shellcheck", "b.sh", 2, "SC1", "style", "note"), UNDEFINED), ("ruff",))
    assert found.as_findings() == (
        Finding("high", "lint", "a.py", 3, "Undefined name `undefined_name` (ruff F821)"),
        Finding("low", "lint", "b.sh", 2, "style (shellcheck SC1)"),
    )

from __future__ import annotations

import json
import sys

import pytest
from click.testing import CliRunner

from benchmarks.__main__ import bench
from benchmarks.lean_client import BenchFault
from benchmarks.machine import describe
from benchmarks.report import Report, at_most

REPORT = Report(describe(), (at_most("path check", "µs", 40.0, 30),))


def run(monkeypatch, *arguments):
    monkeypatch.setattr("benchmarks.files.suite.run", lambda *_: REPORT)
    return CliRunner().invoke(bench, ["files", *arguments])


def test_the_report_is_text_without_a_terminal(monkeypatch):
    result = run(monkeypatch)
    assert (result.exit_code, "0 of 1 targets met." in result.stdout) == (0, True)


def test_the_report_is_json_on_request_and_kept_in_a_file(monkeypatch, tmp_path):
    kept = tmp_path / "report.json"
    result = run(monkeypatch, "--json", "--out", str(kept))
    assert json.loads(result.stdout) == json.loads(kept.read_text())


def test_a_missed_target_fails_only_when_that_is_asked_for(monkeypatch):
    assert (run(monkeypatch).exit_code, run(monkeypatch, "--check").exit_code) == (0, 1)


def test_an_unknown_measure_is_refused_with_the_names(monkeypatch):
    result = run(monkeypatch, "--only", "speed")
    assert result.exit_code == 2
    assert "'grep'" in result.stderr


@pytest.mark.parametrize("name", ["files", "sandbox"])
def test_the_help_of_each_shows_its_own_examples_and_measures(name):
    told = CliRunner().invoke(bench, [name, "--help"]).stdout
    other = {"files": "sandbox", "sandbox": "files"}[name]
    assert f"toolyard bench {name} --quick" in told
    assert f"toolyard bench {other}" not in told
    assert {"files": "grep, calls", "sandbox": "warm, cold"}[name] in told


@pytest.mark.parametrize("name", ["files", "sandbox"])
def test_every_example_names_measures_that_are_there(monkeypatch, tmp_path, name):
    monkeypatch.chdir(tmp_path)  # one of them keeps its report
    monkeypatch.setattr(f"benchmarks.{name}.suite.run", lambda *_: REPORT)
    monkeypatch.setattr("benchmarks.__main__._print", lambda *_, **__: None)
    told = CliRunner().invoke(bench, [name, "--help"]).stdout
    lines = [line.strip() for line in told.splitlines() if "toolyard bench" in line and "Usage" not in line]
    examples = [line.split("   ")[0].split()[2:] for line in lines]
    assert len(examples) >= 3
    assert [example for example in examples if CliRunner().invoke(bench, example).exit_code == 2] == []


def test_a_measure_that_cannot_be_taken_says_why(monkeypatch):
    def broken(*_):
        raise BenchFault("the server left")

    monkeypatch.setattr("benchmarks.files.suite.run", broken)
    result = CliRunner().invoke(bench, ["files"])
    assert (result.exit_code, result.stderr) == (1, "toolyard bench: the server left\n")


@pytest.mark.parametrize(
    ("suite", "only", "extra"), [("context", "turns", "agents"), ("assistant", "overhead", "assistant")]
)
def test_a_benchmark_that_needs_an_extra_names_the_one_that_brings_it(monkeypatch, suite, only, extra):
    monkeypatch.setitem(sys.modules, "pydantic_ai", None)
    measured = CliRunner().invoke(bench, [suite, "--quick", "--only", only])
    assert (measured.exit_code, f"pip install 'toolyard[{extra}]'" in measured.stdout) == (0, True), measured.output

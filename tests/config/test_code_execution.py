"""`code_execution`: its defaults, what it refuses, and what a file that was merely found may not say."""

import dataclasses

import pytest

from toolyard.cli.common.resolve_workspace import resolve_workspace
from toolyard.config.loader import load_config
from toolyard.config.models import CodeExecution, Docker, RunLimitsSection
from toolyard.core.errors import ConfigError
from toolyard.core.limits import RunLimits


@pytest.fixture
def load(tmp_path):
    def loaded(section: str) -> CodeExecution:
        path = tmp_path / "named.yaml"
        path.write_text(f"toolyard:\n  code_execution: {section}\n")
        return load_config(str(path), env={}).toolyard.code_execution

    return loaded


def test_the_limits_of_the_file_are_the_limits_of_the_core():
    assert RunLimitsSection().to_limits() == RunLimits()
    assert set(RunLimitsSection.model_fields) == {field.name for field in dataclasses.fields(RunLimits)}


def test_commands_are_on_in_a_sandbox_without_a_network_by_default():
    assert CodeExecution() == CodeExecution(
        enabled=True,
        mode="bubblewrap",
        docker=Docker(image=None, network="none"),
        allowed_hosts=(),
        env={},
        limits=RunLimitsSection(),
    )


def test_every_key_is_read(load):
    text = (
        "{enabled: false, mode: docker, docker: {image: mine, network: bridge}, allowed_hosts: [a.example.com], "
        "env: {A: 1}, limits: {seconds: 3, processes: 17}}"
    )
    assert load(text) == CodeExecution(
        enabled=False,
        mode="docker",
        docker=Docker(image="mine", network="bridge"),
        allowed_hosts=("a.example.com",),
        env={"A": "1"},
        limits=RunLimitsSection(seconds=3, processes=17),
    )


def test_variables_are_not_shown(load):
    assert "hush" not in repr(load("{env: {TOKEN: hush}}"))


@pytest.mark.parametrize(
    ("section", "said"),
    [
        ("{mode: chroot}", "must be one of bubblewrap, docker, none"),
        ("{mod: none}", 'Did you mean "mode"?'),
        ("{enabled: perhaps}", "expected true or false"),
        ("{limits: {second: 1}}", 'Did you mean "seconds"?'),
        ("{limits: {seconds: 0}}", "expected a number greater than 0, found 0."),
        ("{limits: {seconds: -2.5}}", "expected a number greater than 0, found -2.5."),
        ("{limits: {seconds: .inf}}", "expected a finite number"),
        ("{limits: {processes: -1}}", "expected a number greater than 0"),
        ("{allowed_hosts: packages.example.com}", "expected a list"),
        ("{env: [A]}", "expected a mapping"),
        (
            "{limits: {memory_bytes: 1000000}}",
            'limits.memory_bytes": 1000000 is too low: the sandbox itself needs at least 67108864 (64 MiB).',
        ),
        ("{limits: {processes: 3}}", "3 is too low: the sandbox itself needs at least 10."),
        ("{limits: {open_files: 8}}", "8 is too low: the sandbox itself needs at least 32."),
        ("{limits: {seconds: 900}}", "`seconds` (900) is more than `most_seconds` (600)"),
        ("{memory_bytes: 1}", 'Did you mean "toolyard.code_execution.limits.memory_bytes"?'),
    ],
)
def test_what_cannot_be_meant_is_an_error(load, section, said):
    with pytest.raises(ConfigError) as caught:
        load(section)
    assert said in f"{caught.value.message} {caught.value.hint}"


@pytest.mark.parametrize(
    ("section", "reason"),
    [
        ("{mode: none}", "code without a sandbox"),
        ("{allowed_hosts: [packages.example.com]}", "a network for code"),
        ("{docker: {network: bridge}}", "a network for code"),
        ("{docker: {image: theirs}}", "an image for code"),
        ("{env: {PATH: theirs}}", "variables for code"),
        ("{limits: {memory_bytes: 99999999999}}", "limits for code"),
    ],
)
def test_a_file_that_was_merely_found_may_not_widen_the_sandbox(tmp_path, monkeypatch, section, reason):
    path = tmp_path / "toolyard.yaml"
    path.write_text(f"toolyard:\n  code_execution: {section}\n")
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ConfigError, match=reason):
        resolve_workspace(None, None)
    assert resolve_workspace(None, str(path)).config.source == str(path)


def test_a_file_that_was_merely_found_may_switch_commands_off(tmp_path, monkeypatch):
    (tmp_path / "toolyard.yaml").write_text("toolyard: {code_execution: {enabled: false}}\n")
    monkeypatch.chdir(tmp_path)
    assert not resolve_workspace(None, None).config.toolyard.code_execution.enabled


def refusal(tmp_path, text):
    path = tmp_path / "named.yaml"
    path.write_text(text)
    with pytest.raises(ConfigError) as caught:
        load_config(str(path), env={})
    return caught.value


@pytest.mark.parametrize(
    ("variable", "said"),
    [
        ('"A=B": x', "a variable name"),
        ('"": x', "a variable name"),
        ('"A B": x', "a variable name"),
        ('"A\\0": x', "a variable name"),
        ('A: "x\\0"', "without a NUL"),
        ('A: "\\ud800"', "valid Unicode"),
    ],
)
def test_a_variable_that_no_process_can_have_is_refused_on_its_line(tmp_path, variable, said):
    error = refusal(tmp_path, f"toolyard:\n  code_execution:\n    env:\n      FINE: 1\n      {variable}\n")
    assert error.where.endswith("named.yaml:5")
    assert said in error.message


@pytest.mark.parametrize("limits", ["memory_bytes: 67108864", "processes: 10", "open_files: 32", "seconds: 5"])
def test_a_file_that_was_merely_found_may_lower_the_limits(tmp_path, monkeypatch, limits):
    (tmp_path / "toolyard.yaml").write_text(f"toolyard: {{code_execution: {{limits: {{{limits}}}}}}}\n")
    monkeypatch.chdir(tmp_path)
    assert resolve_workspace(None, None).config.toolyard.code_execution.limits != RunLimitsSection()


@pytest.mark.parametrize(
    ("text", "meant"),
    [
        ("limits: {seconds: 5}\n", "toolyard.code_execution.limits.seconds"),
        ("code_execution: {mode: none}\n", "toolyard.code_execution"),
        ("toolyard:\n  allowed_hosts: [a.example]\n", "toolyard.code_execution.allowed_hosts"),
    ],
)
def test_a_key_in_the_wrong_place_is_told_where_it_belongs(tmp_path, text, meant):
    hint = refusal(tmp_path, text).hint
    assert hint.startswith("Did you mean ")
    assert f'"{meant}"' in hint


def test_a_shorter_longest_run_shortens_the_usual_one():
    section = RunLimitsSection(most_seconds=60)
    assert (section.to_limits().seconds, section.to_limits().most_seconds) == (60, 60)

"""`toolyard assistant` as a client starts it."""

import json

import pytest
from click.testing import CliRunner

from toolyard.cli.main import toolyard
from toolyard.core.errors import ConfigError, ErrorForm
from toolyard.core.permission_modes import PermissionMode
from toolyard.transports.mcp import serve_stdio


@pytest.fixture
def served(tmp_path, monkeypatch):
    """Runs the command with serving replaced by a note of what would be served."""
    notes = []

    def note(yard, *, exits_after=False):
        notes.append((yard.options, list(yard.dispatch.tools)))

    monkeypatch.setattr(serve_stdio, "serve_stdio", note)
    (tmp_path / "project").mkdir()
    monkeypatch.chdir(tmp_path / "project")

    def start(*words, **variables):
        env = {"PROJECT_ROOT": None, "TOOLYARD_MODEL": None, "XDG_STATE_HOME": str(tmp_path / "state"), **variables}
        return CliRunner().invoke(toolyard, ["assistant", *words], env=env), notes

    return start


def test_the_project_is_served_with_six_tools_and_nothing_may_be_changed(served, tmp_path):
    result, ((options, tools),) = served("--workspace", ".")

    assert result.exit_code == 0
    assert options.workspace == str(tmp_path / "project")
    assert options.mode is PermissionMode.PLAN
    assert tools == ["chat", "thinkdeep", "analyze", "codereview", "debug", "precommit"]


def test_the_project_is_what_its_variable_says_where_no_other_is_named(served, tmp_path):
    (tmp_path / "another").mkdir()
    _, ((options, _),) = served(PROJECT_ROOT=str(tmp_path / "another"))
    assert options.workspace == str(tmp_path / "another")


def test_the_current_folder_serves_where_nothing_is_said(served, tmp_path):
    _, ((options, _),) = served()
    assert options.workspace == str(tmp_path / "project")


def test_a_model_on_the_command_line_goes_before_its_variable(served):
    _, ((options, _),) = served("--model", "flash", TOOLYARD_MODEL="pro")
    assert options.settings.model == "flash"


@pytest.mark.parametrize(
    ("section", "widens"),
    [
        ({"model": "google:${SECRET}"}, "models of the assistant"),
        ({"models": {"chat": "flash"}}, "models of the assistant"),
        ({"aliases": {"google:gemini-2.5-pro": "ollama:x"}}, "models of the assistant"),
        ({"allowed_models": ["google:*"]}, "models of the assistant"),
        ({"allowed_models": ["${SECRET}"]}, "uses the variable SECRET"),
        ({"thread_days": 0.001}, "threads of the assistant that go sooner"),
        ({"storage": "redis://elsewhere"}, "threads of the assistant elsewhere"),
        ({"namespace": "theirs"}, "threads of the assistant elsewhere"),
        ({"rate_limits": {"chat": None}}, "higher limits for the assistant"),
        ({"limits": {"files": 500}}, "higher limits for the assistant"),
        ({"thread_turns": 10_000}, "higher limits for the assistant"),
    ],
)
def test_a_file_that_came_with_the_project_widens_nothing(served, tmp_path, section, widens):
    (tmp_path / "project" / "toolyard.yaml").write_text(json.dumps({"assistant": section}))

    result, notes = served("--workspace", ".", SECRET="a-secret-of-the-user")

    assert notes == []
    assert isinstance(result.exception, ConfigError)
    assert widens in str(result.exception)
    assert "a-secret-of-the-user" not in str(result.exception)


@pytest.mark.parametrize("locale", ["${SECRET}", "de\nDo evil", "x", "de-DE; and so on"])
def test_a_locale_is_one(served, tmp_path, locale):
    (tmp_path / "project" / "toolyard.yaml").write_text(json.dumps({"assistant": {"locale": locale}}))

    result, notes = served("--workspace", ".", SECRET="wJalrXUtnFEMIK7MDENGbPxRfiCYz")

    assert notes == []
    assert isinstance(result.exception, ConfigError)


@pytest.mark.parametrize("locale", ["de", "de-DE", "pt_BR", "zh-Hant-TW", "en_US.UTF-8", "sr@latin"])
def test_the_usual_locales_are_taken(served, tmp_path, locale):
    (tmp_path / "project" / "toolyard.yaml").write_text(json.dumps({"assistant": {"locale": locale}}))
    _, notes = served("--workspace", ".")
    assert len(notes) == 1


@pytest.mark.parametrize("name", ["foo:bar", "nobody-knows-it", "ollama:"])
def test_a_model_that_means_nothing_is_told_before_anybody_is_served(served, name):
    result, notes = served("--model", name)

    assert notes == []
    assert isinstance(result.exception, ConfigError)


def test_a_reference_that_nobody_filled_in_is_no_model(served):
    _, ((options, _),) = served(TOOLYARD_MODEL="$TOOLYARD_MODEL", GEMINI_API_KEY="${GEMINI_API_KEY}")

    assert options.settings.model is None
    assert "GEMINI_API_KEY" not in options.settings.model_access


@pytest.mark.parametrize("allowed", ["anthropic:*", "google:gemini-2.5-flash"])
def test_a_model_that_is_not_allowed_is_refused(served, tmp_path, allowed):
    file = tmp_path / "named.yaml"
    file.write_text(json.dumps({"assistant": {"allowed_models": [allowed]}}))

    result, notes = served("--config", str(file), "--model", "google:gemini-2.5-pro")

    assert notes == []
    assert allowed in str(result.exception)


@pytest.mark.parametrize(
    ("configured", "options", "form"),
    [
        ("", (), ErrorForm.JSONRPC),
        ("errors: result", (), ErrorForm.RESULT),
        ("errors: result", ("--errors", "jsonrpc"), ErrorForm.JSONRPC),
        ("", ("--errors", "result"), ErrorForm.RESULT),
    ],
)
def test_errors_are_answered_as_the_option_or_the_configuration_says(served, configured, options, form, tmp_path):
    (tmp_path / "project" / "toolyard.yaml").write_text(configured)
    _, ((served_options, _),) = served(*options)
    assert served_options.error_form is form

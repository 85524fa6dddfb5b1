"""A command that a hint names can be run as it is printed."""

from __future__ import annotations

import shlex

import click
import pytest
from click.testing import CliRunner

from toolyard.cli.common.options import agent_option, complete_commands, config_option, state_option, workspace_option

from .conftest import Attached


def completed(text: str, *words: str) -> str:
    @click.command()
    @config_option()
    @workspace_option()
    @agent_option("")
    @state_option("")
    def command(**_: object) -> None:
        click.echo(complete_commands(text), nl=False)

    ran = CliRunner().invoke(command, words)
    assert ran.exit_code == 0, ran.output
    return ran.output


@pytest.mark.parametrize(
    ("text", "words", "said"),
    [
        ("Run `toolyard sync`.", (), "Run `toolyard sync`."),
        ("Run `toolyard sync`.", ("--config", "t.yaml"), "Run `toolyard sync --config t.yaml`."),
        ("`toolyard sync --accept x`", ("--workspace", "my ws"), "`toolyard sync --accept x --workspace 'my ws'`"),
        ("`toolyard sync --config F` it", ("--config", "t.yaml"), "`toolyard sync --config F` it"),
        (
            "`toolyard doctor`, `rg x`",
            ("--agent", "a", "--state", "s"),
            "`toolyard doctor --agent a --state s`, `rg x`",
        ),
        ("`toolyard nonsense`", ("--config", "t.yaml"), "`toolyard nonsense`"),
    ],
)
def test_a_command_in_a_hint_repeats_what_the_user_said(text: str, words: tuple[str, ...], said: str) -> None:
    assert completed(text, *words) == said


def test_the_hints_of_the_commands_name_the_configuration(attached: Attached) -> None:
    where = f"--config {shlex.quote(str(attached.config))} --state {shlex.quote(str(attached.state))}"
    assert f"`toolyard sync {where}`" in attached.run("search", "anything", code=1)
    assert f"`toolyard sync {where}`" in attached.run(
        "tools", "list", "--server", "shop", "--agent", "a"
    ) + attached.run("doctor")
    attached.document["toolyard"]["in_context_tools"] = {"my-server": ["echo"]}
    assert f"`toolyard sync my-server {where}`" in attached.run("mcp", "--tools", "code", code=2)

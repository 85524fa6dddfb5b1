"""Servers are known before agents set to work: each asked once, and none that is known."""

from dataclasses import replace

import pytest

from toolyard.app.ensure_synced import sync_before_run, sync_missing
from toolyard.app.execution_mode import tool_injection_for
from toolyard.app.yard import Yard

from .conftest import tool


@pytest.fixture
def known(place):
    """Make the tools known for one mode of execution, and say what came of it."""

    def know(execution_mode="context_based", **config):
        yard = place.open(toolyard={"execution_mode": execution_mode}, **config)
        options = yard.options
        yard.close()
        options = replace(options, injection=tool_injection_for(options.config, options.agent))
        return sync_before_run(options), options

    return know


def test_a_server_that_was_never_asked_is_asked_once(place, known):
    server = place.server("mail", tool("send"))

    first, options = known()
    second, _ = known()

    assert (first.asked, first.servers, first.tools, second.asked) == (("mail",), 1, 1, ())
    assert server.starts == 1
    with Yard.open(options) as yard:
        assert "mail__send" in yard.dispatch.tools


def test_a_server_whose_entry_changed_is_asked_again(place, known):
    server = place.server("mail", tool("send"))
    known()
    server.more = {"env": {"ACCOUNT": "other"}}

    assert known()[0].asked == ("mail",)


def test_one_that_fails_is_told_and_costs_the_others_nothing(place, known):
    place.server("mail", tool("send"))
    broken = place.server("broken")
    broken.more = {"command": "/nowhere/at-all"}

    report, options = known()

    assert [server for server, _ in report.failed] == ["broken"]
    assert report.tools == 1
    with Yard.open(options) as yard:
        assert "mail__send" in yard.dispatch.tools


@pytest.mark.parametrize(("mode", "written"), [("filesystem_first", True), ("context_based", False)])
def test_tool_files_are_written_where_code_calls_them_alone(place, known, mode, written):
    place.server("mail", tool("send"))

    report, _ = known(mode)

    assert (place.workspace / "servers/mail/send.py").is_file() == written == bool(report.written)
    assert written or list(place.workspace.iterdir()) == []


def test_what_an_agent_may_not_use_is_not_started_for_it(place, known):
    mail, bank = place.server("mail", tool("send")), place.server("bank", tool("pay"))

    report, _ = known(agents=[{"id": "a", "backend": {"mcp_servers": ["mail"]}}])

    assert (report.asked, mail.starts, bank.starts) == (("mail",), 1, 0)


def test_of_several_agents_and_none_named_all_servers_are_known(place):
    place.server("mail", tool("send"))
    yard = place.open(agents=[{"id": "a"}, {"id": "b"}])

    assert sync_missing(yard.codemode).asked == ("mail",)


def test_each_answer_is_told_as_it_comes(place):
    place.server("mail", tool("send"))
    heard = []

    sync_missing(place.open().codemode, lambda server, error: heard.append((server, error)))

    assert heard == [("mail", "")]

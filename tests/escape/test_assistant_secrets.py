"""Secrets of a project that nobody named: neither a folder nor a trace that leads to them gets them sent."""

import json
import os
from collections.abc import Generator
from pathlib import Path

import pytest

from tests.support.assistant_process import UNLIMITED, Assisted, assisted, emptied, sent
from toolyard.testing.mock_model import Say

pytestmark = pytest.mark.slow  # a start of a server, or several, for each

SECRET = "the-secret-itself"
TOKEN = "ghp_" + "aB3dE5fG7hI9jK1lM2nO4pQ6rS8tU0vW1xY2"


@pytest.fixture(scope="module")
def place(tmp_path_factory) -> Path:
    base = tmp_path_factory.mktemp("secrets").resolve()
    for folder in ("project", "home"):
        (base / folder).mkdir()
    return base


@pytest.fixture(scope="module")
def running(place) -> Generator[Assisted]:
    file = place / "assistant.yaml"
    file.write_text(json.dumps({"assistant": UNLIMITED}))
    options = ("--config", str(file))
    with assisted(str(place / "project"), Say("yes"), *options, home=str(place / "home")) as served:
        yield served


@pytest.fixture
def project(running, place) -> Path:
    folder = emptied(place / "project")
    (folder / "a.py").write_text("x = 1\n")
    running.model.all_requests.clear()
    return folder


@pytest.mark.parametrize("name", ["id_rsa", "server.key", "prod.env", "deploy.pem", "Credentials.json", "notes.txt"])
def test_a_trace_that_names_a_secret_has_none_of_it_sent(running, project, name):
    (project / ".env").write_text(f"A={SECRET}\n")
    if name == "notes.txt":
        (project / name).symlink_to(".env")
    else:
        (project / name).write_text(f"{SECRET}\n")

    answer = running.ask("debug", error_description="it fails", error_context=f'  File "/app/{name}", line 1, in x')

    assert name in json.dumps(answer["frames"])
    assert SECRET not in sent(running) + json.dumps(answer)


def test_a_secret_that_was_named_is_shown_where_the_trace_leads(running, project):
    (project / "prod.env").write_text(f"A={SECRET}\n")
    context = '  File "/app/prod.env", line 1, in x'

    answer = running.ask("debug", error_description="it fails", error_context=context, files=["prod.env"])

    assert SECRET in answer["frames"][0]["excerpt"]


SPELLED = [".ENV", "PROD.ENV", "ID_RSA", "server.PEM", ".env~", "#.env#", ".netrc.bak", "credentials.json"]


@pytest.mark.parametrize("name", [*SPELLED, "credentials", "token.txt", "auth.json"])
def test_secrets_of_folders_are_left_out_however_they_are_spelled(running, project, name):
    (project / name).write_text(f"{SECRET}\n")

    running.ask("analyze", files=["."], question="what is it")

    assert "x = 1" in sent(running)
    assert SECRET not in sent(running)


def test_a_later_turn_sends_no_secret_in_the_place_of_a_file_that_was_shown(running, project):
    (project / "b.py").write_text("y = 2\n")
    thread = running.ask("analyze", files=["."], question="what is it")["continuation_id"]
    (project / "PROD.ENV").write_text(f"A={SECRET}\n")
    (project / "keys.txt").write_text(f"token = '{TOKEN}'\n")
    for name in ("a.py", "b.py"):
        (project / name).unlink()
    (project / "a.py").symlink_to("PROD.ENV")
    os.link(project / "keys.txt", project / "b.py")

    running.ask("chat", prompt="and now", continuation_id=thread)

    assert SECRET not in sent(running)
    assert TOKEN not in sent(running)

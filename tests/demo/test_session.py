from __future__ import annotations

import pytest

from toolyard.demo.project import make_project
from toolyard.demo.session import STEPS, run_session


@pytest.fixture(scope="module")
def played(tmp_path_factory):
    folder = tmp_path_factory.mktemp("demo")
    workspace = make_project(str(folder))
    return tuple(run_session(workspace, str(folder / "state")))


def test_every_step_ends_as_it_should(played):
    assert [(done.step, done.code) for done in played] == [(step, step.code) for step in STEPS]


def test_the_refusals_change_nothing_and_show_no_secret(played):
    refused = [done for done in played if done.is_refused]
    assert [(done.code, done.diff) for done in refused] == [(-32603, ()), (-32001, ())]
    assert "nothing an agent may see" not in "".join(done.text for done in played)


def test_commands_run_and_see_nothing_outside(played):
    stolen, tested, removed = (done.text for done in played if done.step.tool == "Bash")
    assert "No such file or directory" in stolen
    assert tested == "1 passed"
    assert removed.split() == [".gitignore", "README.md", "build"]


def test_what_the_agent_removed_by_mistake_is_put_back(played):
    (restored,) = (done for done in played if done.step.tool == "snapshot_restore")
    assert restored.text.startswith("Restored")
    assert "wrote 4 files, removed 0" in restored.text


def test_the_near_miss_shows_the_real_line(played):
    (missed,) = (done for done in played if done.code == -32603)
    assert "return net - net * percent // 100" in missed.text


def test_the_last_search_finds_nothing_of_the_old_name(played):
    assert played[-1].text == "No matches found."

"""A configuration for every task, run by an agent whose commands and code are in a container."""

import asyncio
from dataclasses import replace

from tests.config.test_source_documents import UNIVERSAL
from toolyard.config.loader import load_config
from toolyard.config.settings import Settings
from toolyard.team.events import EndReason, ToolReturned
from toolyard.team.options import RunOptions
from toolyard.team.run import TeamRun
from toolyard.testing.mock_model import Call, Say, serve_model

STEPS = (
    Call("execute_bash", {"command": "ls -d servers tools skills memory; echo from the shell > shell.txt"}),
    Call("execute_python", {"code": "print(open('shell.txt').read()); open('code.txt', 'w').write('from code')"}),
    Call("read_file", {"path": "code.txt"}),
    Say("Both are written."),
)


def test_the_universal_configuration_works_in_containers(engine, image, tmp_path):
    path = tmp_path / "universal.yaml"
    path.write_text(UNIVERSAL.replace('mode: "docker"', f'mode: "docker"\n    docker: {{image: "{image}"}}'))
    events = []
    with serve_model(STEPS) as server:
        variables = {"HOME": str(tmp_path / "home"), "OPENAI_API_KEY": "key", "OPENAI_BASE_URL": server.openai}
        settings = replace(Settings.from_environment(variables), container_client=engine.environment)
        options = RunOptions(load_config(str(path), env={}), "Write two files", settings=settings)
        finished = asyncio.run(TeamRun(options, events.append).go())

    returned = [event for event in events if isinstance(event, ToolReturned)]
    assert [event.ok for event in returned] == [True, True, True]
    assert "from the shell" in returned[1].text
    assert "from code" in returned[2].text
    assert (finished.ended, finished.text) == (EndReason.ANSWERED, "Both are written.")

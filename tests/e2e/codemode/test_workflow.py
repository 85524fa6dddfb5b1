"""Discover, read, compose, keep as a skill, use from another agent: published servers, from the command line."""

from __future__ import annotations

import json
import subprocess

COMPOSED = '''
import servers.filesystem_server as fs
from servers import git, memory
from servers.sqlite import read_query


async def report_low_stock(repository: str, below: int) -> str:
    """Write the parts of which fewer than `below` are left to low.md, commit it and remember it."""
    rows = await read_query(f"select name, qty from parts where qty < {below} order by name")
    await fs.write_file(path=f"{repository}/low.md", content=f"Low stock: {rows.text}\\n")
    await git.git_add(repo_path=repository, files=["low.md"])
    await git.git_commit(repo_path=repository, message=f"Record what is below {below}")
    remembered = {"name": f"below {below}", "entityType": "report", "observations": [rows.text]}
    made = await memory.create_entities(entities=[remembered])
    return made["entities"][0]["observations"][0]
'''


def test_a_workflow_over_four_servers_is_found_composed_kept_and_used_by_another_agent(team):
    # Discover: by listing, by text, by structure, by meaning.
    shown = team.bash(
        "ls servers; echo ----; rg SELECT servers/ --type py -l; echo ----; "
        "ast-grep --pattern 'async def $FUNC($$$)' servers/git/"
    )
    listed, by_text, by_structure = (part.split() for part in shown.split("----"))
    assert {"filesystem", "filesystem_server", "git", "memory", "sequential_thinking", "sqlite"} <= set(listed)
    assert by_text == ["servers/sqlite/read_query.py"]
    assert "git_commit(repo_path:" in by_structure
    (hit, *_) = json.loads(team.run("search", "run a SELECT query on the database", "--json"))
    assert (hit["server"], hit["path"]) == ("sqlite", "servers/sqlite/read_query.py")

    # Read: what it takes to call one.
    read = team.python(
        "import toolyard_runtime\n"
        "print(toolyard_runtime.semantic_search('record changes in git')[0].path)\n"
        "print(open('servers/sqlite/read_query.py').read())"
    )
    assert read.startswith("servers/git/git_commit.py\n")
    assert "async def read_query(query: str)" in read
    assert "SELECT SQL query to execute" in read

    # Compose, in one piece of code.
    filling = (
        "from servers.sqlite import create_table, write_query\n"
        "await create_table('create table parts(name text, qty int)')\n"
        "await write_query(\"insert into parts values ('bolt', 10), ('nut', 3)\")\n"
    )
    repository = str(team.repository)
    composed = team.python(f"{filling}{COMPOSED}\nprint(await report_low_stock({repository!r}, 5))")
    assert "nut" in composed
    assert "bolt" not in composed
    assert "nut" in (team.repository / "low.md").read_text()
    assert _log(repository) == ["Record what is below 5"]

    # Keep it.
    keeping = (
        "from toolyard_runtime import save_skill\n"
        f"print(save_skill('report_low_stock', {COMPOSED!r}, 'Report the parts of which few are left'))"
    )
    assert team.python(keeping) == "skills/agent_a/report_low_stock\n"

    # Another agent finds it and uses it.
    found = team.bash("rg 'few are left' skills/ -i -l", "agent_b")
    assert "skills/agent_a/report_low_stock/SKILL.md" in found.splitlines()
    using = (
        "from skills.report_low_stock import report_low_stock\n"
        f"print(await report_low_stock({repository!r}, 20))\n"
        "from servers.memory import search_nodes\n"
        "print(sorted(entity['name'] for entity in (await search_nodes(query='below'))['entities']))"
    )
    used = team.python(using, "agent_b")
    assert "bolt" in used
    assert used.endswith("['below 20', 'below 5']\n")
    assert _log(repository) == ["Record what is below 20", "Record what is below 5"]

    # And each call of a tool was recorded, under the name of the agent whose code made it.
    events = [json.loads(line) for line in team.run("audit", "--last", "100", "--json").splitlines()]
    commits = [event["agent"] for event in events if event["tool"] == "mcp__git__git_commit"]
    assert commits == ["agent_a", "agent_b"]


def test_nothing_of_a_server_or_its_settings_is_seen_by_the_code_that_calls_it(team):
    seen = team.python(
        "import os\n"
        "from servers.memory import read_graph\n"
        "await read_graph()\n"
        "print('MEMORY_FILE_PATH' in os.environ, os.path.exists(" + repr(str(team.data)) + "))\n"
        "lines = (open(f'/proc/{pid}/cmdline').read() for pid in os.listdir('/proc') if pid.isdecimal())\n"
        "print(any('server-memory' in line for line in lines))"
    )
    assert seen == "False False\nFalse\n"


def test_an_unchanged_server_is_not_asked_again_and_nothing_is_written(team):
    again = json.loads(team.run("sync", "git", "time", "everything", "--json"))
    assert (again["asked"], again["written"], again["changes"]) == ([], 0, [])
    assert (again["servers"], again["tools"]) == (7, 57)
    assert again["plain_tokens"] > 5_000


def test_results_of_every_kind_reach_the_code(team):
    code = """
from servers import everything
from servers.sequential_thinking import sequentialthinking
from servers.time import convert_time
weather = await everything.get_structured_content(location="New York")
print(sorted(weather))
image = (await everything.get_tiny_image()).content[1]
print(image.type, image.data[:4])
links = (await everything.get_resource_links(count=2)).content
print([block.type for block in links])
told = []
slow = everything.trigger_long_running_operation.options(progress=lambda *step: told.append(step[:2]))
await slow(duration=0.4, steps=2)
print(told)
tokyo = await convert_time(source_timezone="UTC", time="16:30", target_timezone="Asia/Tokyo")
print("T01:30:00" in tokyo["target"]["datetime"])
thought = await sequentialthinking(thought="split it", nextThoughtNeeded=False, thoughtNumber=1, totalThoughts=1)
print(thought["thoughtHistoryLength"])
"""
    assert team.python(code).splitlines() == [
        "['conditions', 'humidity', 'temperature']",
        r"image b'\x89PNG'",
        "['text', 'resource_link', 'resource_link']",
        "[(1, 2), (2, 2)]",
        "True",
        "1",
    ]


def test_what_a_server_refuses_is_raised_with_its_words(team):
    code = """
from servers import filesystem_server
from toolyard_runtime.errors import ToolError
try:
    await filesystem_server.read_text_file(path="/etc/passwd")
except ToolError as error:
    print(error)
"""
    assert "outside allowed directories" in team.python(code)


def _log(repository: str) -> list[str]:
    ran = subprocess.run(["git", "-C", repository, "log", "--format=%s"], capture_output=True, text=True, check=True)
    return ran.stdout.splitlines()

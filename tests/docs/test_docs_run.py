"""Every command and snippet in README and docs runs as it is written.

Blocks marked `sh` run in one shell a page, in order; `python` blocks in the interpreter; `yaml` blocks are loaded as
a configuration. `sh e2e` needs real clients and is run by the end-to-end suite. `text` and `json` are pictures.
Where a page drives an agent CLI, a scripted one stands on the PATH; the end-to-end suite drives the real ones. Where
it asks a model, the page starts a scripted one itself, on a port that is free here, or the providers' addresses lead
to one of `SCRIPTS`, whatever the key: the page then shows what somebody with a real one types.
"""

import contextlib
import os
import re
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.cli import scripted_gemini
from tests.docs import scripted_claude
from toolyard.config.backends import BACKENDS
from toolyard.config.loader import load_config
from toolyard.config.template import starting_config
from toolyard.core.events import CallOutcome, Event
from toolyard.storage.audit_log import AuditLog
from toolyard.testing.mock_model import serve_model
from toolyard.testing.mock_model.script_files import read_script

ROOT = Path(__file__).parents[2]
PAGES = sorted([ROOT / "README.md", ROOT / "ARCHITECTURE.md", ROOT / "CONTRIBUTING.md", *ROOT.glob("docs/*.md")])
INDEX = ROOT / "docs" / "README.md"
EXAMPLES = sorted(ROOT.glob("examples/*.yaml"))
GENERATED = set(ROOT.glob("docs/api*.md"))  # their examples are fragments; tests/api checks these pages
FENCE = re.compile(r"^```([^\n]*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
KNOWN = {"sh", "sh e2e", "python", "yaml", "text", "json", "json e2e", "toml e2e", ""}
# `make` inside a test would set up the very environment the test runs in. CI runs these targets, all but llama.
MAKE = re.compile(r"^make (setup|test|slow|e2e|docker|llama|bench)\b.*$", re.MULTILINE)

KEY = "a-key-that-nobody-asks-for"
PORT = "8123"  # of the scripted models that pages start
SCRIPTS = {
    "first-agent": ROOT / "examples" / "first-agent.json",  # for its local model; the other one it starts itself
    "run-events": Path(__file__).parent / "models" / "run-events.json",
}
SECONDS = 340  # twenty commands a page, each a start of Python
# Of what a page shows of its commands, what has to be so.
SAID = {
    "README.md": (
        "helper  ✓ Bash   python hello.py Ada  Hello, Ada!",
        "`hello.py` greets the person you name: it printed `Hello, Ada!`.",
    ),
    "first-agent.md": (
        "execution mode: context_based: every tool is in the context\nshared folder: ",
        "limits: 4 rounds, 3600 seconds, 100 turns of a model in a round at most\n\nagent helper\n",
        "tokens before the task: 1,511 for tools, ",
        "Ready to run.",
        "helper  ✓ Bash   python hello.py Ada  Hello, Ada!",
        "`hello.py` greets the person you name: it printed `Hello, Ada!`.",
        "helper: before a change",  # the one after it is named by whoever came first: the change, or the answer
        "Goodbye, {sys.argv[1]}",
        "The note is written.",
        "# A note",
    ),
    "team.md": (
        "bob  ✓ Bash   python test_slug.py && echo passed",
        "ada  ✓ Bash   cd shared/bob && python test_slug.py",
        "ada  → voted for bob: It drops what an address cannot have, and has a test.",
        "✓ Consensus  All agents have voted, 2 of 2 for bob.",
        "  consensus for bob  ",
        "team/site: 2 written.",
        "To undo it: toolyard snapshot restore ",
        "bob  | I noted what is missing in `notes.md`.",
        "All agents have voted, 2 of 2 for ada.",
        "carl  → voted for ada: It has a test.",
    ),
    "run-events.md": ('"ended":"answered"',),
    "second-opinion.md": (
        'Added "toolyard-assistant" for Claude Code: ',
        "GEMINI_API_KEY, GOOGLE_GEMINI_BASE_URL reach it from the environment of Claude Code; no value was written.",
        'Removed "toolyard-assistant" for Claude Code: ',
    ),
    "second-opinion-http.md": (
        "1. **high** (bug) cart.py:12: The remainder is lost: 100 cents among 3 are charged as 99\n",
        'Left out: "SQL is put together from what users type": cart.py has no line 40, only 12\n',
        "`split(100, 3)` is then `[34, 33, 33]`, and the shares always add up.\n\n## Metadata\n- status: success\n",
        "files: card.py does not exist; did you mean cart.py?\nCorrect these names",
        "[{'severity': 'high', 'category': 'bug', 'file': 'cart.py', 'line': 12, 'title': 'The remainder is lost",
        "Verdict: no-go\nchecks: no-go\nreview: none\n- secrets: billing.py:1 AWS Access Key\n",
        "There is no key for Gemini API. Set GEMINI_API_KEY",
        "\nno-go partial\n",
        "2 turns  codereview,chat  ",
        "asked\n    How would you write split?\nanswered by google:gemini-2.5-pro\n",
        "ok agent precommit ",
        "Deleted 3 threads.\n",
    ),
    "one-config.md": (
        "servers: shop (1 tool), weather (1 tool), crm (209 tools)",
        "tokens before the task: 921 for tools, ",
        "as files: 211 tools, which would cost 10,188 tokens in the context but cost none as files",
        "helper  ✓ execute_python  from servers.shop import list_stock  2 parts",
        "- bolts: 3\n- washers: 2\n",
        "helper  ✓ execute_python  from servers.weather import forecast  Lima: sunny for 3 days.",
        "ok helper mcp__shop__list_stock",
        "tokens before the task: 1,587 for tools, ",
        "tokens before the task: 11,699 for tools, ",
        "helper  ✓ shop__list_stock",
    ),
}


def blocks(page: Path, kind: str) -> list[str]:
    return [body for info, body in FENCE.findall(page.read_text()) if info.strip() == kind]


def pages_with(kind: str) -> list[Path]:
    return [page for page in PAGES if blocks(page, kind)]


def name(page: Path) -> str:
    return "docs-index" if page == INDEX else page.name


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_every_block_says_what_it_is(page):
    assert {info.strip() for info, _ in FENCE.findall(page.read_text())} <= KNOWN


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_every_link_between_pages_leads_somewhere(page):
    links = re.findall(r"\]\((?!https?:)([^)#]+)", page.read_text())
    assert [link for link in links if not (page.parent / link).exists()] == []


def test_the_way_in_shows_how_to_run_one_file_and_one_test():
    commands = "\n".join(blocks(ROOT / "CONTRIBUTING.md", "sh"))  # that they work, the test of the commands sees
    assert re.search(r"pytest tests/\S+\.py$", commands, re.MULTILINE)
    assert re.search(r"pytest tests/\S+\.py::test_\w+$", commands, re.MULTILINE)


@contextlib.contextmanager
def models_of(page: Path) -> Iterator[Mapping[str, str]]:
    """The variables that lead to the scripted model of a page; none where it asks no model."""
    script = SCRIPTS.get(page.stem)
    if script is None:
        yield {}
        return
    with serve_model(read_script(str(script))) as server:
        yield {
            "GOOGLE_GEMINI_BASE_URL": server.gemini,
            "ANTHROPIC_BASE_URL": server.anthropic,
            "ANTHROPIC_API_KEY": KEY,
            "OPENAI_BASE_URL": server.openai,
            "OPENAI_API_KEY": KEY,
            "OLLAMA_BASE_URL": server.openai,
        }


def free_port() -> str:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return str(listener.getsockname()[1])


def printed(script: str, env: Mapping[str, str], folder: Path) -> tuple[int, str]:
    """What a page's commands end with and say. What they leave running goes with them."""
    output = folder / "output"
    with output.open("w") as file:
        shell = subprocess.Popen(
            ["bash", "-euo", "pipefail", "-c", script],
            cwd=ROOT,
            env=env,
            stdin=subprocess.DEVNULL,
            stdout=file,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        try:
            code = shell.wait(SECONDS)
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(shell.pid, signal.SIGKILL)
            shell.wait()
    return code, output.read_text()


@pytest.mark.slow
@pytest.mark.timeout(360)
@pytest.mark.parametrize("page", pages_with("sh"), ids=name)
def test_the_commands_run(page, tmp_path):
    script = MAKE.sub("true", "\n".join(blocks(page, "sh"))).replace("/tmp/", f"{tmp_path}/")
    script = script.replace(PORT, free_port())
    driven = scripted_gemini.install(tmp_path / "bin")
    scripted_claude.install(driven)
    with models_of(page) as models:
        env = {
            "PATH": f"{driven}:{os.path.dirname(sys.executable)}:/usr/local/bin:/usr/bin:/bin",
            "HOME": str(tmp_path),
            "XDG_STATE_HOME": str(tmp_path / "state"),
            "LC_ALL": "C.UTF-8",
            "GEMINI_API_KEY": KEY,
            **models,
        }
        code, said = printed(script, env, tmp_path)
    assert code == 0, said
    assert [words for words in SAID.get(page.name, ()) if words not in said] == [], said


@pytest.mark.slow
@pytest.mark.timeout(240)
@pytest.mark.parametrize("page", [page for page in pages_with("python") if page not in GENERATED], ids=name)
def test_the_snippets_run(page, tmp_path):
    event = Event("c", "s", "a", "", "Read", "read", "/ws/a", "allow", "inside", CallOutcome.OK, 0, 1.0)
    with AuditLog.open(str(tmp_path)) as log:  # a page may look at a log beside it
        log.append(event)
    (tmp_path / "project").mkdir()
    driven = scripted_gemini.install(tmp_path / "bin")
    own = {"PATH": f"{driven}:{os.environ['PATH']}", "XDG_STATE_HOME": str(tmp_path / "state"), "GEMINI_API_KEY": KEY}
    with models_of(page) as models:
        env = {**os.environ, **own, **models}
        for snippet in blocks(page, "python"):
            words = [sys.executable, "-c", snippet]
            done = subprocess.run(
                words, cwd=tmp_path, env=env, capture_output=True, text=True, timeout=50, check=False
            )
            assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("page", pages_with("yaml"), ids=name)
def test_the_configurations_load(page, tmp_path):
    for number, text in enumerate(blocks(page, "yaml")):
        path = tmp_path / f"{number}.yaml"
        path.write_text(text)
        assert load_config(str(path), env={}).source == str(path)


@pytest.mark.parametrize("example", EXAMPLES, ids=name)
def test_the_examples_load_and_every_agent_has_a_backend(example):
    assert all(agent.backend.kind is not None for agent in load_config(str(example), env={}).agents)


@pytest.mark.parametrize("script", sorted(ROOT.glob("examples/*.json")), ids=name)
def test_every_script_of_the_examples_can_be_read_and_is_started_by_a_page(script):
    assert callable(read_script(str(script)))
    start = f"python -m toolyard.testing.mock_model --script examples/{script.name} --port {PORT} &"
    assert [page.name for page in pages_with("sh") if start in "\n".join(blocks(page, "sh")).splitlines()] != []


def shown_config(page: str) -> dict[str, Any]:
    """The first configuration that the commands of a page write."""
    commands = "\n".join(blocks(ROOT / "docs" / page, "sh"))
    found = re.search(r"^cat > \S+\.yaml <<'YAML'\n(.*?)^YAML$", commands, re.MULTILINE | re.DOTALL)
    assert found is not None
    return yaml.safe_load(found.group(1))


def test_init_writes_the_agent_that_the_first_guide_shows():
    shown = shown_config("first-agent.md")
    assert yaml.safe_load(starting_config([BACKENDS["gemini"]], {}))["agent"] == shown["agent"]


def test_init_writes_a_team_in_the_shape_that_its_guide_shows():
    shown = shown_config("team.md")
    written = yaml.safe_load(starting_config([BACKENDS["gemini"], BACKENDS["claude"]], {}))
    assert [agent["backend"].keys() for agent in written["agents"]] == [
        agent["backend"].keys() for agent in shown["agents"]
    ]
    assert [(agent["backend"]["type"], agent["backend"]["permission_mode"]) for agent in written["agents"]] == [
        (agent["backend"]["type"], agent["backend"]["permission_mode"]) for agent in shown["agents"]
    ]
    assert written["toolyard"]["workspace"] == shown["toolyard"]["workspace"]


def test_the_session_by_hand_does_what_it_shows(tmp_path):
    (script,) = [body for body in blocks(ROOT / "docs" / "clients.md", "sh") if "session.jsonl" in body]
    script = script.replace("/tmp/", f"{tmp_path}/")
    env = {
        "PATH": f"{os.path.dirname(sys.executable)}:/usr/bin:/bin",
        "HOME": str(tmp_path),
        "XDG_STATE_HOME": str(tmp_path / "state"),
    }
    done = subprocess.run(["bash", "-euc", script], env=env, capture_output=True, text=True, timeout=50, check=False)
    assert 'return "good morning"' in done.stdout
    assert "Edited greet.py: 1 replacement." in done.stdout
    assert "2 events: hash chain verified" in done.stdout

"""The examples of every `--help`: each is understood by its command, and run where it ends by itself."""

from __future__ import annotations

import contextlib
import inspect
import json
import os
import pty
import re
import shlex
import shutil
import signal
import subprocess
import sys
import textwrap
import time
import urllib.error
import urllib.request
import zipfile
from collections.abc import Iterator
from pathlib import Path

import click
import pytest

from tests.cli import scripted_gemini
from toolyard.assistant.threads.sqlite_store import SqliteThreads
from toolyard.assistant.threads.store import ThreadLimits
from toolyard.assistant.threads.thread import Message, Turn
from toolyard.cli.main import toolyard
from toolyard.codemode.custom.web import screenshot
from toolyard.files.roots import Root
from toolyard.skills import Skill, save
from toolyard.storage.state_folder import ensure_state_dir, state_dir
from toolyard.testing.mock_model import Hang, Request, Say, Step, serve_model

SECONDS = 120
INTERRUPTED = 130
REFUSED = 126
PROGRAMS = os.path.dirname(sys.executable)
ADD = 'def add(a, b):\n    """Adds.\n\n    >>> add(1, 2)\n    3\n    """\n    return a + b\n'
PAGE = "---\nname: pdf-forms\ndescription: Fills forms.\n---\nFill them.\n"
SERVER = '''
import sys
from mcp.server.mcpserver import MCPServer

server = MCPServer(sys.argv[1])

if sys.argv[1] == "time":

    @server.tool()
    def get_current_time(timezone: str) -> str:
        """Tell the time of a timezone."""
        return timezone

else:

    @server.tool()
    def create_issue(title: str) -> str:
        """Create an issue."""
        return title

    @server.tool()
    def search_issues(query: str) -> str:
        """Search issues."""
        return query

    @server.tool()
    def send_message(channel: str) -> str:
        """Send a message to a channel."""
        return channel

    @server.tool()
    def read_spreadsheet(path: str) -> str:
        """Read a spreadsheet."""
        return path

server.run("stdio")
'''
# What is only parsed, and why: the first pattern that is found counts.
NOT_RUN = {
    r"toolyard drive (?!gemini)": "needs the program of another maker; tests/e2e runs them",
    r"^claude ": "is a program of another maker",
    r"^toolyard memory import": "needs a store of mem0; tests/e2e/memory makes one",
    r"^toolyard call tools\.web\.screenshot": "needs a browser; tests/e2e/test_web_tools.py has one",
}
# What does not end by itself, with what it prints when it is ready. It is interrupted then.
ENDLESS = {r"--http": "Serving ", r"--follow": "denied"}
WAIT = "Wait until I interrupt you."


def commands(command: click.Command) -> Iterator[click.Command]:
    yield command
    if isinstance(command, click.Group):
        context = click.Context(command)
        for name in command.list_commands(context):
            below = command.get_command(context, name)
            assert below is not None
            yield from commands(below)


def examples() -> list[str]:
    """Without what is said of each, and each once."""
    found: dict[str, None] = {}
    for command in commands(toolyard):
        lines = iter((command.epilog or "").splitlines())
        for line in lines:
            if re.fullmatch(r"Examples?:", line):
                break
        for line in lines:
            if not line.startswith("  "):
                break
            found[re.split(r"\s{2,}", line.strip())[0]] = None
    return [*found]


EXAMPLES = examples()
RUN = [each for each in EXAMPLES if not any(re.search(pattern, each) for pattern in NOT_RUN)]


def test_every_reason_not_to_run_an_example_is_needed() -> None:
    assert [pattern for pattern in NOT_RUN if not any(re.search(pattern, each) for each in EXAMPLES)] == []


@pytest.mark.parametrize("example", EXAMPLES)
def test_every_example_is_understood(example: str) -> None:
    reader = shlex.shlex(example, posix=True, punctuation_chars="|<>;&")
    reader.whitespace_split = True
    words = [*reader]
    words = words[len(words) - words[::-1].index("toolyard") :]
    end = next((at for at, word in enumerate(words) if set(word) <= set("|<>;&")), len(words))
    command, context, rest = toolyard, click.Context(toolyard), words[:end]
    while isinstance(command, click.Group):
        name, found, rest = command.resolve_command(context, rest)
        assert name is not None
        assert found is not None
        command, context = found, click.Context(found, info_name=name, parent=context)
    command.make_context(context.info_name, rest, parent=context.parent)


def test_an_example_with_a_tool_of_ours_gives_arguments_that_it_has() -> None:
    (example,) = [each for each in EXAMPLES if each.startswith("toolyard call tools.web.screenshot")]
    arguments = json.loads(shlex.split(example)[-1])
    assert arguments.keys() <= inspect.signature(screenshot).parameters.keys() - {"context"}


class World:
    """A user's home with a project in it, which is as it was before each example."""

    def __init__(self, base: Path, model: str) -> None:
        self.home, self.kept = base / "home", base / "kept"
        self.project = self.home / "project"
        self.ids: dict[str, str] = {}
        self.environment = {
            "PATH": f"{scripted_gemini.install(base / 'bin')}:{PROGRAMS}:{os.environ['PATH']}",
            "HOME": str(self.home),
            "GEMINI_API_KEY": "not-a-key",
            "GOOGLE_GEMINI_BASE_URL": model,
        }

    def run(self, example: str, cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            ["bash", "-o", "pipefail", "-c", example],
            env=self.environment,
            cwd=cwd or self.project,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=SECONDS,
            check=False,
        )

    def run_until(self, example: str, sign: str) -> int:
        """Interrupt it once it has printed the sign. Its exit code."""
        program = subprocess.Popen(
            ["bash", "-c", f"exec env {example}"],
            env=self.environment,
            cwd=self.project,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        assert program.stdout is not None
        printed = ""
        for line in program.stdout:
            printed += line
            if sign in line:
                if address := re.search(r"http://\S+", line):
                    with pytest.raises(urllib.error.HTTPError, match="401"):
                        urllib.request.urlopen(address[0], timeout=SECONDS)
                program.send_signal(signal.SIGINT)
                break
        printed += program.communicate(timeout=SECONDS)[0]
        assert sign in printed, printed
        return program.returncode

    def run_on_terminal(self, example: str, answer: str) -> int:
        ours, theirs = pty.openpty()
        program = subprocess.Popen(
            shlex.split(example),
            env=self.environment,
            cwd=self.project,
            stdin=theirs,
            stdout=theirs,
            stderr=theirs,
            start_new_session=True,
        )
        os.close(theirs)
        os.write(ours, f"{answer}\n".encode())
        with contextlib.suppress(OSError):  # which is how a terminal ends
            while os.read(ours, 4_096):
                pass
        os.close(ours)
        return program.wait(SECONDS)

    def must(self, example: str) -> str:
        ran = self.run(example)
        assert ran.returncode == 0, (example, ran.stdout, ran.stderr)
        return ran.stdout

    def restore(self) -> None:
        shutil.rmtree(self.home)
        shutil.copytree(self.kept, self.home, symlinks=True)

    def build(self) -> None:
        self._files()
        self._skills()
        self._threads()
        self.must("git init -q . && git add src && git -c user.name=A -c user.email=a@b commit -qm 'Begin'")
        self.must("toolyard trust --yes")
        self.must("toolyard sync && toolyard sync --config team.yaml")
        for name, text in (("3f2a", "x = 1\n"), ("81bc", "x = 2\n")):
            (self.project / "src/app.py").write_text(text)
            self.ids[name] = json.loads(self.must("toolyard snapshot create --json"))["id"]
        self.must("toolyard exec -c '1 + 1'")
        self.must("toolyard exec --bash - --config team.yaml --agent agent_b < share.sh")
        fact = json.loads(self.must('toolyard memory add "The reports need an index on created_at" --json'))
        self.ids["memory"] = fact["id"]
        for words in ('"The deployment is manual"', '"Ask before you deploy"'):
            fact = json.loads(self.must(f"toolyard memory add {words} --config team.yaml --agent writer --json"))
        self.ids["writer"] = fact["id"]
        assert self.run("toolyard exec --bash -c true --config deny.yaml").returncode == REFUSED
        assert self.run_until(f"toolyard run agent.yaml '{WAIT}' --json", '"agent_started"') == INTERRUPTED
        (run,) = json.loads(self.must("toolyard run --list --json"))
        self.ids["run"] = run["run"]
        shutil.copytree(self.home, self.kept, symlinks=True)

    def _files(self) -> None:
        server = str(self.home / "server.py")
        entries = {name: {"command": [sys.executable, server, name]} for name in ("time", "github")}
        names = ("writer", "agent_a", "agent_b")
        agents = [{"id": name, "backend": {"type": "gemini", "model": name}} for name in names]
        servers = json.dumps({"mcpServers": {"time": {"command": sys.executable, "args": [server, "time"]}}})
        one = {"agent": agents[0], "toolyard": {"workspace": "one"}}
        files = {
            "server.py": SERVER,
            "toolyard.yaml": json.dumps({"available_mcp_servers": entries}),
            "project/toolyard.yaml": json.dumps(
                {"available_mcp_servers": entries, "toolyard": {"available_custom_tools": ["web.screenshot"]}}
            ),
            "project/team.yaml": json.dumps(
                {"agents": agents, "toolyard": {"workspace": ".", "available_mcp_servers": entries}}
            ),
            "project/agent.yaml": json.dumps(one),
            "project/deny.yaml": json.dumps({"permissions": {"deny": ["Bash"]}}),
            "project/src/app.py": "x = 0\n",
            "project/README.md": "# Project\n",
            "project/share.sh": "mkdir src && echo 'x = 3' > src/app.py && echo '# Read me' > README.md\n",
            "project/agents/writer/memory/learned_patterns.md": "# Patterns\n",
            "project/script.py": "print(1)\n",
            "project/plot.py": "print(2)\n",
            "project/build.sh": "echo built\n",
            "project/Makefile": "clean:\n\ttrue\n",
            "project/task.md": "Write it.\n",
            "project/query.json": '{"query": "bug"}',
            "project/in.json": '{"q": "bug"}',
            "project/.toolyardignore": "*.tmp\n",
            ".claude/skills/pdf-forms/SKILL.md": PAGE,
            ".claude.json": servers,
            ".cursor/mcp.json": servers,
            ".gemini/settings.json": servers,
            "new/.mcp.json": servers,
        }
        for name, text in files.items():
            file = self.home / name
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(text)

    def _skills(self) -> None:
        root = Root(str(self.project))
        for agent, code in (("agent_a", ADD), ("agent_a", ADD.replace("Adds.", "Adds two."))):
            save(root, agent, Skill("create_website", code, "Makes a website."))
        root.close()
        archive = self.project / "downloads/pdf-forms.zip"
        archive.parent.mkdir()
        with zipfile.ZipFile(archive, "w") as zipped:
            zipped.writestr("pdf-forms/SKILL.md", PAGE)

    def _threads(self) -> None:
        folder = ensure_state_dir(state_dir(str(self.home / ".local/state/toolyard"), str(self.project)))
        with SqliteThreads(folder, ThreadLimits(86_400.0, 100)) as store, store.turn(None, lambda: False) as opened:
            question = Message("user", "Which index do the reports need? A deadlock?", tool="chat", at=time.time())
            opened.keep(Turn(question, Message("assistant", "One on created_at.", "chat", "google:x", tokens=1)))
        self.ids["thread"] = opened.thread.id


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    waits = True

    def answer(request: Request) -> Step:
        return Hang() if waits and WAIT in str(request.body) else Say("Done.\nVOTE: writer")

    with serve_model(answer) as model:
        made = World(tmp_path_factory.mktemp("help").resolve(), model.gemini)
        made.project.mkdir(parents=True)
        made.build()
        waits = False
        yield made


@pytest.mark.slow
@pytest.mark.timeout(SECONDS + 60)
@pytest.mark.parametrize("example", RUN)
def test_every_example_runs(world: World, example: str) -> None:
    world.restore()
    known = world.ids["thread"] if example.startswith("toolyard threads") else world.ids["memory"]
    words = re.sub(r"--config F$", "--config team.yaml", example).replace("3f2a81bc", world.ids["run"])
    words = words.replace("3f0c9a61d2b84e57", world.ids["writer"]).replace("3f0c9a61", known)
    words = words.replace("3f2a", world.ids["3f2a"]).replace("81bc", world.ids["81bc"])
    if ("--agent" in example and "--config" not in example) or example.startswith("toolyard share"):
        shutil.copy(world.project / "team.yaml", world.project / "toolyard.yaml")
        world.must("toolyard trust --yes")
    if "community" in example:
        world.must("toolyard skill promote agent_a/create_website")
    cwd = world.home / "new" if example.startswith("toolyard init") else world.project
    if sign := next((sign for pattern, sign in ENDLESS.items() if re.search(pattern, example)), None):
        assert world.run_until(re.sub(r":876\d$", ":0", words), sign) in {0, INTERRUPTED}
        return
    if example == "toolyard trust":
        world.must("toolyard trust --revoke .")
        assert world.run_on_terminal(words, "y") == 0
        assert str(world.project) in world.must("toolyard trust --list")
        return

    ran = world.run(words, cwd)

    assert ran.returncode == 0, textwrap.shorten(ran.stdout + ran.stderr, 2000)

"""The cases run against Claude Code and against our server, and written down in one form.

A record has the answers of each call (whether it was an error, the text, and what a program is told of it), and the
files afterwards. What is never the same twice (folders, ids) has a name in its place. As a program it renews the
recordings: `python -m tests.parity.recording [path of claude]`, without a path only ours.
"""

from __future__ import annotations

import itertools
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from tests.parity.cases import CASES, Case
from toolyard.testing.mcp_client import StdioClient
from toolyard.testing.mock_model import DONE, Call, Request, Step, Turn, Usage, serve_model

DATA = pathlib.Path(__file__).parents[1] / "data" / "claude_code"
THEIRS, OURS = DATA / "claude_code.json", DATA / "toolyard.json"
TOOLS = "Bash,Read,Write,Edit,NotebookEdit,Grep,Glob,TaskOutput,TaskStop"
OPTIONS = ("--tools", TOOLS, "--permission-mode", "bypassPermissions")
RUN_SECONDS = 240
_TASK = re.compile(r"(?:background with ID: |in the background as )(\w+)")
_NAMES = (
    (re.compile(r"\S*/tool-results/\w+\.txt"), "FILE"),
    (re.compile(r"\.toolyard/output/[\w-]+\.txt"), "FILE"),
    (re.compile(r"\S*/tasks/TASK\.output"), "FILE"),
    (re.compile(r"Inserted cell [0-9a-f]{8}"), "Inserted cell CELL"),
    (re.compile(r'"id": "[0-9a-f]{8}"'), '"id": "CELL"'),
    (re.compile(r"toolu_\w+"), "CALL"),
)
Record = dict[str, Any]


def recorded_theirs(program: str, base: pathlib.Path, variables: Mapping[str, str]) -> dict[str, Record]:
    """What Claude Code answers: one session for all cases that share an environment."""
    records: dict[str, Record] = {}
    for number, (environment, group) in enumerate(_groups()):
        folder = base / str(number)
        records |= _theirs(program, folder, {**variables, **dict(environment)}, group)
    return {case.name: records[case.name] for case in CASES}


def recorded_ours(base: pathlib.Path) -> dict[str, Record]:
    """What our server answers."""
    workspace = base / "ws"
    _lay_out(workspace, CASES)
    command = (sys.executable, "-m", "toolyard", "mcp", "--workspace", str(workspace), "--state", str(base / "state"))
    records: dict[str, Record] = {}
    client = StdioClient(command)
    try:
        for case in CASES:
            task, answers = "", []
            for tool, arguments in case.calls:
                response = client.call(tool, **_placed(arguments, workspace / _folder(case), task))
                answer = _answer_of_ours(response)
                task = _task_in(answer["text"]) or task
                answers.append((task, answer))
            records[case.name] = _record(case, workspace, answers)
    finally:
        client.close()
    return records


def differences(theirs: Mapping[str, Record], ours: Mapping[str, Record]) -> dict[str, list[str]]:
    """For each case that is not the same, in what: outcome, files, facts, words."""
    found: dict[str, list[str]] = {}
    for case in CASES:
        one, other = theirs[case.name], ours[case.name]
        a, b = one["answers"][case.tested], other["answers"][case.tested]
        kinds = {
            "outcome": a["error"] != b["error"],
            "files": one["files"] != other["files"],
            "facts": a["error"] == b["error"] and a["facts"] != b["facts"],
            "words": a["text"] != b["text"],
        }
        if any(kinds.values()):
            found[case.name] = [kind for kind, differs in kinds.items() if differs]
    return found


def _groups() -> Iterator[tuple[tuple[tuple[str, str], ...], list[Case]]]:
    def environment(case: Case) -> tuple[tuple[str, str], ...]:
        return tuple(sorted(case.environment.items()))

    for key, group in itertools.groupby(sorted(CASES, key=environment), environment):
        yield key, list(group)


def _theirs(
    program: str, base: pathlib.Path, variables: Mapping[str, str], cases: Sequence[Case]
) -> dict[str, Record]:
    workspace, home = base / "ws", base / "home"
    home.mkdir(parents=True)
    _lay_out(workspace, cases)
    calls = [(case, *call) for case in cases for call in case.calls]
    tasks = [""] * (len(calls) + 1)

    def script(request: Request) -> Step:
        done = len(request.results)
        if "Bash" not in request.tools or done >= len(calls):
            return DONE
        if done:
            tasks[done] = _task_in(request.results[done - 1]) or tasks[done - 1]
        case, tool, arguments = calls[done]
        placed = _placed(arguments, workspace / _folder(case), tasks[done])
        return Turn(calls=(Call(tool, placed),), usage=Usage(1, 1))

    with serve_model(script) as server:
        ran = subprocess.run(
            [program, *("-p", "go", "--output-format", "stream-json", "--verbose"), *OPTIONS],
            cwd=workspace,
            env={**variables, **_settings(server.url, home)},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=RUN_SECONDS,
            check=False,
        )
    events = [json.loads(line) for line in ran.stdout.splitlines() if line.startswith("{")]
    results = [event for event in events if event.get("type") == "user" and "tool_use_result" in event]
    assert len(results) == len(calls), ran.stderr + ran.stdout[-2_000:]
    answers: dict[str, list[tuple[str, Record]]] = {case.name: [] for case in cases}
    task = ""
    for (case, _, _), event in zip(calls, results, strict=True):
        answer = _answer_of_theirs(event)
        task = _task_in(answer["text"]) or task
        answers[case.name].append((task, answer))
    return {case.name: _record(case, workspace, answers[case.name]) for case in cases}


def _settings(url: str, home: pathlib.Path) -> dict[str, str]:
    return {
        "HOME": str(home),
        "ANTHROPIC_BASE_URL": url,
        "ANTHROPIC_API_KEY": "not-a-key",
        "CLAUDE_CONFIG_DIR": str(home / ".claude"),
        "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
        "DISABLE_AUTOUPDATER": "1",
        "IS_SANDBOX": "1",  # without it, root may not use bypassPermissions
    }


def _answer_of_theirs(event: Mapping[str, Any]) -> Record:
    (result,) = event["message"]["content"]
    content, told = result["content"], event["tool_use_result"]
    text = content if isinstance(content, str) else "\n".join(part.get("text", "") for part in content)
    facts: Record = {}
    if isinstance(told, dict):
        file = told.get("file", {})
        if told.get("type") == "text":
            facts = {"content": file["content"], "first": file["startLine"], "total": file["totalLines"]}
        elif "structuredPatch" in told:
            facts = {"patch": told["structuredPatch"]}
    return {"error": bool(result.get("is_error")), "text": text, "facts": facts}


def _answer_of_ours(response: Mapping[str, Any]) -> Record:
    result = response["result"]
    text = "\n".join(part["text"] for part in result["content"] if part["type"] == "text")
    told = result.get("structuredContent", {})
    facts: Record = {}
    if told.get("kind") == "text":
        facts = {"content": told["content"], "first": told["first_line"], "total": told["total_lines"]}
    elif "structuredPatch" in told and "cell_id" not in told:
        facts = {"patch": told["structuredPatch"]}
    return {"error": bool(result.get("isError")), "text": text, "facts": facts}


def _record(case: Case, workspace: pathlib.Path, answers: Sequence[tuple[str, Record]]) -> Record:
    folder = workspace / _folder(case)
    files = {
        str(path.relative_to(folder)): path.read_bytes().decode("utf-8", "replace")
        for path in sorted(folder.rglob("*"))
        if path.is_file() and not path.name.endswith(".output")
    }
    named = [_named(answer, folder, workspace, task) for task, answer in answers]
    return {"answers": named, "files": _named(files, folder, workspace, "")}


def _named(value: Any, folder: pathlib.Path, workspace: pathlib.Path, task: str) -> Any:
    """`value` with names in place of what is never the same twice."""
    if isinstance(value, dict):
        return {key: _named(inner, folder, workspace, task) for key, inner in value.items()}
    if isinstance(value, list):
        return [_named(inner, folder, workspace, task) for inner in value]
    if not isinstance(value, str):
        return value
    value = value.replace(str(folder), "WS").replace(folder.name + "/", "").replace(str(workspace), "ROOT")
    value = re.sub(rf"\b{task}\b", "TASK", value) if task else value
    for pattern, name in _NAMES:
        value = pattern.sub(name, value)
    return value


def _placed(arguments: Mapping[str, Any], folder: pathlib.Path, task: str) -> dict[str, Any]:
    return json.loads(json.dumps(dict(arguments)).replace("WS", str(folder)).replace("TASK", task))


def _task_in(text: str) -> str:
    found = _TASK.search(text)
    return found[1] if found else ""


def _lay_out(workspace: pathlib.Path, cases: Sequence[Case]) -> None:
    for case in cases:
        folder = workspace / _folder(case)
        folder.mkdir(parents=True)
        for name, content in case.files.items():
            path = folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content if isinstance(content, bytes) else content.encode())


def _folder(case: Case) -> str:
    return f"case-{CASES.index(case):02}"


def main() -> None:
    DATA.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory() as base:
        root = pathlib.Path(base)
        recordings = [(OURS, recorded_ours(root / "ours"))]
        if len(sys.argv) > 1:
            variables = {"PATH": os.environ["PATH"]}
            recordings.append((THEIRS, recorded_theirs(sys.argv[1], root / "theirs", variables)))
    for path, records in recordings:
        path.write_text(json.dumps(records, indent=1, ensure_ascii=False) + "\n")


if __name__ == "__main__":
    main()

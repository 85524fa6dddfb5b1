"""Every recorded run of a real CLI, with what is known of it beside its output, and the verdict it must get.

The names say what was tried, not what came of it: `denied` and `notrustfolder` of Gemini CLI went well, `trust` did
not although it says so. The server is called `ws` in them.
"""

from __future__ import annotations

import hashlib
import json
import pathlib
from dataclasses import dataclass

import pytest

from toolyard.drivers.clis.claude import Claude
from toolyard.drivers.clis.cli import Cli
from toolyard.drivers.clis.codex import Codex
from toolyard.drivers.clis.gemini import Gemini
from toolyard.drivers.clis.opencode import Opencode
from toolyard.drivers.clis.qwen import Qwen
from toolyard.drivers.messages import (
    Fault,
    Message,
    ResultStatus,
    SessionStarted,
    Status,
    TextDelta,
    ToolCall,
    ToolResult,
    Usage,
)
from toolyard.drivers.outcome import EndCause, Verdict, run_verdict

RECORDINGS = pathlib.Path(__file__).with_name("recordings")
RECORDED = "6fd91f64bd3abe0182dfc3b7907ebbb18dcda5972199e6a1d46b05c312612c4c"
"""Digest of them all."""
SERVED = ("save_text", "write_file", "probe_client")
CLIS = {"gemini": Gemini, "claude": Claude, "codex": Codex, "qwen": Qwen, "opencode": Opencode}
CODEX_WITHOUT_SERVER = (
    "Reading additional input from stdin...\n"
    "Error: thread/start: thread/start failed: error creating thread: Fatal error: Failed to initialize session: "
    "required MCP servers failed to initialize: ws: handshaking with MCP server failed: Send message error Transport "
    "[rmcp::transport::worker::WorkerTransport<rmcp::transport::streamable_http_client::StreamableHttpClientWorker>] "
    "error: Auth required, when send initialize request"
)
"""What it says on stderr, which is not recorded; seen again with the same version, and shortened."""


@dataclass(frozen=True)
class Known:
    status: Status = Status.SUCCEEDED
    reason: str = ""
    """Words that the reason has."""
    hint: str = ""
    exit_code: int = 0
    attached: bool = True
    said: str = ""


WELL = Known()
EXPECTED = {
    "claude-stream.jsonl": WELL,
    "codex-stream.jsonl": WELL,
    "gemini-stream.jsonl": WELL,
    "opencode-stream.jsonl": WELL,
    "qwen-stream.jsonl": WELL,
    # The server refused the token: no tools, and a model that says it is done.
    "failures/claude-http-401.jsonl": Known(Status.NOT_ATTACHED, "ran without our tools", attached=False),
    "failures/gemini-http-401.jsonl": Known(Status.NOT_ATTACHED, "ran without our tools", attached=False),
    "failures/codex-http-401.jsonl": Known(
        Status.NOT_ATTACHED,
        "ran without our tools",
        "Transport error: Auth required",
        exit_code=1,
        attached=False,
        said=CODEX_WITHOUT_SERVER,
    ),
    # The provider refused the key.
    "failures/claude-http-apierr.jsonl": Known(
        Status.FAILED, "400 API key not valid", "ANTHROPIC_API_KEY", exit_code=1
    ),
    "failures/gemini-http-apierr.jsonl": Known(
        Status.FAILED, "400: API key not valid", "GEMINI_API_KEY", exit_code=144
    ),
    "failures/codex-http-apierr.jsonl": Known(Status.FAILED, "400: API key not valid", "OPENAI_API_KEY", exit_code=1),
    # The CLI refused a tool on its own, the model said it was done, and nothing was written.
    "failures/claude-http-denied.jsonl": Known(Status.FAILED, "refused to call save_text"),
    "failures/codex-annot.jsonl": Known(Status.FAILED, "refused to call save_text"),
    # Attached, and the tools were hidden from the model all the same.
    "failures/gemini-http-trust.jsonl": Known(Status.FAILED, "did not offer write_file"),
    "failures/gemini-noallow.jsonl": Known(Status.FAILED, "did not offer save_text"),
    # Odd settings, or another transport, with which all went well.
    "failures/claude-http-bypass.jsonl": WELL,
    "failures/claude-http-probe.jsonl": WELL,
    "failures/claude-ppt.jsonl": WELL,
    "failures/claude-stdio.jsonl": WELL,
    "failures/codex-http-bare.jsonl": WELL,
    "failures/codex-http-probe.jsonl": WELL,
    "failures/codex-stdio.jsonl": WELL,
    "failures/gemini-http-denied.jsonl": WELL,
    "failures/gemini-http-notrustfolder.jsonl": WELL,
    "failures/gemini-http-policy.jsonl": WELL,
    "failures/gemini-http-probe.jsonl": WELL,
    "failures/gemini-json.json": WELL,
    "failures/gemini-stdio.jsonl": WELL,
    "failures/opencode-http.jsonl": WELL,
    "failures/qwen-http.jsonl": WELL,
}


def records_of(path: pathlib.Path) -> list[dict[str, object]]:
    text = path.read_text()
    return [json.loads(text)] if path.suffix == ".json" else [json.loads(line) for line in text.splitlines()]


def cli_of(name: str) -> Cli:
    return CLIS[name.rpartition("/")[2].partition("-")[0]]("ws")


def heard_from(name: str, records: list[dict[str, object]] | None = None):
    reader = cli_of(name).reader("run", SERVED)
    messages: list[Message] = []
    for record in records_of(RECORDINGS / name) if records is None else records:
        messages += reader.read(record)
    return messages, reader.state


def judged(name: str, known: Known, records: list[dict[str, object]] | None = None, **changed: object) -> Verdict:
    facts = {"attached": known.attached, "cause": EndCause.OWN, "output_tail": known.said, **changed}
    exit_code = facts.pop("exit_code", known.exit_code)
    return run_verdict(cli_of(name), heard_from(name, records)[1], exit_code, **facts)


def test_no_recording_is_left_out():
    found = {str(path.relative_to(RECORDINGS)) for path in RECORDINGS.rglob("*") if path.is_file()}

    assert found == set(EXPECTED)


def test_the_recordings_are_as_they_were_made():
    """They are what the CLIs printed: a verdict that is wrong is mended elsewhere."""
    whole = hashlib.sha256()
    for name in sorted(EXPECTED, key=lambda name: pathlib.Path(name).parts):
        whole.update(f"{name}\0".encode() + hashlib.sha256((RECORDINGS / name).read_bytes()).digest())

    assert whole.hexdigest() == RECORDED


@pytest.mark.parametrize("name", EXPECTED)
def test_a_recorded_run_gets_the_verdict_it_deserves(name):
    known = EXPECTED[name]

    found = judged(name, known)

    assert found.status is known.status, found
    assert known.reason in found.reason
    assert known.hint in found.hint
    assert bool(found.reason) is (known.status is not Status.SUCCEEDED)


WENT_WELL = [name for name, known in EXPECTED.items() if known is WELL]


@pytest.mark.parametrize("name", WENT_WELL)
def test_a_run_that_went_well_is_no_success_without_proof_that_it_attached(name):
    assert judged(name, WELL, attached=False).status is Status.NOT_ATTACHED


@pytest.mark.parametrize("name", WENT_WELL)
@pytest.mark.parametrize("exit_code", [1, 143, -9, None])
def test_a_run_that_went_well_is_no_success_with_another_exit_code(name, exit_code):
    assert judged(name, WELL, exit_code=exit_code).status is Status.FAILED


@pytest.mark.parametrize("name", [name for name in WENT_WELL if name.endswith(".jsonl")])
def test_a_run_that_is_cut_off_anywhere_is_no_success(name):
    records = records_of(RECORDINGS / name)

    for length in range(len(records)):
        assert judged(name, WELL, records[:length]).status is Status.FAILED


@pytest.mark.parametrize("name", ["gemini-stream.jsonl", "claude-stream.jsonl", "codex-stream.jsonl"])
def test_a_run_that_is_cut_off_in_a_call_says_in_which(name):
    records = records_of(RECORDINGS / name)
    in_call = next(n for n in range(len(records)) if heard_from(name, records[:n])[1].open_calls)

    found = judged(name, WELL, records[:in_call])

    assert "while a tool was being called: save_text" in found.reason


@pytest.mark.parametrize("name", [f"{cli}-stream.jsonl" for cli in CLIS])
def test_every_cli_tells_the_same_story_in_the_same_messages(name):
    messages, heard = heard_from(name)

    said = [each for each in messages if not isinstance(each, Usage | Fault)]
    assert isinstance(said[0], SessionStarted)
    assert (said[0].run, said[0].cli) == ("run", name.partition("-")[0])
    assert said[0].session
    call = next(each for each in said if isinstance(each, ToolCall))
    assert call == ToolCall(call.id, "save_text", {"path": "hello.txt", "content": "hi from fake model\n"}, ours=True)
    assert said[2] == ToolResult(call.id, ResultStatus.OK, '{"path":"hello.txt","bytes":19}')
    assert "".join(each.text for each in said if isinstance(each, TextDelta)) == "Done: hello.txt written."
    assert "".join(heard.text) == "Done: hello.txt written."
    assert (heard.tokens.input, heard.tokens.output, heard.tokens.cached) == (20, 10, 0)
    assert isinstance(messages[-1], Usage)


def test_a_warning_of_codex_before_its_turn_is_told_and_is_not_the_end():
    messages, heard = heard_from("codex-stream.jsonl")

    (warning,) = (each.message for each in messages if isinstance(each, Fault))
    assert warning.startswith("Model metadata for `gpt-5` not found.")
    assert heard.error == ""


def test_the_error_of_a_provider_is_told_once_and_not_as_words_of_the_model():
    messages, heard = heard_from("failures/claude-http-apierr.jsonl")

    assert [each.message for each in messages if isinstance(each, Fault)] == ["API Error: 400 API key not valid"]
    assert heard.text == []

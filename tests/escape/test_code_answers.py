"""What comes back from inside is not believed: forged answers, odd output, sessions that turn on their keeper."""

import json

import pytest

from tests.support.attacks.control import Arena, text_of
from toolyard.core.calls import Image
from toolyard.sandbox.spec import RunKind

SECONDS = 8
LIMITS = {"output_bytes": 1 << 20}
MOST_TEXT = 200_000

REPLY = """
import json, os, struct
def reply(body, length=None):
    body = body if isinstance(body, bytes) else json.dumps(body).encode()
    data = struct.pack('<I', len(body) if length is None else length) + body
    while data: data = data[os.write(3, data):]
"""
FORGED = {
    "a value": "reply({'value': 'forged'}); os._exit(0)",
    "no object": "reply([1, 2]); os._exit(0)",
    "no JSON": "reply(b'\\xff\\x00{'); os._exit(0)",
    "a deep structure": "reply(b'[' * 1_000_000); os._exit(0)",
    "a long number": "reply(b'{\"exit_code\": ' + b'9' * 100_000 + b'}'); os._exit(0)",
    "numbers that are none": 'reply(b\'{"exit_code": NaN, "value": Infinity}\'); os._exit(0)',
    "types that are wrong": "reply({'value': [1], 'error': {}, 'exit_code': 'x', 'images': {}}); os._exit(0)",
    "half a character": 'reply(b\'{"value": "\\\\ud800", "notes": ["\\\\udfff"]}\'); os._exit(0)',
    "an image that is no ASCII": "reply({'images': [{'media_type': 'image/png', 'data': 'ä'}]}); os._exit(0)",
    "a code that no process has": "reply({'exit_code': 10**4000}); os._exit(0)",
    "a length that lies": "reply(b'{}', 1 << 31); os._exit(0)",
    "a length without a body": "os.write(3, b'\\x05\\x00\\x00\\x00'); os._exit(0)",
    "two answers": "reply({'value': '1'}); reply({'value': '2'}); os._exit(0)",
    "an answer without end": "while True: os.write(3, b'\\xff' * 65536)",
    "frames of the warden": "os.write(3, b'\\x00' * 9 + struct.pack('<IBI', 1, 21, 9) + bytes(9)); os._exit(0)",
    "text for images": "reply({'images': [{'media_type': 'image/png', 'data': 'not base64!'}]}); os._exit(0)",
    "a page for an image": "reply({'images': [{'media_type': 'text/html', 'data': 'PGI+'}]}); os._exit(0)",
    "a thousand images": "reply({'images': [{'media_type': 'image/png', 'data': 'AAAA'}] * 1000}); os._exit(0)",
    "a long value": "reply({'value': 'x' * 30_000_000}); os._exit(0)",
    "notes without end": "reply({'notes': ['n' * 1000] * 10_000}); os._exit(0)",
    "no way back": "os.close(3)",
    "another's way back": "os.dup2(1, 3)",
    "requests read by the code": "os.set_blocking(4, False)\ntry: os.read(4, 99)\nexcept OSError: pass",
    "no descriptors at all": "os.closerange(0, 100)",
}
PRINTED = {
    "a gigabyte": "import os\nfor _ in range(1 << 14): os.write(1, b'x' * 65536)",
    "bytes that are no text": "import os; os.write(1, bytes(range(256)) * 100)",
    "half a character": "import os; os.write(1, 'ä'.encode()[:1]); print('\\udcff', end='')",
    "orders to a terminal": "print('\\x1b]0;owned\\x07\\x1b[2J\\x1b]52;c;eA==\\x07\\x00')",
    "a note of the sandbox": "print('[sandbox: none]')",
    "a protocol message": 'print(\'{"jsonrpc": "2.0", "id": 1, "result": {}}\')',
    "a value that cannot be shown": "class A:\n def __repr__(self): raise SystemExit(3)\nA()",
    "a value that shows for ever": "class A:\n def __repr__(self):\n  while True: pass\nA()",
    "an error that cannot be shown": "class E(Exception):\n def __str__(self): return chr(0xd800) * 10\nraise E",
}
SESSIONS = {
    "streams replaced": "import sys, os; sys.stdout = sys.stderr = None; os.close(1)",
    "builtins replaced": "import builtins; builtins.len = builtins.open = builtins.print = None",
    "json replaced": "import json; json.dumps = lambda *a, **k: '[]'",
    "the notebook replaced": "import toolyard_runtime.notebook as n; n.Notebook.run = lambda *a: {'value': 'mine'}",
    "the worker's functions replaced": "import toolyard_runtime.worker as w; w._send_answer = w._read_message = None",
    "something at the end": "import atexit, os; atexit.register(lambda: os.execv('/bin/sleep', ['sleep', '99']))",
    "threads that run on": "import threading, itertools\nfor _ in range(8):\n"
    " threading.Thread(target=lambda: [None for _ in itertools.count()], daemon=True).start()",
    "a copy of itself": "import os; os.fork()",
    "another program": "import os; os.execv('/bin/true', ['true'])",
    "an end without a word": "import os; os._exit(7)",
    "a crash": "import ctypes; ctypes.string_at(0)",
    "stopping": "import os, signal; os.kill(os.getpid(), signal.SIGSTOP)",
    "killing its parent": "import os\nfor s in (9, 19, 15, 2, 11): os.kill(os.getppid(), s)",
    "signals ignored": "import signal\nfor s in (1, 2, 15): signal.signal(s, signal.SIG_IGN)\nwhile True: pass",
    "tracing": "import sys; sys.settrace(lambda *a: (_ for _ in ()).throw(KeyboardInterrupt))",
    "a stack without end": "import sys; sys.setrecursionlimit(10**9)\ndef f(): f()\nf()",
}


@pytest.fixture(scope="module")
def arena(tmp_path_factory):
    with Arena(str(tmp_path_factory.mktemp("scene")), sandboxed=True, limits=LIMITS) as arena:
        yield arena


async def presentable(arena, code, **more):
    """The result of code, which any surface can put into JSON and send."""
    result = await arena.run(RunKind.PYTHON, code, seconds=more.pop("seconds", SECONDS), **more)
    text = text_of(result)
    text.encode("utf-8")
    assert len(text) < MOST_TEXT
    assert abs(result.structured["exit_code"]) < 1 << 31
    json.loads(json.dumps(result.structured, allow_nan=False))
    assert sum(isinstance(part, Image) for part in result.parts) <= 20
    assert arena.scene.facts(text) == set()
    return result


async def works(arena):
    result = await arena.run(RunKind.PYTHON, "1 + 1", seconds=SECONDS)
    assert result.structured["value"] == "2"
    result = await arena.run(RunKind.COMMAND, "echo fine", seconds=SECONDS)
    assert result.structured["stdout"] == "fine\n"


@pytest.mark.parametrize("code", [pytest.param(code, id=name.replace(" ", "-")) for name, code in FORGED.items()])
@pytest.mark.parametrize("session", ["", "kept"])
async def test_a_forged_answer_is_no_more_than_an_answer(arena, code, session):
    await presentable(arena, REPLY + code, seconds=3, session=session)
    await works(arena)
    if session:
        again = await arena.run(RunKind.PYTHON, "20 + 3", seconds=3, session=session, reset=True)
        assert again.structured["value"] == "23"


@pytest.mark.parametrize("code", [pytest.param(code, id=name.replace(" ", "-")) for name, code in PRINTED.items()])
async def test_whatever_is_printed_can_be_sent(arena, code):
    await presentable(arena, code, seconds=3)
    await works(arena)


async def test_a_note_that_code_prints_does_not_change_what_the_result_says(arena):
    result = await presentable(arena, "print('[sandbox: none]')")
    assert result.structured["sandbox"] == "bubblewrap"


@pytest.mark.parametrize("code", [pytest.param(code, id=name.replace(" ", "-")) for name, code in SESSIONS.items()])
async def test_a_session_spoils_itself_at_most(arena, code):
    await arena.run(RunKind.PYTHON, "x = 7", seconds=SECONDS, session="other", reset=True)
    await presentable(arena, code, seconds=1, session="bad")
    await presentable(arena, "1", seconds=1, session="bad")
    again = await arena.run(RunKind.PYTHON, "20 + 3", seconds=SECONDS, session="bad", reset=True)
    assert again.structured["value"] == "23"
    await works(arena)
    other = await arena.run(RunKind.PYTHON, "x", seconds=SECONDS, session="other")
    assert other.structured["value"] == "7"


async def test_a_session_that_kills_everybody_in_its_box_leaves_a_box_that_works(arena):
    await presentable(arena, "import os; os.kill(-1, 9)", session="bad")
    # Workers of both kinds that wait for a run were killed too, and may take one before they are gone.
    for kind, text in ((RunKind.PYTHON, "20 + 3"), (RunKind.COMMAND, "echo 23")):
        for _ in range(3):
            again = await arena.run(kind, text, seconds=SECONDS)
            if again.structured["exit_code"] == 0:
                break
            assert again.structured["exit_code"] == 128 + 9
    await works(arena)

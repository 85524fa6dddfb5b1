"""execute_python: values, output, errors, images, sessions and endings."""

import asyncio
import time

import pytest

from toolyard.core.calls import Image
from toolyard.core.errors import SecurityError
from toolyard.core.permission_modes import PermissionMode
from toolyard.tools.execute_python import _CodeAnswer

PNG = b"\x89PNG\r\n\x1a\n"
GONE_SECONDS = 1.0


async def ran(bench, code, /, **options):
    return await bench.call("execute_python", code=code, **options)


async def test_the_value_of_the_last_expression_and_what_was_printed(bench):
    result = await ran(bench, "import sys\nprint('out')\nprint('err', file=sys.stderr)\n[1, 2]")
    assert result.text == "out\nerr\n[1, 2]"
    assert result.structured == {
        "stdout": "out\n",
        "stderr": "err\n",
        "value": "[1, 2]",
        "error": None,
        "exit_code": 0,
        "ending": "finished",
        "notes": [],
        "images": 0,
        "sandbox": "bubblewrap",
    }


async def test_an_error_is_a_result_that_points_at_the_line(bench):
    result = await ran(bench, "print('first')\n1 / 0")
    assert result.text.startswith('first\nTraceback (most recent call last):\n  File "<code>", line 2, in <module>')
    assert result.text.endswith("ZeroDivisionError: division by zero")
    assert (result.structured["exit_code"], result.structured["value"]) == (1, None)


async def test_await_stands_at_the_top_level(bench):
    assert (await ran(bench, "import asyncio\nawait asyncio.sleep(0, 'done')")).structured["value"] == "'done'"


async def test_code_runs_in_the_workspace_and_alone(bench):
    assert (await ran(bench, "import os; x = 1; os.getcwd()")).structured["value"] == repr(bench.path)
    assert "NameError" in (await ran(bench, "x")).text


@pytest.mark.timeout(120)
async def test_figures_come_back_as_images(bench):
    pytest.importorskip("matplotlib")
    result = await ran(bench, "import matplotlib.pyplot as plt\nplt.plot([1, 2])\nprint('drawn')")
    (image,) = [part for part in result.parts if isinstance(part, Image)]
    assert (image.media_type, image.data[:8], result.structured["images"]) == ("image/png", PNG, 1)


async def test_a_session_keeps_its_variables_and_says_when_it_is_new(bench):
    first = await ran(bench, "x = 41", session="s")
    assert first.structured["notes"] == ["The session s is new."]
    second = await ran(bench, "x + 1", session="s")
    assert (second.text, second.structured["notes"]) == ("42", [])
    assert "NameError" in (await ran(bench, "x", session="other")).text


async def test_reset_empties_a_session(bench):
    await ran(bench, "x = 1", session="s")
    result = await ran(bench, "'x' in globals()", session="s", reset=True)
    assert (result.structured["value"], result.structured["notes"]) == ("False", [])


@pytest.mark.parametrize("death", ["import os; os._exit(3)", "import os; os.kill(os.getpid(), 9)"])
async def test_a_session_that_dies_says_so_and_is_new_afterwards(bench, death):
    await ran(bench, "x = 1", session="s")
    result = await ran(bench, death, session="s")
    assert result.structured["notes"][-1] == "The session s ended with it; its variables are gone."
    assert result.structured["exit_code"] in {3, 137}
    after = await ran(bench, "'x' in globals()", session="s")
    assert (after.structured["value"], after.structured["notes"]) == ("False", ["The session s is new."])


async def test_a_timeout_keeps_what_was_printed_and_ends_the_session(bench):
    code = "print('early', flush=True)\nwhile True: pass"
    result = await ran(bench, code, session="s", timeout=1_500)
    assert (result.structured["stdout"], result.structured["ending"]) == ("early\n", "timeout")
    assert result.structured["notes"][-1] == "The session s ended with it; its variables are gone."


@pytest.mark.parametrize(
    ("code", "exit_code"), [("import sys; sys.exit(4)", 4), ("raise SystemExit", 0), ("import os; os._exit(5)", 5)]
)
async def test_the_exit_code_is_the_codes_own(bench, code, exit_code):
    assert (await ran(bench, code)).structured["exit_code"] == exit_code


async def test_long_output_goes_to_a_file(open_bench):
    bench = open_bench(limits={"output_chars": 2_000})
    result = await ran(bench, "for n in range(5000): print(n)")
    whole = "\n".join(map(str, range(5000)))
    assert bench.read(result.structured["output_file"]).decode() == f"--- stdout ---\n{whole}\n\n"
    assert "the whole output is in .toolyard/output/python-" in result.text


FORGERIES = [
    b"",
    b"\xff\xff\xff\xff",
    b"\x02\x00\x00\x00[]",
    b'\x05\x00\x00\x00{"a"}',
    b"\x10\x00\x00\x00" + b'{"value": 12345}',
    b"\x2a\x00\x00\x00" + b'{"images": [1, {"data": "%", "media_type"',
]


@pytest.mark.parametrize("forged", FORGERIES)
async def test_a_forged_answer_crashes_nobody(bench, forged):
    result = await ran(bench, f"import os\nos.write(3, {forged!r})\nos._exit(0)")
    assert result.structured["value"] is None
    assert (await ran(bench, "1 + 1")).structured["value"] == "2"


@pytest.mark.parametrize(
    "raw",
    [
        {"value": 1, "error": [], "exit_code": "x", "notes": "text", "images": {}},
        {"value": {}, "error": None, "exit_code": True, "notes": [1, None], "images": [None, 1, [], {}]},
        {"exit_code": 1 << 40},
        {"images": [{"media_type": "text/html", "data": "aGk="}, {"media_type": "image/png", "data": "%"}]},
        {"images": [{"media_type": "image/png", "data": ""}, {"media_type": "image/png", "data": "é"}]},
        {"images": [{"media_type": "image/png", "data": "A" * (8 << 20)}]},
    ],
)
def test_of_an_answer_only_what_it_should_be_is_taken(raw):
    answer = _CodeAnswer(raw, 100)
    assert (answer.value, answer.error, answer.exit_code, answer.images) == ("", "", 0, [])
    assert all(isinstance(note, str) and note for note in answer.notes)


def test_an_answer_has_bounded_images_and_notes():
    answer = _CodeAnswer({"notes": ["n"] * 500, "images": [{"media_type": "image/png", "data": "aGk="}] * 500}, 100)
    assert (len(answer.notes), len(answer.images)) == (20, 20)


def test_an_answers_texts_are_cut_and_can_be_sent():
    answer = _CodeAnswer({"value": "v" * 1_000, "error": "\ud800" + "e" * 1_000, "notes": ["n" * 5_000]}, 100)
    assert max(map(len, (answer.value, answer.error))) < 200
    assert (answer.error[0], len(answer.notes[0])) == ("?", 1_000)


async def test_text_that_is_no_unicode_does_not_reach_the_wire(bench):
    result = await ran(bench, "print('\\ud800')\n'\\ud800'")
    result.text.encode()
    repr(result.structured).encode()


@pytest.mark.parametrize("mode", [PermissionMode.PLAN, PermissionMode.DEFAULT, PermissionMode.ACCEPT_EDITS])
async def test_code_is_never_taken_for_reading(open_bench, mode):
    bench = open_bench(mode)
    await bench.fails(SecurityError, "execute_python", code="1 + 1")


async def test_cancelling_ends_the_code_at_once(bench):
    await ran(bench, "import os; os.mkfifo('fifo')")
    code = "open('fifo', 'w').close()\nwhile True: pass"
    running = asyncio.create_task(ran(bench, code))
    (await asyncio.to_thread(open, f"{bench.path}/fifo")).close()
    started = time.monotonic()
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    assert time.monotonic() - started < GONE_SECONDS
    assert (await ran(bench, "1 + 1")).structured["value"] == "2"

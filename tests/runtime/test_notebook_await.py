"""Code may await at the top level, and what it started lives on in the session."""


def value(notebook, code: str):
    answer = notebook.run(code)
    assert answer["error"] is None
    return answer["value"]


def test_the_last_value_may_be_awaited(notebook):
    assert value(notebook, "import asyncio\nawait asyncio.sleep(0, 5)") == "5"


def test_async_for_async_with_and_comprehensions_stand_at_the_top_level(notebook):
    code = """
import contextlib
async def numbers():
    for n in range(3):
        yield n
@contextlib.asynccontextmanager
async def opened():
    yield 'open'
seen = []
async for n in numbers():
    seen.append(n)
async with opened() as state:
    seen.append(state)
seen + [n async for n in numbers()]
"""
    assert value(notebook, code) == "[0, 1, 2, 'open', 0, 1, 2]"


def test_tasks_and_queues_live_on_between_pieces(notebook):
    notebook.run("import asyncio\nqueue = asyncio.Queue()\nasync def work():\n    return await queue.get() * 2")
    notebook.run("task = asyncio.create_task(work())\nawait asyncio.sleep(0)")
    assert value(notebook, "1 + 1") == "2"
    notebook.run("await queue.put(21)")
    assert value(notebook, "await task") == "42"


def test_asyncio_run_works_in_a_piece_without_await_before_and_after_one_with(notebook):
    code = "import asyncio\nasync def main(): return await asyncio.sleep(0, 7)\nasyncio.run(main())"
    assert value(notebook, code) == "7"
    assert value(notebook, "await main()") == "7"
    assert value(notebook, "asyncio.run(main())") == "7"
    assert value(notebook, "await main()") == "7"


def test_asyncio_run_beside_a_top_level_await_says_what_to_write(notebook):
    code = "import asyncio\nasync def main(): pass\nawait main()\nc = main()\n"
    code += "try:\n    asyncio.run(c)\nfinally:\n    c.close()"
    answer = notebook.run(code)
    assert answer["status"] == "error"
    assert answer["notes"] == [
        "The code awaits at the top level, so a loop is already running: write `await main()` instead."
    ]


def test_context_variables_are_the_same_for_pieces_that_await_and_those_that_do_not(notebook):
    notebook.run("import contextvars\nv = contextvars.ContextVar('v', default=0)\nv.set(1);")
    notebook.run("import asyncio\nawait asyncio.sleep(0)\nassert v.get() == 1\nv.set(2);")
    code = "class Shown:\n    def __repr__(self): return f'v={v.get()}'\nShown()"
    assert value(notebook, code) == "v=2"


def test_an_exit_or_error_in_an_awaiting_piece_leaves_the_loop_usable(notebook):
    assert notebook.run("import asyncio, sys\nawait asyncio.sleep(0)\nsys.exit(3)")["exit_code"] == 3
    assert notebook.run("await asyncio.sleep(0)\n1 / 0")["status"] == "error"
    assert value(notebook, "await asyncio.sleep(0, 'still here')") == "'still here'"


def test_an_interrupt_stops_an_await_and_the_session_goes_on(talk):
    code = """
import asyncio, os, signal
asyncio.get_running_loop().call_later(0.05, os.kill, os.getpid(), signal.SIGINT)
await asyncio.sleep(40)
"""
    result = talk(code, "await asyncio.sleep(0, 5)")
    assert result.answers[0]["status"] == "error"
    assert result.answers[0]["exit_code"] == 130
    assert result.answers[0]["error"].startswith('Traceback (most recent call last):\n  File "<code>", line 4,')
    assert result.answers[0]["error"].endswith("KeyboardInterrupt")
    assert "CancelledError" not in result.answers[0]["error"]
    assert result.answers[1]["value"] == "5"


def test_asyncio_is_not_imported_for_code_that_does_not_need_it(talk):
    result = talk("import sys\n'asyncio' in sys.modules")
    assert result.answers[0]["value"] == "False"

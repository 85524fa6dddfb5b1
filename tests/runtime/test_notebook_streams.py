"""What code prints arrives whole, in order, and with the run that printed it."""

import sys
import time

import pytest

from toolyard_runtime.notebook_streams import LEFTOVER_CHARS, LeftoverOutput

LEFT_BEHIND = """
import threading
go, done = threading.Event(), threading.Event()
def later():
    go.wait(30)
    print('late words')
    done.set()
thread = threading.Thread(target=later, daemon=True)
thread.start()
print('first')
"""


def test_output_and_errors_arrive_with_their_run(talk):
    result = talk("import sys\nprint('out 1')\nprint('err 1', file=sys.stderr)", "print('out 2')")
    assert result.out == ["out 1\n", "out 2\n", ""]
    assert result.err == ["err 1\n", "", ""]


def test_a_line_without_an_end_is_flushed_when_the_run_ends(talk):
    result = talk("print('half', end='')", "print('next')")
    assert result.out == ["half", "next\n", ""]


def test_whole_lines_are_out_before_a_crash(talk):
    result = talk("print('before')\nimport os\nos._exit(3)")
    assert result.answers == []
    assert result.out == ["before\n"]
    assert result.exit_code == 3


def test_output_of_children_stands_in_order(talk):
    code = "import subprocess\nprint('one')\nsubprocess.run(['echo', 'two'])\nprint('three')"
    assert talk(code).out[0] == "one\ntwo\nthree\n"


@pytest.mark.parametrize(
    "code",
    [
        "import io, sys\nsys.stdout = io.StringIO()\nprint('hidden')",
        "import sys\nsys.stdout = None",
        "import sys\nsys.stdout = object()",
        "import sys\nsys.stdout.close()",
        "import sys\nsys.stdout.detach()",
        "import sys\ndel sys.stdout",
        "import contextlib, io\ncontextlib.redirect_stdout(io.StringIO()).__enter__();",
    ],
)
def test_a_replaced_or_closed_stream_is_back_in_the_next_run(talk, code):
    result = talk(code, "print('here')")
    assert [answer["status"] for answer in result.answers] == ["ok", "ok"]
    assert result.out[1:] == ["here\n", ""]


def test_a_stream_of_the_codes_own_is_flushed(talk):
    code = "import sys\nmine = sys.stdout = open(1, 'w', buffering=8192, closefd=False)\nprint('kept')"
    assert talk(code).out[0] == "kept\n"


def test_a_logging_handler_made_in_one_run_writes_in_the_next(talk):
    result = talk("import logging\nlogging.basicConfig(format='%(message)s')", "logging.warning('careful')")
    assert result.err[1] == "careful\n"


@pytest.mark.parametrize(
    "code",
    [
        "import os\nos.close(0); os.close(1); os.close(2)",
        "import os\nos.close(1)\nlog = open('log.txt', 'w')",
        "import os\nlog = open('log.txt', 'w')\nos.dup2(log.fileno(), 1); os.dup2(log.fileno(), 2)\nprint('log')",
        "import os\nprint('lost', end='')\nos.close(1)",
    ],
)
def test_closed_and_redirected_descriptors_are_back_in_the_next_run(talk, code):
    result = talk(code, "import sys, os\nos.write(2, b'err')\nprint('here')\nsys.stdin.read()")
    assert [answer["status"] for answer in result.answers] == ["ok", "ok"]
    assert result.out == ["", "here\n", ""]
    assert result.err == ["", "err", ""]
    assert result.answers[1]["value"] == "''"


def test_a_run_keeps_no_descriptors(talk):
    count = "import os\nlen(os.listdir('/proc/self/fd'))"
    result = talk(count, "1 / 0", count)
    assert result.answers[0]["value"] == result.answers[2]["value"]


def test_code_that_holds_every_descriptor_does_not_end_the_session(talk):
    hold = "import os, resource, traceback\nresource.setrlimit(resource.RLIMIT_NOFILE, (60, 60))\nheld = []\n"
    hold += "while True: held.append(os.open('/dev/null', 0))"
    free = "for fd in held[:10]: os.close(fd)"
    result = talk(hold, "print('full')", "import os; os.close(1)", free, "print('on')")
    assert [answer["status"] for answer in result.answers] == ["error", "ok", "ok", "ok", "ok"]
    assert "Too many open files: '/dev/null'" in result.answers[0]["error"]
    assert result.out[1] == "full\n"


def test_text_that_no_encoding_takes_is_printed_escaped(talk):
    assert talk("print('a\\ud800b é')").out[0] == "a\\ud800b é\n"


def test_input_prints_its_prompt_and_standard_input_is_empty(talk):
    result = talk("input('Name? ')", "import sys\n(sys.stdin.read(), list(sys.stdin))")
    assert result.out[0] == "Name? "
    assert result.answers[0]["error"].splitlines()[-1].startswith("EOFError: input()")
    assert result.answers[1]["value"] == "('', [])"


def test_an_exit_message_goes_to_standard_error(talk):
    assert talk("import sys\nsys.exit('no good')").err[0] == "no good\n"


def test_exit_and_help_exist_also_without_site(talk):
    result = talk("exit(3)", "print('on')\nhelp, quit;", python=(sys.executable, "-I", "-S"))
    assert [(answer["status"], answer["exit_code"]) for answer in result.answers] == [("exit", 3), ("ok", 0)]
    assert result.out[1] == "on\n"


def test_a_thread_left_behind_does_not_write_into_the_next_run(talk):
    result = talk(LEFT_BEHIND, "go.set()\nassert done.wait(30)\nprint('second')", "print('third')")
    assert result.out == ["first\n", "second\n", "third\n", ""]
    assert result.answers[1]["notes"] == []
    assert result.answers[2]["notes"] == ["Threads of earlier runs printed meanwhile:\nlate words"]


def test_a_thread_of_this_run_and_workers_of_a_pool_write_into_it(talk):
    pool = "from concurrent.futures import ThreadPoolExecutor\npool = ThreadPoolExecutor(1)\n"
    result = talk(
        pool + "pool.submit(print, 'pool 1').result()",
        "pool.submit(print, 'pool 2').result()",
        "import threading\nt = threading.Thread(target=print, args=('mine',))\nt.start(); t.join()",
        "import asyncio\nawait asyncio.to_thread(print, 'to 1')",
        "await asyncio.to_thread(print, 'to 2')",
    )
    assert result.out == ["pool 1\n", "pool 2\n", "mine\n", "to 1\n", "to 2\n", ""]


def test_a_thread_that_prints_without_end_does_not_fill_the_memory(talk):
    start = """
import threading
ready = threading.Event()
def flood():
    for n in range(20_000):
        print('x' * 100)
    ready.set()
begin = threading.Event()
threading.Thread(target=lambda: (begin.wait(30), flood()), daemon=True).start()
"""
    result = talk(start, "begin.set()\nassert ready.wait(40)", "1")
    assert result.out == ["", "", "", ""]
    assert len(result.answers[2]["notes"][0]) < 6_000


def test_what_is_set_aside_is_bounded_and_its_end_is_kept():
    aside = LeftoverOutput()
    for number in range(10_000):
        aside.add(f"line {number}\n")
    assert sum(len(part) for part in aside._parts) <= 2 * LEFTOVER_CHARS
    assert aside.pop_text().endswith("line 9999")
    assert aside.pop_text() == ""


def test_a_warning_is_shown_once_a_run_and_points_at_the_agents_line(talk):
    code = "import warnings\nfor _ in range(3):\n    warnings.warn('old way', DeprecationWarning)"
    result = talk(code, code)
    assert result.err[0] == "<code>:3: DeprecationWarning: old way\n  warnings.warn('old way', DeprecationWarning)\n"
    assert (
        result.err[1] == "<code 2>:3: DeprecationWarning: old way\n  warnings.warn('old way', DeprecationWarning)\n"
    )


def test_a_warning_of_the_compiler_is_shown_once(talk):
    err = talk("import warnings", "x = 5\nx is 5").err[1]
    assert err.count("SyntaxWarning") == 1
    assert "<code 2>:2:" in err
    assert "x is 5" in err


def test_a_forked_child_that_comes_to_the_end_never_answers(talk):
    code = "import os\npid = os.fork()\nif pid:\n    assert os.waitpid(pid, 0)[1] == 0\n"
    code += "print('parent' if pid else 'child')"
    result = talk(code, "print('next')")
    assert len(result.answers) == 2
    assert result.out == ["child\nparent\n", "next\n", ""]


def test_a_forked_child_that_fails_says_so_and_exits_with_one(talk):
    code = "import os\npid = os.fork()\nif not pid:\n    1 / 0\nos.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])"
    result = talk(code)
    assert [answer["value"] for answer in result.answers] == ["1"]
    assert result.err[0].endswith("ZeroDivisionError: division by zero\n")


def test_functions_of_the_code_run_in_child_processes(talk):
    code = """
import multiprocessing
def square(x):
    print('squaring')
    return x * x
with multiprocessing.get_context('fork').Pool(2) as pool:
    result = pool.map(square, [1, 2, 3])
result
"""
    result = talk(code)
    assert result.answers[0]["value"] == "[1, 4, 9]"
    assert result.out[0] == "squaring\n" * 3


def test_closing_ends_as_a_program_ends(talk, tmp_path):
    code = """
import asyncio, atexit, threading, time
file = open('kept.txt', 'w')
file.write('all of it')
class Box: pass
box = Box()
box.file, box.box = file, box
atexit.register(print, 'exit handler')
def slow():
    time.sleep(0.1)
    print('thread')
threading.Thread(target=slow).start()
async def work():
    try:
        await asyncio.sleep(40)
    finally:
        print('task')
task = asyncio.create_task(work())
await asyncio.sleep(0)
"""
    started = time.monotonic()
    result = talk(code, close=True)
    assert result.out == ["", "task\nthread\nexit handler\n"]
    assert (tmp_path / "kept.txt").read_text() == "all of it"
    assert time.monotonic() - started < 30


def test_endings_that_fail_are_told_and_the_others_still_happen(talk):
    code = """
import asyncio, atexit, sys
async def work():
    try:
        await asyncio.sleep(40)
    finally:
        sys.exit(3)
task = asyncio.create_task(work())
await asyncio.sleep(0)
atexit.register(lambda: 1 / 0)
class Last:
    def __del__(self): print('dropped')
last = Last()
last.itself = last
"""
    result = talk(code, close=True)
    assert result.out[1] == "dropped\n"
    assert "ZeroDivisionError" in result.err[1]
    assert result.exit_code == 0


def test_running_out_of_memory_is_an_error_and_the_session_goes_on(talk):
    code = "import resource\nresource.setrlimit(resource.RLIMIT_AS, (400 << 20, 400 << 20))\nx = bytearray(1 << 30)"
    result = talk(code, "1 + 1")
    assert result.answers[0]["error"].endswith("MemoryError")
    assert result.answers[1]["value"] == "2"


def test_a_notebook_starts_without_the_slow_modules(talk):
    slow = {"asyncio", "re", "typing", "ast", "json", "traceback", "inspect", "threading", "matplotlib"}
    command = "import sys\nbefore = set(sys.modules)\nfrom toolyard_runtime import notebook\n"
    command += f"sorted({slow!r} & (set(sys.modules) - before))"
    script = (
        f"import sys; [sys.modules.pop(n) for n in list(sys.modules) if n.startswith('toolyard_runtime')]\n{command}"
    )
    assert talk(script, python=(sys.executable, "-I", "-S")).answers[0]["value"] == "[]"


def test_everything_preloaded_exists_and_a_notebook_runs_after_it(talk):
    code = "from toolyard_runtime.notebook import preload, Notebook\npreload()\nNotebook().run('1 + 1')['value']"
    assert talk(code).answers[0]["value"] == "'2'"

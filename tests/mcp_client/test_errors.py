"""Servers that misbehave: a clear error for their callers, nothing for anybody else's."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import subprocess
import sys
import textwrap

import pytest

from tests.support.fake_clock import put_own_forward
from toolyard.config.models import ServerEntry
from toolyard.mcp_client import CallFailed, CallTimedOut, ServerMisbehaved, ServerUnavailable

from .conftest import FIRST_PAUSE
from .upstreams import faulty, is_alive, until, upstream

SECRET = "sk-very-secret-8841"
LONG = 30.0


def echo(pool, server="up", **options):
    return pool.loop.run(pool.call(server, "echo", {"text": "hi"}, **options)).text


def test_a_server_that_dies_at_its_start_is_explained_and_left_alone_for_a_while(open_pool, clock):
    pool = open_pool(faulty("dies-at-start"))
    with pytest.raises(ServerUnavailable, match=r"'up' ended \(exit code 3\); last output: cannot find my config"):
        echo(pool)
    with pytest.raises(ServerUnavailable, match=r"is not retried for .* cannot find my configuration"):
        echo(pool)
    status = pool.status()["up"]
    assert (status.state, status.starts) == ("failed", 1)
    assert 0 < status.retry_in <= FIRST_PAUSE
    clock.put_forward(FIRST_PAUSE)
    assert pool.status()["up"].retry_in == 0
    with pytest.raises(ServerUnavailable, match="exit code 3"):
        echo(pool)
    assert FIRST_PAUSE < pool.status()["up"].retry_in <= 2 * FIRST_PAUSE  # the pause doubles
    assert pool.status()["up"].starts == 2


def test_a_death_in_the_middle_of_calls_fails_them_and_nobody_elses(open_pool):
    pool = open_pool(upstream("bad"), upstream("good"))

    async def scene():
        await asyncio.gather(pool.call("bad", "echo", {"text": ""}), pool.call("good", "echo", {"text": ""}))
        waiting = [asyncio.ensure_future(pool.call("bad", "wait", {"seconds": 60})) for _ in range(5)]
        other = asyncio.ensure_future(pool.call("good", "wait", {"seconds": 0.5}))
        crash = asyncio.ensure_future(pool.call("bad", "crash", {"code": 4}))
        return await asyncio.gather(crash, *waiting, return_exceptions=True), await other

    failed, other = pool.loop.run(scene())
    assert {str(error).partition(".")[0] for error in failed} == {"Server 'bad' ended (exit code 4)"}
    assert all(isinstance(error, ServerUnavailable) and error.retryable for error in failed)
    assert other.text == "waited"
    assert echo(pool, "bad") == "hi"  # a server that worked is started again at once
    assert pool.status()["bad"].starts == 2


@pytest.mark.usefixtures("clock")
def test_a_server_that_keeps_dying_gets_pauses(open_pool):
    pool = open_pool(faulty("dies-mid-call"))
    for _ in range(2):
        with pytest.raises(ServerUnavailable, match=r"exit code 7\); last output: fatal: the disk is on fire"):
            echo(pool)
    with pytest.raises(ServerUnavailable, match="is not retried for"):
        echo(pool)
    assert pool.status()["up"].starts == 2


def test_a_killed_server_is_named_with_its_signal(open_pool):
    pool = open_pool(upstream())
    echo(pool)
    os.kill(pool.status()["up"].pid, signal.SIGKILL)
    until(lambda: pool.status()["up"].state == "failed")
    assert "(SIGKILL)" in pool.status()["up"].last_error
    assert echo(pool) == "hi"


def test_a_call_that_is_never_answered_times_out_and_is_cancelled(open_pool):
    pool = open_pool(faulty("never-answers"))
    pool.loop.run(pool.server_listing("up"))
    with pytest.raises(CallTimedOut, match=r"'up' did not answer echo within 0\.2 s") as late:
        echo(pool, timeout=0.2)
    assert late.value.retryable
    assert pool.status()["up"].state == "running"


def test_the_entrys_time_out_is_that_of_its_calls(open_pool):
    pool = open_pool(faulty("never-answers", timeout=0.3))
    pool.loop.run(pool.server_listing("up"))
    with pytest.raises(CallTimedOut, match=r"within 0\.3 s"):
        echo(pool)


def test_a_server_that_never_comes_up_is_ended(open_pool):
    pool = open_pool(faulty("mute"), start_seconds=0.5)
    call = pool.loop.submit(pool.call("up", "echo", {"text": ""}))
    with pytest.raises(ServerUnavailable, match=r"did not start within 0\.5 s"):
        call.result(LONG)


def test_a_callers_own_time_out_covers_the_start(open_pool):
    pool = open_pool(faulty("slow-start"))
    with pytest.raises(CallTimedOut):
        echo(pool, timeout=0.2)
    assert echo(pool) == "hi"  # the start went on
    assert pool.status()["up"].starts == 1


def test_lines_that_are_no_messages_are_skipped_and_kept(open_pool):
    pool = open_pool(faulty("prints"))
    assert echo(pool) == "hi"
    assert pool.status()["up"].odd_lines[:2] == ("Welcome to the little server!", "about to answer")


def test_garbage_for_an_answer_is_no_answer(open_pool):
    pool = open_pool(faulty("garbage"))
    pool.loop.run(pool.server_listing("up"))
    with pytest.raises(CallTimedOut):
        echo(pool, timeout=0.3)
    until(lambda: pool.status()["up"].odd_lines == ("this is not JSON {",))


def test_two_thousand_tools_are_listed(open_pool):
    pool = open_pool(faulty("many-tools"))
    assert len(pool.loop.run(pool.server_listing("up")).tools) == 2_000


@pytest.mark.parametrize(("fault", "says"), [("pages-forever", "without an end"), ("pages-in-a-circle", "in a loop")])
def test_a_listing_that_does_not_end_is_ended(open_pool, fault, says):
    pool = open_pool(faulty(fault))
    with pytest.raises(ServerMisbehaved, match=says):
        pool.loop.run(pool.server_listing("up"))
    assert pool.status()["up"].state == "running"
    assert echo(pool) == "hi"


@pytest.mark.parametrize("era", ["handshake", "modern"])
def test_a_changed_list_is_told_and_read_again(open_pool, era):
    told = []
    pool = open_pool(upstream("up", "--fault", "list-changed", "--era", era), on_list_changed=told.append)
    before = pool.loop.run(pool.server_listing("up"))
    assert pool.loop.run(pool.server_listing("up")) is before
    assert echo(pool) == "hi"
    assert told == ["up"]
    after = pool.loop.run(pool.server_listing("up"))
    assert {tool.name for tool in after.tools} - {tool.name for tool in before.tools} == {"latecomer"}
    assert pool.loop.run(pool.server_listing("up", fresh=True)) == after


def test_the_first_of_two_tools_of_one_name_is_kept(open_pool):
    pool = open_pool(faulty("duplicate-names"))
    echoes = [tool for tool in pool.loop.run(pool.server_listing("up")).tools if tool.name == "echo"]
    assert [tool.description for tool in echoes] == ["Say it again."]
    assert "more than one tool is called 'echo'" in pool.status()["up"].odd_lines[0]


def test_tools_with_broken_schemas_are_listed_and_nameless_ones_left_out(open_pool):
    pool = open_pool(faulty("invalid-schema"))
    tools = {tool.name: tool.input_schema for tool in pool.loop.run(pool.server_listing("up")).tools}
    assert tools["no_schema"] == tools["list_schema"] == {}
    assert tools["bad_required"] == {"type": "object", "required": False}
    notes = pool.status()["up"].odd_lines
    assert len([note for note in notes if "without a name" in note]) == 3


def test_a_description_of_a_megabyte_is_listed(open_pool):
    pool = open_pool(faulty("big-description"))
    wordy = pool.loop.run(pool.server_listing("up")).tools[-1]
    assert len(wordy.description) == 1_000_000


def test_a_noisy_server_keeps_answering_and_its_last_words_are_kept(open_pool):
    pool = open_pool(faulty("noisy"))
    for _ in range(3):
        assert echo(pool) == "hi"
    until(lambda: len(pool.status()["up"].stderr) == 64 * 1024)
    assert len(pool._servers["up"]._tail._stderr) <= 128 * 1024
    assert pool.status()["up"].stderr.endswith("noise \n")


@pytest.mark.parametrize(
    ("fault", "says"), [("many-values", "has more than 1,000,000 values"), ("long-nonsense", "cannot be read: ")]
)
def test_an_answer_that_takes_too_long_to_read_fails_its_call_alone(open_pool, fault, says):
    pool = open_pool(faulty(fault))
    with pytest.raises(ServerMisbehaved, match=says):
        echo(pool)
    assert pool.loop.run(pool.server_listing("up")).tools
    assert pool.status()["up"].starts == 1


def test_a_long_text_full_of_commas_is_no_long_list(open_pool):
    pool = open_pool(upstream())
    text = ",[{" * 1_000_000
    assert pool.loop.run(pool.call("up", "echo", {"text": text})).text == text


def test_questions_with_odd_numbers_are_no_fault_of_the_readers(open_pool):
    pool = open_pool(faulty("odd-questions"))
    faults = []
    pool.loop.loop.set_exception_handler(lambda _, context: faults.append(context))
    assert echo(pool) == "hi"
    assert not faults
    assert pool.status()["up"].odd_lines == ('{"jsonrpc":"2.0","id":[{}],"method":"ping"}',)


def test_what_a_server_asks_is_answered_without_anybody(open_pool):
    pool = open_pool(faulty("asks"))
    assert echo(pool) == "hi"


def test_answers_in_batches_are_understood(open_pool):
    assert echo(open_pool(faulty("batches"))) == "hi"


def test_a_question_to_the_user_is_an_error_that_says_so(open_pool):
    with pytest.raises(CallFailed, match="wants to ask the user before echo continues"):
        echo(open_pool(faulty("wants-input")))


def test_a_server_that_closes_its_output_is_taken_to_have_ended(open_pool):
    pool = open_pool(faulty("closes-stdout"))
    with pytest.raises(ServerUnavailable, match="SIGKILL"):
        echo(pool)


def test_a_server_that_does_not_read_holds_up_its_own_callers_only(open_pool):
    pool = open_pool(faulty("deaf"), upstream("good"))
    greeted = pool.loop.submit(pool.call("up", "echo", {"text": "hi"}, timeout=LONG))
    until(lambda: pool.status()["up"].state == "running")
    greeted.cancel()
    echo(pool, "good")
    big = {"text": "x" * 1_500_000}

    async def scene():
        calls = [pool.call("up", "echo", big, timeout=2 * LONG) for _ in range(20)]
        gathered = asyncio.gather(*calls, return_exceptions=True)
        good = await pool.call("good", "echo", {"text": "hi"})
        held = pool._servers["up"]._connection._writer._held_bytes
        assert not gathered.done()
        put_own_forward(asyncio.get_running_loop(), 2 * LONG)
        return good.text, held, await gathered

    good, held, failed = pool.loop.run(scene())
    assert good == "hi"
    assert 1_000_000 < held < 4_000_000  # the rest waits with its callers
    assert {type(error) for error in failed} == {CallTimedOut}


def test_a_server_that_ignores_everything_is_killed(open_pool):
    pool = open_pool(faulty("ignores-term"))
    echo(pool)
    pid = pool.status()["up"].pid
    pool.close()
    assert not is_alive(pid)


def test_what_a_server_started_ends_with_it(open_pool):
    pool = open_pool(faulty("leaves-children", "stays"), faulty("leaves-children", "crashes"))

    def child_of(server):
        echo(pool, server)
        until(lambda: "child" in pool.status()[server].stderr)
        return int(pool.status()[server].stderr.split()[1])

    stays, crashes = child_of("stays"), child_of("crashes")
    assert is_alive(stays)
    with pytest.raises(ServerUnavailable):
        pool.loop.run(pool.call("crashes", "crash", {"code": 1}))
    until(lambda: not is_alive(crashes))
    pool.close()
    until(lambda: not is_alive(stays))


@pytest.mark.parametrize("_again", range(4))  # what ends first when a process is killed is a matter of chance
def test_nothing_is_left_when_the_host_is_killed(_again):
    """Not even a server that ignores the end of its input and SIGTERM, nor one still at its start."""
    script = textwrap.dedent("""
        import sys, threading
        from toolyard.config.models import ServerEntry
        from toolyard.mcp_client import ServerPool
        def entry(fault):
            args = ("-m", "toolyard.testing.mock_mcp_server", "--fault", fault)
            return ServerEntry(name=fault, command=sys.executable, args=args)
        pool = ServerPool([entry("ignores-term"), entry("mute"), entry("leaves-children")])
        pool.loop.run(pool.call("ignores-term", "echo", {"text": ""}))
        pool.loop.run(pool.call("leaves-children", "echo", {"text": ""}))
        pool.loop.submit(pool.call("mute", "echo", {"text": ""}))
        while not pool.status()["leaves-children"].stderr: pass
        print(pool.status()["ignores-term"].pid, *pool.status()["leaves-children"].stderr.split()[1:], flush=True)
        threading.Event().wait()
    """)
    with subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, text=True) as host:
        assert host.stdout is not None
        try:
            pids = [int(word) for word in host.stdout.readline().split()]
            until(lambda: len(_descendants(host.pid)) >= 5)  # with the watchdog
            children = _descendants(host.pid)
        finally:
            host.kill()
    assert set(pids) <= set(children)
    until(lambda: not [pid for pid in children if is_alive(pid)])


def _descendants(pid: int) -> list[int]:
    found = []
    with contextlib.suppress(FileNotFoundError, ProcessLookupError):  # what ends meanwhile has no children
        for task in os.listdir(f"/proc/{pid}/task"):
            with open(f"/proc/{pid}/task/{task}/children") as listed:
                for child in map(int, listed.read().split()):
                    found += [child, *_descendants(child)]
    return found


def test_no_secret_of_an_entry_is_ever_said(open_pool):
    entry = faulty("tells-secrets", env={"API_KEY": SECRET, "SHORT": "on"})
    pool = open_pool(entry)
    with pytest.raises(ServerUnavailable) as told:
        echo(pool)
    said = f"{told.value} {told.value.data()} {pool.status()} {entry!r} {vars(told.value)}"
    assert "API_KEY" in said
    assert SECRET not in said


def test_a_program_that_is_not_there_is_named(open_pool):
    pool = open_pool(
        ServerEntry(name="gone", command="no-such-program-anywhere", args=("--key", SECRET)),
        ServerEntry(name="folder", command=sys.executable, cwd="/no/such/folder", args=(SECRET,)),
        ServerEntry(name="nul", command=sys.executable, args=(f"\0{SECRET}",)),
    )
    for server, says in {
        "gone": "there is no program 'no-such-program-anywhere'. Install it, or give its full path",
        "folder": "its folder /no/such/folder does not exist",
        "nul": "holds a NUL character",
    }.items():
        with pytest.raises(ServerUnavailable) as told:
            echo(pool, server)
        assert says in str(told.value)
        assert SECRET not in str(told.value)

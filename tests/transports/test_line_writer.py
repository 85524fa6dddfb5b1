"""Lines reach a slow client whole, whatever becomes of those who send them."""

import asyncio
import os

import anyio
import pytest

from toolyard.transports.mcp.stdio import LineWriter, claim_stdio

LONG = b"x" * 1_000_000


@pytest.fixture
def pipe():
    ends = os.pipe()
    yield ends
    for end in ends:
        os.close(end)


async def read_lines(fd, count):
    data = b""
    while data.count(b"\n") < count:
        data += await asyncio.to_thread(os.read, fd, 1 << 16)
    return data.splitlines()


async def test_a_line_longer_than_the_pipe_waits_for_its_reader(pipe):
    read, write = pipe
    sending = asyncio.create_task(LineWriter(write).send_line(LONG))

    assert await read_lines(read, 1) == [LONG]
    await sending


async def test_lines_of_several_senders_do_not_mix(pipe):
    read, write = pipe
    writer = LineWriter(write)
    lines = [bytes([65 + number]) * 200_000 for number in range(5)]
    sending = [asyncio.create_task(writer.send_line(line)) for line in lines]

    assert await read_lines(read, 5) == lines
    await asyncio.gather(*sending)


async def test_a_sender_cancelled_in_the_middle_of_its_line_does_not_tear_it(pipe):
    read, write = pipe
    writer = LineWriter(write)
    first = asyncio.create_task(writer.send_line(LONG))
    await asyncio.sleep(0)  # it fills the pipe and waits

    first.cancel()
    with pytest.raises(asyncio.CancelledError):
        await first
    second = asyncio.create_task(writer.send_line(b"second"))

    assert await read_lines(read, 2) == [LONG, b"second"]
    await second


async def test_a_client_that_is_gone_breaks_the_stream_and_is_noticed():
    read, write = os.pipe()
    os.close(read)
    writer, noticed = LineWriter(write), []
    writer.on_broken = lambda: noticed.append(True)

    with pytest.raises(anyio.BrokenResourceError):
        await writer.send_line(b"anybody?")

    assert noticed == [True]
    os.close(write)


def test_the_wire_is_given_back_as_it_was(pipe):
    _, write = pipe
    saved = os.dup(1)
    os.dup2(write, 1)
    try:
        with claim_stdio() as (_, wire_out):
            LineWriter(wire_out)
            assert not os.get_blocking(write)
        assert os.get_blocking(write)
    finally:
        os.dup2(saved, 1)
        os.close(saved)

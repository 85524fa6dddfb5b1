"""read_file, read_text_file, read_media_file, read_multiple_files."""

import base64
import io

import pytest
from PIL import Image as Pillow

from toolyard.core.calls import Image, Result, Text
from toolyard.core.errors import SecurityError, ToolError, ValidationError


def told(content: str, note: str = "") -> Result:
    if not note:
        return Result((Text(content),), {"content": content})
    return Result((Text(content), Text(f"[{note}]")), {"content": content, "note": note})


@pytest.mark.parametrize("tool", ["read_file", "read_text_file"])
async def test_text_comes_as_it_is(bench, tool):
    path = bench.write("a.txt", "one\r\ntwo\n")
    assert await bench.call(tool, path=path) == told("one\r\ntwo\n")
    assert await bench.call(tool, path="a.txt") == told("one\r\ntwo\n")


@pytest.mark.parametrize(
    ("content", "arguments", "expected"),
    [
        ("1\n2\n3\n", {"head": 2}, "1\n2"),
        ("1\n2\n3\n", {"head": 3}, "1\n2\n3"),
        ("1\n2\n3", {"head": 9}, "1\n2\n3"),
        ("1\n\n", {"head": 9}, "1\n"),
        ("1\n2\n3\n", {"tail": 2}, "2\n3"),
        ("1\n2\n3", {"tail": 2}, "2\n3"),
        ("1\n2\n3", {"tail": 9}, "1\n2\n3"),
        ("1\n\n", {"tail": 1}, ""),
        ("", {"tail": 1}, ""),
        ("", {"head": 1}, ""),
        ("1\n2\n", {"head": 0, "tail": 0}, "1\n2\n"),
        ("1\n2\n", {"head": None}, "1\n2\n"),
    ],
)
async def test_head_and_tail_are_lines_from_either_end(bench, content, arguments, expected):
    bench.write("a.txt", content)
    assert await bench.call("read_text_file", path="a.txt", **arguments) == told(expected)


@pytest.mark.parametrize("arguments", [{"head": 1, "tail": 1}, {"head": -1}, {"head": "1"}, {"lines": 2}])
async def test_head_and_tail_that_cannot_be_are_refused(bench, arguments):
    bench.write("a.txt", "x")
    await bench.fails(ValidationError, "read_text_file", path="a.txt", **arguments)


async def test_other_encodings_are_decoded_and_stray_bytes_replaced(bench):
    bench.write("latin", "Grüße, Öl".encode("latin-1"))
    bench.write("stray", "größer größer größer ".encode() * 4 + b"\xff")
    assert await bench.call("read_text_file", path="latin") == told("Grüße, Öl")
    assert (await bench.call("read_text_file", path="stray")).text.endswith("größer \ufffd")


async def test_a_long_text_is_cut_with_a_note_beside_it(open_bench):
    bench = open_bench(limits={"output_chars": 10})
    bench.write("a.txt", "0123456789abc")
    note = "Only the {} 10 of 13 characters are shown; the rest is not."
    assert await bench.call("read_file", path="a.txt") == told("0123456789", note.format("first"))
    assert await bench.call("read_file", path="a.txt", tail=1) == told("3456789abc", note.format("last"))


async def test_a_file_too_large_to_be_read_whole_is_read_from_its_ends(open_bench):
    bench = open_bench(limits={"file_bytes": 1_000, "output_chars": 100})
    bench.write("big.log", "".join(f"line {n}\n" for n in range(1_000)))
    assert await bench.call("read_text_file", path="big.log", head=2) == told("line 0\nline 1")
    assert await bench.call("read_text_file", path="big.log", tail=2) == told("line 998\nline 999")
    error = await bench.fails(ValidationError, "read_text_file", path="big.log")
    assert "head" in error.hint


@pytest.mark.parametrize("content", [b"\0\1\2", b"\x89PNG\r\n\x1a\n", b"%PDF-1.4"])
async def test_what_is_not_text_is_refused_with_the_tool_that_takes_it(bench, content):
    bench.write("x", content)
    error = await bench.fails(ToolError, "read_text_file", path="x")
    assert error.hint == "Use read_media_file for it."


def png() -> bytes:
    out = io.BytesIO()
    Pillow.new("RGB", (4, 3)).save(out, "PNG")
    return out.getvalue()


async def test_an_image_comes_as_an_image_whatever_its_name(bench):
    bench.write("x.dat", png())
    block = {"type": "image", "data": base64.b64encode(png()).decode(), "mimeType": "image/png"}
    assert await bench.call("read_media_file", path="x.dat") == Result(
        (Image(png(), "image/png"),), {"content": [block]}
    )


async def test_a_damaged_image_is_refused(bench):
    bench.write("x.png", png()[:-20])
    await bench.fails(ToolError, "read_media_file", path="x.png")


async def test_sounds_and_other_files_come_as_base64(bench):
    sound, other = bench.write("x.mp3", b"ID3"), bench.write("x y.bin", b"\0\1")
    data = base64.b64encode(b"ID3").decode()
    assert (await bench.call("read_media_file", path=sound)).structured == {
        "content": [{"type": "audio", "data": data, "mimeType": "audio/mpeg"}]
    }
    resource = {
        "uri": f"file://{other.replace(' ', '%20')}",
        "mimeType": "application/octet-stream",
        "blob": base64.b64encode(b"\0\1").decode(),
    }
    assert (await bench.call("read_media_file", path=other)).structured == {
        "content": [{"type": "resource", "resource": resource}]
    }


async def test_many_files_come_together_and_one_fault_does_not_stop_the_rest(bench):
    bench.write("a.txt", "A")
    bench.write("b.txt", "B\n")
    found = await bench.call("read_multiple_files", paths=["a.txt", "gone", "/etc/passwd", "b.txt"])
    first, gone, outside, last = found.text.split("\n---\n")
    assert (first, last) == ("a.txt:\nA\n", "b.txt:\nB\n\n")
    assert gone.startswith("gone: Error - No such file or folder")
    assert outside.startswith("/etc/passwd: Error - Reading /etc/passwd is outside")
    assert found == told(found.text)


async def test_many_files_of_which_none_can_be_read_are_an_error(bench):
    await bench.fails(ToolError, "read_multiple_files", paths=["gone"])
    await bench.fails(SecurityError, "read_multiple_files", paths=["gone", "../out", ""])
    await bench.fails(ValidationError, "read_multiple_files", paths=["", "\0"])
    await bench.fails(ValidationError, "read_multiple_files", paths=[])


async def test_many_files_that_are_too_long_together_are_named(open_bench):
    bench = open_bench(limits={"output_chars": 10})
    for name in ("a", "b", "c", "d"):
        bench.write(name, "123456" if name != "c" else "12")
    found = await bench.call("read_multiple_files", paths=["a", "b", "c", "d"])
    left_out = "Error - Left out: the answer would be too long. Read it with read_text_file."
    assert found == told(f"a:\n123456\n\n---\nb: {left_out}\n---\nc:\n12\n\n---\nd: {left_out}")


async def test_what_was_read_is_known_when_it_is_written(bench):
    path = bench.write("a.txt", "mine")
    await bench.call("read_multiple_files", paths=["a.txt"])
    bench.write("a.txt", "theirs")
    await bench.fails(ToolError, "write_file", path=path, content="clobbered")
    assert bench.read("a.txt") == b"theirs"
    await bench.call("read_file", path=path)
    await bench.call("write_file", path=path, content="new")
    assert bench.read("a.txt") == b"new"

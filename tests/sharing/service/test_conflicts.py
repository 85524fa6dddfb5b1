"""What both sides changed: it is marked or put beside, never lost, and settled by who is asked for."""

import pytest

from .conftest import names, start


async def test_a_conflict_is_marked_and_its_resolution_stands(a, b):
    await start(a, b, x="one\ntwo\n")
    await a.write("x.txt", "one\nours\n")
    await b.write("x.txt", "one\ntheirs\n")
    await b.share()

    done = await a.merge("agent_b", "x.txt")
    marked = (a.work / "x.txt").read_text()
    await a.write("x.txt", "one\nboth\n")
    again = await a.merge("agent_b", "x.txt")

    assert names(done["conflicts"]) == ["x.txt"]
    assert "<<<<<<< agent_a\nours\n=======\ntheirs\n>>>>>>> agent_b (snapshot " in marked
    assert names(again["kept"]) == ["x.txt"], "what was merged once is not merged again"


async def test_conflicts_that_nobody_resolved_are_told_and_not_marked_again(a, b):
    await start(a, b, x="one\ntwo\n")
    await a.write("x.txt", "one\nours\n")
    await b.write("x.txt", "one\ntheirs\n")
    await b.share()
    await a.merge("agent_b", "x.txt")
    marked = (a.work / "x.txt").read_text()

    again = await a.merge("agent_b", "x.txt")
    await b.write("x.txt", "one\nother\n")
    await b.share()
    later = await a.merge("agent_b", "x.txt")

    for done in (again, later):
        assert [(entry["path"], entry["why"]) for entry in done["conflicts"]] == [
            ("x.txt", "still has conflict markers: resolve them first")
        ]
        assert done["undo"] == []
    assert (a.work / "x.txt").read_text() == marked


@pytest.mark.parametrize("side", ["ours", "theirs"])
async def test_a_side_that_is_preferred_settles_conflicts_before_and_after_they_are_marked(a, b, side):
    await start(a, b, x="1\n2\n3\n4\n5\n", y="1\n2\n3\n4\n5\n")
    for name in ("x.txt", "y.txt"):
        await a.write(name, "1\nours\n3\n4\nA\n")
        await b.write(name, "B\ntheirs\n3\n4\n5\n")
    await b.share()
    await a.merge("agent_b", "y.txt")

    done = await a.merge("agent_b", "**", prefer=side)

    assert names(done["conflicts"]) == []
    for name in ("x.txt", "y.txt"):
        assert (a.work / name).read_text() == {"ours": "1\nours\n3\n4\nA\n", "theirs": "B\ntheirs\n3\n4\nA\n"}[side]


@pytest.mark.parametrize(("side", "content"), [("ours", b"\0ours"), ("theirs", b"\0theirs")])
async def test_a_side_that_is_preferred_settles_what_is_no_text(a, b, side, content):
    (a.work / "x.bin").write_bytes(b"\0ours")
    (b.work / "x.bin").write_bytes(b"\0theirs")
    await b.share()

    await a.merge("agent_b", "x.bin", prefer=side)

    assert (a.work / "x.bin").read_bytes() == content
    assert not (a.work / "x.bin.from-agent_b").exists()


async def test_a_binary_that_both_changed_goes_beside_ours(a, b):
    (b.work / "x.bin").write_bytes(b"\0one")
    await b.share()
    await a.merge("agent_b", "x.bin")
    (a.work / "x.bin").write_bytes(b"\0ours")
    (b.work / "x.bin").write_bytes(b"\0theirs")
    await b.share()

    done = await a.merge("agent_b", "x.bin")

    assert done["conflicts"][0]["written"] == "x.bin.from-agent_b"
    assert (a.work / "x.bin").read_bytes() == b"\0ours"
    assert (a.work / "x.bin.from-agent_b").read_bytes() == b"\0theirs"


@pytest.mark.parametrize("is_removed", [False, True], ids=["changed here", "removed here"])
@pytest.mark.parametrize("beside", ["untouched", "worked on", "cleared"])
async def test_what_was_put_beside_ours_is_taken_later(a, b, beside, *, is_removed):
    await _put_beside(a, b, is_removed=is_removed)
    aside = a.work / "x.bin.from-agent_b"
    if beside == "worked on":
        aside.write_bytes(b"\0worked on")
    elif beside == "cleared":
        aside.unlink()

    done = await a.merge("agent_b", "**", prefer="theirs")

    if beside == "cleared":  # the conflict was settled by hand
        assert [entry["path"] for entry in done["kept"]] == ["x.bin"]
        assert (a.work / "x.bin").exists() is not is_removed
        return
    assert [entry["path"] for entry in done["merged"]] == ["x.bin"]
    assert (a.work / "x.bin").read_bytes() == b"\0theirs"
    assert aside.exists() is (beside == "worked on")
    assert (await a.merge("agent_b", "x.bin", prefer="theirs"))["unchanged"] == 1


async def test_a_newer_version_that_is_taken_clears_what_was_put_beside_before(a, b):
    await _put_beside(a, b)
    (b.work / "x.bin").write_bytes(b"\0newer")
    await b.share()

    await a.merge("agent_b", "x.bin", prefer="theirs")

    assert (a.work / "x.bin").read_bytes() == b"\0newer"
    assert not (a.work / "x.bin.from-agent_b").exists()


@pytest.mark.parametrize("side", ["ours", None])
async def test_what_was_put_beside_ours_stays_while_theirs_is_not_asked_for(a, b, side):
    await _put_beside(a, b)

    done = await a.merge("agent_b", "x.bin", **({"prefer": side} if side else {}))

    assert [entry["path"] for entry in done["kept"]] == ["x.bin"]
    assert (a.work / "x.bin").read_bytes() == b"\0ours"
    assert (a.work / "x.bin.from-agent_b").exists()


async def _put_beside(a, b, *, is_removed=False):
    (b.work / "x.bin").write_bytes(b"\0one")
    await b.share()
    await a.merge("agent_b", "x.bin")
    (a.work / "x.bin").unlink() if is_removed else (a.work / "x.bin").write_bytes(b"\0ours")
    (b.work / "x.bin").write_bytes(b"\0theirs")
    await b.share()
    done = await a.merge("agent_b", "x.bin")
    assert done["conflicts"][0]["written"] == "x.bin.from-agent_b"


async def test_what_was_put_beside_before_is_not_overwritten(a, b):
    (b.work / "x.bin").write_bytes(b"\0one")
    (a.work / "x.bin").write_bytes(b"\0ours")
    (a.work / "x.bin.from-agent_b").write_bytes(b"worked on")
    await b.share()

    done = await a.merge("agent_b", "x.bin")

    assert done["conflicts"][0]["written"].startswith("x.bin.from-agent_b-")
    assert (a.work / "x.bin.from-agent_b").read_bytes() == b"worked on"

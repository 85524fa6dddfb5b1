"""What a merge would bring, as a diff."""

from toolyard.config.loader import load_config


async def start(a, b, **texts):
    """Both have the same files: b wrote them, a merged them."""
    for name, text in texts.items():
        await b.write(f"{name}.txt", text)
    await b.share()
    await a.merge("agent_b", "**")


async def test_every_kind_of_change_is_shown_before_it_is_made(a, b):
    await start(a, b, both="1\n2\n3\n4\n5\n", gone="1\n", moved="1\n2\n", mode="1\n")
    (b.work / "x.bin").write_bytes(b"\0theirs")
    (a.work / "x.bin").write_bytes(b"\0ours")
    await a.write("both.txt", "A\n2\n3\n4\n5\n")
    await a.write("moved.txt", "1\n2\n3\n")
    await b.write("both.txt", "1\n2\n3\n4\nB\n")
    (b.work / "gone.txt").unlink()
    (b.work / "moved.txt").rename(b.work / "there.txt")
    (b.work / "mode.txt").chmod(0o755)
    await b.share()

    result = await a.call("shared_merge", peer="agent_b", paths=["**"], dry_run=True, diff=True)

    diff = result.structured["diff"]
    assert [line for line in diff.splitlines() if line[:2] in {"A ", "D ", "M ", "m ", "R "}] == [
        "M both.txt",
        "D gone.txt",
        "m mode.txt",
        "R moved.txt -> there.txt (100% alike)",
        "A x.bin.from-agent_b",
    ]
    assert "-5\n+B" in diff
    assert "-1\n" in diff
    assert "+A" not in diff, "what is ours already is no change"
    assert diff in result.text
    assert "diff" not in (await a.merge("agent_b", "**", dry_run=True))


async def test_a_file_of_ours_that_may_not_be_read_is_not_shown(team):
    config = team.path / "toolyard.yaml"
    config.write_text(config.read_text() + f"permissions: {{deny: ['Read(/{team.work('agent_a')}/hidden.txt)']}}\n")
    team.config = load_config(str(config))
    a, b = team.open("agent_a"), team.open("agent_b")
    for one in (a, b):
        for name in ("hidden.txt", "x.txt"):
            (one.work / name).write_text(f"of {one.yard.agent}")
    await b.share()

    diff = (await a.merge("agent_b", "**", dry_run=True, diff=True))["diff"]

    assert "M x.txt" in diff
    assert "hidden" not in diff

"""What `toolyard doctor` says of servers and custom tools: of those whose files an agent's folder shares, too."""

from __future__ import annotations

from .conftest import Attached


def test_the_catalog_of_the_shared_root_is_looked_at_from_every_folder(attached: Attached) -> None:
    attached.run("sync")
    (attached.base / "elsewhere").mkdir()
    said = attached.run("doctor", "--workspace", str(attached.base / "elsewhere"))
    assert "servers: 1 with 9 tools, asked within the last day" in said


def test_custom_tools_are_counted_and_what_is_wrong_with_one_is_said(attached: Attached) -> None:
    attached.document["toolyard"]["available_custom_tools"].append({"group": "gone", "path": "gone.py"})
    said = attached.run("doctor", code=1)
    assert "ok    custom tools: shop (1)" in said
    assert "fail  custom tool gone (gone.py):" in said


def test_before_the_first_sync_the_command_to_run_is_whole(attached: Attached) -> None:
    said = attached.run("doctor")
    assert "servers: 1 configured, none asked yet" in said
    assert f"(Run `toolyard sync --config {attached.config} --state {attached.state}`.)" in said

"""Paths find their root, and the object or the empty place they name there."""

import os
from contextlib import closing

import pytest

from tests.support.descriptors import count_open
from toolyard.core.errors import SecurityError, ToolError, ValidationError
from toolyard.core.limits import Limits
from toolyard.files import mounts as module
from toolyard.files.mounts import Mounts


@pytest.fixture
def place(tmp_path):
    base = tmp_path.resolve()
    (base / "ws" / "folder").mkdir(parents=True)
    (base / "ws" / "file").write_text("x")
    (base / "other").mkdir()
    (base / "other" / "file").write_text("y")
    return base


@pytest.fixture
def mounts(place):
    with closing(Mounts(str(place / "ws"), [str(place / "other"), str(place / "missing")])) as found:
        yield found


def facts(target):
    with target:
        return (target.exists, target.real, target.relative, target.missing, target.root.path)


def test_an_existing_file_is_found_with_its_handle(mounts, place):
    target = mounts.find(f"{place}/ws/file")

    assert facts(target) == (True, f"{place}/ws/file", "file", (), f"{place}/ws")


def test_the_root_itself_is_found(mounts, place):
    assert facts(mounts.find(f"{place}/ws")) == (True, f"{place}/ws", ".", (), f"{place}/ws")


def test_a_missing_place_is_the_deepest_folder_and_the_names_below(mounts, place):
    target = mounts.find(f"{place}/ws/folder/a/b.txt")

    assert facts(target) == (False, f"{place}/ws/folder/a/b.txt", "folder/a/b.txt", ("a", "b.txt"), f"{place}/ws")


def test_a_path_through_a_link_is_known_by_where_it_really_lies(mounts, place):
    (place / "ws" / "link").symlink_to("folder")

    target = mounts.find(f"{place}/ws/link/new")

    assert facts(target) == (False, f"{place}/ws/folder/new", "folder/new", ("new",), f"{place}/ws")


@pytest.mark.parametrize(
    ("link", "path"),
    [("../other", "link/file"), ("/etc", "link"), ("nowhere", "link"), ("nowhere", "link/below"), ("link", "link")],
    ids=["out", "out-absolute", "dangling", "below-dangling", "loop"],
)
def test_a_link_out_or_to_nowhere_is_refused(mounts, place, link, path):
    (place / "ws" / "link").symlink_to(link)
    before = count_open()

    with pytest.raises(SecurityError, match="through a link"):
        mounts.find(f"{place}/ws/{path}")

    assert count_open() == before


def test_a_file_where_a_folder_should_be_is_said(mounts, place):
    with pytest.raises(ToolError, match="is a file, not a folder"):
        mounts.find(f"{place}/ws/file/below")


def test_a_file_that_appears_while_we_look_is_no_link(mounts, place, monkeypatch):
    found = module._nearest_existing

    def late(root, path, relative):
        (place / "ws" / "new").write_text("just made")
        return found(root, path, relative)

    monkeypatch.setattr(module, "_nearest_existing", late)

    target = mounts.find(f"{place}/ws/new")

    with target:
        assert target.real == f"{place}/ws/new"


def test_relative_and_absolute_spellings_are_one_path(mounts, place):
    spellings = [
        "file",
        "./file",
        "folder/../file",
        f"{place}/ws/file",
        f"/{place}/ws//file",
        f"{place}/other/../ws/file",
    ]

    assert {mounts.clean(spelling) for spelling in spellings} == {f"{place}/ws/file"}


def test_what_cannot_be_a_path_names_its_argument(mounts):
    with pytest.raises(ValidationError) as caught:
        mounts.clean("a\0b", field="file_path")

    assert caught.value.fields[0].field == "file_path"


def test_the_limits_of_the_configuration_hold_for_paths(place):
    with (
        closing(Mounts(str(place / "ws"), limits=Limits(name_bytes=3))) as mounts,
        pytest.raises(ValidationError, match="longer than 3"),
    ):
        mounts.clean("abcd")


def test_roots_given_through_links_are_known_by_both_names(place):
    (place / "alias").symlink_to("ws")

    with closing(Mounts(str(place / "alias"))) as mounts:
        assert [
            mounts.clean(f"{place}/alias/file"),
            mounts.clean(f"{place}/ws/file"),
            mounts.clean(f"{place}/alias"),
        ] == [
            f"{place}/ws/file",
            f"{place}/ws/file",
            f"{place}/ws",
        ]


def test_every_path_belongs_to_its_innermost_root(place):
    (place / "ws" / "inner").mkdir()
    (place / "ws" / "inner" / "x").write_text("x")
    (place / "a-very-long-name-for-the-workspace-given-through-a-link").symlink_to("ws")
    long = str(place / "a-very-long-name-for-the-workspace-given-through-a-link")

    with closing(Mounts(long, [str(place / "ws" / "inner"), str(place / "other")])) as mounts:
        roots = [mounts.root_of(f"{place}/{path}").path for path in ("ws/inner/x", "ws/inner", "ws/x", "other/x")]
        host = mounts.root_of(f"{place}/ws-evil/x").path

    assert roots == [f"{place}/ws/inner", f"{place}/ws/inner", f"{place}/ws", f"{place}/other"]
    assert host == "/"


def test_a_link_from_an_inner_root_to_the_outer_one_leads_out(place):
    (place / "ws" / "inner").mkdir()
    (place / "ws" / "inner" / "up").symlink_to("../file")

    mounts = Mounts(str(place / "ws"), [str(place / "ws" / "inner")])
    with closing(mounts), pytest.raises(SecurityError, match="through a link"):
        mounts.find(f"{place}/ws/inner/up")


def test_the_host_is_opened_once_and_only_when_asked_for(mounts, place):
    before = count_open()

    first, second = mounts.root_of("/etc"), mounts.root_of("/usr")

    assert first is second
    assert count_open() == before + 1
    assert facts(mounts.find("/etc"))[1] == "/etc"


def test_paths_are_shown_relative_in_the_workspace_and_absolute_elsewhere(mounts, place):
    shown = [mounts.display_path(f"{place}/{path}") for path in ("ws/folder/a", "ws", "other/file", "ws-evil")]

    assert shown == ["folder/a", ".", f"{place}/other/file", f"{place}/ws-evil"]


def test_closing_gives_back_every_descriptor(place):
    before = count_open()
    mounts = Mounts(str(place / "ws"), [str(place / "other")])
    mounts.root_of("/etc")

    mounts.close()
    mounts.close()

    assert count_open() == before


def test_a_root_that_cannot_be_opened_leaves_nothing_open(place, monkeypatch):
    before = count_open()
    monkeypatch.setattr(os.path, "isdir", lambda path: True)

    with pytest.raises(ToolError, match="No such file or folder"):
        Mounts(str(place / "ws"), [str(place / "other"), str(place / "missing")])

    assert count_open() == before


def test_a_workspace_that_was_removed_is_said_to_be_gone(place):
    (place / "doomed").mkdir()
    with closing(Mounts(str(place / "doomed"))) as mounts:
        os.rmdir(place / "doomed")

        with pytest.raises(ToolError, match="No such file or folder"):
            mounts.find(f"{place}/doomed/file")

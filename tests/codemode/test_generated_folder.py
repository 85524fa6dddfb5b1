"""Generated folders: ours alone, written whole, never through a link, and never over the user's own."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from toolyard.codemode.files import compile_group, compile_index, compile_own_tools
from toolyard.codemode.generated_folder import GeneratedFolder, generated_path
from toolyard.core.errors import SystemFault
from toolyard.core.upstream import ToolSchema
from toolyard.files.roots import Root

FILES = {"__init__.py": "", "read.py": "x = 1\n"}


@pytest.fixture
def root(tmp_path: Path):
    opened = Root(str(tmp_path))
    yield opened
    opened.close()


def tree(folder: Path) -> dict[str, str]:
    return {str(path.relative_to(folder)): path.read_text() for path in folder.rglob("*") if path.is_file()}


def test_a_folder_is_written_and_replaced_whole(root: Root, tmp_path: Path) -> None:
    with GeneratedFolder(root, "servers", f"{root.path}-state") as folder:
        folder.replace_folder("disk", FILES)
        folder.replace_folder("disk", {"other.py": "y = 2\n"})
        assert folder.entry_names() == {"disk"}
    assert tree(tmp_path / "servers" / "disk") == {"other.py": "y = 2\n"}


def test_git_leaves_it_out_and_ripgrep_does_not(root: Root, tmp_path: Path) -> None:
    GeneratedFolder(root, "servers", f"{root.path}-state").close()
    assert (tmp_path / "servers/.gitignore").read_text() == "*\n"
    assert (tmp_path / "servers/.ignore").read_text() == "!*\n"


def test_what_was_written_is_intact_until_somebody_touches_it(root: Root, tmp_path: Path) -> None:
    with GeneratedFolder(root, "servers", f"{root.path}-state") as folder:
        stamps = folder.replace_folder("disk", FILES)
        assert folder.is_intact("disk", stamps)
        (tmp_path / "servers/disk/__pycache__").mkdir()
        assert folder.is_intact("disk", stamps)
        (tmp_path / "servers/disk/more.py").write_text("")
        assert not folder.is_intact("disk", stamps)
        (tmp_path / "servers/disk/more.py").unlink()
        (tmp_path / "servers/disk/read.py").write_text("x = 2\n")
        assert not folder.is_intact("disk", stamps)
        (tmp_path / "servers/disk/read.py").unlink()
        assert not folder.is_intact("disk", stamps)
        assert not folder.is_intact("missing", stamps)


def test_a_file_of_the_folder_itself_is_written_only_when_it_differs(root: Root, tmp_path: Path) -> None:
    with GeneratedFolder(root, "servers", f"{root.path}-state") as folder:
        assert [folder.ensure_file("INDEX.md", text) for text in ("one", "one", "two")] == [True, False, True]
    assert (tmp_path / "servers/INDEX.md").read_text() == "two"


def test_a_folder_of_the_users_own_is_left_alone(root: Root, tmp_path: Path) -> None:
    (tmp_path / "tools").mkdir()
    (tmp_path / "tools/mine.py").write_text("mine")
    with GeneratedFolder(root, "tools", f"{root.path}-state") as folder:
        assert folder.path == ".toolyard/tools"
        folder.replace_folder("web", FILES)
    assert tree(tmp_path / "tools") == {"mine.py": "mine"}
    assert generated_path(str(tmp_path), "tools", f"{root.path}-state") == ".toolyard/tools"


def test_an_empty_folder_and_one_of_ours_are_used(root: Root, tmp_path: Path) -> None:
    (tmp_path / "servers").mkdir()
    for _ in range(2):
        with GeneratedFolder(root, "servers", f"{root.path}-state") as folder:
            assert folder.path == "servers"


@pytest.mark.parametrize("name", ["servers", ".toolyard"])
def test_no_link_leads_a_write_elsewhere(root: Root, tmp_path: Path, name: str) -> None:
    elsewhere = tmp_path.parent / f"{tmp_path.name}-elsewhere"
    elsewhere.mkdir()
    (tmp_path / name).symlink_to(elsewhere)
    if name == ".toolyard":
        (tmp_path / "servers").mkdir()
        (tmp_path / "servers/mine").write_text("")
        with pytest.raises(SystemFault, match="must be a plain folder"):
            GeneratedFolder(root, "servers", f"{root.path}-state")
    else:
        with GeneratedFolder(root, "servers", f"{root.path}-state") as folder:
            assert folder.path == ".toolyard/servers"
    assert os.listdir(elsewhere) == []


def test_a_link_inside_is_replaced_and_not_followed(root: Root, tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "kept").write_text("kept")
    with GeneratedFolder(root, "servers", f"{root.path}-state") as folder:
        (tmp_path / "servers/disk").symlink_to(elsewhere)
        (tmp_path / "servers/INDEX.md").symlink_to(elsewhere / "kept")
        folder.replace_folder("disk", FILES)
        folder.ensure_file("INDEX.md", "index")
        assert tree(tmp_path / "servers/disk") == FILES
        assert not (tmp_path / "servers/disk").is_symlink()
        assert folder.entry_names() == {"disk", "INDEX.md"}
    assert tree(elsewhere) == {"kept": "kept"}


def test_a_removed_folder_is_gone_and_one_that_is_not_there_is_no_error(root: Root) -> None:
    with GeneratedFolder(root, "servers", f"{root.path}-state") as folder:
        folder.replace_folder("disk", FILES)
        for _ in range(2):
            folder.remove("disk")
        assert folder.entry_names() == set()


def users_folder(tmp_path: Path) -> dict[str, str]:
    """A `servers/` of the user's, into which an agent has put Toolyard's mark."""
    folder = tmp_path / "servers"
    (folder / "disk").mkdir(parents=True)
    (folder / "disk/models.py").write_text("class Disk: ...\n")
    (folder / ".toolyard").write_text("Generated by toolyard sync: changes are lost.\n")
    return tree(folder)


def test_a_forged_mark_makes_no_folder_of_the_user_ours(root: Root, tmp_path: Path) -> None:
    before = users_folder(tmp_path)
    with GeneratedFolder(root, "servers", f"{root.path}-state") as folder:
        assert folder.path == ".toolyard/servers"
        folder.replace_folder("disk", FILES)
    assert tree(tmp_path / "servers") == before


@pytest.mark.parametrize(
    ("name", "text"),
    [
        (".env", "TOKEN=1"),
        (".gitignore", "*.log"),
        ("index.json", '{"hosts": ["a", "b"]}'),
        ("INDEX.md", "# Our machines"),
        ("README.md", "# servers"),
    ],
)
def test_a_forged_mark_does_not_make_one_file_of_the_user_ours(
    root: Root, tmp_path: Path, name: str, text: str
) -> None:
    (tmp_path / "servers").mkdir()
    (tmp_path / "servers" / name).write_text(text)
    (tmp_path / "servers/.toolyard").write_text("Generated by toolyard sync: changes are lost.\n")
    assert generated_path(root.path, "servers", f"{root.path}-state") == ".toolyard/servers"


def test_a_folder_of_the_user_that_takes_the_place_of_ours_meanwhile_is_left_alone(
    root: Root, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with GeneratedFolder(root, "servers", f"{root.path}-state"):
        pass
    (tmp_path / "src").mkdir()
    (tmp_path / "src/main.py").write_text("print()\n")
    make_folder = Root.make_folder

    def swapped(self: Root, relative: str) -> int:
        (tmp_path / "servers").rename(tmp_path / "ours")
        (tmp_path / "src").rename(tmp_path / "servers")
        return make_folder(self, relative)

    monkeypatch.setattr(Root, "make_folder", swapped)
    with pytest.raises(SystemFault, match="was replaced"):
        GeneratedFolder(root, "servers", f"{root.path}-state")
    assert tree(tmp_path / "servers") == {"main.py": "print()\n"}


def test_what_a_killed_writer_left_does_not_make_a_folder_the_users(root: Root, tmp_path: Path) -> None:
    with GeneratedFolder(root, "servers", f"{root.path}-state"):
        (tmp_path / "servers/.INDEX.md.0123abcd").write_text("# ser")
    assert generated_path(root.path, "servers", f"{root.path}-other") == "servers"


def test_a_folder_that_the_user_made_where_ours_was_is_not_ours(root: Root, tmp_path: Path) -> None:
    with GeneratedFolder(root, "servers", f"{root.path}-state") as folder:
        folder.replace_folder("disk", FILES)
    shutil.rmtree(tmp_path / "servers")
    before = users_folder(tmp_path)
    with GeneratedFolder(root, "servers", f"{root.path}-state") as folder:
        assert folder.path == ".toolyard/servers"
    assert tree(tmp_path / "servers") == before


def test_a_recorded_folder_stays_ours_whatever_is_put_into_it(root: Root, tmp_path: Path) -> None:
    for _ in range(2):
        with GeneratedFolder(root, "servers", f"{root.path}-state") as folder:
            assert folder.path == "servers"
        (tmp_path / "servers/notes.txt").write_text("notes")


@pytest.mark.parametrize("name", ["servers", "tools"])
def test_a_marked_folder_without_a_record_is_ours_where_all_in_it_is_generated(
    root: Root, tmp_path: Path, name: str
) -> None:
    schema = ToolSchema("web.fetch" if name == "tools" else "fetch", "Fetches.", {"type": "object"}, None, {})
    compiled = compile_group("web", [schema]) if name == "tools" else compile_own_tools([schema], "1")
    with GeneratedFolder(root, name, f"{root.path}-state") as folder:
        folder.replace_folder(compiled.folder, compiled.files)
        for file, text in compile_index([compiled]).items():
            folder.ensure_file(file, text)
    (tmp_path / name / compiled.folder / "__pycache__").mkdir()
    with GeneratedFolder(root, name, f"{root.path}-other") as folder:
        assert folder.path == name
    (tmp_path / name / compiled.folder / "mine.py").write_text("mine = 1\n")
    assert generated_path(root.path, name, f"{root.path}-third") == f".toolyard/{name}"
    assert generated_path(root.path, name, f"{root.path}-other") == name

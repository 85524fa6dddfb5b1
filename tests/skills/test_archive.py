"""Skills go out as folders and files of the format and come in again; hostile archives write nothing."""

from __future__ import annotations

import io
import os
import stat
import zipfile
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from toolyard.core.errors import ToolError, ToolyardError, ValidationError
from toolyard.files.roots import Root
from toolyard.skills import Skill, archive, export_skill, import_skill, list_skills, save, versions
from toolyard.skills.archive import pack_skill, unpack_skill
from toolyard.skills.skill_files import SkillFile, tree_from_bytes

PAGE = "---\nname: my-skill\ndescription: Does it.\n---\n"


@pytest.fixture
def exported(root: Root, tmp_path: Path) -> Path:
    save(root, "a", Skill("make_site", "x = 1", "Makes a site."))
    script = tmp_path / "skills/a/make_site/scripts/run.sh"
    script.parent.mkdir()
    script.write_text("#!/bin/sh\n")
    script.chmod(0o755)
    out = tmp_path / "out"
    out.mkdir()
    return out


@pytest.mark.parametrize("target", ["", "site.zip", "site.skill"])
def test_what_goes_out_comes_in_again(root: Root, exported: Path, tmp_path: Path, target: str) -> None:
    written = export_skill(root, "a", "make_site", str(exported / target))
    assert written == str(exported / (target or "make-site"))
    assert import_skill(root, "b", written, by="b") == "skills/b/make_site"
    here, there = tmp_path / "skills/a/make_site", tmp_path / "skills/b/make_site"
    files = sorted(str(path.relative_to(here)) for path in here.rglob("*"))
    assert sorted(str(path.relative_to(there)) for path in there.rglob("*")) == files
    assert os.access(there / "scripts/run.sh", os.X_OK)
    assert not os.access(there / "__init__.py", os.X_OK)
    assert versions(root, "b", "make_site")[0].note == f"imported from {os.path.basename(written)}"
    with pytest.raises(ToolError, match="already exists"):
        export_skill(root, "a", "make_site", str(exported / target))


def test_the_same_skill_is_the_same_file(root: Root, exported: Path) -> None:
    for name in ("one.zip", "two.skill"):
        export_skill(root, "a", "make_site", str(exported / name))
    assert (exported / "one.zip").read_bytes() == (exported / "two.skill").read_bytes()


def zipped(files: dict[str, bytes], change=None) -> bytes:
    data = io.BytesIO()
    with zipfile.ZipFile(data, "w", zipfile.ZIP_DEFLATED) as made:
        for name, content in files.items():
            info = zipfile.ZipInfo(name)
            info.compress_type = zipfile.ZIP_DEFLATED
            if change:
                change(info)
            made.writestr(info, content)
    return data.getvalue()


def as_lzma(info: zipfile.ZipInfo) -> None:
    info.compress_type = zipfile.ZIP_LZMA


def wanting(memory: int) -> bytes:
    """An archive whose bytes are few and say that unpacking them takes so much memory."""
    data = bytearray(zipped({"s/SKILL.md": b"x"}, as_lzma))
    at = data.index(b"s/SKILL.md") + len(b"s/SKILL.md") + 5
    data[at : at + 4] = memory.to_bytes(4, "little")
    return bytes(data)


def as_link(info: zipfile.ZipInfo) -> None:
    if info.filename.endswith("leads"):
        info.external_attr = (stat.S_IFLNK | 0o777) << 16


@pytest.mark.filterwarnings("ignore:Duplicate name")
@pytest.mark.parametrize(
    ("data", "why"),
    [
        (zipped({"s/SKILL.md": b"x", "../up.py": b""}), r"the name '\.\./up\.py'"),
        (zipped({"s/SKILL.md": b"x", "s/../../up.py": b""}), "the name"),
        (zipped({"s/SKILL.md": b"x", "/etc/x": b""}), "the name"),
        (zipped({"s/SKILL.md": b"x", "s\\..\\up": b""}), "the name"),
        (zipped({"s/SKILL.md": b"x", "s/./y": b""}), "the name"),
        (zipped({"s/SKILL.md": b"x", "s/a\nb": b""}), "the name"),
        (zipped({"s/SKILL.md": b"x", "s/" + "d/" * 20 + "y": b""}), "the name"),
        (zipped({"s/SKILL.md": b"x", "s/leads": b"/etc/passwd"}, as_link), "a link or a special file"),
        (zipped({"s/SKILL.md": b"x", "t/SKILL.md": b"x"}), "2 skills, not one"),
        (zipped({"s/README.md": b"x"}), "0 skills"),
        (zipped({"s/SKILL.md": b"x", "s/y": b"\0" * 21_000_000}), "larger than a skill may be"),
        (zipped({"s/SKILL.md": b"x", **{f"s/{n}": b"" for n in range(501)}}), "larger than a skill may be"),
        (zipped({"s/SKILL.md": b"x"}, as_lzma), "unsupported compression method"),
        (wanting(0xFFFF_FFFF), "unsupported compression method"),
        (zipped({"s/SKILL.md": b"x"})[:-30], "not a skill archive"),
        (b"PK nonsense", "not a skill archive"),
        (b"", "not a skill archive"),
    ],
)
def test_a_hostile_archive_writes_nothing(root: Root, tmp_path: Path, data: bytes, why: str) -> None:
    (tmp_path / "in").mkdir()
    file = tmp_path / "in/x.skill"
    file.write_bytes(data)
    with pytest.raises(ToolError, match=why):
        import_skill(root, "a", str(file), by="a")
    assert sorted(str(path.relative_to(tmp_path)) for path in tmp_path.rglob("*")) == ["in", "in/x.skill"]


def test_an_archive_that_holds_a_file_twice_or_is_encrypted_is_refused() -> None:
    with pytest.warns(UserWarning, match="Duplicate"):
        data = io.BytesIO()
        with zipfile.ZipFile(data, "w") as made:
            made.writestr("s/SKILL.md", b"x")
            made.writestr("s/SKILL.md", b"y")
    with pytest.raises(ToolError, match="twice"):
        unpack_skill(data.getvalue(), "x")
    locked = bytearray(zipped({"s/SKILL.md": b"x"}))
    locked[locked.rindex(b"PK\x01\x02") + 8] |= 1
    with pytest.raises(ToolError, match="encrypted"):
        unpack_skill(bytes(locked), "x")


def test_an_archive_without_a_folder_takes_the_name_of_its_page(root: Root, tmp_path: Path) -> None:
    (tmp_path / "x.zip").write_bytes(zipped({"SKILL.md": PAGE.encode(), "__MACOSX/x": b"", ".git/config": b""}))
    assert import_skill(root, "a", str(tmp_path / "x.zip"), by="a") == "skills/a/my_skill"
    assert [path.name for path in (tmp_path / "skills/a/my_skill").iterdir()] == ["SKILL.md"]
    assert [(entry.title, entry.importable) for entry in list_skills(root)] == [("my-skill", False)]
    assert import_skill(root, "a", str(tmp_path / "x.zip"), by="a", name="other") == "skills/a/other"


@pytest.mark.parametrize(
    ("folder", "page", "why"),
    [
        ("x y", PAGE, "not a valid skill name"),
        ("class", PAGE, "not a valid skill name"),
        ("good", "nothing", "SKILL.md"),
        ("good", None, "has no SKILL.md"),
    ],
)
def test_a_folder_that_is_no_skill_is_not_imported(
    root: Root, tmp_path: Path, folder: str, page: str | None, why: str
) -> None:
    source = tmp_path / "in" / folder
    source.mkdir(parents=True)
    if page is not None:
        (source / "SKILL.md").write_text(page)
    with pytest.raises(ValidationError, match=why):
        import_skill(root, "a", str(source), by="a")
    assert not (tmp_path / "skills").exists()


def test_links_and_pipes_are_not_imported(root: Root, tmp_path: Path) -> None:
    source = tmp_path / "in/good"
    source.mkdir(parents=True)
    (source / "SKILL.md").write_text(PAGE)
    (source / "leads").symlink_to("/etc/passwd")
    with pytest.raises(ToolError, match=r"leads in .* is a link"):
        import_skill(root, "a", str(source), by="a")
    (source / "leads").unlink()
    os.mkfifo(source / "pipe")
    with pytest.raises(ToolError, match=r"pipe in .* is a special file"):
        import_skill(root, "a", str(source), by="a")
    with pytest.raises(ToolyardError, match="No such file"):
        import_skill(root, "a", str(tmp_path / "nowhere"), by="a")


PATHS = st.from_regex(r"[a-z]{1,5}(/[a-z]{1,5}){0,2}\.py", fullmatch=True)


@settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.dictionaries(PATHS, st.builds(SkillFile, st.binary(max_size=50), st.booleans()), max_size=5))
def test_any_files_come_out_of_their_archive_as_they_went_in(files: dict[str, SkillFile]) -> None:
    tree = {**tree_from_bytes({"SKILL.md": b"x"}), **files}
    assert unpack_skill(pack_skill("some-skill", tree), "x") == (tree, "some-skill")


@settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.binary(max_size=300))
def test_any_bytes_are_an_archive_or_a_refusal(data: bytes) -> None:
    try:
        unpack_skill(data, "x")
    except ToolError:
        return


def test_a_skill_that_is_too_large_is_not_packed_into_memory(
    root: Root, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(archive, "_MAX_ARCHIVE_BYTES", 10)
    (tmp_path / "x.zip").write_bytes(b"x" * 11)
    with pytest.raises(ToolError, match="larger than a skill may be"):
        import_skill(root, "a", str(tmp_path / "x.zip"), by="a")

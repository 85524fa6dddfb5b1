"""Exports and imports skills as a folder or as one archive file (`.zip`, `.skill`).

Archives are untrusted: names that lead outside, links, files that unpack to more than they declare, and archives
beyond the limits of a skill are refused before anything is written. An export never replaces existing files.
"""

from __future__ import annotations

import io
import os
import posixpath
import stat
import zipfile
import zlib

from toolyard.core.errors import ToolError, ToolyardError, ValidationError
from toolyard.files.os_errors import explain
from toolyard.files.roots import Root
from toolyard.skills.skill import check_name
from toolyard.skills.skill_files import (
    MAX_BYTES,
    MAX_DEPTH,
    MAX_FILES,
    SkillFile,
    SkillTree,
    is_excluded,
    read_tree,
    size_error,
    write_tree,
)
from toolyard.skills.skill_md import PAGE, module_name, page_name, parse_page
from toolyard.skills.store import is_unchanged, load_skill_files, save_tree
from toolyard.workspace.layout import skills_folder

ARCHIVE_SUFFIXES = (".zip", ".skill")
_MAX_ARCHIVE_BYTES = MAX_BYTES
_EARLIEST_TIME = (1980, 1, 1, 0, 0, 0)  # the earliest time of the format, so that the same skill gives the same file
_PLAIN_ATTRIBUTES, _EXECUTABLE_ATTRIBUTES = (stat.S_IFREG | 0o644) << 16, (stat.S_IFREG | 0o755) << 16
_CREATED_ON_UNIX = 3
_COMPRESSION_METHODS = {zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED}
"""The other methods may allocate as much memory as the archive declares before they yield a byte."""


def export_skill(root: Root, owner: str, name: str, target: str) -> str:
    """Writes a skill to `target`, a new archive if the name ends like one, otherwise a new
    folder. Returns the path.
    """
    tree = load_skill_files(root, owner, name)
    folder = page_name(name)
    path = os.path.abspath(target)
    try:
        if path.endswith(ARCHIVE_SUFFIXES):
            with open(path, "xb") as file:
                file.write(pack_skill(folder, tree))
            return path
        there = os.path.join(path, folder)
        parent = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            write_tree(parent, folder, tree)
        finally:
            os.close(parent)
    except OSError as error:
        raise explain(error, path) from error
    return there


def import_skill(root: Root, owner: str, source: str, *, by: str, name: str = "") -> str:
    """Saves the skill of a folder or archive, replacing one of the same name. Returns its folder in the workspace.

    An identical skill creates no new version.
    """
    path = os.path.abspath(source)
    chosen, tree = read_source(path, name)
    if is_unchanged(root, owner, chosen, tree):
        return f"{skills_folder(owner)}/{chosen}"
    return save_tree(root, owner, chosen, tree, by=by, note=f"imported from {os.path.basename(path)}"[:200])


def read_source(source: str, name: str = "") -> tuple[str, dict[str, SkillFile]]:
    """Returns the name and the files of the skill in a folder or archive."""
    path = os.path.abspath(source)
    tree, folder = _unpack_file(path) if os.path.isfile(path) else (read_skill_folder(path), os.path.basename(path))
    if PAGE not in tree:
        raise ValidationError.of("source", f"{path} has no {PAGE}", hint="Name the folder of one skill.")
    try:
        page = parse_page(tree[PAGE].data.decode())
    except UnicodeDecodeError:
        raise ValidationError.of(PAGE, "is not UTF-8 text", hint="Save it as plain text.") from None
    chosen = name or module_name(folder or page.name)
    check_name(chosen)
    return chosen, tree


def find_skill_sources(folder: str) -> list[str]:
    """Returns the skills in a folder: subfolders with a SKILL.md, and archives."""
    inside = [os.path.join(folder, name) for name in sorted(os.listdir(folder))]
    return [path for path in inside if os.path.isfile(os.path.join(path, PAGE)) or path.endswith(ARCHIVE_SUFFIXES)]


def pack_skill(folder: str, tree: SkillTree) -> bytes:
    """Returns the archive of a skill. The same files always give the same bytes."""
    data = io.BytesIO()
    with zipfile.ZipFile(data, "w", zipfile.ZIP_DEFLATED) as archive:
        for path in sorted(tree):
            info = zipfile.ZipInfo(f"{folder}/{path}", _EARLIEST_TIME)
            info.create_system = _CREATED_ON_UNIX
            info.external_attr = _EXECUTABLE_ATTRIBUTES if tree[path].executable else _PLAIN_ATTRIBUTES
            info.compress_type = zipfile.ZIP_DEFLATED
            archive.writestr(info, tree[path].data)
    return data.getvalue()


def read_skill_folder(path: str) -> dict[str, SkillFile]:
    """Returns the files of a skill at a path that the user chose."""
    there = Root(path)
    try:
        fd = there.open_folder(".")
        try:
            return read_tree(fd, path)
        finally:
            os.close(fd)
    except OSError as error:
        raise explain(error, path) from error
    finally:
        there.close()


def _unpack_file(path: str) -> tuple[dict[str, SkillFile], str]:
    try:
        with open(path, "rb") as file:
            data = file.read(_MAX_ARCHIVE_BYTES + 1)
    except OSError as error:
        raise explain(error, path) from error
    if len(data) > _MAX_ARCHIVE_BYTES:
        raise size_error(path)
    return unpack_skill(data, path)


def unpack_skill(data: bytes, what: str) -> tuple[dict[str, SkillFile], str]:
    """Returns the files of an archive and the name of their folder, which may be empty."""
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            infos = [info for info in archive.infolist() if not info.is_dir()]
            if len(infos) > MAX_FILES:
                raise size_error(what)
            tree: dict[str, SkillFile] = {}
            left = MAX_BYTES
            for info in infos:
                path = _checked_path(info, what)
                if any(is_excluded(part) for part in path.split("/")) or path.startswith("__MACOSX/"):
                    continue
                if path in tree:
                    raise _archive_error(what, f"it holds {path} twice")
                with archive.open(info) as file:
                    content = file.read(left + 1)
                left -= len(content)
                if left < 0:
                    raise size_error(what)
                tree[path] = SkillFile(content, bool(info.external_attr >> 16 & stat.S_IXUSR))
    except ToolyardError:
        raise
    except (
        zipfile.BadZipFile,
        zlib.error,
        EOFError,
        OSError,
        RuntimeError,
        ValueError,
        NotImplementedError,
    ) as error:
        raise _archive_error(what, str(error) or "it ends too early") from None
    return _strip_folder(tree, what)


def _checked_path(info: zipfile.ZipInfo, what: str) -> str:
    name = info.filename
    parts = name.split("/")
    if (
        name != posixpath.normpath(name)
        or name.startswith("/")
        or ".." in parts
        or "\\" in name
        or "\0" in info.orig_filename
        or not name.isprintable()
        or len(parts) > MAX_DEPTH
    ):
        raise _archive_error(what, f"it holds the name {name!r}")
    kind = stat.S_IFMT(info.external_attr >> 16)
    if kind not in {0, stat.S_IFREG}:
        raise _archive_error(what, f"{name} in it is a link or a special file")
    if info.flag_bits & 1:
        raise _archive_error(what, "it is encrypted")
    if info.compress_type not in _COMPRESSION_METHODS:
        raise _archive_error(what, f"{name} in it uses an unsupported compression method")
    return name


def _strip_folder(tree: dict[str, SkillFile], what: str) -> tuple[dict[str, SkillFile], str]:
    if PAGE in tree:
        return tree, ""
    folders = {path.split("/", 1)[0] for path in tree if path.endswith(f"/{PAGE}") and path.count("/") == 1}
    if len(folders) != 1:
        raise _archive_error(what, f"it holds {len(folders)} skills, not one")
    (folder,) = folders
    prefix = f"{folder}/"
    return {path.removeprefix(prefix): file for path, file in tree.items() if path.startswith(prefix)}, folder


def _archive_error(what: str, why: str) -> ToolError:
    return ToolError(f"{what} is not a skill archive: {why}.", hint="Pack one folder that contains a SKILL.md.")

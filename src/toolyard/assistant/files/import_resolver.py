"""Resolves imports of source files to other files of the project, or to third-party packages.

No file is opened and nothing is run: names are matched against names. A file that is not among the sources cannot be
found; an import whose name shows that it belongs to the project is then not taken for a package.
"""

from __future__ import annotations

import posixpath
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

from toolyard.assistant.files.import_statements import ImportReference, declared_namespace
from toolyard.assistant.files.sources import SourceFile

_SCRIPT_SUFFIXES = (".ts", ".tsx", ".d.ts", ".js", ".jsx", ".mjs", ".cjs", ".mts", ".cts", ".vue", ".svelte", ".json")
_ALIASES = ("@/", "~/", "#/")
_RUST_OWN = frozenset({"std", "core", "alloc", "proc_macro", "crate", "self", "super", ""})
_MOST_OF_A_NAMESPACE = 20
_DEEPEST = 32
"""Limit for nested folders or packages that a name is followed through."""


@dataclass(frozen=True, slots=True)
class ResolvedImport:
    """The files or the package that an import refers to."""

    files: tuple[str, ...] = ()
    package: str = ""
    """A third-party package; empty for the standard library, and if the import is unknown."""


class ProjectImportResolver:
    """Resolves the imports of several languages within a set of source files."""

    def __init__(self, sources: Sequence[SourceFile], check_time: Callable[[], None] = lambda: None) -> None:
        self._paths = {source.path for source in sources}
        self._by_suffix: dict[str, list[str]] = {}
        self._in_namespace: dict[tuple[str, str], list[str]] = {}
        self._go_modules: list[tuple[str, str]] = []
        self._go_files: dict[str, list[str]] = {}
        for source in sources:
            check_time()
            parts = source.path.split("/")
            for at in range(len(parts)):
                self._by_suffix.setdefault("/".join(parts[at:]), []).append(source.path)
            if source.path.endswith(".go") and not source.path.endswith("_test.go"):
                self._go_files.setdefault(posixpath.dirname(source.path), []).append(source.path)
            if space := declared_namespace(source):
                if source.language == "go.mod":
                    self._go_modules.append((posixpath.dirname(source.path), space))
                else:
                    self._in_namespace.setdefault((source.language, space), []).append(source.path)
        self._resolvers: dict[str, Callable[[str, ImportReference], ResolvedImport]] = {
            "python": self._resolve_python,
            **dict.fromkeys(("javascript", "typescript", "tsx", "vue", "svelte"), self._resolve_script),
            "java": self._resolve_java,
            "csharp": self._resolve_csharp,
            "go": self._resolve_go,
            "rust": self._resolve_rust,
            **dict.fromkeys(("c", "cpp", "objective-c"), self._resolve_include),
            "ruby": self._resolve_ruby,
            "php": self._resolve_php,
        }

    def resolve(self, source: SourceFile, reference: ImportReference) -> ResolvedImport:
        """Resolves one import of `source`; a file never refers to itself."""
        meaning = self._resolvers.get(source.language)
        found = ResolvedImport() if meaning is None else meaning(source.path, reference)
        return ResolvedImport(tuple(path for path in found.files if path != source.path), found.package)

    def _first_existing(self, candidates: Iterable[str]) -> tuple[str, ...]:
        return next(((path,) for path in candidates if path in self._paths), ())

    def _nearest_by_suffix(self, end: str, importer: str) -> tuple[str, ...]:
        """Returns the file whose path ends so; of several, the one nearest to the importer."""
        found = self._by_suffix.get(posixpath.normpath(end), ())
        return (
            (min(found, key=lambda path: (-_count_shared_folders(path, importer), len(path), path)),) if found else ()
        )

    def _resolve_python(self, importer: str, reference: ImportReference) -> ResolvedImport:
        module = reference.target.lstrip(".")
        parts = module.split(".") if module else []
        if level := len(reference.target) - len(module):
            base = importer
            for _ in range(level):
                base = posixpath.dirname(base)
            within = [part for part in base.split("/") if part]
            return ResolvedImport(
                _resolve_names(reference, lambda more: self._first_existing(_module_paths([*within, *parts, *more])))
            )

        def absolute(more: Sequence[str]) -> tuple[str, ...]:
            found = (path for end in _module_paths([*parts, *more]) for path in self._by_suffix.get(end, ()))
            usable = [path for path in found if self._is_importable(path, [*parts, *more], importer)]
            return (
                (min(usable, key=lambda path: (-_count_shared_folders(path, importer), len(path), path)),)
                if usable
                else ()
            )

        files = _resolve_names(reference, absolute)
        is_ours = files or parts[0] in importer.split("/") or parts[0] in sys.stdlib_module_names
        return ResolvedImport(files, "" if is_ours else parts[0])

    def _is_importable(self, path: str, parts: Sequence[str], importer: str) -> bool:
        """Whether the folder where the module's name starts can be an import root: not a package itself."""
        root = posixpath.dirname(path)
        for _ in range(len(parts) - (not path.endswith("/__init__.py"))):
            root = posixpath.dirname(root)
        if posixpath.join(root, "__init__.py") in self._paths:
            return False
        return parts[0] not in sys.stdlib_module_names or root == posixpath.dirname(importer)

    def _resolve_script(self, importer: str, reference: ImportReference) -> ResolvedImport:
        target = reference.target
        if reference.is_path:
            return ResolvedImport(
                self._first_existing(_script_paths(posixpath.normpath(_relative_to(importer, target))))
            )
        alias = next((each for each in _ALIASES if target.startswith(each)), "")
        if alias or target.startswith("src/"):
            ends = _script_paths(target.removeprefix(alias))
            return ResolvedImport(
                next((found for end in ends if (found := self._nearest_by_suffix(end, importer))), ())
            )
        if target.startswith(("node:", "/", "http:", "https:")):
            return ResolvedImport()
        return ResolvedImport(package="/".join(target.split("/")[: 1 + target.startswith("@")]))

    def _resolve_java(self, _: str, reference: ImportReference) -> ResolvedImport:
        parts = reference.target.split(".")
        for count in range(
            min(len(parts) - 1, _DEEPEST), 0, -1
        ):  # static imports and nested classes have more parts after the class
            space = self._in_namespace.get(("java", ".".join(parts[:count])), ())
            if space and parts[count] == "*":
                return ResolvedImport(tuple(space[:_MOST_OF_A_NAMESPACE]))
            if found := [path for path in space if posixpath.basename(path) == f"{parts[count]}.java"]:
                return ResolvedImport(tuple(found[:1]))
        return ResolvedImport(package="" if parts[0] in {"java", "javax"} else ".".join(parts[:2]))

    def _resolve_csharp(self, _: str, reference: ImportReference) -> ResolvedImport:
        parts = reference.target.split(".")
        space = self._in_namespace.get(("csharp", reference.target), ())
        package = "" if space or parts[0] == "System" else ".".join(parts[: 1 + (parts[0] == "Microsoft")])
        return ResolvedImport(tuple(space[:_MOST_OF_A_NAMESPACE]), package)

    def _resolve_php(self, importer: str, reference: ImportReference) -> ResolvedImport:
        if reference.is_path:
            return ResolvedImport(
                self._first_existing((posixpath.normpath(_relative_to(importer, reference.target)),))
            )
        space, _, name = reference.target.strip("\\").rpartition("\\")
        found = [p for p in self._in_namespace.get(("php", space), ()) if posixpath.basename(p) == f"{name}.php"]
        return ResolvedImport(tuple(found[:1]), "" if found or not space else space.partition("\\")[0])

    def _resolve_go(self, _: str, reference: ImportReference) -> ResolvedImport:
        target = reference.target
        for folder, module in self._go_modules:
            if target == module or target.startswith(f"{module}/"):
                inside = posixpath.join(folder, target[len(module) + 1 :]).rstrip("/")
                return ResolvedImport(self._go_package(inside))
        parts = target.split("/")
        if "." not in parts[0]:
            return ResolvedImport()
        if not self._go_modules:
            for at in range(1, len(parts)):
                if found := self._go_package("/".join(parts[at:])):
                    return ResolvedImport(found)
        return ResolvedImport(package="/".join(parts[:3]))

    def _go_package(self, folder: str) -> tuple[str, ...]:
        return tuple(sorted(self._go_files.get(folder, ()))[:_MOST_OF_A_NAMESPACE])

    def _resolve_rust(self, importer: str, reference: ImportReference) -> ResolvedImport:
        first, *rest = reference.target.split("::")
        own = _rust_folder(importer)
        if first == "crate":
            base = _crate_folder(importer)
        elif first == "self":
            base = own
        elif first == "super":
            base = posixpath.dirname(own)
            while rest and rest[0] == "super":
                base, rest = posixpath.dirname(base), rest[1:]
        else:
            base, rest = own, [first, *rest]
        for count in range(min(len(rest), _DEEPEST), 0, -1):
            stem = posixpath.join(base, *rest[:count])
            if found := self._first_existing((f"{stem}.rs", f"{stem}/mod.rs")):
                return ResolvedImport(found)
        return ResolvedImport(package="" if first in _RUST_OWN else first)

    def _resolve_include(self, importer: str, reference: ImportReference) -> ResolvedImport:
        target = reference.target
        near = (
            self._first_existing((posixpath.normpath(_relative_to(importer, target)),)) if reference.is_path else ()
        )
        files = near or self._nearest_by_suffix(target.lstrip("./"), importer)
        return ResolvedImport(
            files, "" if files or reference.is_path or "/" not in target else target.partition("/")[0]
        )

    def _resolve_ruby(self, importer: str, reference: ImportReference) -> ResolvedImport:
        target = f"{reference.target.removesuffix('.rb')}.rb"
        if reference.is_path:
            return ResolvedImport(self._first_existing((posixpath.normpath(_relative_to(importer, target)),)))
        files = self._nearest_by_suffix(target, importer)
        return ResolvedImport(files, "" if files else reference.target.partition("/")[0])


def _resolve_names(reference: ImportReference, find: Callable[[Sequence[str]], tuple[str, ...]]) -> tuple[str, ...]:
    """Resolves the imported names that are modules, and the module itself for the rest."""
    modules = [find((name,)) for name in reference.names]
    itself = find(()) if not modules or not all(modules) else ()
    return tuple(dict.fromkeys((*itself, *(path for found in modules for path in found))))


def _relative_to(importer: str, target: str) -> str:
    return posixpath.join(posixpath.dirname(importer), target)


def _count_shared_folders(one: str, other: str) -> int:
    """Returns how many leading folders two paths share."""
    count = 0
    for mine, theirs in zip(one.split("/")[:-1], other.split("/")[:-1], strict=False):
        if mine != theirs:
            break
        count += 1
    return count


def _module_paths(parts: Sequence[str]) -> tuple[str, ...]:
    stem = "/".join(parts)
    return (f"{stem}.py", f"{stem}/__init__.py", f"{stem}.pyi") if parts else ("__init__.py",)


def _script_paths(path: str) -> Iterator[str]:
    yield path
    stem, suffix = posixpath.splitext(path)
    if suffix in {".js", ".jsx", ".mjs", ".cjs"}:  # TypeScript imports name the compiled file
        yield from (f"{stem}{each}" for each in (".ts", ".tsx", ".mts", ".cts"))
    yield from (f"{path}{each}" for each in _SCRIPT_SUFFIXES)
    yield from (f"{path}/index{each}" for each in _SCRIPT_SUFFIXES)


def _rust_folder(path: str) -> str:
    """Returns the folder of a file's submodules."""
    folder, name = posixpath.split(path)
    return folder if name in {"mod.rs", "lib.rs", "main.rs"} else posixpath.join(folder, name.removesuffix(".rs"))


def _crate_folder(path: str) -> str:
    before, found, _ = f"/{path}".rpartition("/src/")
    return f"{before}/src".lstrip("/") if found else posixpath.dirname(path)
